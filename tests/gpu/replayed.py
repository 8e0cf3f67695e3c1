"""Checks the document that `tensortap replay --json` prints."""
import argparse
import json
import sys

parser = argparse.ArgumentParser()
parser.add_argument("document")
parser.add_argument("--launches", type=int, default=1, help="minimum number of launches with bit-exact outputs")
parser.add_argument("--moved", action="store_true", help="require that the memory of every launch was moved")
parser.add_argument("--there", action="store_true", help="require that the memory of every launch has its captured address")
parser.add_argument("--kernels", help="check only these kernels, separated by commas")
parser.add_argument("--refused", help="require that every launch is refused for this reason")
parser.add_argument("--failed", help="require that every launch fails for this reason")
options = parser.parse_args()

document = json.load(open(options.document))
if "results" not in document:
    sys.exit(f"nothing was replayed: {document}")
kernels = options.kernels.split(",") if options.kernels else None
tasks = [task for task in document["results"] if not kernels or any(k in name for k in kernels for name in task["kernels"])]
why = options.refused or options.failed
wanted = "refused" if options.refused else "failed" if options.failed else "bitexact"
wrong = [task for task in tasks if task["outcome"] != wanted or why and why not in task["reason"]]
if options.moved or options.there:
    place = "relocated" if options.moved else "captured"
    wrong += [task for task in tasks if task["placement"] != place]
places = {place: sum(task["placement"] == place for task in tasks) for place in ("captured", "relocated")}
print(f"{len(tasks)} launches, {len(wrong)} wrong, memory {places}")
for task in wrong[:5]:
    print(f"  {task['task_id']} {task['kernels']}: {task['outcome']}, {task['reason']}, {task['placement']}")
sys.exit(1 if wrong or len(tasks) < options.launches else 0)
