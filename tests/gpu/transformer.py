"""A transformer stack (8 layers, hidden 1024, batch 4 x 512, bf16, a fresh input each step): the cost of a step, unrecorded, recorded, and with a hook.

    transformer.py steps N [hook FOLDER]     runs several rounds of N steps and prints the median milliseconds of a step; TRANSFORMER_ROUNDS: number of rounds;
                                             TRANSFORMER_REST: seconds to wait before the first round, while memory is pinned
    transformer.py table FOLDER              runs all variants with the tensortap in FOLDER and prints ratios
"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WARM_UP = 5
ROUNDS = 7
# Number of processes of each kind. The kinds take turns.
PROCESSES = 4


def stack():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, hidden=1024, heads=16):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, length, hidden = x.shape
            q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, hidden))
            return x + self.down(nn.functional.gelu(self.up(self.between(x))))

    torch.manual_seed(1)
    return nn.Sequential(*[Block() for _ in range(8)]).cuda().bfloat16()


def saving(folder):
    """Saves the inputs and outputs of every operator, each tensor to a file."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_flatten

    class Saving(TorchDispatchMode):
        count = 0

        def save(self, values):
            for value in tree_flatten(values)[0]:
                if isinstance(value, torch.Tensor):
                    Saving.count += 1
                    bytes_of = value.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy()
                    bytes_of.tofile(f"{folder}/{Saving.count}.bin")

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.save((args, kwargs))
            made = function(*args, **(kwargs or {}))
            self.save(made)
            return made

    return Saving()


def steps(count, folder=None):
    import contextlib

    import torch

    torch.zeros(1, device="cuda")
    time.sleep(float(os.environ.get("TRANSFORMER_REST", 0)))
    model = stack()

    def step():
        return model(torch.randn(4, 512, 1024, device="cuda", dtype=torch.bfloat16))

    with torch.no_grad():
        for _ in range(WARM_UP):
            made = step()
        torch.cuda.synchronize()
        # Copies in flight are not counted.
        time.sleep(2)
        took = []
        with saving(folder) if folder else contextlib.nullcontext():
            for _ in range(int(os.environ.get("TRANSFORMER_ROUNDS", 1))):
                torch.cuda.synchronize()
                began, used = time.perf_counter(), time.thread_time()
                for _ in range(count):
                    made = step()
                used = time.thread_time() - used
                submitted = time.perf_counter() - began
                torch.cuda.synchronize()
                took.append([time / count * 1e3 for time in (time.perf_counter() - began, submitted, used)])
    wall, submitted, used = (statistics.median(times) for times in zip(*took))
    # `cpu_ms` is the CPU time of the launching thread. If it equals `submit_ms`, the thread never waits.
    print(json.dumps({"wall_ms": wall, "submit_ms": round(submitted, 2), "cpu_ms": round(used, 2),
                      "rounds": [round(one[0], 2) for one in took], "finite": bool(torch.isfinite(made).all())}))


def run(command, **environment):
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    said = [line for line in done.stderr.splitlines() if line.startswith("tensortap")]
    for line in said[:6]:
        print("    " + line)
    if done.returncode:
        print(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def recorded(folder, out, options, count, rest=0, rounds=1):
    shutil.rmtree(out, ignore_errors=True)
    command = [folder + "/tensortap", "record", "--out", out, *options, "--", sys.executable, __file__, "steps", str(count)]
    began = time.perf_counter()
    took = run(command, TRANSFORMER_REST=str(rest), TRANSFORMER_ROUNDS=str(rounds))
    took["all_s"] = round(time.perf_counter() - began, 1)
    manifests = [json.load(open(name)) for name in glob.glob(out + "/*/tensor_dump.json")]
    manifest = max(manifests, key=lambda manifest: manifest["total_tensors"])
    launches = len(json.load(open(glob.glob(out + "/*/graph.json")[0]))["tasks"])
    took["stored"], took["dropped"], took["launches"] = manifest["stored_bytes"], manifest["dropped_records"], launches
    took["uncaptured"] = len(manifest["uncaptured"])
    shutil.rmtree(out, ignore_errors=True)
    return took


def table(folder, count=10, pinned_rate=55e9):
    shm = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    # Other load slows down rounds and whole processes. So all kinds take turns, several times.
    plain, levels = [], {"meta": [], "hash": []}
    for _ in range(PROCESSES):
        plain.append(run([sys.executable, __file__, "steps", str(count)], TRANSFORMER_ROUNDS=str(ROUNDS)))
        print("unrecorded      ", plain[-1])
        for level, runs in levels.items():
            runs.append(recorded(folder, shm + "/" + level, ["--dump-tensor=" + level], count, rounds=ROUNDS))
            print(f"record, {level}    ", runs[-1])
    each = lambda runs: [one for run in runs for one in run["rounds"]]
    for name, of in (("medians", statistics.median), ("fastest", min)):
        unrecorded, meta, hashed = (of(each(runs)) for runs in (plain, levels["meta"], levels["hash"]))
        print(f"{name} of {len(each(plain))} rounds in {PROCESSES} processes: unrecorded {unrecorded:.2f} ms, meta {meta / unrecorded:.2f} x,",
              f"hash {hashed:.2f} ms, {hashed / unrecorded:.2f} x", "held" if hashed <= 2 * unrecorded else "NOT HELD: 2 x")
    plain, hashed = {"wall_ms": statistics.median(each(plain))}, {"wall_ms": statistics.median(each(levels["hash"]))}
    # As much memory as these steps need, so that the table shows the rate of the device's copies, not of the file system.
    options, rest = ["--dump-arena=14GiB", "--dump-writers=8"], 12
    few = recorded(folder, shm + "/few", options, 2, rest)
    full = recorded(folder, shm + "/full", options, count, rest)
    new = (full["stored"] - few["stored"]) / (count - 2)
    most = 1.25 * max(hashed["wall_ms"], new / pinned_rate * 1e3)
    print("record, full    ", full, f"{full['wall_ms'] / plain['wall_ms']:.2f} x; {new / 1e6:.0f} MB new a step, {new / full['wall_ms'] / 1e6:.1f} GB/s;",
          "held" if full["wall_ms"] <= most else "NOT HELD:", f"{most:.2f} ms")
    sustained = recorded(folder, shm + "/sustained", ["--dump-arena=1GiB", "--dump-writers=8"], count, 2)
    print("record, full    ", sustained, f"{sustained['wall_ms'] / plain['wall_ms']:.2f} x with an arena of 1 GiB")
    os.mkdir(shm + "/hook")
    hook = run([sys.executable, __file__, "steps", "2", "hook", shm + "/hook"])
    print("hook, files     ", hook, f"{hook['wall_ms'] / plain['wall_ms']:.2f} x")
    shutil.rmtree(shm, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table(sys.argv[2])
    else:
        steps(int(sys.argv[2]), sys.argv[4] if len(sys.argv) > 4 else None)
