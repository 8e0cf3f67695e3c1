"""Queries events, programs and memory objects and prints the answers. They are the same whether or not the program is recorded."""

import threading
import time

import numpy as np
import pyopencl as cl

KERNELS = """
__kernel void add(__global const float *x, __global float *y, float by) { y[get_global_id(0)] += x[get_global_id(0)] * by; }
"""


def settled(count, wanted):
    """Waits for a count that a driver may update shortly after its event."""
    for _ in range(500):
        if count() == wanted:
            break
        time.sleep(0.01)
    return count()


context = cl.create_some_context(interactive=False)
profiling = cl.command_queue_properties.PROFILING_ENABLE
queue = cl.CommandQueue(context, properties=profiling)
unordered = cl.CommandQueue(
    context, properties=profiling | cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
)
program = cl.Program(context, KERNELS).build(["-DUNUSED=1"])
device = context.devices[0]
print("options", program.get_build_info(device, cl.program_build_info.OPTIONS))
kernel = cl.Kernel(program, "add")
print("kernel", kernel.function_name, kernel.num_args, kernel.program == program)

x = np.arange(256, dtype=np.float32)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
a = cl.Buffer(context, flags, hostbuf=x)
b = cl.Buffer(context, flags, hostbuf=x)
kernel.set_args(a, b, np.float32(2))
print("memory", a.size, a.flags, a.reference_count, a.map_count)

for line in (queue, unordered):
    gate = cl.UserEvent(context)
    event = cl.enqueue_nd_range_kernel(line, kernel, (256,), (32,), wait_for=[gate])
    line.flush()
    status = event.command_execution_status
    print("gated", status >= cl.command_execution_status.SUBMITTED, event.command_type == cl.command_type.NDRANGE_KERNEL)
    print("queue", event.command_queue == line, event.context == context)
    called = threading.Event()
    heard = []
    event.set_callback(cl.command_execution_status.COMPLETE, lambda status: (heard.append(status), called.set()))
    print("before", called.is_set())
    # Other users of the buffer at this time are not counted.
    print("held", a.reference_count, b.reference_count)
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    print("called", called.wait(60), heard)
    print("complete", event.command_execution_status == cl.command_execution_status.COMPLETE)
    times = [event.profile.queued, event.profile.submit, event.profile.start, event.profile.end]
    print("times", times == sorted(times), times[3] > times[2])
    # A program that waits for the event finds the kernel's output. Its later writes are not recorded as the
    # kernel's.
    late = cl.enqueue_fill_buffer(line, b, np.float32(999), 0, 1024, wait_for=[event])
    late.wait()
    print("free", settled(lambda: a.reference_count, 1), settled(lambda: b.reference_count, 1))
    print("types", late.command_type == cl.command_type.FILL_BUFFER)

# A command whose wait fails reports that, with its error.
gate = cl.UserEvent(context)
event = cl.enqueue_nd_range_kernel(unordered, kernel, (256,), None, wait_for=[gate])
gate.set_status(-5)
try:
    event.wait()
    print("no error")
except cl.Error as error:
    print("error", error.code)
print("failed", event.command_execution_status < 0)

for size, group in (((250,), (32,)), ((256,), (100000,))):
    try:
        cl.enqueue_nd_range_kernel(queue, kernel, size, group)
        print("launched")
    except cl.Error as error:
        print("refused", error.code)
try:
    cl.enqueue_copy(queue, np.empty(1000, dtype=np.float32), b, is_blocking=True)
except (cl.Error, ValueError) as error:
    print("refused", getattr(error, "code", None))

marker = cl.enqueue_marker(queue)
barrier = cl.enqueue_barrier(queue, wait_for=[marker])
barrier.wait()
print("ordered", marker.command_type == cl.command_type.MARKER, barrier.command_type == cl.command_type.BARRIER)

mapped, event = cl.enqueue_map_buffer(queue, b, cl.map_flags.READ, 0, (256,), np.float32)
print("mapped", mapped[:4].tolist(), b.map_count)
mapped.base.release(queue).wait()
print("unmapped", settled(lambda: b.map_count, 0))

y = np.empty_like(x)
event = cl.enqueue_copy(queue, y, b, is_blocking=False)
event.wait()
print("read", y[:4].tolist(), event.command_type == cl.command_type.READ_BUFFER)
image_format = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
if device.image_support:
    image = cl.Image(context, cl.mem_flags.READ_WRITE, image_format, shape=(8, 8))
    pixels = np.arange(256, dtype=np.uint8).reshape(8, 8, 4)
    cl.enqueue_copy(queue, image, pixels, origin=(0, 0), region=(8, 8))
    back = np.empty_like(pixels)
    cl.enqueue_copy(queue, back, image, origin=(0, 0), region=(8, 8))
    print("image", (back == pixels).all())
