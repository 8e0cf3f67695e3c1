"""Launches with vectors and local memory, a launch that the driver refuses, and launches of a forked child."""

import os

import numpy as np
import pyopencl as cl

KERNELS = """
__kernel void turned(__global float2 *y, float2 by, float3 c, __local int *room, char odd)
{
    y[get_global_id(0)] += by + c.xy;
}
"""
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, KERNELS).build(), "turned")
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
y = cl.Buffer(context, flags, hostbuf=np.arange(64, dtype=np.float32))
by, c = cl.cltypes.make_float2(1, 2), cl.cltypes.make_float3(3, 4, 5)
kernel.set_args(y, by, c, cl.LocalMemory(96), np.int8(7))
cl.enqueue_nd_range_kernel(queue, kernel, (32,), (8,))
queue.finish()


def refused():
    try:
        cl.enqueue_nd_range_kernel(queue, kernel, (32,), (7,))
    except cl.Error as error:
        print("refused", error.code, flush=True)


refused()
child = os.fork()
if child == 0:
    # Drivers have threads, which a forked child does not have. So the child does nothing that waits for one.
    for _ in range(3):
        refused()
    os._exit(0)
os.waitpid(child, 0)
queue.finish()
