"""Changes tensors of many sizes in place. PyTorch's allocator reports the sizes of their blocks."""
import json
import sys

import torch

MOST = 4 << 20
tensors = [torch.zeros(count, dtype=torch.int32, device="cuda") for count in (1, 100, 129, 1000, 50_000, 300_000, 700_000)]
# Blocks that are freed and allocated again without synchronization.
for turn in range(3):
    for tensor in tensors:
        tensor.add_(turn)
    scratch = [torch.ones(5000 * (turn + 1), dtype=torch.int32, device="cuda") for _ in range(4)]
    for tensor in scratch:
        tensor.mul_(2)
    del scratch, tensor
# A view into the middle of its storage.
tensors[4][1000:2000].add_(1)
torch.cuda.synchronize()
sizes = {}
for segment in torch.cuda.memory_snapshot():
    address = segment["address"]
    for block in segment["blocks"]:
        if block["state"] == "active_allocated":
            sizes[address] = block["size"]
        address += block["size"]
blocks = [(tensor.data_ptr(), sizes[tensor.data_ptr()]) for tensor in tensors]
with open(sys.argv[1], "w") as file:
    json.dump({"blocks": blocks, "most": MOST}, file)
print([int(tensor.sum()) for tensor in tensors])
