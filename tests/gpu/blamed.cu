// A program of three launches that is right, or wrong in one way: blamed right|size|uninitialized. Compiled
// with -DWRONG=1, its first kernel is wrong.
#include <cstdint>
#include <cstdio>
#include <cstring>
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

#ifndef WRONG
#define WRONG 0
#endif

extern "C" __global__ void scale(const uint32_t *x, uint32_t *y) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  y[at] = x[at] * 3 + WRONG;
}
extern "C" __global__ void gather(const uint32_t *y, uint32_t *sums) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  sums[at] += y[at] ^ at;
}
extern "C" __global__ void finish(const uint32_t *sums, uint32_t *z) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  z[at] = sums[at] + 1;
}

int main(int, char **args) {
  const uint32_t count = 64 * 256, groups = count / 64, bytes = 4 * count;
  const char *how = args[1];
  std::vector<uint32_t> numbers(count), result(count);
  for (uint32_t at = 0; at < count; at++) numbers[at] = at;
  uint32_t *x, *y, *z, *sums, *garbage;
  NEED(cudaMalloc(&x, bytes));
  NEED(cudaMalloc(&y, bytes));
  NEED(cudaMalloc(&z, bytes));
  // Makes uninitialized memory unlikely to be zeros.
  NEED(cudaMalloc(&garbage, bytes));
  NEED(cudaMemset(garbage, 0x5A, bytes));
  NEED(cudaFree(garbage));
  NEED(cudaMalloc(&sums, bytes));
  NEED(cudaMemcpy(x, numbers.data(), bytes, cudaMemcpyHostToDevice));
  NEED(cudaMemset(y, 7, bytes));
  NEED(cudaMemset(z, 0, bytes));
  if (strcmp(how, "uninitialized")) NEED(cudaMemset(sums, 0, bytes));
  scale<<<groups, 64>>>(x, y);
  gather<<<strcmp(how, "size") ? groups : groups / 2, 64>>>(y, sums);
  finish<<<groups, 64>>>(sums, z);
  NEED(cudaMemcpy(result.data(), z, bytes, cudaMemcpyDeviceToHost));
  printf("%u %u\n", result[1], result[count - 1]);
  return 0;
}
