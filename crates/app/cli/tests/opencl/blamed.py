"""A program of three launches that is right, or wrong in one way: blamed.py right|kernel|size|barrier|uninitialized|event|swap|
refused|crash|lucky."""

import sys
import time

import numpy as np
import pyopencl as cl

KERNELS = """
__kernel void scale(__global const uint *x, __global uint *y) { size_t i = get_global_id(0); y[i] = x[i] * 3 + WRONG; }
__kernel void gather(__global const uint *y, __global uint *sums) { size_t i = get_global_id(0); sums[i] += y[i] ^ (uint)i; }
__kernel void finish(__global const uint *sums, __global uint *z) { size_t i = get_global_id(0);
    if (CRASH) *(volatile __global uint *)(ulong)8 = 1; z[i] = sums[i] + 1; }
"""
N = 256


def main(how):
    context = cl.create_some_context(interactive=False)
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(context, properties=order)
    other = cl.CommandQueue(context, properties=order)
    program = cl.Program(context, KERNELS).build(["-DWRONG=%d" % (how == "kernel"), "-DCRASH=%d" % (how == "crash")])
    scale, gather, finish = (cl.Kernel(program, name) for name in ("scale", "gather", "finish"))
    flags = cl.mem_flags.READ_WRITE
    x = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(N, dtype=np.uint32))
    y = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.full(N, 7, dtype=np.uint32))
    z = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(N, dtype=np.uint32))
    sums = cl.Buffer(context, flags, 4 * N)
    scale.set_args(x, y)
    gather.set_args(y, sums)
    finish.set_args(sums, z)

    zeroed = []
    if how != "uninitialized":
        zeroed = [cl.enqueue_fill_buffer(queue, sums, np.uint32(0), 0, 4 * N)]
    # A launch that forgets to wait for this one is always too early.
    gate = cl.UserEvent(context)
    scaled = cl.enqueue_nd_range_kernel(queue, scale, (N,), (64,), wait_for=[gate])
    if how == "barrier":
        gathered = cl.enqueue_nd_range_kernel(queue, gather, (N,), (64,), wait_for=zeroed)
        gathered.wait()
    elif how == "event":
        # It waits for an event, but for the wrong one.
        gathered = cl.enqueue_nd_range_kernel(other, gather, (N,), (64,), wait_for=zeroed)
        gathered.wait()
    elif how == "lucky":
        # It is late by chance, and waits for nothing.
        gate.set_status(cl.command_execution_status.COMPLETE)
        queue.flush()
        time.sleep(3)
        gathered = cl.enqueue_nd_range_kernel(other, gather, (N,), (64,), wait_for=zeroed)
    elif how == "refused":
        # The group size does not divide the global size, and the program ignores the status.
        try:
            cl.enqueue_nd_range_kernel(other, gather, (N,), (100,), wait_for=zeroed + [scaled])
        except cl.Error:
            gathered = scaled
    else:
        size = (N // 2,) if how == "size" else (N,)
        gathered = cl.enqueue_nd_range_kernel(other, gather, size, (64,), wait_for=zeroed + [scaled])
    if how != "lucky":
        gate.set_status(cl.command_execution_status.COMPLETE)
    if how == "swap":
        # The arguments are swapped.
        finish.set_args(z, sums)
    finished = cl.enqueue_nd_range_kernel(queue, finish, (N,), (64,), wait_for=[gathered, scaled])
    result = np.empty(N, dtype=np.uint32)
    cl.enqueue_copy(queue, result, z, wait_for=[finished])
    print(result[:4], result[-1])


main(sys.argv[1])
