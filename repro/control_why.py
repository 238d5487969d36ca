"""Why the acknowledgement interval and split connections change what a sender-driven law gives:
an experiment of control.py, each row of which changes one thing, and the traces of four rows."""

import collections
import csv
import json
import pathlib
import statistics
import subprocess
import tempfile

from figures import Figure

# One and a half bandwidth-delay products of three tiers, the default's largest window.
WINDOW = 938_952
QUEUE = 625_968
# Four times as long, with the marks of the default's queues: they never overflow here.
DEEP = {"queue": 4 * QUEUE, "ecn": f"red:{QUEUE // 5}:{QUEUE // 5 * 4}"}
TRIM = {"overflow": "trim"}
MEGABYTE = 1000 * 1000
SHORT = {"nodes": 128, "bytes": 4 * MEGABYTE, "chunk": "32K"}
LONG = {"nodes": 128, "bytes": 16 * MEGABYTE, "chunk": "32K"}
PACKETS = {"nodes": 128, "bytes": 16 * MEGABYTE}
SPLIT = {"split": 4, "pieces": 64}
P2C = "path=p2c,loss=rack"
# The simulator's law, and detector, when the question came up.
SWIFT = f"cc=swift:target=22us:range=6us:ai=16K:min=8K:max={WINDOW}:initial={WINDOW}"


def every(packets):
    return {"acknowledge-every": packets}


def nscc(window=WINDOW):
    return f"cc=nscc:max={window}:initial={window}"


def fixed(percent=100, split=1):
    return f"cc=fixed:{WINDOW * percent // 100 // split}"


# Name, settings, policy.
ROWS = [
    ("Swift of then, every 16", {**SHORT, **every(16)}, f"{SWIFT},path=p2c,loss=path-order"),
    ("Swift of then, every 64", {**SHORT, **every(64)}, f"{SWIFT},path=p2c,loss=path-order"),
    ("Swift of then, every 16, trimming", {**SHORT, **every(16), **TRIM},
     f"{SWIFT},path=p2c,loss=path-order"),
    ("NSCC, every 16", {**SHORT, **every(16)}, f"{nscc()},{P2C}"),
    ("NSCC, every 64", {**SHORT, **every(64)}, f"{nscc()},{P2C}"),
    ("fixed window, every 16", {**SHORT, **every(16)}, f"{fixed()},{P2C}"),
    ("fixed window, every 64", {**SHORT, **every(64)}, f"{fixed()},{P2C}"),
    ("fixed, 10 % less, every 16", {**SHORT, **every(16)}, f"{fixed(90)},{P2C}"),
    ("fixed, 10 % more, every 64", {**SHORT, **every(64)}, f"{fixed(110)},{P2C}"),
    ("fixed, every 16, trimming", {**SHORT, **every(16), **TRIM}, f"{fixed()},{P2C}"),
    ("fixed, every 64, trimming", {**SHORT, **every(64), **TRIM}, f"{fixed()},{P2C}"),
    ("fixed, every 16, deep queues", {**SHORT, **every(16), **DEEP}, f"{fixed()},{P2C}"),
    ("fixed, every 64, deep queues", {**SHORT, **every(64), **DEEP}, f"{fixed()},{P2C}"),
    *((f"default, every {packets}", {**PACKETS, **every(packets)},
       f"{nscc()},path=reps,loss=rack") for packets in (1, 4, 16, 64)),
    ("fixed, 20 % less, every 16", {**PACKETS, **every(16)}, f"{fixed(80)},path=reps,loss=rack"),
    ("fixed, 20 % more, every 64", {**PACKETS, **every(64)}, f"{fixed(120)},path=reps,loss=rack"),
    ("NSCC, one channel", LONG, f"{nscc()},{P2C}"),
    ("NSCC, four", {**LONG, **SPLIT}, f"{nscc(WINDOW // 4)},{P2C}"),
    ("NSCC, four, deep queues", {**LONG, **SPLIT, **DEEP}, f"{nscc(WINDOW // 4)},{P2C}"),
    ("fixed, one", LONG, f"{fixed()},{P2C}"),
    ("fixed, four", {**LONG, **SPLIT}, f"{fixed(100, 4)},{P2C}"),
    ("fixed, four, deep queues", {**LONG, **SPLIT, **DEEP}, f"{fixed(100, 4)},{P2C}"),
    ("default, four", {**PACKETS, **SPLIT}, f"{nscc(WINDOW // 4)},path=reps,loss=rack"),
]
TRACED = ["NSCC, every 16", "NSCC, every 64", "NSCC, one channel", "NSCC, four"]


def why(runs, options):
    """A row for each run, and a column for each traced one."""
    lines = {name: ("permutation", {**settings, "policy": policy, "end": "1s",
                                    "series-every": "5us"})
             for name, settings, policy in ROWS}
    runs.make(lines.values())
    rows = []
    for name, (workload, settings) in lines.items():
        line = (workload, settings)
        ideal_us = settings["bytes"] * 8 / 400e3
        waiting = [waiting_kb(result, settings["nodes"], ideal_us)
                   for result in runs.results(line)]
        rows.append([name, runs.spread(line, scale=1 / ideal_us),
                     f"{runs.median(line, 'fct_us.p50') / ideal_us:.2f}",
                     f"{statistics.median(waiting):.0f}",
                     f"{runs.median(line, 'queue_bytes_max') / 1000:.0f}",
                     *(f"{runs.median(line, count):.0f}"
                       for count in ("drops", "resent", "spurious"))])
    table = Figure(
        "Why", "permutations of 128 NICs: 4 MB each, chunks of 32 KiB, p2c (the first 13 rows); 16 "
        "MB, chunks of a packet, reps (6 rows, and the last); 16 MB, 32 KiB, p2c (6 rows); "
        f"{options.seeds} seeds",
        ["", "time over the ideal", "median flow", "KB waiting in switches for each NIC",
         "longest queue, KB", "drops", "resent", "for nothing"], rows,
        "no source has this table.")
    return [table, traces(runs, options, lines)]


def waiting_kb(result, nodes, ideal_us):
    """Mean bytes in all queues for each NIC, while all of them send."""
    rows = [int(row["waiting_bytes"]) for row in result["series"]
            if 0.4 * ideal_us < float(row["now_us"]) < 0.9 * ideal_us]
    return statistics.mean(rows) / nodes / 1000


def traces(runs, options, lines):
    """What the records of seed 1 say about declared losses, windows and the last flow."""
    heads = ["seed 1", *TRACED]
    columns, more = [], []
    for name in TRACED:
        column, last = traced(options, lines[name])
        columns.append(column)
        file = "why-" + "-".join(name.lower().replace(",", "").split()) + ".csv"
        more.append((file, ["us", "channel", "event", "bytes in flight, lost, or of the window"],
                     last))
    rows = [[label, *(column[label] for column in columns)] for label in columns[0]]
    return Figure("Why, traces", "records of the congestion controls", heads, rows,
                  "no source has this table.", more=more)


def traced(options, line):
    """Figures of a run's trace, and the records of the host whose flow ended last."""
    workload, settings = line
    with tempfile.TemporaryDirectory() as folder:
        trace, flows = pathlib.Path(folder, "trace.jsonl"), pathlib.Path(folder, "flows.csv")
        words = [f"--{name}={value}" for name, value in settings.items() if name != "series-every"]
        command = [options.fairway, "sim", workload, *words, "--json", "--trace", trace, "--csv",
                   flows]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        with flows.open() as file:
            ended = ends(csv.DictReader(file))
        with trace.open() as file:
            records = [record for record in map(json.loads, file) if "node" in record]
    host = max(ended, key=ended.get)
    return summary(records, ended, host), story(records, host)


def ends(flows):
    """When the last piece of each host was complete, in us."""
    ended = collections.Counter()
    for flow in flows:
        host, at = int(flow["source"]), int(flow["completed_ps"]) / 1e6
        ended[host] = max(ended[host], at)
    return ended


def summary(records, ended, host):
    """Figures of all hosts, and of the one that ended last."""
    lost, late, changes = 0, 0, collections.Counter()
    window, least, before, sent = {}, {}, {}, collections.defaultdict(dict)
    packet = 4096 + 80
    for record in records:
        channel, event = (record["node"], record["channel"]), record["event"]
        if event == "window":
            # The record of a decision follows that of its cause.
            changes[before.get(channel)] += record["bytes"] - window.get(channel, record["bytes"])
            window[channel] = record["bytes"]
            least[channel] = min(least.get(channel, record["bytes"]), record["bytes"])
        elif event in ("ack", "loss", "spurious"):
            before[channel] = event
            lost += record["bytes"] if event == "loss" else 0
            late += record["packets"] * packet if event == "spurious" else 0
        elif event == "transmit":
            sent[record["node"]][record["channel"]] = record["t_us"]
    own = [record for record in records if record["node"] == host]
    losses = [record["t_us"] for record in own if record["event"] == "loss"]
    acks = [record["t_us"] for record in own if record["event"] == "ack"]
    silent = max((later - earlier for earlier, later in zip(acks, acks[1:])), default=0)
    apart = [max(each.values()) - min(each.values()) for each in sent.values()]
    return {
        "median and last flow end, us":
            f"{statistics.median(ended.values()):.0f}, {ended[host]:.0f}",
        "last flow: longest time without an acknowledgement, us": f"{silent:.0f}",
        "last flow: last loss found, us": f"{losses[-1]:.0f}" if losses else "none",
        "least window, median channel and least, KB":
            f"{statistics.median(least.values()) / 1000:.0f}, {min(least.values()) / 1000:.0f}",
        "declared lost, MB": f"{lost / MEGABYTE:.1f}",
        "of which resent for nothing, MB": f"{late / MEGABYTE:.1f}",
        "windows, change at losses, MB": f"{changes['loss'] / MEGABYTE:.1f}",
        "windows, given back, MB": f"{changes['spurious'] / MEGABYTE:.1f}",
        "channels of a pair stop sending apart, median and most, us":
            f"{statistics.median(apart):.0f}, {max(apart):.0f}",
    }


def story(records, host):
    """Bytes in flight, losses and windows of a host, in the order of time."""
    values = {"ack": "in_flight", "loss": "bytes", "window": "bytes"}
    return [[f"{record['t_us']:.2f}", record["channel"], record["event"],
             record[values[record["event"]]]]
            for record in records if record["node"] == host and record["event"] in values]
