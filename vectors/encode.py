#!/usr/bin/env python3
"""Writes a small dump, following docs/reference/file-format.md and file-format-records.md only.

    python3 vectors/encode.py FOLDER

One task, `scale`, reads two floats, multiplies them by a scalar and writes two floats. The folder has an index and
payloads. The index has no footer, so the dump counts as torn: `tensortap list` and `show` read it, and `repair` completes
it. With a second argument, `closed`, the index has a footer, and the manifest and the graph are written, following
docs/reference/file-format-json.md. `tensortap verify` then finds nothing wrong.
"""
import json
import os
import struct
import sys

from xxh3 import xxh3_64

RUN_ID = 0x1234567890ABCDEF
BEFORE, AFTER = 1, 2


def head(kind, task=0, stage=0, arg=0, flags=0):
    return struct.pack("<BBHIQ", kind, stage, arg, flags, task)


def string(number, text):
    data = text.encode()
    return head(12) + struct.pack("<II8x", number, len(data)) + data + b"\0" * (-len(data) % 8)


def kernel(number, name):
    """Two tensors and a scalar, on a vector core."""
    arguments = b"".join(struct.pack("<IB3x", 0, kind) for kind in (1, 2, 4))
    return head(14) + struct.pack("<IIIHBx8x", number, name, 0, 3, 2) + arguments


def task(number, kernel_number, completed):
    """The stage of a task's two records is 0; the second has the time of its completion."""
    times = struct.pack("<QQQQ", 1000, 2000, 3000 if completed else 0, 0)
    nothing = 0xFFFFFFFF
    return (head(3, number) + struct.pack("<IIII", nothing, kernel_number, nothing, 1) + times + struct.pack("<II", 2, 1)
            + b"\0" * 20 + b"\0" * 8 + b"\0" * 4 + b"\0" * 24 + b"\0" * 8)


def tensor(number, stage, arg, role, offset, address, values):
    """A captured payload (flag 1) without a hash."""
    fields = struct.pack("<Q16xQQBBBBI", offset, 0, address, 2, 1, role, 1, 0)
    return head(1, number, stage, arg, 1) + fields + struct.pack("<Qq", len(values), 1)


def scalar(number, arg, value):
    return head(2, number, BEFORE, arg) + struct.pack("<IIIBBBB", struct.unpack("<I", struct.pack("<f", value))[0], 0, 0, 2, 0, 0, 0)


def frame(lane, first, records, magic=b"TFRM", body=None):
    body = b"".join(records) if body is None else body
    start = struct.pack("<4sIIIQQ", magic, len(body), lane, len(records), first, first + len(records)) + body
    return start + struct.pack("<Q", xxh3_64(start, RUN_ID))


def header(info):
    text = json.dumps(info).encode()
    padded = text + b" " * (-len(text) % 8)
    start = struct.pack("<8sIIQQQQQ", b"TAPINDEX", 3, 64 + len(padded), RUN_ID, len(text), 0, 0, 0)
    return start + struct.pack("<Q", xxh3_64(start + padded, RUN_ID)) + padded


# Counters that the footer and the manifest share.
COUNTERS = {"total_tensors": 3, "before_dispatch": 2, "after_completion": 1, "input_tensors": 2, "output_tensors": 1,
            "inout_tensors": 0, "scalars": 1, "truncated_tensors": 0, "dropped_records": 0, "dropped_overwrite": 0,
            "deduplicated_bytes": 0, "stored_bytes": 16}
ENDING = {"status": "complete", "finished_at": None, "message": None, "losses": [], "corrupt_records": 0, "in_flight": [],
          "filtered_records": 0, "filtered_bytes": 0, "held_up_ns": 0}


def footer(index, records):
    """A closed index: how it ended, and where each lane's sequence ended."""
    more = {"task_records": 2, "edges": 0, "uncaptured": 0, "dispatches": 0, "dispatch_args": 0, "orchestration_args": 0}
    content = dict(ENDING, threads=[{"thread": 0, "next_seq": records}], totals=dict(COUNTERS, **more))
    text = json.dumps(content).encode()
    text += b" " * (-len(text) % 8)
    start = struct.pack("<4sIIIQQ", b"TEND", len(text), 0, 0, 0, 0) + text
    return start + struct.pack("<Q", xxh3_64(start, RUN_ID)) + struct.pack("<Q8s", len(index), b"TAPCLOSE")


def manifest_record(arg, role, stage, **fields):
    """A tensor of two floats, unless `fields` say otherwise."""
    record = {
        "task_id": "0x%016x" % 7, "func_id": [0], "role": role, "stage": stage, "arg_index": arg, "kind": "tensor",
        "dtype": "float32", "ndims": 1, "shape": [2], "strides": [1], "start_offset": 0, "numel": 2, "is_contiguous": True,
        "truncated": False, "overwritten": False, "in_flight": False, "payload": "stored",
    }
    if fields.get("kind") != "scalar":
        record.update(hash=None, bin_size=8, stats=None, space="host")
    record.update(fields)
    record.update(arg_name=None, task_name=None, scope=None, step=0)
    return record


def manifest(info):
    scalar_fields = {"kind": "scalar", "ndims": 0, "shape": [], "strides": [], "numel": 1, "payload": "none", "bin_offset": 0, "bin_size": 0,
                     "scalar_value": "0x%016x" % 0x40000000, "value": 2.0}
    tensors = [
        manifest_record(0, "input", "before_dispatch", bin_offset=0, address="0x%016x" % 0x1000),
        manifest_record(2, "input", "before_dispatch", **scalar_fields),
        manifest_record(1, "output", "after_completion", bin_offset=64, address="0x%016x" % 0x2000),
    ]
    kernels = [{"func_id": 0, "name": "scale", "core_type": "AIV", "signature": ["IN", "OUT", "SCALAR"], "code": ""}]
    general = {key: value for key, value in info.items() if key != "dump_args"}
    layout = {"type": "logical_contiguous", "byte_order": "little_endian"}
    return dict(general, schema_version=2, bin_format=layout, hash_algorithm="xxh3_128_tree4k", uncaptured=[],
                kernels=kernels, tensors=tensors, **ENDING, **COUNTERS)


def graph(info):
    task_entry = {
        "task_id": "0x%016x" % 7, "kernels": ["scale"], "func_id": [0], "subtask_id": [1], "core_type": ["AIV"], "block_num": 1,
        "tensor_count": 2, "scalar_count": 1, "submitted_ns": "1000", "dispatched_ns": "2000", "completed_ns": "3000", "in_flight": False,
        "thread": 0,
        "task_name": None, "scope": None, "step": 0,
    }
    return {"schema_version": 2, "run_dir": info["run_dir"], "runtime": info["runtime"], "scene": info["scene"],
            "tasks": [task_entry], "edges": [], "threads": [{"lane": 0, "tid": "0"}]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder)
    given, made = (1.5, -2.0), (3.0, -4.0)
    with open(os.path.join(folder, "tensor_dump.bin"), "wb") as payloads:
        payloads.write(struct.pack("<2f", *given).ljust(64, b"\0") + struct.pack("<2f", *made))
    info = {
        "run_id": "0x%016x" % RUN_ID, "run_dir": os.path.basename(folder), "started_at": "2026-01-02T03:04:05.000000000Z",
        "started_monotonic_ns": "0", "platform": "host", "runtime": "encode.py", "scene": "scale", "params": {},
        "device_base": "0x0000000000000000", "dump_level": 2, "dump_args": False, "dump_policy": "block", "dump_collect": "live",
        "bin_file": "tensor_dump.bin", "kernels": [], "args": [],
    }
    before = [string(1, "scale"), kernel(0, 1), task(7, 0, False), tensor(7, BEFORE, 0, 1, 0, 0x1000, given), scalar(7, 2, 2.0)]
    after = [task(7, 0, True), tensor(7, AFTER, 1, 2, 64, 0x2000, made)]
    index = header(info) + frame(0, 0, before) + frame(0, len(before), after)
    if sys.argv[2:] == ["closed"]:
        index += footer(index, len(before) + len(after))
        for name, content in (("tensor_dump.json", manifest(info)), ("graph.json", graph(info))):
            with open(os.path.join(folder, name), "w") as file:
                json.dump(content, file, indent=1)
    with open(os.path.join(folder, "tensor_dump.idx"), "wb") as file:
        file.write(index)


if __name__ == "__main__":
    main()
