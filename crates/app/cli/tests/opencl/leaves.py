"""Waits for its launches, and leaves without running exit handlers: leaves.py finish|leave."""

import os
import sys

import numpy as np
import pyopencl as cl

KERNELS = "__kernel void add(__global uint *y) { size_t i = get_global_id(0); y[i] += 1; }"
N = 1 << 16
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
add = cl.Kernel(cl.Program(context, KERNELS).build(), "add")
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
y = cl.Buffer(context, flags, hostbuf=np.zeros(N, dtype=np.uint32))
add.set_args(y)
for _ in range(24):
    cl.enqueue_nd_range_kernel(queue, add, (N,), (64,))
queue.finish()
if sys.argv[1] == "leave":
    os._exit(0)
