// Launches, fills and copies of the runtime API. The host computes the same results, and the dump is compared
// with them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_runtime.h>

#define NEED(call)                                                                                   \
  do {                                                                                               \
    cudaError_t status = (call);                                                                     \
    if (status != cudaSuccess) {                                                                     \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                                \
      return 1;                                                                                      \
    }                                                                                                \
  } while (0)

struct Pack {
  uint64_t count;
  uint32_t *x, *y;
  uint32_t k;
};

__global__ void mix(const uint32_t *x, uint32_t *y, uint32_t k, uint32_t count) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) y[at] = y[at] * 3 + x[at] + k;
}

__global__ void fold(Pack pack) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < pack.count) pack.y[at] ^= pack.x[at] + pack.k;
}

static uint32_t crc(const std::vector<uint32_t> &words) {
  uint32_t sum = ~0u;
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(words.data());
  for (size_t at = 0; at < 4 * words.size(); at++) {
    sum ^= bytes[at];
    for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
  }
  return ~sum;
}

struct Memory {
  const char *name;
  uint32_t *device = nullptr;
  std::vector<uint32_t> words;
  std::vector<uint32_t> states;
  void left() { states.push_back(crc(words)); }
};

int main(int, char **args) {
  const uint32_t count = 30000, groups = (count + 127) / 128;
  Memory x{"x"}, y{"y"}, z{"z"};
  cudaStream_t one, two;
  cudaEvent_t event;
  NEED(cudaStreamCreate(&one));
  NEED(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  NEED(cudaEventCreate(&event));
  NEED(cudaMalloc(&x.device, 4 * count));
  NEED(cudaMalloc(&y.device, 4 * count));
  NEED(cudaMallocAsync(&z.device, 4 * count, two));
  for (Memory *memory : {&x, &y, &z}) {
    memory->words.resize(count);
    for (uint32_t at = 0; at < count; at++) memory->words[at] = at * 2654435761u + 17;
    NEED(cudaMemcpy(memory->device, memory->words.data(), 4 * count, cudaMemcpyHostToDevice));
    memory->left();
  }
  NEED(cudaDeviceSynchronize());
  for (uint32_t turn = 0; turn < 15; turn++) {
    mix<<<groups, 128, 0, one>>>(x.device, y.device, turn, count);
    for (uint32_t at = 0; at < count; at++) y.words[at] = y.words[at] * 3 + x.words[at] + turn;
    y.left();
    NEED(cudaEventRecord(event, one));
    NEED(cudaStreamWaitEvent(two, event, 0));
    fold<<<groups, 128, 0, two>>>(Pack{count, y.device, z.device, turn});
    for (uint32_t at = 0; at < count; at++) z.words[at] ^= y.words[at] + turn;
    z.left();
    NEED(cudaEventRecord(event, two));
    NEED(cudaStreamWaitEvent(one, event, 0));
    if (turn % 5 == 2) {
      NEED(cudaMemsetAsync(x.device, static_cast<int>(turn), 4 * count, one));
      std::memset(x.words.data(), static_cast<int>(turn), 4 * count);
      x.left();
    }
    if (turn % 5 == 4) {
      NEED(cudaMemcpyAsync(x.device, z.device, 4 * count, cudaMemcpyDeviceToDevice, one));
      x.words = z.words;
      x.left();
    }
  }
  // In the legacy stream: after `one` and unordered with `two`, whose commands `one` has waited for.
  mix<<<groups, 128>>>(z.device, x.device, 99, count);
  for (uint32_t at = 0; at < count; at++) x.words[at] = x.words[at] * 3 + z.words[at] + 99;
  x.left();
  NEED(cudaGetLastError());
  NEED(cudaDeviceSynchronize());
  std::vector<uint32_t> back(count);
  for (Memory *memory : {&x, &y, &z}) {
    NEED(cudaMemcpy(back.data(), memory->device, 4 * count, cudaMemcpyDeviceToHost));
    if (back != memory->words) {
      fprintf(stderr, "%s is something else\n", memory->name);
      return 1;
    }
    printf("%s %08x\n", memory->name, crc(back));
  }
  FILE *file = fopen(args[1], "w");
  fprintf(file, "{\"memory\": [");
  const char *between = "";
  for (Memory *memory : {&x, &y, &z}) {
    fprintf(file, "%s{\"name\": \"%s\", \"address\": %llu, \"bytes\": %u, \"states\": [", between, memory->name,
            static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory->device)), 4 * count);
    for (size_t at = 0; at < memory->states.size(); at++) fprintf(file, "%s%u", at ? ", " : "", memory->states[at]);
    fprintf(file, "]}");
    between = ", ";
  }
  fprintf(file, "]}\n");
  fclose(file);
  return 0;
}
