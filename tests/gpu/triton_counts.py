"""As counts.py, with Triton kernels."""
import json
import sys
import zlib

import numpy
import torch
import triton
import triton.language as tl


@triton.jit
def step(x, y, k, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, tl.load(y + at, mask=inside) * 3 + tl.load(x + at, mask=inside) + k, mask=inside)


count = 40_000
x = torch.arange(count, dtype=torch.int32, device="cuda")
y = torch.full((count,), 7, dtype=torch.int32, device="cuda")
expect_x, expect_y = x.cpu().numpy(), y.cpu().numpy()
states = [zlib.crc32(expect_y.tobytes())]
with numpy.errstate(over="ignore"):
    for turn in range(10):
        step[(triton.cdiv(count, 512),)](x, y, turn + 1, count, BLOCK=512)
        expect_y = expect_y * numpy.int32(3) + expect_x + numpy.int32(turn + 1)
        states.append(zlib.crc32(expect_y.tobytes()))
assert zlib.crc32(y.cpu().numpy().tobytes()) == states[-1], "the GPU computes something else"
print(states[-1])
with open(sys.argv[1], "w") as file:
    json.dump({"memory": [{"name": "y", "address": y.data_ptr(), "bytes": 4 * count, "states": states}]}, file)
