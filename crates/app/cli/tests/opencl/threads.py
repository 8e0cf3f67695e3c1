"""More threads than can record. Each one launches, reads with a blocking call, and checks the result at once."""

import sys
import threading

import numpy as np
import pyopencl as cl

KERNEL = """
__kernel void slow(__global uint *y, uint k) { uint v = k; for (uint i = 0; i < 2000000; i++) v = v * 1664525u + 1013904223u; y[0] = v ? k : 0; }
"""
context = cl.create_some_context(interactive=False)
program = cl.Program(context, KERNEL).build()
wrong = []


def work(number):
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(program, "slow")
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(1, np.uint32))
    for round in range(3):
        expected = number * 100 + round + 1
        kernel.set_args(buffer, np.uint32(expected))
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        read = np.zeros(1, np.uint32)
        cl.enqueue_copy(queue, read, buffer, is_blocking=True)
        if read[0] != expected:
            wrong.append((number, round, int(read[0])))


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("wrong", wrong)
sys.exit(bool(wrong))
