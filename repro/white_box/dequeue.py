"""Figures 14 and 15: what the dequeue rate does, and how transmit events come together."""

import json
import subprocess

from figures import Figure
from simulations import spread

from . import streams

RATES = [1, 5, 10, 20, 40, 60, 80, 100]
# At smaller rates the RoCE engine's time-outs end before messages that wait for their dequeue rate
# are acknowledged, and packets are sent again.
HOST_RATES = [rate for rate in RATES if rate >= 10]
MEASURED = {"end": "3ms", "measure": "1ms"}
SPAN_US = 2000.0
LAW = "water-filling:line=100Gbps"


def fabric_and_peer(runs):
    # A pool that takes no time worth mentioning, so that each packet is counted as it is sent.
    lines = {rate: streams(["0-1 size=64K depth=4"],
                           {**MEASURED, "control": "1:1ns", "coalescing": "slots"},
                           f"static:line={rate}Gbps") for rate in RATES}
    runs.make(lines.values())
    rows, received = [], []
    for rate in RATES:
        sent = [value * 8 / 1000 / SPAN_US
                for value in runs.values(lines[rate], "streams.control.bytes")]
        received.append(runs.median(lines[rate], "streams.gbps"))
        rows.append([rate, spread(sent, 1), runs.spread(lines[rate], "streams.gbps", digits=1)])

    def draw(axes):
        axes.plot(RATES, received, "o-", label="payload received")
        axes.plot(RATES, RATES, "--", label="rate set")
        axes.set_xlabel("dequeue rate, Gb/s")
        axes.set_ylabel("Gb/s")

    return Figure(
        "Figure 14a", "one flow of 64 KB: dequeue rate set, traffic sent and received (Gb/s)",
        ["dequeue rate", "sent, with headers", "payload received"], rows,
        "the dequeue rate regulates what is sent into the fabric and what the peer receives.",
        "`static:line=RATE`, one flow. The rate includes headers.", draw)


def host(runs):
    """The NIC model, which has a PCIe link and DMA; the same schedulers run in its engines."""
    options = runs.options
    results = {}
    for rate in [*HOST_RATES, None]:
        policy = "cc=fixed:16M" + (f",sched=static:line={rate}Gbps" if rate else "")
        done = subprocess.run(
            [options.fairway, "nic", "--stack", "roce-dma", "--verb", "write", "--payload", "65536",
             "--concurrency", "16", "--ops", "500", "--set", "link_gbps=100", "--policy", policy,
             "--json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"fairway nic, {policy}: {done.stderr.strip()}")
        results[rate] = json.loads(done.stdout)
    rows, uses, jobs = [], [], []
    for rate, result in results.items():
        of = {server["server"]: server for server in result["servers"]}
        bus, tags = of["host 0: pcie to nic"], of["host 0: dma read tags"]
        elapsed_us = result["elapsed_ns"] / 1000
        goodput = result["bytes"] * 8 / result["elapsed_ns"]
        uses.append(bus["utilisation"])
        jobs.append(tags["jobs"] / elapsed_us)
        rows.append([rate or "no limit", f"{goodput:.1f}", f"{uses[-1]:.1%}", f"{jobs[-1]:.2f}",
                     f"{tags['utilisation']:.1%}"])

    def draw(axes):
        axes.plot(HOST_RATES, uses[:-1], "o-", label="PCIe towards the NIC, share of time")
        axes.set_xlabel("dequeue rate, Gb/s")
        other = axes.twinx()
        other.plot(HOST_RATES, jobs[:-1], "s--", color="tab:red")
        other.set_ylabel("DMA reads per microsecond (dashed)")

    return Figure(
        "Figure 14b, 14c", "`fairway nic`, WRITEs of 64 KB, 16 in flight: the host's PCIe and DMA",
        ["dequeue rate, Gb/s", "goodput, Gb/s", "PCIe towards the NIC busy", "DMA reads per us",
         "DMA tags held"], rows,
        "PCIe utilisation and the DMA jobs of the NIC grow with the dequeue rate.",
        "Model, not counters of a NIC: one DMA read for each packet and work request. Without a "
        "limit the NIC's data path of 32 bytes a cycle is the bottleneck.", draw)


def by_size_and_depth(runs):
    sizes, depths = ["256", "1K", "4K", "16K", "64K", "256K", "1M"], [1, 4, 16, 64]
    lines = {(size, depth): streams([f"0-1 size={size} depth={depth}"],
                                    {**MEASURED, "mtu": "1K", "control": "1:1us",
                                     "coalescing": "slots"}, LAW)
             for size in sizes for depth in depths}
    runs.make(lines.values())
    found = {key: runs.median(line, "streams.control.bytes_per_event")
             for key, line in lines.items()}

    def draw(axes):
        for depth in depths:
            axes.plot(sizes, [found[size, depth] for size in sizes], "o-", label=f"depth {depth}")
        axes.set_yscale("log")
        axes.set_xlabel("message size")
        axes.set_ylabel("bytes per event")

    return Figure(
        "Figure 15a", "one flow, packets of 1 KB, 1 us an event: bytes per transmit event",
        ["message size", *(f"depth {depth}" for depth in depths)],
        [[size, *(f"{found[size, depth]:,.0f}" for depth in depths)] for size in sizes],
        "larger messages and deeper queues let more transmit events come together, up to a ceiling "
        "that the configuration of PCIe sets.",
        "Here the ceiling is what the line carries while the thread is busy.", draw)


def by_time(runs):
    times = ["125ns", "250ns", "500ns", "1us", "2us", "4us", "8us", "16us"]
    lines = {time: streams(["0-1 size=64K depth=4"],
                           {**MEASURED, "mtu": "1K", "control": f"1:{time}",
                            "coalescing": "slots"}, LAW) for time in times}
    runs.make(lines.values())
    rows = [[time, runs.spread(lines[time], "streams.control.bytes_per_event", digits=0),
             runs.spread(lines[time], "streams.gbps", digits=1)] for time in times]
    found = [runs.median(lines[time], "streams.control.bytes_per_event") for time in times]

    def draw(axes):
        axes.plot(times, found, "o-")
        axes.set_yscale("log")
        axes.set_xlabel("time of an event")
        axes.set_ylabel("bytes per event")

    return Figure(
        "Figure 15b", "one flow of 64 KB, depth 4, packets of 1 KB: bytes per event against the time "
        "of an event", ["time of an event", "bytes per event", "goodput, Gb/s"], rows,
        "slower processing of events lets more of them come together.", "", draw)


EXPERIMENTS = {
    "fig14": lambda runs: [fabric_and_peer(runs), host(runs)],
    "fig15": lambda runs: [by_size_and_depth(runs), by_time(runs)],
}
