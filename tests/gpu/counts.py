"""Launches change integers in place, without synchronization. numpy computes the input and output of each launch."""
import json
import sys
import zlib

import numpy
import torch


def crc(array):
    return zlib.crc32(array.tobytes())


first = torch.arange(50_000, dtype=torch.int32, device="cuda")
second = torch.full((70_000,), 7, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
expect = {name: tensor.cpu().numpy() for name, tensor in (("first", first), ("second", second))}
states = {"first": [crc(expect["first"])], "second": [crc(expect["second"])]}
other = torch.cuda.Stream()
with numpy.errstate(over="ignore"):
    for turn in range(20):
        first.mul_(3)
        expect["first"] = expect["first"] * numpy.int32(3)
        states["first"].append(crc(expect["first"]))
        first.add_(turn)
        expect["first"] = expect["first"] + numpy.int32(turn)
        if turn:
            states["first"].append(crc(expect["first"]))
        with torch.cuda.stream(other):
            second.mul_(5)
        expect["second"] = expect["second"] * numpy.int32(5)
        states["second"].append(crc(expect["second"]))
        if turn % 5 == 4:
            # After both: a sum of parts of both, in the stream that the other one waits for.
            event = torch.cuda.Event()
            with torch.cuda.stream(other):
                event.record()
            torch.cuda.current_stream().wait_event(event)
            first[:50_000].add_(second[:50_000])
            expect["first"] = expect["first"] + expect["second"][:50_000]
            states["first"].append(crc(expect["first"]))
            back = torch.cuda.Event()
            back.record()
            other.wait_event(back)
torch.cuda.synchronize()
assert crc(first.cpu().numpy()) == states["first"][-1], "the GPU computes something else"
assert crc(second.cpu().numpy()) == states["second"][-1], "the GPU computes something else"
tensors = (("first", first), ("second", second))
memory = [
    {"name": name, "address": tensor.data_ptr(), "bytes": 4 * tensor.numel(), "states": states[name]}
    for name, tensor in tensors
]
with open(sys.argv[1], "w") as file:
    json.dump({"memory": memory}, file)
