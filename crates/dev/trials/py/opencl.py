"""Performs the actions of a plan with PoCL: opencl.py PLAN RESULT. The result is what every buffer contains at the end."""

import json
import sys

import numpy
import pyopencl as cl

plan = json.load(open(sys.argv[1]))
device = next(device for platform in cl.get_platforms() for device in platform.get_devices())
context = cl.Context([device])
queue = cl.CommandQueue(context)
programs = [cl.Program(context, source).build() for source in plan["sources"]]
buffers = {}
for action in plan["actions"]:
    kind, block = action["kind"], action.get("block")
    if kind == "alloc":
        buffers[block] = cl.Buffer(context, cl.mem_flags.READ_WRITE, action["bytes"])
    elif kind == "free":
        queue.finish()
        buffers.pop(block).release()
    elif kind == "write":
        cl.enqueue_copy(queue, buffers[block], numpy.frombuffer(bytes.fromhex(action["data"]), dtype=numpy.uint8))
    else:
        kernel = cl.Kernel(programs[action["program"]], action["kernel"])
        args = []
        for block, start, length in action["args"]:
            args += [buffers[block], numpy.uint32(start), numpy.uint32(length)]
        kernel(queue, (1,), None, *args, *[numpy.uint64(scalar) for scalar in action["scalars"]])
queue.finish()
result = {}
for block, buffer in buffers.items():
    content = numpy.empty(buffer.size, dtype=numpy.uint8)
    cl.enqueue_copy(queue, content, buffer)
    result[block] = content.tobytes().hex()
json.dump(result, open(sys.argv[2], "w"))
