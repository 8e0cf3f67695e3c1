"""Prints the microseconds of a launch: the minimum and the median over many rounds of small launches."""
import time

import torch

COUNT, ROUNDS = 500, 30
x = torch.zeros(256, dtype=torch.int32, device="cuda")
took = []
for turn in range(ROUNDS):
    torch.cuda.synchronize()
    began = time.perf_counter()
    for launch in range(COUNT):
        x.add_(1)
    took.append((time.perf_counter() - began) / COUNT * 1e6)
    torch.cuda.synchronize()
took.sort()
print(f"{took[0]:.2f} us a launch at best, {took[ROUNDS // 2]:.2f} in the middle")
assert int(x.sum()) == COUNT * ROUNDS * 256
