"""Launches with every kind of argument. The program is built from source or, with an argument, from a binary."""

import sys

import numpy as np
import pyopencl as cl

SOURCE = """
typedef struct { int a; float b; int c; } three;
// As many bytes as a handle has.
typedef struct { float a; int b; } two;

kernel void add(global const float *a, global const float *b, global float *c, float s)
{
    int i = get_global_id(0);
    c[i] = a[i] + b[i] * s;
}

kernel void turned(global int *x, local int *tmp, int k)
{
    tmp[get_local_id(0)] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = tmp[get_local_size(0) - 1 - get_local_id(0)] + k;
}

kernel void several(global float *x, three t, float4 v, uchar u, ulong w)
{
    x[get_global_id(0)] += t.a + t.b + t.c + v.x + v.w + u + (float)w;
}

kernel void paired(global float *x, two t)
{
    x[get_global_id(0)] = x[get_global_id(0)] * t.a + t.b;
}

kernel void ends(global int *p, global int *q)
{
    q[get_global_id(0)] = p[get_global_id(0)] + 1;
}
"""

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build(options=["-DX=1"])
if sys.argv[1:]:
    binaries = program.get_info(cl.program_info.BINARIES)
    program = cl.Program(context, context.devices, binaries).build()
names = ["add", "turned", "several", "paired", "ends"]
add, turned, several, paired, ends = (cl.Kernel(program, name) for name in names)
N = 1000
a = np.arange(N, dtype=np.float32)
flags = cl.mem_flags
A, B = (cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x) for x in [a, np.sin(a)])
C = cl.Buffer(context, flags.READ_WRITE, a.nbytes)
add(queue, (N,), None, A, B, C, np.float32(2.5))
# A part of one buffer as two arguments.
add(queue, (500,), None, A, C, C, np.float32(0.5), global_offset=(100,))
X = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.arange(64, dtype=np.int32))
turned(queue, (64,), (16,), X, cl.LocalMemory(64), np.int32(7))
three = np.array((1, 2.5, 3), dtype=[("a", np.int32), ("b", np.float32), ("c", np.int32)])
several(queue, (N,), None, C, three, cl.cltypes.make_float4(1, 2, 3, 4), np.uint8(200), np.uint64(5))
paired(queue, (N,), None, C, np.array((0.5, 3), dtype=[("a", np.float32), ("b", np.int32)]))
# The second half as an argument of its own.
ends(queue, (32,), None, X, X.get_sub_region(128, 128))
queue.finish()
