"""Records a computation in Python through the C interface of libtensortap, using only ctypes.

    tensortap record -- python3 record.py

The interface is a table of functions with one symbol; see tensortap_record.h. Without a recorder, the program runs without recording.
"""

import ctypes as c
import os

FLOAT64, IN, OUT, HOST_MEMORY, BEFORE, AFTER = 1, 1, 2, 1, 1, 2
HANDLE = c.c_void_p


class TaskInfo(c.Structure):
    _fields_ = [
        ("id", c.c_uint64), ("operation", c.c_uint32), ("kernel", c.c_uint32 * 3), ("name", c.c_uint32),
        ("scope", c.c_uint32), ("queue", c.c_uint32), ("step", c.c_uint32), ("module", c.c_uint32),
        ("source_file", c.c_uint32), ("source_line", c.c_uint32), ("blocks", c.c_uint32), ("grid", c.c_uint32 * 3),
        ("group", c.c_uint32 * 3), ("flags", c.c_uint32), ("records", c.c_uint32), ("parent", c.c_uint64),
        ("submitted_ns", c.c_uint64), ("reserved", c.c_uint64 * 4),
    ]  # fmt: skip


class View(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("bytes", c.c_uint64), ("start", c.c_uint64), ("shape", c.c_uint64 * 8),
        ("strides", c.c_int64 * 8), ("arg", c.c_uint16), ("dtype", c.c_uint8), ("ndims", c.c_uint8),
        ("role", c.c_uint8), ("space", c.c_uint8), ("flags", c.c_uint16), ("name", c.c_uint32),
        ("reserved0", c.c_uint32), ("reserved", c.c_uint64 * 3),
    ]  # fmt: skip


RecordedTask = c.c_uint64 * 32


def function(result, *arguments):
    return c.CFUNCTYPE(result, *arguments)


class Api(c.Structure):
    """The table, up to the last function used here."""

    _fields_ = [
        ("version", c.c_uint32),
        ("bytes", c.c_uint32),
        ("attach", function(c.c_int, c.POINTER(HANDLE))),
        ("attach_to", c.c_void_p),
        ("open_folder", c.c_void_p),
        ("close", function(c.c_int, HANDLE)),
        ("counters", c.c_void_p),
        ("level", c.c_void_p),
        ("thread", function(HANDLE, HANDLE)),
        ("recorder_open", c.c_void_p),
        ("recorder_close", c.c_void_p),
        ("string", c.c_void_p),
        ("scope_id", c.c_void_p),
        ("kernel_id", function(c.c_uint32, HANDLE, c.c_char_p, c.c_uint32, c.c_void_p, c.c_uint32)),
        ("queue_id", c.c_void_p),
        ("step_id", c.c_void_p),
        ("module_id", c.c_void_p),
        ("task_begin", function(c.c_int, HANDLE, c.POINTER(RecordedTask), c.POINTER(TaskInfo))),
        ("record", function(c.c_int, HANDLE, c.POINTER(RecordedTask), c.c_uint32, c.POINTER(View), c.c_uint32)),
        ("record_scalar", c.c_void_p),
        ("task_end", function(c.c_int, HANDLE, c.POINTER(RecordedTask))),
    ]


def attach():
    """Returns the table, the session and this thread's recorder, or None without a recorder."""
    path = os.environ.get("TENSORTAP_LIBRARY")
    if not path:
        return None
    api = Api.in_dll(c.CDLL(path), "tensortap_record_1")
    session = HANDLE()
    if api.attach(c.byref(session)) != 0:
        return None
    return api, session, api.thread(session)


def view(values, arg, role):
    result = View(data=c.addressof(values), bytes=c.sizeof(values), arg=arg, dtype=FLOAT64, ndims=1, role=role)
    result.space = HOST_MEMORY
    result.shape[0], result.strides[0] = len(values), 1
    return result


def recorded(recorder, kernel, source, target, run):
    """Runs `run` and records it as a task."""
    if recorder is None:
        return run()
    api, _, thread = recorder
    task, info = RecordedTask(), TaskInfo()
    info.kernel[0] = api.kernel_id(thread, kernel.encode(), 0, None, 0)
    api.task_begin(thread, task, c.byref(info))
    api.record(thread, task, BEFORE, c.byref(view(source, 0, IN)), 1)
    run()
    api.record(thread, task, AFTER, c.byref(view(target, 1, OUT)), 1)
    api.task_end(thread, task)


def main():
    recorder = attach()
    x = (c.c_double * 5)(1, 2, 3, 4, 5)
    squares, sums = (c.c_double * 5)(), (c.c_double * 5)()

    def square():
        for at, value in enumerate(x):
            squares[at] = value * value

    def running_sum():
        for at in range(len(squares)):
            sums[at] = squares[at] + (sums[at - 1] if at else 0)

    recorded(recorder, "square", x, squares, square)
    recorded(recorder, "running_sum", squares, sums, running_sum)
    if recorder:
        api, session, _ = recorder
        api.close(session)
    print(*sums)


main()
