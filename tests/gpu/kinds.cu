// Launches whose replay needs more than sizes and parameters: dynamic shared memory, clusters, cooperative
// groups, variables, and pointers in memory.
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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

namespace groups = cooperative_groups;

__device__ uint32_t turns;
__constant__ uint32_t factor;

// Sums what its block has written to shared memory.
__global__ void shared_sum(const uint32_t *x, uint32_t *y, uint32_t count) {
  extern __shared__ uint32_t words[];
  for (uint32_t at = threadIdx.x; at < count; at += blockDim.x) words[at] = x[at] * 3;
  __syncthreads();
  uint32_t sum = 0;
  for (uint32_t at = 0; at < count; at++) sum += words[at] * (at + threadIdx.x);
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
// Every block reads the shared memory of the first block of its cluster.
__global__ void cluster_copy(uint32_t *y) {
  __shared__ uint32_t word;
  groups::cluster_group cluster = groups::this_cluster();
  if (threadIdx.x == 0) word = blockIdx.x * 100 + 7;
  cluster.sync();
  if (threadIdx.x == 0) y[blockIdx.x] = *cluster.map_shared_rank(&word, 0) + cluster.num_blocks();
  cluster.sync();
}
#else
__global__ void cluster_copy(uint32_t *) {}
#endif

// Each thread adds what all other threads have written.
__global__ void all_wait(uint32_t *x, uint32_t *y, uint32_t count) {
  groups::grid_group grid = groups::this_grid();
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) x[at] = at * 5 + 1;
  grid.sync();
  if (at < count) y[at] = x[count - 1 - at] + at;
}

// Reads and writes variables.
__global__ void with_variables(uint32_t *y, uint32_t count) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) y[at] = at * factor + turns;
}

// Changes a variable. It has no parameters.
__global__ void next_turn() { turns += factor; }

struct Link {
  uint32_t *to;
  uint64_t count;
};

// Writes through a pointer that is in memory.
__global__ void through(const Link *link, uint32_t k) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < link->count) link->to[at] = at ^ k;
}

// The same, but the memory is also a parameter.
__global__ void beside(const Link *link, uint32_t *y, uint32_t k) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < link->count) y[at] = link->to[at] * k;
}

int main(int, char **args) {
  const uint32_t count = 20000, shared = 100 * 1024;
  uint32_t *x, *y, *z;
  Link *link;
  NEED(cudaMalloc(&x, 4 * count));
  NEED(cudaMalloc(&y, 4 * count));
  NEED(cudaMalloc(&z, 4 * count));
  NEED(cudaMalloc(&link, sizeof(Link)));
  std::vector<uint32_t> words(count);
  for (uint32_t at = 0; at < count; at++) words[at] = at * 2654435761u + 3;
  NEED(cudaMemcpy(x, words.data(), 4 * count, cudaMemcpyHostToDevice));
  NEED(cudaMemset(y, 0, 4 * count));
  NEED(cudaMemset(z, 0, 4 * count));

  NEED(cudaFuncSetAttribute(shared_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  shared_sum<<<3, 64, shared>>>(x, y, shared / 4 < count ? shared / 4 : count);
  NEED(cudaGetLastError());

  cudaLaunchConfig_t config = {};
  config.gridDim = 8;
  config.blockDim = 32;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  NEED(cudaLaunchKernelEx(&config, cluster_copy, z));

  uint32_t few = 2048;
  void *parameters[] = {&x, &y, &few};
  NEED(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(all_wait), dim3(16), dim3(128), parameters, 0, 0));

  uint32_t seven = 7;
  NEED(cudaMemcpyToSymbol(factor, &seven, 4));
  for (int turn = 0; turn < 3; turn++) {
    with_variables<<<(count + 127) / 128, 128>>>(z, count);
    next_turn<<<1, 1>>>();
  }
  NEED(cudaGetLastError());

  Link content = {x, count};
  NEED(cudaMemcpy(link, &content, sizeof content, cudaMemcpyHostToDevice));
  through<<<(count + 127) / 128, 128>>>(link, 21);
  beside<<<(count + 127) / 128, 128>>>(link, y, 5);
  NEED(cudaGetLastError());
  NEED(cudaDeviceSynchronize());
  std::vector<uint32_t> back(count);
  uint64_t sum = 0;
  for (uint32_t *memory : {x, y, z}) {
    NEED(cudaMemcpy(back.data(), memory, 4 * count, cudaMemcpyDeviceToHost));
    for (uint32_t word : back) sum = (sum ^ word) * 1099511628211u;
  }
  printf("%016llx\n", static_cast<unsigned long long>(sum));
  if (args[1] && std::string("fault") == args[1]) {
    through<<<1, 32>>>(reinterpret_cast<Link *>(x), 1);
    printf("%d\n", cudaDeviceSynchronize() != cudaSuccess);
  }
  return 0;
}
