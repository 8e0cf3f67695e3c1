// An allocator like PyTorch's libc10_cuda.so: it allocates pieces of 2 MiB from the driver and hands out
// blocks in multiples of 512 bytes.
#include <cstddef>
#include <cstdint>
#include <map>

extern "C" int cuMemAlloc_v2(uint64_t *at, size_t bytes);

namespace c10 {
struct Device {
  int8_t type, index;
};
void reportMemoryUsageToProfiler(void *block, int64_t bytes, size_t allocated, size_t reserved, Device device);
} // namespace c10

namespace {
const size_t SEGMENT = 2 << 20, ROUND = 512;
std::map<uint64_t, size_t> free_blocks, live_blocks;
size_t allocated, reserved;

void report(uint64_t block, int64_t bytes) {
  c10::reportMemoryUsageToProfiler(reinterpret_cast<void *>(block), bytes, allocated, reserved, c10::Device{1, 2});
}
} // namespace

extern "C" __attribute__((visibility("default"))) uint64_t torch_malloc(size_t bytes) {
  bytes = (bytes + ROUND - 1) / ROUND * ROUND;
  auto block = free_blocks.begin();
  while (block != free_blocks.end() && block->second < bytes) ++block;
  if (block == free_blocks.end()) {
    uint64_t segment = 0;
    if (cuMemAlloc_v2(&segment, SEGMENT)) return 0;
    reserved += SEGMENT;
    block = free_blocks.emplace(segment, SEGMENT).first;
  }
  auto [at, size] = *block;
  free_blocks.erase(block);
  if (size > bytes) free_blocks.emplace(at + bytes, size - bytes);
  live_blocks[at] = bytes;
  allocated += bytes;
  report(at, static_cast<int64_t>(bytes));
  return at;
}

extern "C" __attribute__((visibility("default"))) void torch_free(uint64_t at) {
  size_t bytes = live_blocks[at];
  live_blocks.erase(at);
  free_blocks[at] = bytes;
  allocated -= bytes;
  report(at, -static_cast<int64_t>(bytes));
}

// Reports a block of an allocator that the program has. The size is negative if the block is freed.
extern "C" __attribute__((visibility("default"))) void torch_report(uint64_t at, int64_t bytes) { report(at, bytes); }
