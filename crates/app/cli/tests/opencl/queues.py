"""Creates queues one after the other in one context, and prints how many blocks of a large size are mapped: queues.py BYTES.

Prints one line while each queue lives and one after its release, and a last line after the release of the context.
Other allocations of the program are much smaller than a block. The kernel may merge neighboring mappings, so blocks
are counted by the sum of all private writable memory.
"""

import gc
import sys

import numpy as np
import pyopencl as cl

BYTES = int(sys.argv[1])


def writable_bytes():
    """Size of the private writable memory without a file."""
    total = 0
    for line in open("/proc/self/maps"):
        span, rights, _, _, inode, *_ = line.split()
        start, end = (int(word, 16) for word in span.split("-"))
        total += end - start if rights == "rw-p" and inode == "0" else 0
    return total



context = cl.create_some_context(interactive=False)
program = cl.Program(context, "kernel void one(global int *x) { x[get_global_id(0)] += 1; }").build()
kernel = cl.Kernel(program, "one")
x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, dtype=np.int32))
first = writable_bytes()


def blocks():
    return round((writable_bytes() - first) / BYTES)


for _ in range(3):
    queue = cl.CommandQueue(context)
    kernel(queue, (64,), None, x).wait()
    queue.finish()
    print("with a queue", blocks())
    del queue
    gc.collect()
    print("without", blocks())
del kernel, program, x, context
gc.collect()
print("without a context", blocks())
