// The function of PyTorch's libc10.so to which allocators report every block, in a library with the same
// name.
#include <cstddef>
#include <cstdint>

namespace c10 {
struct Device {
  int8_t type, index;
};

static uint64_t sum = 14695981039346656037u;
static void add(uint64_t word) { sum = (sum ^ word) * 1099511628211u; }

// The output is the same whether the calls are redirected or not. Addresses differ between runs.
__attribute__((visibility("default"))) void reportMemoryUsageToProfiler(void *block, int64_t bytes, size_t allocated, size_t reserved, Device device) {
  add(block != nullptr);
  add(static_cast<uint64_t>(bytes));
  add(allocated);
  add(reserved);
  add(static_cast<uint64_t>(device.type) << 8 | static_cast<uint64_t>(device.index));
}
} // namespace c10

extern "C" __attribute__((visibility("default"))) uint64_t reported_to_profiler() { return c10::sum; }
