"""Times numpy on the data of `tensortap bench diff`.

Arguments: elements, rtol, atol. Standard input: both tensors, then a line per round. Exit status 3: numpy is not installed.
"""
import json
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit(3)


def tensor(numel):
    values = np.empty(numel, "<f4")
    rest = memoryview(values).cast("B")
    while rest:
        read = sys.stdin.buffer.readinto(rest)
        if not read:
            sys.exit("the data ended early")
        rest = rest[read:]
    return values


def answer(document):
    print(json.dumps(document), flush=True)


answer({"version": np.__version__})
numel, rtol, atol = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
dump, golden = tensor(numel), tensor(numel)
while sys.stdin.buffer.readline():
    start = time.perf_counter()
    close = np.allclose(dump, golden, rtol=rtol, atol=atol)
    max_abs = np.max(np.abs(dump - golden))
    seconds = time.perf_counter() - start
    answer({"seconds": seconds, "close": bool(close), "max_abs": float(max_abs)})
