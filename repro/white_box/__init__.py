"""The experiments of the SCR paper: what is common to them."""

import statistics

# Two hosts on a switch of 100 Gb/s, 1.3 us apart and back, as a rack has them; without policy of its
# own a channel keeps 1 MB under way, so that only the scheduler decides.
LINE = 100
RACK = {"topology": "leaf-spine", "nodes": 2, "hosts-per-leaf": 2, "link": "100G",
        "latency": "200ns", "paths": 1, "mtu": "4K", "chunk": "32K"}
SCHEDULERS = {
    "greedy": "greedy",
    "static": "static:line=100Gbps",
    "water-filling": "water-filling:line=100Gbps",
    "drr": "drr",
}


def streams(each, settings, sched=None):
    """A run of streams."""
    policy = {"policy": f"cc=fixed:1M,path=spray,sched={sched}"} if sched else {}
    return "streams", {**RACK, **policy, **settings, "stream": tuple(each)}


def of_stream(runs, line, stream, figure):
    """What each seed came to, of one stream."""
    return [result["streams"]["each"][stream][figure] for result in runs.results(line)]


def trace(result, column, stream=None):
    """Rows of a series as lists by stream: (time in us, value)."""
    found = {}
    for row in result["series"]:
        if row[column] and (stream is None or int(row["stream"]) == stream):
            point = (float(row["now_us"]), float(row[column]))
            found.setdefault(int(row["stream"]), []).append(point)
    return found


def median_from(points, start):
    """Median of the values from a time on."""
    return statistics.median(value for now, value in points if now >= start)
