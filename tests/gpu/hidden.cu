// Variables of a module, and graphs that are built from nodes. The host computes the same results.
#include <cstdint>
#include <cstdio>
#include <functional>
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

__device__ uint32_t total;
__constant__ uint32_t bias[4];
__managed__ uint32_t seen[2];

__global__ void tally(uint32_t *y, uint32_t count) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) y[at] += bias[at % 4] + total;
}
__global__ void bump(uint32_t by) {
  total += by;
  seen[1] += 1;
}
__global__ void fold(const uint32_t *x, uint32_t *y, uint32_t count) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) y[at] = y[at] * 5 + x[at];
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
  std::vector<uint32_t> words;
  uint32_t *device = nullptr;
  std::vector<uint32_t> states;
  void left() {
    uint32_t now = crc(words);
    if (states.empty() || states.back() != now) states.push_back(now);
  }
  cudaError_t write() {
    left();
    return cudaMemcpy(device, words.data(), 4 * words.size(), cudaMemcpyHostToDevice);
  }
};

int main(int, char **args) {
  const uint32_t count = 5000, groups = (count + 127) / 128;
  Memory y{"y", std::vector<uint32_t>(count)}, z{"z", std::vector<uint32_t>(count)}, w{"w", std::vector<uint32_t>(count)};
  Memory in_total{"total", {11}}, in_bias{"bias", {1, 20, 300, 4000}};
  for (uint32_t at = 0; at < count; at++) y.words[at] = at * 2654435761u, z.words[at] = at + 7, w.words[at] = at;
  for (Memory *memory : {&y, &z, &w}) {
    NEED(cudaMalloc(&memory->device, 4 * count));
    NEED(memory->write());
  }
  NEED(cudaMemcpyToSymbol(total, in_total.words.data(), 4));
  NEED(cudaMemcpyToSymbol(bias, in_bias.words.data(), 16));
  NEED(cudaGetSymbolAddress(reinterpret_cast<void **>(&in_total.device), total));
  NEED(cudaGetSymbolAddress(reinterpret_cast<void **>(&in_bias.device), bias));
  in_total.left();
  in_bias.left();
  cudaStream_t stream;
  NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NEED(cudaDeviceSynchronize());
  auto run_tally = [&] {
    tally<<<groups, 128, 0, stream>>>(y.device, count);
    for (uint32_t at = 0; at < count; at++) y.words[at] += in_bias.words[at % 4] + in_total.words[0];
    y.left();
  };
  for (uint32_t turn = 1; turn < 8; turn++) {
    run_tally();
    bump<<<1, 1, 0, stream>>>(turn);
    in_total.words[0] += turn;
    in_total.left();
  }

  // Fill z, fold y into it, and copy it to w.
  cudaGraph_t graph;
  NEED(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t filled, folded, copied;
  cudaMemsetParams fill = {};
  fill.dst = z.device, fill.value = 3, fill.elementSize = 4, fill.width = count, fill.height = 1;
  NEED(cudaGraphAddMemsetNode(&filled, graph, nullptr, 0, &fill));
  uint32_t words = count;
  void *parameters[] = {&y.device, &z.device, &words}, *swapped[] = {&z.device, &y.device, &words};
  cudaKernelNodeParams kernel = {};
  kernel.func = reinterpret_cast<void *>(fold), kernel.gridDim = dim3(groups), kernel.blockDim = dim3(128), kernel.kernelParams = parameters;
  NEED(cudaGraphAddKernelNode(&folded, graph, &filled, 1, &kernel));
  NEED(cudaGraphAddMemcpyNode1D(&copied, graph, &folded, 1, w.device, z.device, 4 * count, cudaMemcpyDeviceToDevice));
  cudaGraphExec_t exec;
  NEED(cudaGraphInstantiate(&exec, graph, 0));
  auto run_graph = [&](bool is_swapped) {
    cudaError_t status = cudaGraphLaunch(exec, stream);
    for (auto &word : z.words) word = 3;
    for (uint32_t at = 0; at < count; at++) {
      if (is_swapped) y.words[at] = y.words[at] * 5 + z.words[at];
      else z.words[at] = z.words[at] * 5 + y.words[at];
    }
    w.words = z.words;
    for (Memory *memory : {&y, &z, &w}) memory->left();
    return status;
  };
  for (int turn = 0; turn < 3; turn++) {
    NEED(run_graph(false));
    run_tally();
  }
  kernel.kernelParams = swapped;
  NEED(cudaGraphExecKernelNodeSetParams(exec, folded, &kernel));
  NEED(run_graph(true));
  NEED(run_graph(true));
  // The same graph as a child graph.
  cudaGraph_t outer;
  cudaGraphNode_t inner;
  NEED(cudaGraphCreate(&outer, 0));
  NEED(cudaGraphAddChildGraphNode(&inner, outer, nullptr, 0, graph));
  NEED(cudaGraphExecDestroy(exec));
  NEED(cudaGraphInstantiate(&exec, outer, 0));
  run_tally();
  NEED(run_graph(false));
  NEED(cudaStreamSynchronize(stream));

  FILE *file = fopen(args[1], "w");
  fprintf(file, "{\"memory\": [");
  const char *comma = "";
  for (Memory *memory : {&y, &z, &w, &in_total, &in_bias}) {
    std::vector<uint32_t> now(memory->words.size());
    NEED(cudaMemcpy(now.data(), memory->device, 4 * now.size(), cudaMemcpyDeviceToHost));
    if (now != memory->words) fprintf(stderr, "the GPU computes something else: %s\n", memory->name);
    fprintf(file, "%s{\"name\": \"%s\", \"address\": %llu, \"bytes\": %zu, \"states\": [", comma, memory->name,
            static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory->device)), 4 * now.size());
    const char *between = "";
    for (uint32_t state : memory->states) fprintf(file, "%s%u", between, state), between = ", ";
    fprintf(file, "]}");
    comma = ", ";
    printf("%s %08x\n", memory->name, crc(now));
  }
  fprintf(file, "]}\n");
  fclose(file);
  return 0;
}
