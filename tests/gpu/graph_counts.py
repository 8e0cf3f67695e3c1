"""Graph launches change integers. PyTorch captures the graph and reuses memory within the capture. numpy computes the input and output of each launch."""
import json
import sys
import zlib

import numpy
import torch


def crc(array):
    return zlib.crc32(array.tobytes())


total = torch.arange(40_000, dtype=torch.int32, device="cuda")
small = torch.full((3000,), 5, dtype=torch.int32, device="cuda")
# Load the kernels before the capture.
_ = (total[:10] * 3)[:2] + 1
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    total.mul_(1)
    small.add_(0)
    total[:3000].add_(small * 3)
torch.cuda.current_stream().wait_stream(stream)
torch.cuda.synchronize()
numbers = total.cpu().numpy(), small.cpu().numpy()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    total.mul_(3)
    small.add_(7)
    # Two temporary tensors. The second may reuse the memory of the first.
    total[:3000].add_(small * 3)
    total[:2000].add_(small[:2000] * 5)
states = {"total": [], "small": []}
total.add_(0)
small.add_(0)
with numpy.errstate(over="ignore"):
    expect_total, expect_small = numbers
    states["total"].append(crc(expect_total))
    states["small"].append(crc(expect_small))
    for turn in range(5):
        graph.replay()
        expect_total = expect_total * numpy.int32(3)
        expect_small = expect_small + numpy.int32(7)
        expect_total[:3000] += expect_small * numpy.int32(3)
        expect_total[:2000] += expect_small[:2000] * numpy.int32(5)
        states["total"].append(crc(expect_total))
        states["small"].append(crc(expect_small))
torch.cuda.synchronize()
assert crc(total.cpu().numpy()) == states["total"][-1], "the GPU computes something else"
assert crc(small.cpu().numpy()) == states["small"][-1], "the GPU computes something else"
memory = [
    {"name": name, "address": tensor.data_ptr(), "bytes": 4 * tensor.numel(), "states": states[name]}
    for name, tensor in (("total", total), ("small", small))
]
with open(sys.argv[1], "w") as file:
    json.dump({"memory": memory}, file)
