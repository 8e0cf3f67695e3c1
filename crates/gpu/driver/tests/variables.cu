// NVRTC 13 compiles this file to variables.cubin with -arch=sm_90.
extern "C" __device__ void __assertfail(const char *, const char *, unsigned, const char *, unsigned long);
__device__ unsigned turns;
__constant__ unsigned factor;
__device__ unsigned table_[4] = {1, 2, 3, 4};
__constant__ unsigned other;
static __device__ unsigned hid;
__device__ unsigned unused;
__constant__ float tab[5] = {1, 2, 3, 4, 5};
extern "C" __global__ void uses(unsigned *y) {
  y[threadIdx.x] = threadIdx.x * factor + turns + table_[threadIdx.x & 3];
  turns = 1;
}
extern "C" __global__ void uses_other(unsigned *y) {
  y[threadIdx.x] = other + hid;
  hid = 3;
}
extern "C" __global__ void plain(unsigned *y) { y[threadIdx.x] = 7; }
__device__ __noinline__ unsigned helper(unsigned x) { return x * factor + turns; }
extern "C" __global__ void by_call(unsigned *y) { y[threadIdx.x] = helper(y[0]); }
extern "C" __global__ void asserts(unsigned *y) {
  if (y[0] == 3) __assertfail("abc", "file", 3, "fn", 1);
  y[1] = tab[y[0]];
}
