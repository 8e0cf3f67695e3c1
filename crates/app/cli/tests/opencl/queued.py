"""Many launches that wait in a queue. With an argument, one of them ends the process while later ones wait for it."""

import sys

import numpy as np
import pyopencl as cl

KERNELS = """
kernel void add(global float *x, float by) { x[get_global_id(0)] += by; }
kernel void wild(global float *x, ulong at) { *(global int *)at = 1; }
"""
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, KERNELS).build()
add, wild = cl.Kernel(program, "add"), cl.Kernel(program, "wild")
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
x = cl.Buffer(context, flags, hostbuf=np.zeros(64, dtype=np.float32))
gate = cl.UserEvent(context)
cl.enqueue_marker(queue, wait_for=[gate])
for by in range(400 if not sys.argv[1:] else 3):
    add(queue, (64,), None, x, np.float32(by))
if sys.argv[1:]:
    wild(queue, (1,), None, x, np.uint64(8))
    for by in range(4):
        add(queue, (64,), None, x, np.float32(by))
queue.flush()
gate.set_status(cl.command_execution_status.COMPLETE)
queue.finish()
