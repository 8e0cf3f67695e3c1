"""CuPy: kernels that are compiled at run time."""
import cupy

x = cupy.arange(30_000, dtype=cupy.int64).reshape(100, 300)
scale = cupy.RawKernel(
    'extern "C" __global__ void scale(long long *x, int by, int count) {'
    " int at = blockIdx.x * blockDim.x + threadIdx.x; if (at < count) x[at] *= by; }",
    "scale",
)
for turn in range(4):
    scale((118,), (256,), (x, cupy.int32(turn + 2), cupy.int32(x.size)))
    x = x + x.T.sum() % 1000
    print(int(x.sum()))
