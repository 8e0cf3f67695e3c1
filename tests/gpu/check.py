"""Compares a dump with what a program expects. Reads only the files of the dump."""
import argparse
import glob
import json
import sys
import zlib

parser = argparse.ArgumentParser()
parser.add_argument("run")
parser.add_argument("--expected", help="what the program has written")
parser.add_argument("--kernels", type=int, help="launches of kernels, at least")
parser.add_argument("--extents", help="blocks of PyTorch's allocator, as the program has written them")
parser.add_argument("--names", help="arguments that launches are given by these names")
parser.add_argument("--graphs", type=int, help="launches of graphs, exactly")
options = parser.parse_args()

folders = [name.rsplit("/", 1)[0] for name in glob.glob(options.run + "/*/tensor_dump.json")]
manifests = [(json.load(open(folder + "/tensor_dump.json")), folder) for folder in folders]
# Compilers start processes that do not use the GPU.
manifest, folder = max(manifests, key=lambda manifest: manifest[0]["total_tensors"])
graph = json.load(open(folder + "/graph.json"))
operations = {}
for task in graph["tasks"]:
    operation = task.get("operation", "kernel")
    operations[operation] = operations.get(operation, 0) + 1
images = glob.glob(folder + "/modules/*")
print(f"{operations}, {len(images)} images, {manifest['total_tensors']} records, {manifest['stored_bytes']} bytes stored, "
      f"{manifest['dropped_records']} dropped, {len(manifest['uncaptured'])} uncaptured")
wrong = 0
if manifest["dropped_records"] or manifest["corrupt_records"]:
    print("records are lost")
    wrong += 1
if options.kernels and operations.get("kernel", 0) < options.kernels:
    print(f"fewer than {options.kernels} kernels")
    wrong += 1
if options.graphs is not None and operations.get("graph", 0) != options.graphs:
    print(f"not {options.graphs} graphs")
    wrong += 1

names = {record.get("arg_name") for record in manifest["tensors"]}
for name in filter(None, (options.names or "").split(",")):
    if not any(known and name in known for known in names):
        print(f"nothing is called {name}")
        wrong += 1


def content(record, at, size):
    # A large dump may have several payload files.
    file, offset = divmod(record["bin_offset"], 1 << 44)
    with open(folder + (f"/tensor_dump.{file}.bin" if file else "/tensor_dump.bin"), "rb") as payloads:
        payloads.seek(offset + at)
        return payloads.read(size)


def check(memory):
    """Checks every task that receives exactly this memory, in the order of submission: it finds the current state, and leaves that or the next one."""
    start, size, states = memory["address"], memory["bytes"], memory["states"]
    tasks = {}
    for record in manifest["tensors"]:
        if record["kind"] == "tensor" and int(record["address"], 16) == start and record["bin_size"] >= size:
            tasks.setdefault(int(record["task_id"], 16), {})[record["stage"]] = zlib.crc32(content(record, 0, size))
    at, found = -1, []
    for task in sorted(tasks):
        before, after = tasks[task].get("before_dispatch"), tasks[task].get("after_completion")
        if at < 0:
            # Tasks before the first state initialize the memory.
            at = 0 if after == states[0] else at
            continue
        if before is not None and before != states[at]:
            found.append(f"task {task:#x} finds another state than {at}")
        if after is not None and after != states[at]:
            if at + 1 < len(states) and after == states[at + 1]:
                at += 1
            else:
                found.append(f"task {task:#x} leaves neither state {at} nor the next")
    if at + 1 != len(states):
        found.append(f"{at + 1} of {len(states)} states were seen, by {len(tasks)} tasks")
    print(f"{memory['name']}: {len(states)} states, {len(tasks)} tasks, {len(found)} wrong")
    for line in found[:5]:
        print("  " + line)
    return len(found)


def check_extents(blocks, most):
    """Checks that launch arguments which start in one of these blocks end with it and have an exact extent, and that every block is an argument."""
    kernels = {int(task["task_id"], 16) for task in graph["tasks"] if task.get("operation", "kernel") == "kernel"}
    found, met = [], set()
    for record in manifest["tensors"]:
        if record["kind"] != "tensor" or int(record["task_id"], 16) not in kernels:
            continue
        address, size = int(record["address"], 16), record["bin_size"]
        for start, length in blocks:
            if start <= address < start + length:
                met.add(start)
                want = min(start + length - address, most)
                known = record.get("extent_known", True)
                if size != want or known != (want < most):
                    found.append(f"task {record['task_id']}: {size} bytes, known {known}, of a block's {want}")
    found.extend(f"no launch is given the block at {start:#x}" for start, _ in blocks if start not in met)
    print(f"extents: {len(blocks)} blocks, {len(found)} wrong")
    for line in found[:5]:
        print("  " + line)
    return len(found)


if options.extents:
    extents = json.load(open(options.extents))
    wrong += check_extents([tuple(block) for block in extents["blocks"]], extents["most"])
if options.expected:
    for memory in json.load(open(options.expected))["memory"]:
        wrong += check(memory)
sys.exit(1 if wrong else 0)
