#!/usr/bin/env python3
"""Decodes a dump folder's index into JSON, following docs/reference/file-format.md and file-format-records.md only.

    python3 vectors/decode.py FOLDER

Python 3.8 or newer, without dependencies. Every checksum is checked. 64-bit numbers that may exceed 2^53 are
hexadecimal strings. Payloads are printed in hexadecimal.
"""
import json
import os
import struct
import sys

from xxh3 import xxh3_64

DTYPES = (
    "- float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float4_e2m1 int64 int32 int16 int8 int4 uint64 uint32 uint16 uint8 "
    "bool float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu complex64 complex128"
).split()
BITS = [0, 64, 32, 16, 16, 8, 8, 4, 64, 32, 16, 8, 4, 64, 32, 16, 8, 8, 8, 8, 8, 64, 128]
ROLES = {0: None, 1: "input", 2: "output", 3: "inout"}
STAGES = {0: None, 1: "before_dispatch", 2: "after_completion"}
VALUE_TYPES = "- none bool int float text dtype uncaptured".split()
OPERATIONS = "kernel copy fill host_read host_write graph operator barrier".split()
SPACES = "device host pinned managed".split()
COLLECTIVES = "- other all_reduce all_gather reduce_scatter broadcast all_to_all barrier send recv".split()
IMAGES = "unknown opencl_c spirv opencl_binary ptx cubin fatbin".split()
CAUSES = ["explicit", "read_after_write", "write_after_write", "write_after_read", "queue_order", "event", "host_wait"]

# Per kind: name, fixed bytes, and the fields after the head as (name, format, offset).
KINDS = {
    1: ("tensor", 64, [("payload_at", "Q", 16), ("hash", "16s", 24), ("start_offset", "Q", 40), ("address", "X", 48),
                       ("dtype", "B", 56), ("ndims", "B", 57), ("role", "B", 58), ("space", "B", 59), ("name", "I", 60)]),
    2: ("scalar", 32, [("bits", "X", 16), ("name", "I", 24), ("dtype", "B", 28)]),
    3: ("task", 136, [("kernels", "3I", 16), ("blocks", "I", 28), ("times_ns", "3Q", 32), ("held_up_ns", "Q", 56), ("counts", "2I", 64),
                      ("queue", "I", 72), ("step", "I", 76), ("name", "I", 80), ("scope", "I", 84), ("module", "I", 88),
                      ("source", "2I", 92), ("operation", "B", 100), ("work_dims", "B", 101), ("core", "H", 102),
                      ("grid", "3I", 104), ("group", "3I", 116), ("parent", "X", 128)]),
    4: ("dispatch", 96, [("kernel", "I", 40), ("core", "I", 44), ("slot", "I", 48), ("slots", "I", 52), ("block", "I", 56), ("blocks", "I", 60),
                         ("tensors", "I", 64), ("scalars", "I", 68), ("words_bytes", "I", 72), ("handed_over_ns", "Q", 80), ("completed_ns", "Q", 88)]),
    8: ("uncaptured", 24, [("name", "I", 16), ("reason", "B", 20), ("role", "B", 21)]),
    9: ("edge", 32, [("producer", "X", 16), ("cause", "H", 24)]),
    10: ("orchestration_arg", 64, [("buffer_bytes", "Q", 16), ("start_offset", "Q", 40), ("address", "X", 48), ("dtype", "B", 56),
                                   ("ndims", "B", 57), ("role", "B", 58), ("space", "B", 59), ("name", "I", 60)]),
    12: ("string", 32, [("id", "I", 16), ("bytes", "I", 20)]),
    13: ("scope", 32, [("id", "I", 16), ("name", "I", 20), ("parent", "I", 24)]),
    14: ("kernel", 40, [("func_id", "I", 16), ("name", "I", 20), ("module", "I", 24), ("args", "H", 28), ("cores", "B", 30)]),
    15: ("queue", 24, [("id", "I", 16), ("name", "I", 20)]),
    16: ("lane", 32, [("thread", "X", 16), ("lane", "I", 24), ("name", "I", 28)]),
    17: ("step", 32, [("id", "I", 16), ("name", "I", 20), ("begin_ns", "Q", 24)]),
    18: ("module", 48, [("id", "I", 16), ("name", "I", 20), ("bytes", "Q", 24), ("hash", "16s", 32)]),
    19: ("allocation", 48, [("address", "X", 16), ("bytes", "Q", 24), ("at_ns", "Q", 32), ("space", "B", 40), ("freed", "B", 41)]),
    20: ("finished", 48, [("core", "I", 16), ("slot", "I", 20), ("block", "I", 24), ("started_ns", "Q", 32), ("completed_ns", "Q", 40)]),
    22: ("attribute", 48, [("name", "I", 16), ("first", "I", 20), ("total", "I", 24), ("count", "B", 28), ("is_list", "B", 29), ("types", "16B", 32)]),
    23: ("collective", 32, [("number", "Q", 16), ("group", "I", 24), ("collective", "B", 28)]),
}
STATISTICS, TRUNCATED, EXTENDED, LAUNCH = 2, 128, 16384, 65536


def fail(message):
    sys.exit("decode.py: " + message)


def take(data, kind, at):
    if kind == "X":
        return "0x%016x" % struct.unpack_from("<Q", data, at)
    if kind.endswith("s"):
        return "0x%032x" % int.from_bytes(data[at:at + 16], "little")
    values = struct.unpack_from("<" + kind, data, at)
    return values[0] if len(values) == 1 else list(values)


class Body:
    """The rest of a frame's body."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def next(self, kind, count=1):
        size = struct.calcsize("<" + kind) * count
        if self.at + size > len(self.data):
            fail("a record is cut")
        values = struct.unpack_from("<%d%s" % (count, kind) if len(kind) == 1 else "<" + kind * count, self.data, self.at)
        self.at += size
        return list(values)


def number(value):
    """A float as JSON: NaN and infinities as text."""
    return str(value) if value != value or value in (float("inf"), float("-inf")) else value


def decode_record(body):
    data, start = body.data, body.at
    if start + 16 > len(data):
        fail("a record is cut")
    kind, stage, arg_index, flags, task_id = struct.unpack_from("<BBHIQ", data, start)
    if kind not in KINDS:
        fail("a record has the unknown kind %d" % kind)
    name, fixed, fields = KINDS[kind]
    record = {"kind": name, "stage": STAGES[stage], "arg_index": arg_index, "flags": flags, "task_id": "0x%016x" % task_id}
    for field, form, at in fields:
        record[field] = take(data, form, start + at)
    body.at = start + fixed
    if body.at > len(data):
        fail("a record is cut")
    for key, words in (("role", ROLES), ("cause", CAUSES), ("operation", OPERATIONS), ("space", SPACES), ("collective", COLLECTIVES)):
        if key in record:
            record[key] = words[record[key]]
    if "dtype" in record:
        record["dtype"] = DTYPES[record["dtype"]]
    globals().get("finish_" + name, lambda record, body: None)(record, body)
    return record


def finish_view(record, body):
    record["shape"], record["strides"] = body.next("Q", record["ndims"]), body.next("q", record["ndims"])


def finish_tensor(record, body):
    finish_view(record, body)
    if record["flags"] & STATISTICS:
        record["stats"] = [number(value) for value in body.next("d", 4)] + body.next("Q", 4)
    if record["flags"] & TRUNCATED:
        record["stored_bytes"] = body.next("Q")[0]


finish_orchestration_arg = finish_view


def finish_task(record, body):
    if record["flags"] & (EXTENDED | LAUNCH):
        record["global_size"], record["global_offset"] = body.next("Q", 3), body.next("Q", 3)
    if record["flags"] & LAUNCH:
        record["shared_bytes"], record["cluster"], record["launch"] = body.next("I")[0], body.next("B", 3), body.next("B")[0]


def finish_dispatch(record, body):
    tensors, scalars = record["tensors"], record["scalars"]
    end = body.at + record["words_bytes"]
    if record["words_bytes"] == 0:
        return
    record["descriptors"] = ["0x%x" % word for word in body.next("Q", tensors)]
    record["scalar_bits"] = ["0x%x" % word for word in body.next("Q", scalars)]
    record["contexts"] = ["0x%x" % word for word in body.next("Q", 2)]
    record["block_context"], record["subtask_context"] = body.next("I", 2), body.next("I", 2)
    record["scalar_dtypes"] = [DTYPES[tag] for tag in body.next("B", (scalars + 7) // 8 * 8)[:scalars]]
    record["views"] = []
    for _ in range(tensors):
        address, size, first, owner, version, dtype, ndims, flags = body.next("QQQQIBBH")
        view = {"address": "0x%x" % address, "bytes": size, "start_offset": first, "owner": "0x%x" % owner, "version": version}
        view.update(dtype=DTYPES[dtype], flags=flags, shape=body.next("Q", ndims), strides=body.next("q", ndims))
        record["views"].append(view)
    if body.at != end:
        fail("the words of a dispatch do not have their size")


def finish_string(record, body):
    size = record["bytes"]
    record["text"] = bytes(body.next("B", (size + 7) // 8 * 8)[:size]).decode()


def finish_kernel(record, body):
    arguments = [body.next("IBBBB")[:2] for _ in range(record["args"])]
    record["args"] = [{"name": name, "kind": ("-", "IN", "OUT", "INOUT", "SCALAR")[kind]} for name, kind in arguments]


def finish_module(record, body):
    if record["flags"] & EXTENDED:
        record["options"], record["device"], image = body.next("IIB7x")
        record["image"] = IMAGES[image]


def finish_allocation(record, body):
    if record["flags"] & EXTENDED:
        storage, after, record["queue"], record["pool"] = body.next("QQII8x")
        record["storage"], record["after_task"] = "0x%016x" % storage, "0x%016x" % after


def finish_attribute(record, body):
    values = []
    for tag in record.pop("types")[:record["count"]]:
        form = {"int": "q", "float": "d"}.get(VALUE_TYPES[tag], "Q")
        value = body.next(form)[0]
        values.append([VALUE_TYPES[tag], str(value) if form == "q" else number(value) if form == "d" else value])
    record["values"] = values


def decode_frame(data, at, run_id):
    magic, body_bytes, lane, count, first, after = struct.unpack_from("<4sIIIQQ", data, at)
    end = at + 32 + body_bytes
    if end + 8 > len(data):
        return None, at
    if struct.unpack_from("<Q", data, end)[0] != xxh3_64(data[at:end], run_id):
        fail("the frame at %d has a wrong checksum" % at)
    content = data[at + 32:end]
    if magic == b"TEND":
        return {"footer": json.loads(content)}, end + 8
    if magic != b"TFRM":
        fail("at %d is no frame" % at)
    body = Body(content)
    frame = {"lane": lane, "first": first, "next": after, "records": [decode_record(body) for _ in range(count)]}
    if body.at != len(content):
        fail("the frame at %d has bytes after its records" % at)
    return frame, end + 8


def decode_index(data):
    magic, version, header_bytes, run_id, info_bytes, flags, zero, zeros, checksum = struct.unpack_from("<8sIIQQQQQQ", data, 0)
    if magic != b"TAPINDEX" or version not in (3, 4) or zero or zeros:
        fail("it is no index of version 3 or 4")
    if checksum != xxh3_64(data[:56] + data[64:header_bytes], run_id):
        fail("the header has a wrong checksum")
    decoded = {"version": version, "run_id": "0x%016x" % run_id, "flags": flags, "info": json.loads(data[64:64 + info_bytes])}
    decoded["frames"], at = [], header_bytes
    while at + 40 <= len(data):
        frame, following = decode_frame(data, at, run_id)
        if frame is None:
            break
        if "footer" in frame:
            decoded["footer"] = frame["footer"]
            if struct.unpack_from("<Q8s", data, following) != (at, b"TAPCLOSE"):
                fail("the end mark is wrong")
            following += 16
        else:
            decoded["frames"].append(frame)
        at = following
    decoded["bytes_after_the_last_frame"] = len(data) - at
    return decoded


def payload_place(decoded, position):
    """The name of the payload file of a position, and the offset in that file."""
    name = decoded["info"]["bin_file"]
    if decoded["version"] < 4 or position < 1 << 44:
        return name, position
    stem, extension = os.path.splitext(name)
    return "%s.%d%s" % (stem, position >> 44, extension), position % (1 << 44)


def add_payloads(decoded, folder):
    """The content of every stored tensor. With flag 16, nothing is stored."""
    records = [record for frame in decoded["frames"] for record in frame["records"] if record["kind"] == "tensor"]
    for record in records:
        if record["flags"] & 17 != 1:
            continue
        numel = 1
        for size in record["shape"]:
            numel *= size
        size = record.get("stored_bytes", (numel * BITS[DTYPES.index(record["dtype"])] + 7) // 8)
        name, offset = payload_place(decoded, record["payload_at"])
        with open(os.path.join(folder, name), "rb") as payloads:
            payloads.seek(offset)
            record["content"] = payloads.read(size).hex()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(os.path.join(sys.argv[1], "tensor_dump.idx"), "rb") as file:
        decoded = decode_index(file.read())
    add_payloads(decoded, sys.argv[1])
    print(json.dumps(decoded, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
