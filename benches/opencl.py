"""Cost of recording an OpenCL program, compared with a program that reads its own buffers: python3 benches/opencl.py [TENSORTAP].

Launches a kernel with two buffers of 4 KiB, 1 MiB and 64 MiB: not recorded; recorded at level `hash`; recorded at level `full`, with content that
repeats and with new content; and with blocking reads of both buffers before and after every launch, each to a file. All rows are measured in one
run, in turns, in memory (/dev/shm). The table has the best of three times, in µs per launch, and relative to the blocking reads.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

SIZES = {4 << 10: 300, 1 << 20: 60, 64 << 20: 6}
KERNEL = """
__kernel void scaled(__global const float *x, __global float *y, float by) { y[get_global_id(0)] = x[get_global_id(0)] * by; }
"""


def measured(mode, size, folder):
    """Prints the µs per launch. Runs in a separate process."""
    import numpy as np
    import pyopencl as cl

    count, words = SIZES[size], size // 4
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, KERNEL).build(), "scaled")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    x = cl.Buffer(context, flags, hostbuf=np.arange(words, dtype=np.float32))
    y = cl.Buffer(context, flags, hostbuf=np.zeros(words, dtype=np.float32))
    host = np.empty(words, dtype=np.float32)

    def save(number, name, buffer):
        cl.enqueue_copy(queue, host, buffer)
        host.tofile(os.path.join(folder, f"{number}_{name}"))

    def launch(number):
        kernel.set_args(x, y, np.float32(2 + (number if mode == "new" else 0)))
        if mode == "blocking":
            save(number, "x_before", x)
            save(number, "y_before", y)
        cl.enqueue_nd_range_kernel(queue, kernel, (words,), (64,))
        if mode == "blocking":
            save(number, "x_after", x)
            save(number, "y_after", y)

    for number in range(3):
        launch(number)
    queue.finish()
    began = time.perf_counter()
    for number in range(count):
        launch(number)
    queue.finish()
    print((time.perf_counter() - began) / count * 1e6)


def run(tensortap, mode, level, size):
    folder = tempfile.mkdtemp(dir="/dev/shm")
    try:
        command = [sys.executable, "-W", "ignore", __file__, "--measure", mode, str(size), folder]
        if level:
            out = os.path.join(folder, "run")
            command = [tensortap, "record", "--out", out, f"--dump-tensor={level}", "--", *command]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return float(said.stdout.split()[0])
    finally:
        shutil.rmtree(folder)


ROWS = {
    "not recorded": ("same", None),
    "recorded, hash": ("same", "hash"),
    "recorded, full, content repeats": ("same", "full"),
    "recorded, full, new content": ("new", "full"),
    "blocking reads into files": ("blocking", None),
}


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measured(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    tensortap = sys.argv[1] if len(sys.argv) > 1 else "tensortap"
    best = {}
    for _ in range(3):
        for name, (mode, level) in ROWS.items():
            for size in SIZES:
                took = run(tensortap, mode, level, size)
                best[name, size] = min(took, best.get((name, size), took))
    sizes = "".join(f" {size >> 10} KiB |" for size in SIZES)
    print(f"| µs per launch |{sizes}\n| --- |" + " --- |" * len(SIZES))
    for name in ROWS:
        cells = (f" {best[name, size]:,.0f} ({best[name, size] / best['blocking reads into files', size]:.2f}) |" for size in SIZES)
        print(f"| {name} |" + "".join(cells))


main()
