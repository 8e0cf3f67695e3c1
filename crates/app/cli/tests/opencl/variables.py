"""A program whose kernel counts in a program-scope variable. Prints the counts, or nothing if the device has no such variables."""

import numpy as np
import pyopencl as cl

KERNELS = """
__global int counter = 3;
__kernel void count(__global int *x) { x[get_global_id(0)] = counter++; }
"""
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
try:
    kernel = cl.Kernel(cl.Program(context, KERNELS).build(["-cl-std=CL2.0"]), "count")
except cl.Error:
    raise SystemExit(0)
for _ in range(3):
    kernel(queue, (1,), None, x)
    host = np.zeros(1, dtype=np.int32)
    cl.enqueue_copy(queue, host, x)
    print(int(host[0]))
