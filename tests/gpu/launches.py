"""Microseconds of a launch, over many small ones."""
import time

import torch

x = torch.zeros(256, dtype=torch.int32, device="cuda")
for count in (100, 2000):
    torch.cuda.synchronize()
    began = time.perf_counter()
    for turn in range(count):
        x.add_(1)
    torch.cuda.synchronize()
    took = time.perf_counter() - began
print(f"{took / 2000 * 1e6:.1f} us a launch")
assert int(x.sum()) == 2100 * 256
