#!/usr/bin/env python3
"""C-AQM in a network (OpenURMA, Figure 45): two senders share a receiver's link of 100 Gb/s, and the
second one begins after 1 ms. C-AQM by hints of the switches, with several thresholds, and by marks,
beside other laws.

    python3 repro/caqm.py                       # half a minute of a core, into target/caqm
    python3 repro/caqm.py --seeds 1 --json

Writes the table and the trajectories of rates and windows as CSV, and page.md.
"""

import statistics

from figures import Figure
from simulations import program, spread

JOINED_US, FAIR_GBPS = 1000, 96.5 / 2
NETWORK = {"topology": "leaf-spine", "nodes": 8, "hosts-per-leaf": 8, "link": "100G",
           "latency": "500ns", "paths": 4, "measure": "2ms", "end": "5ms", "queue": "128K",
           "series-every": "10us",
           "stream": ("0-2 size=64K depth=8", "1-2 size=64K depth=8 start=1ms")}
HINTS = {"ecn": "off"}
CASES = [
    ("C-AQM, hints at 10, 20, 40 % of the queue", "caqm", {**HINTS, "hint": "caqm:13K:26K:52K"}),
    ("C-AQM, hints at 20, 40, 80 %", "caqm", {**HINTS, "hint": "caqm:26K:52K:104K"}),
    ("C-AQM, hints at 40, 60, 90 %", "caqm", {**HINTS, "hint": "caqm:52K:78K:117K"}),
    ("C-AQM, marks", "caqm", {"hint": "off"}),
    ("HPCC", "hpcc:max=256K:initial=256K", {"ecn": "off"}),
    ("DCQCN", "dcqcn:line=100Gbps", {}),
    ("NSCC", "nscc:max=256K:initial=256K", {}),
    ("Swift", "swift", {}),
]


def line(law, more):
    return "streams", {**NETWORK, **more, "policy": f"cc={law},path=reps,loss=rack"}


def converged_us(result):
    """Time from the second sender's start until its rate, over 100 us, is 0.9 of its share for the
    first time; None if it never is."""
    rates = [(float(row["now_us"]), float(row["rate_gbps"])) for row in result["series"]
             if row["stream"] == "1" and float(row["now_us"]) > JOINED_US]
    for at in range(10, len(rates) + 1):
        if statistics.mean(rate for _, rate in rates[at - 10:at]) >= 0.9 * FAIR_GBPS:
            return rates[at - 1][0] - JOINED_US
    return None


def joins(runs, options):
    lines = {name: line(law, more) for name, law, more in CASES}
    runs.make(lines.values())
    body, traces = [], []
    for name, one in lines.items():
        results = runs.results(one)
        times = [found for found in map(converged_us, results) if found is not None]
        late = spread(times, 0) if len(times) == len(results) else "never"
        body.append([name, runs.spread(one, "streams.utilisation", scale=100, digits=1),
                     runs.spread(one, "streams.jain", digits=3), late,
                     runs.spread(one, "queue_bytes_max", scale=1 / 1024, digits=0),
                     runs.spread(one, "drops", digits=0)])
        traces += [[name, result["seed"], row["now_us"], row["stream"], row["rate_gbps"],
                    row["window_bytes"]] for result in results for row in result["series"]]
    heads = ["case", "seed", "now_us", "stream", "rate_gbps", "window_bytes"]
    return Figure("Figure 45", f"a sender joins another, 100 Gb/s; {options.seeds} seeds",
                  ["", "use of the link, %", "Jain's index", "joined after, us",
                   "longest queue, KiB", "drops"], body,
                  "C-AQM 96 % and DCQCN 62.5 % of a link, by a formula without a network",
                  more=[("trajectories.csv", heads, traces)])


EXPERIMENTS = {"joins": joins}

if __name__ == "__main__":
    program(__doc__, EXPERIMENTS, "caqm", "C-AQM in a network")
