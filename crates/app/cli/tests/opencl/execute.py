"""Executes a plan with OpenCL: execute.py PLAN RESULTS.

The plan has queues, buffers and steps, and for each step the steps that it waits for. The program writes what it has read to RESULTS, in the
order of the steps.
"""

import json
import sys
import threading

import numpy as np
import pyopencl as cl

KERNELS = """
__kernel void blend(__global const uint *x, __global uint *y, uint k)
{
    size_t i = get_global_id(0);
    y[i] = y[i] * 1664525u + x[i] + k;
}
__kernel void put(__global uint *y, uint k)
{
    size_t i = get_global_id(0);
    y[i] = (uint)i * 2654435761u ^ k;
}
__kernel void turn(__global uint *y, __local uint *part)
{
    size_t i = get_global_id(0), l = get_local_id(0), n = get_local_size(0);
    part[l] = y[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[i] = part[(l + 1) % n];
}
__kernel void look(__global const uint *x, uint4 far)
{
}
"""


def noise(seed, count):
    """Words that the Rust test computes as well."""
    words = np.arange(count, dtype=np.uint64) + np.uint64(seed) * np.uint64(7919)
    return (words * np.uint64(2654435761) % np.uint64(1 << 32)).astype(np.uint32)


class Execution:
    def __init__(self, plan):
        self.plan = plan
        self.context = cl.create_some_context(interactive=False)
        order = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
        self.queues = [
            cl.CommandQueue(self.context, properties=order if queue["out_of_order"] else 0)
            for queue in plan["queues"]
        ]
        self.program = cl.Program(self.context, KERNELS).build(plan.get("options", []))
        self.kernels = {name: cl.Kernel(self.program, name) for name in ("blend", "put", "turn", "look")}
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = []
        for buffer in plan["buffers"]:
            if "of" in buffer:
                at = buffer["at"] * 4
                self.buffers.append(self.buffers[buffer["of"]].get_sub_region(at, buffer["words"] * 4))
            else:
                content = noise(buffer["seed"], buffer["words"])
                self.buffers.append(cl.Buffer(self.context, flags, hostbuf=content))
        self.events = {}
        self.results = []
        self.kept = []
        self.called = {}

    def run(self):
        for number, step in enumerate(self.plan["steps"]):
            getattr(self, "do_" + step["do"])(number, step)
        for queue in self.queues:
            queue.finish()
        for number, called in self.called.items():
            assert called.wait(60), f"the callback of step {number} never came"
        for host in self.results:
            sys.stdout.flush()
        return [host.tobytes().hex() for host in self.results]

    def waits(self, step):
        return [self.events[number] for number in step["waits"]]

    def queue(self, step):
        return self.queues[step["queue"]]

    def enqueued(self, number, step, event):
        self.events[number] = event
        if step.get("callback"):
            called = self.called[number] = threading.Event()
            event.set_callback(cl.command_execution_status.COMPLETE, lambda status: called.set())

    def do_kernel(self, number, step):
        kernel = self.kernels[step["name"]]
        arguments = []
        for argument in step["args"]:
            if "buffer" in argument:
                arguments.append(self.buffers[argument["buffer"]])
            elif "local" in argument:
                arguments.append(cl.LocalMemory(argument["local"]))
            elif "far" in argument:
                arguments.append(np.array(tuple(argument["far"]), dtype=cl.cltypes.uint4))
            else:
                arguments.append(np.uint32(argument["word"]))
        kernel.set_args(*arguments)
        group = (step["group"],) if step["group"] else None
        offset = (step["offset"],) if step["offset"] else None
        event = cl.enqueue_nd_range_kernel(
            self.queue(step), kernel, (step["size"],), group, offset, wait_for=self.waits(step)
        )
        self.enqueued(number, step, event)

    def do_write(self, number, step):
        content = noise(step["seed"], step["words"])
        self.kept.append(content)
        event = cl.enqueue_copy(
            self.queue(step), self.buffers[step["buffer"]], content, dst_offset=step["at"] * 4,
            is_blocking=step["blocks"], wait_for=self.waits(step),
        )
        self.enqueued(number, step, event)

    def do_read(self, number, step):
        host = np.zeros(step["words"], dtype=np.uint32)
        self.results.append(host)
        event = cl.enqueue_copy(
            self.queue(step), host, self.buffers[step["buffer"]], src_offset=step["at"] * 4,
            is_blocking=step["blocks"], wait_for=self.waits(step),
        )
        self.enqueued(number, step, event)

    def do_copy(self, number, step):
        event = cl.enqueue_copy(
            self.queue(step), self.buffers[step["to"]], self.buffers[step["buffer"]], byte_count=step["words"] * 4,
            src_offset=step["at"] * 4, dst_offset=step["to_at"] * 4, wait_for=self.waits(step),
        )
        self.enqueued(number, step, event)

    def do_fill(self, number, step):
        event = cl.enqueue_fill_buffer(
            self.queue(step), self.buffers[step["buffer"]], np.uint32(step["word"]), step["at"] * 4,
            step["words"] * 4, wait_for=self.waits(step),
        )
        self.enqueued(number, step, event)

    def do_map(self, number, step):
        """Writes through a mapping. Returns the event of the unmap."""
        array, _ = cl.enqueue_map_buffer(
            self.queue(step), self.buffers[step["buffer"]], cl.map_flags.READ | cl.map_flags.WRITE,
            step["at"] * 4, (step["words"],), np.uint32, is_blocking=True, wait_for=self.waits(step),
        )
        array[:] = noise(step["seed"], step["words"])
        self.enqueued(number, step, array.base.release(self.queue(step)))

    def do_barrier(self, number, step):
        event = cl.enqueue_barrier(self.queue(step), wait_for=self.waits(step) or None)
        self.enqueued(number, step, event)

    def do_gate(self, number, step):
        self.events[number] = cl.UserEvent(self.context)

    def do_open(self, number, step):
        self.events[step["gate"]].set_status(cl.command_execution_status.COMPLETE)

    def do_finish(self, number, step):
        self.queue(step).finish()

    def do_wait(self, number, step):
        cl.wait_for_events(self.waits(step))


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    results = Execution(plan).run()
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


main()
