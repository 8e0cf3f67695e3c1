"""Creates queues one after the other in one context, and prints whether memory of a unique size is mapped: queues.py BYTES.

Prints one line while each queue lives and one after its release, and a last line after the release of the context.
"""

import gc
import sys

import numpy as np
import pyopencl as cl

BYTES = int(sys.argv[1])


def mapped():
    """Addresses of mappings of this size, or of a few pages more."""
    for line in open("/proc/self/maps"):
        start, end = (int(word, 16) for word in line.split()[0].split("-"))
        if BYTES <= end - start < BYTES + 65536:
            return start
    return None


context = cl.create_some_context(interactive=False)
program = cl.Program(context, "kernel void one(global int *x) { x[get_global_id(0)] += 1; }").build()
kernel = cl.Kernel(program, "one")
x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, dtype=np.int32))
for _ in range(3):
    queue = cl.CommandQueue(context)
    kernel(queue, (64,), None, x).wait()
    queue.finish()
    print("with a queue", mapped())
    del queue
    gc.collect()
    print("without", mapped())
del kernel, program, x, context
gc.collect()
print("without a context", mapped())
