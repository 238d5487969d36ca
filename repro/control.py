#!/usr/bin/env python3
"""Every law of congestion control in every scenario, by `fairway sim`; and the parts of the
simulator's default, each replaced by another.

    laws     permutations, incasts, a ring that loses packets, an all-to-all, a slow and a dead
             link: time over that of the bytes alone, for every law; and one flow that has the link
             to itself and carries the bytes of the busiest host, the least that can be reached
    parts    the same for the default law with other path choices, loss detectors and chunks
    probes   a host's wire and an uplink that fail, with and without probes that find dead paths
    priorities
             short messages beside long ones: Homa with one to seven classes of data, NSCC, EQDS
    why      why the acknowledgement interval and split connections change the result, with traces

    python3 repro/control.py                        # six minutes of a core, into target/control
    python3 repro/control.py --only parts --seeds 1
    python3 repro/control.py --uec ~/uet-htsim/htsim/sim/build/datacenter/htsim_uec

--uec runs the Ultra Ethernet consortium's simulator on the same permutations and incasts, where its
tools have them, in the same run. Its packets carry 64 bytes of headers. Ours take 146 on the wire,
and 114 once the receiver knows where their message lies.

Writes a CSV for each table, and page.md.
"""

import argparse
import pathlib
import random
import re
import subprocess
import tempfile
import time

from control_priorities import priorities
from control_why import why
from figures import Figure, publish
from simulations import ROOT, Runs, arguments

# The largest window of laws that take one: one and a half bandwidth-delay products of three tiers.
BDP = 625_968
LAWS = {
    "nscc": f"nscc:max={BDP * 3 // 2}:initial={BDP * 3 // 2}",
    "swift": f"swift:target=22us:range=6us:ai=85K:min=8K:max={BDP * 3 // 2}:initial={BDP * 3 // 2}",
    "cubic": "cubic",
    "caqm": f"caqm:max={BDP * 3 // 2}:initial={BDP * 3 // 2}",
    "dcqcn": "dcqcn:line=400Gbps",
    "timely": "timely:max=400Gbps:initial=400Gbps:low=16us:high=30us:minrtt=12us",
    "hpcc": f"hpcc:max={BDP * 3 // 2}:initial={BDP * 3 // 2}",
    "eqds": "eqds:line=400Gbps:window=640K:ahead=640K",
    "homa": "homa:window=640K",
    "backpressure": "backpressure:line=400Gbps",
    "fixed": f"fixed:{BDP * 3 // 2}",
}
DEFAULT = "path=reps:late=avoid,loss=rack"
PARTS = {
    "default": ({}, DEFAULT),
    "path=bitmap": ({}, "path=bitmap,loss=rack"),
    "path=reps:explore=random:late=avoid": ({}, "path=reps:explore=random:late=avoid,loss=rack"),
    "path=reps:late=ignore": ({}, "path=reps:late=ignore,loss=rack"),
    "path=p2c": ({}, "path=p2c,loss=rack"),
    "path=p2c:memory=on": ({}, "path=p2c:memory=on,loss=rack"),
    "path=mp-rdma:initial=1:pick=p2c": ({}, "path=mp-rdma:initial=1:pick=p2c,loss=rack"),
    "path=spray": ({}, "path=spray,loss=rack"),
    "path=plb": ({}, "path=plb,loss=rack"),
    "path=least-rtt": ({}, "path=least-rtt,loss=rack"),
    "path=flowlet": ({}, "path=flowlet,loss=rack"),
    "loss=path-order": ({}, "path=reps:late=avoid,loss=path-order"),
    "loss=sack": ({}, "path=reps:late=avoid,loss=sack"),
    "loss=receiver": ({}, "path=reps:late=avoid,loss=receiver"),
    "chunk 32K": ({"chunk": "32K"}, DEFAULT),
    "acknowledge-marks on": ({"acknowledge-marks": "on"}, DEFAULT),
    "acknowledge-every chunk": ({"acknowledge-every": "chunk"}, DEFAULT),
}
NODES, MEGABYTE = 128, 1000 * 1000
PERMUTATION = {"nodes": NODES, "bytes": 16 * MEGABYTE}
SHORT = {"nodes": NODES, "bytes": 4 * MEGABYTE}
RING = {"nodes": 16, "bytes": 16 * MEGABYTE, "collectives": "flows"}
UPLINK = "160-192"
# Scenarios in which one link has all the bytes of a host in one phase.
ONE_PHASE = ["permutation", "incast 32:1", "100:1", "all-to-all of 32", "short permutation"]


def incast(senders, overflow):
    return "incast", {"nodes": NODES, "senders": senders, "bytes": MEGABYTE, "overflow": overflow}


# Name, the time of the bytes alone in us, and the run.
SCENARIOS = [
    ("permutation", 320, ("permutation", PERMUTATION)),
    ("incast 32:1", 640, incast(32, "drop")),
    ("32:1, trimming", 640, incast(32, "trim")),
    ("100:1", 2000, incast(100, "drop")),
    ("100:1, trimming", 2000, incast(100, "trim")),
    ("ring", 600, ("ring-allreduce", RING)),
    ("ring, 0.1 %", 600, ("ring-allreduce", {**RING, "loss": "0.001"})),
    ("ring, 1 %", 600, ("ring-allreduce", {**RING, "loss": "0.01"})),
    ("all-to-all of 32", 155, ("all-to-all", {"nodes": 32, "bytes": 250_000})),
    ("short permutation", 80, ("permutation", SHORT)),
    ("an uplink slow", 80, ("permutation", {**SHORT, "degrade": f"{UPLINK}@0us:100G"})),
    ("an uplink gone", 80, ("permutation", {**SHORT, "fail": f"{UPLINK}@20us"})),
]


def with_policy(line, policy, more):
    workload, settings = line
    return workload, {**settings, **more, "policy": policy, "end": "1s"}


def table(runs, rows, name, title, note):
    """A row per name and policy, a column per scenario."""
    lines = {(label, scenario): with_policy(line, policy, more)
             for label, policy, more in rows for scenario, _, line in SCENARIOS}
    runs.make(lines.values())
    body = []
    for label, *_ in rows:
        row = [label]
        for scenario, ideal_us, _ in SCENARIOS:
            row.append(runs.spread(lines[label, scenario], scale=1 / ideal_us, digits=2))
        body.append(row)
    return Figure(name, title, ["", *(scenario for scenario, *_ in SCENARIOS)], body, note)


def laws(runs, options):
    rows = [(name, f"cc={law},{DEFAULT}", {}) for name, law in LAWS.items()]
    rows.append(("hpcc, use over 2 round trips", f"cc={LAWS['hpcc']},{DEFAULT}", {"hint": "use:25us"}))
    small = f"cc=caqm:max={BDP * 3 // 2},{DEFAULT}"
    rows.append(("caqm, from 32 packets", small, {}))
    rows.append(("caqm, marks, from 32 packets", small, {"hint": "off"}))
    found = table(runs, rows, "Laws", f"time over that of the bytes alone, {options.seeds} seeds",
                  "no source has this table.")
    found.rows.append(alone(runs))
    if options.uec:
        found.rows.append(uec(options))
    return found


def parts(runs, options):
    rows = [(name, f"cc={LAWS['nscc']},{policy}", more) for name, (more, policy) in PARTS.items()]
    return table(runs, rows, "Parts", "NSCC with other path choices, loss detectors and chunks; "
                 f"time over that of the bytes alone, {options.seeds} seeds",
                 "no source has this table.")


def alone(runs):
    """One flow, without others, that carries the bytes of the busiest host: headers and a round
    trip are in it, and no waiting."""
    policy = f"cc={LAWS['nscc']},{DEFAULT}"
    lines = {name: ("incast", {"nodes": NODES, "senders": 1, "bytes": 50_000 * ideal_us,
                               "policy": policy, "end": "1s"})
             for name, ideal_us, _ in SCENARIOS if name in ONE_PHASE}
    runs.make(lines.values())
    return ["one flow alone", *(runs.spread(lines[name], scale=1 / ideal_us, digits=2)
                                if name in lines else "" for name, ideal_us, _ in SCENARIOS)]


def uec(options):
    """The same permutations and incasts by the consortium's simulator, its sender's control."""
    values = {
        "permutation": (320, [matrix(NODES, 16 * MEGABYTE, seed) for seed in seeds(options)], ()),
        "short permutation": (80, [matrix(NODES, 4 * MEGABYTE, seed) for seed in seeds(options)], ()),
    }
    for senders in (32, 100):
        flows = [(sender, 0) for sender in range(1, senders + 1)]
        made = connections(NODES, flows, MEGABYTE)
        name = f"incast {senders}:1" if senders == 32 else f"{senders}:1"
        values[name] = (20 * senders, [made], ("-disable_trim",))
        values[f"{senders}:1, trimming"] = (20 * senders, [made], ())
    row = ["htsim_uec, sender"]
    for scenario, *_ in SCENARIOS:
        if scenario not in values:
            row.append("")
            continue
        ideal_us, matrices, more = values[scenario]
        found = sorted(completion_us(options.uec, text, more) / ideal_us for text in matrices)
        middle = found[len(found) // 2]
        span = f" ({found[0]:.2f} to {found[-1]:.2f})" if found[0] != found[-1] else ""
        row.append(f"{middle:.2f}{span}")
    return row


def seeds(options):
    return range(1, options.seeds + 1)


def matrix(nodes, size, seed):
    """A permutation without fixed points, as `fairway sim` has."""
    draw = random.Random(seed)
    while True:
        to = list(range(nodes))
        draw.shuffle(to)
        if all(at != other for at, other in enumerate(to)):
            return connections(nodes, list(enumerate(to)), size)


def connections(nodes, flows, size):
    lines = [f"Nodes {nodes}", f"Connections {len(flows)}"]
    lines += [f"{source}->{target} id {number} start 0 size {size}"
              for number, (source, target) in enumerate(flows, 1)]
    return "\n".join(lines) + "\n"


def completion_us(program, text, more):
    """When the last flow of a connection matrix has ended."""
    # It leaves files in the folder where it runs.
    with tempfile.TemporaryDirectory() as folder:
        flows = pathlib.Path(folder, "flows.cm")
        flows.write_text(text)
        command = [program.resolve(), "-tm", flows, "-nodes", NODES, "-tiers", 3, "-linkspeed",
                   400_000, "-mtu", 4160, "-paths", 256, "-end", 10_000, "-sender_cc_only", *more]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=folder)
    ended = [float(at) for at in re.findall(r"finished at ([0-9.]+)", done.stdout)]
    if done.returncode or not ended:
        raise SystemExit(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout)[-500:]}")
    return max(ended)


def probes(runs, options):
    """Paths that fail, with and without probes that take them out of use."""
    wire = ("permutation", {"topology": "dual-plane", "nodes": 16, "bytes": 8_000_000,
                            "fail": "0-16@30us"})
    uplink = next(line for name, _, line in SCENARIOS if name == "an uplink gone")
    law = f"cc={LAWS['nscc']},loss=rack"
    lines = {(path, probe, at): with_policy(line, f"{law},path={path},probe={probe}", {})
             for path in ("spray", "p2c", "reps:late=avoid")
             for probe in ("off", "anomaly:8", "periodic:100us")
             for at, line in enumerate((wire, uplink))}
    runs.make(lines.values())
    body = [[path, probe, *(runs.spread(lines[path, probe, at]) for at in range(2))]
            for path, probe in dict.fromkeys((path, probe) for path, probe, _ in lines)]
    return Figure("Probes", "a wire of one host fails (dual plane, 16 hosts, 8 MB each), and an "
                  f"uplink (128 hosts, 4 MB each); us, {options.seeds} seeds",
                  ["path", "probe", "a wire gone", "an uplink gone"], body,
                  "no source has this table.")


EXPERIMENTS = {"laws": laws, "parts": parts, "probes": probes, "priorities": priorities,
               "why": why}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, EXPERIMENTS, full=False)
    parser.add_argument("--uec", type=pathlib.Path, help="the path of htsim_uec, to run it as well")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/control")
    options = parser.parse_args()
    began, runs = time.monotonic(), Runs(options)
    figures = []
    for name in options.only or EXPERIMENTS:
        made = EXPERIMENTS[name](runs, options)
        figures += made if isinstance(made, list) else [made]
    publish(figures, options.out, "Laws and scenarios", time.monotonic() - began,
            options.json)
    runs.keep()


if __name__ == "__main__":
    main()
