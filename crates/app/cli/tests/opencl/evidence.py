"""A program with memory that nothing initializes: evidence.py partial|reads|bounds|const [FAULT].

partial: a kernel fills the first 4 of 128 floats, three times. FAULT is the number of a wrong launch.
reads:   kernels that add to uninitialized memory, and that read it. Nothing is wrong.
bounds:  `a` fills a sub-buffer, `b` fills the one before it, `use` reads what `a` left. With a fault, `b` writes past its end.
const:   in an out-of-order queue without order, `look` reads a const argument that `scale` changes. With a fault, `scale` is wrong.
"""

import sys

import numpy as np
import pyopencl as cl

KERNELS = """
__kernel void part(__global const float *x, __global float *y) { size_t i = get_global_id(0); y[i] = x[i] + 1 + WRONG; }
__kernel void add(__global const uint *x, __global uint *y) { size_t i = get_global_id(0); y[i] += x[i]; }
__kernel void twice(__global const uint *x, __global uint *y) { size_t i = get_global_id(0); y[i] = 2 * x[i]; }
__kernel void a(__global uint *y) { size_t i = get_global_id(0); y[i] = 3 * i + 1; }
__kernel void b(__global uint *y, uint count) { for (uint i = 0; i < count; i++) y[i] = 5 * i + 2; }
__kernel void use(__global const uint *x, __global uint *y) { size_t i = get_global_id(0); y[i] = x[i] + 7; }
__kernel void look(__global const uint *x, __global uint *y) { size_t i = get_global_id(0); y[i] = x[i] > 0; }
__kernel void scale(__global uint *x) { size_t i = get_global_id(0); x[i] = x[i] * 3 + (WRONG && i == 5); }
"""
N = 128


def main(how, fault):
    context = cl.create_some_context(interactive=False)
    order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if how == "const" else 0
    queue = cl.CommandQueue(context, properties=order)
    options = ["-cl-kernel-arg-info"]
    right, wrong = (cl.Program(context, KERNELS).build(options + ["-DWRONG=%d" % is_wrong]) for is_wrong in (0, 1))
    flags, copies = cl.mem_flags.READ_WRITE, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR

    def launch(name, count, *args, program=right, wait_for=None):
        kernel = cl.Kernel(program, name)
        kernel.set_args(*args)
        return cl.enqueue_nd_range_kernel(queue, kernel, (count,), None, wait_for=wait_for)

    words = np.arange(1, N + 1, dtype=np.uint32)
    if how == "partial":
        x = cl.Buffer(context, copies, hostbuf=np.arange(N, dtype=np.float32))
        y = cl.Buffer(context, flags, 4 * N)
        for number in range(3):
            launch("part", 4, x, y, program=wrong if str(number) == fault else right)
    elif how == "reads":
        x = cl.Buffer(context, copies, hostbuf=words)
        y, z, last = (cl.Buffer(context, flags, 4 * N) for _ in range(3))
        launch("add", N, x, y)
        launch("twice", N, z, last)
    elif how == "bounds":
        whole = cl.Buffer(context, copies, hostbuf=np.zeros(2048, dtype=np.uint32))
        first, second = (whole.get_sub_region(at * 4096, 4096) for at in range(2))
        result = cl.Buffer(context, copies, hostbuf=np.zeros(1024, dtype=np.uint32))
        launch("a", 1024, second)
        launch("b", 1, first, np.uint32(1024 + 4 * bool(fault)))
        launch("use", 1024, second, result)
    elif how == "const":
        x = cl.Buffer(context, copies, hostbuf=words)
        y = cl.Buffer(context, copies, hostbuf=np.zeros(N, dtype=np.uint32))
        # The host waits, so the order is the same in every run. The queue does not show it.
        marker = launch("look", N, x, y)
        queue.flush()
        while marker.command_execution_status != cl.command_execution_status.COMPLETE:
            pass
        launch("scale", N, x, program=wrong if fault else right)
    queue.finish()


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
