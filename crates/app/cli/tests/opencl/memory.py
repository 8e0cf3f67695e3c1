"""Allocates and releases buffers and shared virtual memory between launches."""

import numpy as np
import pyopencl as cl

KERNEL = "__kernel void put(__global uint *y, uint k) { y[get_global_id(0)] = k; }"


def main():
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    put = cl.Kernel(cl.Program(context, KERNEL).build(), "put")

    def launch(memory, k):
        put.set_args(memory, np.uint32(k))
        cl.enqueue_nd_range_kernel(queue, put, (16,), None)

    first = cl.Buffer(context, cl.mem_flags.READ_WRITE, 64)
    launch(first, 3)
    queue.finish()
    first.release()
    second = cl.Buffer(context, cl.mem_flags.READ_WRITE, 128)
    launch(second, 4)
    shared = cl.SVMAllocation(context, 256, 0, cl.svm_mem_flags.READ_WRITE, queue=queue)
    launch(shared, 5)
    shared.enqueue_release(queue)
    queue.finish()


main()
