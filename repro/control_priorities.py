"""Short messages beside long ones, with one to seven classes of data: an experiment of control.py."""

import concurrent.futures
import csv
import pathlib
import subprocess
import tempfile

from figures import Figure
from simulations import spread

HOSTS_PER_LEAF = 8
NETWORK = {"topology": "leaf-spine", "nodes": 64, "hosts-per-leaf": HOSTS_PER_LEAF,
           "load": 80, "flows": 4000}
PICOSECONDS_PER_BYTE = 20
LINK_PS = 1_000_000
MTU, HEADERS = 4096, 146
PARTS = "path=reps,loss=rack"
# Name, law, and the classes that switches serve, that of control packets included.
ROWS = [
    ("NSCC", None, 8),
    ("EQDS", "eqds:line=400Gbps:window=256K", 8),
    *((f"Homa, {classes - 1} class{'es' if classes > 2 else ''} of data", "homa", classes)
      for classes in (2, 3, 5, 8)),
]
SIZES = [("below 4 KiB", 0, 4096), ("to 64 KiB", 4096, 1 << 16), ("to 1 MiB", 1 << 16, 1 << 20),
         ("longer", 1 << 20, 1 << 40)]


def alone_ps(source, destination, size):
    """The time of a message in an idle network: store and forward over two or four links."""
    links = 2 if source // HOSTS_PER_LEAF == destination // HOSTS_PER_LEAF else 4
    packets = -(-size // MTU)
    wire = size + packets * HEADERS
    again = min(size, MTU) + HEADERS
    return links * LINK_PS + (wire + (links - 1) * again) * PICOSECONDS_PER_BYTE


def slowdowns(tool, workload, law, classes, seed):
    """By class of sizes, the slowdowns of one run, in ascending order."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "flows.csv")
        settings = {**NETWORK, "classes": classes, "seed": seed}
        settings.update({"policy": f"cc={law},{PARTS}"} if law else {})
        words = (f"--{name}={value}" for name, value in settings.items())
        subprocess.run([tool, "sim", workload, *words, f"--csv={path}"], check=True,
                       stdout=subprocess.DEVNULL)
        with path.open() as file:
            flows = [{name: int(value or 0) for name, value in row.items()}
                     for row in csv.DictReader(file)]
    found = [[] for _ in SIZES]
    for flow in flows:
        took = flow["delivered_ps"] - flow["started_ps"]
        alone = alone_ps(flow["source"], flow["destination"], flow["bytes"])
        for number, (_, low, high) in enumerate(SIZES):
            if low <= flow["bytes"] < high:
                found[number].append(took / alone)
    return [sorted(values) for values in found]


def table(workload, options):
    """Slowdowns of every row: the median and the p99 of each class of sizes."""
    seeds = range(1, options.seeds + 1)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {(name, seed): pool.submit(slowdowns, options.fairway, workload, law, classes, seed)
                for name, law, classes in ROWS for seed in seeds}
        done = {key: run.result() for key, run in runs.items()}
    body = []
    for name, _, _ in ROWS:
        cells = []
        for number in range(len(SIZES)):
            each = [done[name, seed][number] for seed in seeds]
            cells.append(spread([values[len(values) // 2] for values in each]))
            cells.append(spread([values[len(values) * 99 // 100] for values in each]))
        body.append([name, *cells])
    heads = [f"{size}, {what}" for size, _, _ in SIZES for what in ("median", "p99")]
    return Figure(f"Priorities, {workload}", f"slowdown by the size of the message: time over that "
                  f"in an idle network; 64 hosts, load {NETWORK['load']} %, {NETWORK['flows']} "
                  f"messages, {options.seeds} seeds", ["", *heads], body,
                  "Homa's figures 8 to 10 have other networks and sizes.")


def priorities(_runs, options):
    """The tables of both distributions of sizes."""
    return [table(workload, options) for workload in ("hadoop", "websearch")]
