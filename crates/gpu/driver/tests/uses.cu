// Kernels whose names begin with what they use: no variable, constants, or variables in memory.
__device__ int used = 7, zero[4], unused, unused_too[8] = {1};
static __device__ int quiet = 2;
__device__ long long wide = 5;
__device__ unsigned short halves[9];
__device__ float table[1024];
__device__ double doubles[16];
__device__ int pointee[3] = {1, 2, 3};
__device__ int *pointer = pointee;
__managed__ int managed;
__constant__ float weights[64];
__constant__ double factors[8];
__constant__ int unused_constant[8];

__device__ __noinline__ int deep(int i) {
  static int count;
  return atomicAdd(&zero[i & 3], count++);
}
__device__ __noinline__ int other(int i) { return i * quiet; }
__device__ __noinline__ float weighed(int i) { return weights[i] * 3; }
__device__ int (*functions[2])(int) = {deep, other};

extern "C" {
__global__ void none_value(int *y, int i) { y[0] = i; }
__global__ void none_shared(float *y, int i) {
  __shared__ float part[256];
  part[threadIdx.x] = y[i] * 1.5f;
  __syncthreads();
  y[threadIdx.x] = part[255 - threadIdx.x] / sqrtf(part[i]);
}
__global__ void none_barriers(int *y, int i) {
  asm volatile("bar.sync 3, 64; bar.sync 4, 128;");
  for (int at = 0; at < i; at++) y[at] += __shfl_xor_sync(~0u, y[at], 1) * 0x01000000 + at % 7;
}
__global__ void none_doubles(double *y, int i) { y[i] = y[i] * 0.125 + sqrt(y[i + 1]) / y[i + 2]; }

__global__ void memory_read(int *y, int i) { y[0] = used; }
__global__ void memory_write(int *y, int i) { quiet = i; }
__global__ void memory_call(int *y, int i) { y[0] = deep(i) + other(i); }
__global__ void memory_function(int *y, int i) { y[0] = functions[i & 1](i); }
__global__ void memory_pointer(int *y, int i) { y[0] = *pointer; }
__global__ void memory_table(float *y, int i) { y[threadIdx.x] = table[i * threadIdx.x] + (float)doubles[i]; }
__global__ void memory_address(void **y, int i) {
  y[0] = &halves[i];
  y[1] = i ? (void *)&wide : (void *)&used;
}
__global__ void memory_atomic(int *y, int i) {
  if (i > 3) atomicCAS(&used, 1, i);
}
__global__ void memory_managed(int *y, int i) { managed += i; }

__global__ void constants_read(float *y, int i) { y[0] = weights[5]; }
__global__ void constants_at(float *y, int i) { y[threadIdx.x] = weights[(i + threadIdx.x) & 63]; }
__global__ void constants_product(float *y, int i) { y[i] = y[i] * weights[1] + weights[2]; }
__global__ void constants_doubles(double *y, int i) { y[i] = y[i] * factors[3] + factors[i & 7]; }
__global__ void constants_call(float *y, int i) { y[i] = weighed(i) + weighed(i + 1); }

__global__ void memory_both(float *y, int i) { y[i] = weights[i] + table[i] + deep(i); }
__global__ void constants_address(const void **y, int i) { y[0] = &weights[i]; }
// The table that a library has for it.
__global__ void memory_sine(double *y, int i) { y[i] = sin(y[i + 1]); }
}
