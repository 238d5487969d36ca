#!/usr/bin/env python3
"""Experiments of the UCCL paper, run again by `fairway sim`.

    table4   appendix C.4.1: a permutation; chunks of 4, 16 and 32 KiB, choice of path, connections
             that are split
    incast   section 6.3.1 (Fig. 9): 15 to 1 beside a permutation; with and without pauses
    loss     section 6.3.2 (Fig. 10): packets lost at random
    ranks    section 6.1 (Fig. 5, 6, 18): collectives of 16 to 512 ranks, one path and many
    sizes    the same of 16 ranks, by length
    paths    appendix C.3.3 (Fig. 19): number of paths
    live     collectives by the state machine of live ranks, beside the flows of all the others
    training section 6.2 (Fig. 8a): a step of data-parallel training
    experts  section 6.2 (Fig. 8b): layers of a mixture of experts

    python3 repro/uccl.py                     # half an hour of a busy core, into target/uccl
    python3 repro/uccl.py --quick             # fewer and smaller runs
    python3 repro/uccl.py --only table4 --full    # 1,024 NICs, 64 MB each, as published: some 15
                                              # minutes of a core for each seed

RoCE is the queue pairs that run live beneath verbs. Receiver-driven is cc=eqds with a window of one
bandwidth-delay product, on switches that trim; sender-driven is the simulator's default (cc=nscc).
The paper's ECN column sprays and avoids marked paths, as path=reps:late=avoid does; RTT is
path=p2c:memory=on. repro/README.md lists all figures.

Writes a CSV for each figure, page.md, and PNGs if matplotlib is there (repro/requirements.txt).
"""

import argparse
import pathlib
import sys
import time

from figures import Figure, publish
from simulations import ROOT, Runs, arguments
from uccl_collectives import bars, experts, live, paths, ranks, sizes, training

# Completion in ms, sender-driven and receiver-driven, of 64 MB: ideal is 1.28. The paper varies
# the size of a chunk by the simulator's MTU: a chunk is one large packet. The rows without
# published figures have chunks of several packets of 4 KB, as UCCL itself and live NICs do.
TABLE4 = [
    ("4 KB + ECN", {"mtu": "4K", "path": "reps:late=avoid"}, 1.45, 1.43),
    ("32 KB + ECN", {"mtu": "32K", "path": "reps:late=avoid"}, 1.62, 1.47),
    ("32 KB + RTT", {"mtu": "32K", "path": "p2c:memory=on"}, 1.71, 1.47),
    ("32 KB + RTT + ConnSplit", {"mtu": "32K", "path": "p2c:memory=on", "split": 4}, 1.70, 1.47),
    ("16 KB + RTT + ConnSplit", {"mtu": "16K", "path": "p2c:memory=on", "split": 4}, 1.51, 1.42),
    ("32 KB + RTT, without memory", {"mtu": "32K", "path": "p2c"}, None, None),
    ("8 packets of 4 KB + ECN", {"mtu": "4K", "chunk": "32K", "path": "reps:late=avoid"}, None, None),
    ("4 packets of 4 KB + ECN", {"mtu": "4K", "chunk": "16K", "path": "reps:late=avoid"}, None, None),
]
# The same by UEC's htsim of August 2025, where it has the row.
HTSIM = {"4 KB + ECN": (1.38, 1.40), "32 KB + ECN": (1.39, 1.43),
         "16 KB + RTT + ConnSplit": (1.35, 1.41)}
MEGABYTES = 1000 * 1000
# Receiver credits on links of 400 Gb/s; the window is the bandwidth-delay product of three tiers.
EQDS = "cc=eqds:line=400Gbps:window=640K:ahead=640K,path=reps:late=avoid,loss=rack"


def receiver_credits(row):
    """Receiver credits for packets of another size; channels of a pair of hosts share the windows.
    Large packets have at most one and a half bandwidth-delay products in flight: more than that
    only waits in queues where paths are uneven."""
    split, mtu = row.get("split", 1), int(row["mtu"].removesuffix("K")) * 1024
    round_trip_us = 6 * (2 + (mtu + 232) * 8 / 400e3)
    window = 640 * 1024 // split
    most = f":max={int(round_trip_us * 50e3 * 3 / 2) // split}" if mtu > 4096 else ""
    return (f"cc=eqds:line=400Gbps:window={window}:ahead={window}{most},path={row['path']},"
            "loss=rack")


def published(milliseconds):
    return f"{milliseconds / 1.28:.3f}" if milliseconds else ""


def table4(runs, options):
    """A permutation, each NIC sending so many bytes; how much longer than the link alone takes."""
    nodes, megabytes = (1024, 64) if options.full else (64, 4) if options.quick else (128, 64)
    base = {"nodes": nodes, "bytes": megabytes * MEGABYTES, "paths": 256, "link": "400G"}
    ideal_us = megabytes * MEGABYTES * 8 / 400e3

    def scenario(row, kind):
        settings = {**base, **row, "overflow": "drop" if kind == "drop" else "trim"}
        if kind == "eqds":
            settings["policy"] = receiver_credits(row)
            del settings["path"]
        if "split" in row:
            # A message goes by one channel: so it is cut, as UCCL gives chunks to its engines.
            settings["pieces"] = megabytes * 4
        return "permutation", settings

    runs.make(scenario(row, kind) for _, row, *_ in TABLE4 for kind in ("drop", "trim", "eqds"))
    rows, drawn = [], {"NSCC, drops": [], "NSCC, trimming": [], "EQDS, trimming": []}
    for name, row, sender, receiver in TABLE4:
        drop, trim, eqds = (scenario(row, kind) for kind in ("drop", "trim", "eqds"))
        for line, values in zip((drop, trim, eqds), drawn.values()):
            values.append(runs.median(line) / ideal_us)
        rows.append([
            name,
            f"{runs.spread(drop, scale=1 / ideal_us, digits=3)}", published(sender),
            f"{runs.spread(trim, scale=1 / ideal_us, digits=3)}",
            f"{runs.spread(eqds, scale=1 / ideal_us, digits=3)}", published(receiver),
            " / ".join(f"{value / 1.28:.3f}" for value in HTSIM.get(name, ())),
            int(runs.median(drop, "drops")), int(runs.median(trim, "trims")),
            int(runs.median(eqds, "trims")),
        ])
    drawn["paper, sender"] = [(sender or 0) / 1.28 for _, _, sender, _ in TABLE4]
    drawn["paper, receiver"] = [(receiver or 0) / 1.28 for *_, receiver in TABLE4]

    def draw(axes):
        bars(axes, [name for name, *_ in TABLE4], drawn)
        axes.set_ylim(bottom=1)
        axes.set_ylabel("time over the ideal")

    return Figure(
        "Table 4", f"permutation of {nodes} NICs, {megabytes} MB each, {options.seeds} seeds; time "
        f"over the ideal {ideal_us / 1000:.2f} ms",
        ["", "NSCC, drop", "paper, sender", "NSCC, trim", "EQDS, trim", "paper, receiver",
         "UEC htsim, s / r", "drops", "trims, NSCC", "trims, EQDS"], rows,
        "in the columns, over 1.28 ms; 1,024 NICs of 64 MB.", draw=draw)


def incast(runs, options):
    """Four messages of 1 MB in flight from each of 15 to host 0, and from each of 16 to another,
    one of which is host 0, too."""
    base = {"nodes": 16, "senders": 15, "bytes": MEGABYTES, "messages": 4}
    kinds = {
        "NSCC, 256 paths, drops": {},
        "NSCC, 256 paths, trimming": {"overflow": "trim"},
        "EQDS, 256 paths, trimming": {"overflow": "trim", "policy": EQDS},
        "the same, first window halved": {"overflow": "trim",
                                          "policy": EQDS.replace("window=640K", "window=320K")},
        "RoCE, DCQCN, pauses": {"stack": "roce", "pfc": "200K:160K"},
        "RoCE, no rates, pauses": {"stack": "roce", "policy": "cc=fixed:1G", "pfc": "200K:160K"},
        "DCQCN, one path, pauses": {"policy": "cc=dcqcn:line=400Gbps", "paths": 1,
                                    "pfc": "200K:160K"},
        "DCQCN, 256 paths, drops": {"policy": "cc=dcqcn:line=400Gbps,path=spray"},
    }
    lines = {name: ("incast-permutation", {**base, **kind}) for name, kind in kinds.items()}
    runs.make(lines.values())
    rows = []
    for name, line in lines.items():
        groups = ("fct_busiest_us", "fct_others_us")
        rows.append([name, *(runs.spread(line, f"{group}.{figure}", digits=0)
                             for group in groups for figure in ("p50", "p99", "p999")),
                     int(runs.median(line, "pauses")), int(runs.median(line, "drops"))])
    drawn = {f"{group}, {figure}": [runs.median(line, f"{key}.{figure}") for line in lines.values()]
             for group, key in (("incast", "fct_busiest_us"), ("permutation", "fct_others_us"))
             for figure in ("p50", "p99")}

    def draw(axes):
        bars(axes, list(lines), drawn)
        axes.set_yscale("log")
        axes.set_ylabel("us")

    return Figure(
        "Figure 9", f"incast beside a permutation, {options.seeds} seeds; completion of flows in us",
        ["", "incast p50", "p99", "p99.9", "permutation p50", "p99", "p99.9", "pauses", "drops"], rows,
        "against InfiniBand's pauses, EQDS takes 4.50 times less at p99 and 4.88 at p99.9 of the "
        "permutation, 1.73 and 1.72 of the incast. UEC's htsim: victims' p50 109 us receiver-driven, "
        "117 us sender-driven, 1,131 us with pauses.", draw=draw)


def loss(runs, options):
    """Ring all-reduces and an all-to-all of 16 NICs while packets are lost, by Fairway and RoCE."""
    chances = ["0", "0.001"] if options.quick else ["0", "0.00001", "0.0001", "0.001", "0.01"]
    megabytes = 64 if options.full else 16
    ring = {"nodes": 16, "bytes": megabytes * MEGABYTES}
    kinds = {
        "all-reduce": ("ring-allreduce", {**ring, "slot": "256K", "collectives": "flows"}),
        "all-reduce, whole pieces": ("ring-allreduce", {**ring, "collectives": "flows"}),
        "all-to-all": ("all-to-all", {"nodes": 16, "bytes": megabytes * MEGABYTES // 16}),
    }
    # RoCE as it is deployed: with DCQCN, and go-back-N where pauses keep what queues would lose.
    stacks = {"Fairway": {}, "Fairway, one path": {"paths": 1},
              "RoCE, go-back-N": {"stack": "roce", "pfc": "200K:160K"},
              "RoCE, IRN": {"stack": "roce-irn"}}
    lines = {(stack, name, chance): (workload, {**settings, **more, "loss": chance})
             for name, (workload, settings) in kinds.items() for chance in chances
             for stack, more in stacks.items()}
    runs.make(lines.values())
    rows = []
    for stack, chance in ((stack, chance) for stack in stacks for chance in chances):
        row = [stack, chance]
        for name in kinds:
            line, clean = lines[stack, name, chance], lines[stack, name, "0"]
            kept = runs.median(clean) / runs.median(line)
            row += [runs.spread(line, digits=0), f"{kept:.0%}", int(runs.median(line, "resent")),
                    int(runs.median(line, "timeouts"))]
        rows.append(row)

    def draw(axes):
        for at, name in enumerate(kinds):
            for color, stack in enumerate(stacks):
                axes.plot(chances, [runs.median(lines[stack, name, chance]) for chance in chances],
                          ["o-", "^--", "s:"][at], color=f"C{color}", label=f"{stack}, {name}")
        axes.set_yscale("log")
        axes.set_xlabel("loss")
        axes.set_ylabel("us")

    heads = [head for name in kinds
             for head in (f"{name}, us", "of clean speed", "resent", "time-outs")]
    return Figure(
        "Figure 10", f"packets lost at random, {megabytes} MB, {options.seeds} seeds; messages of "
        "at most 256 KiB, or whole pieces of the ring", ["", "loss", *heads], rows,
        "for UCCL 77-97 % (all-reduce) and 59-78 % (all-to-all) of the clean speed at 0.0001; 58 % "
        "and 72 % at 0.01 for 1 GB. RDMA NICs: about 23 % at 1/16384.", draw=draw)


EXPERIMENTS = {"table4": table4, "incast": incast, "loss": loss, "ranks": ranks, "sizes": sizes,
               "paths": paths, "live": live, "training": training, "experts": experts}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, EXPERIMENTS)
    parser.add_argument("--quick", action="store_true", help="fewer ranks, sizes and models")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/uccl")
    options = parser.parse_args()
    began, runs = time.monotonic(), Runs(options)
    figures = []
    for name in options.only or EXPERIMENTS:
        figures.append(EXPERIMENTS[name](runs, options))
        print(f"{name}: done after {time.monotonic() - began:.0f} s", file=sys.stderr)
    publish(figures, options.out, "UCCL's simulations, run again", time.monotonic() - began,
            options.json)
    runs.keep()


if __name__ == "__main__":
    main()
