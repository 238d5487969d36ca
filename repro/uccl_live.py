#!/usr/bin/env python3
"""UCCL's Figure 19 (number of paths), live and simulated over the same small network.

    permutation  every host of one leaf WRITEs to a host of the other, all at once
    all-to-all   an all-to-all of eight ranks, as in the figure

The network has two leaves of four hosts and four spines; switches choose a way by a hash of
addresses and ports. Live, `fairway emulate` carries the packets of unmodified programs in network
namespaces, which needs root; ports, and so the collisions of flows, differ from round to round.
Simulated are the same operations over the same network by `fairway sim`, with --simulated seeds.
--seeds is the number of live rounds.

    python3 repro/uccl_live.py                # some minutes, into target/uccl-live
    python3 repro/uccl_live.py --quick        # fewer numbers of paths, one round

Writes a CSV for each figure, page.md, and PNGs if matplotlib is there (repro/requirements.txt).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from figures import Figure, publish
from simulations import ROOT, Runs, arguments, spread

SPINES = 4
# A chunk of 64 KiB takes one path, so queues and the threshold of marks hold several.
NETWORK = {"topology": "leaf-spine", "nodes": 2 * SPINES, "hosts-per-leaf": SPINES,
           "latency": "50us", "queue": "512K", "ecn": "threshold:256K"}
# Of simulations: they may take long, and have the payload of live packets.
SIMULATED = {"end": "60s", "mtu": 8856}
MIB = 1 << 20
# Of the namespaces' names: other runs of this program have others.
PREFIX = f"fw{os.getpid()}"
# Longest time of a round, in seconds.
PATIENCE = 120

# Servers at the hosts of the second leaf, then clients at those of the first, at the same time.
PERMUTATION = """
for host in {targets}; do
    ip netns exec $NS-$host $FW perf --server --bind 10.83.0.$((host + 1)) --paths {paths} \\
        >/dev/null 2>&1 & servers="$servers $!"
done
for host in {targets}; do
    for wait in $(seq 50); do
        ip netns exec $NS-$host ss -Hlun | grep -q 10.83.0 && break
        sleep 0.1
    done
done
for host in {sources}; do
    ip netns exec $NS-$host $FW perf write --size 64K --depth 16 --duration {seconds}s --json \\
        --pin none --paths {paths} --bind 10.83.0.$((host + 1)) \\
        --connect 10.83.0.$((host + 1 + {spines})) & clients="$clients $!"
done
status=0
for client in $clients; do wait $client || status=1; done
kill $servers; wait; exit $status
"""

ALL_TO_ALL = """
for host in {others}; do
    ip netns exec $NS-$host $FW collective all-to-all --rank $host --ranks {ranks} \\
        --rendezvous 10.83.0.1:29500 --size {bytes} --iters {iterations} --paths {paths} \\
        >/dev/null & ranks="$ranks $!"
done
ip netns exec $NS-0 $FW collective all-to-all --rank 0 --ranks {ranks} --json \\
    --rendezvous 10.83.0.1:29500 --size {bytes} --iters {iterations} --paths {paths}
status=$?; wait; exit $status
"""


def emulated(options, script, seed):
    """Runs a script in the emulated network; returns the JSON objects that were printed, of which
    the last is the network's."""
    with tempfile.TemporaryDirectory() as directory:
        file = pathlib.Path(directory, "network.txt")
        lines = {**NETWORK, "link": options.link}
        file.write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
        command = [options.fairway, "emulate", "--json", "--seed", str(seed), "--prefix", PREFIX,
                   "--topology", file, "--duration", f"{PATIENCE}s", "--", "sh", "-c",
                   f"FW={options.fairway} NS={PREFIX}; {script}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    if done.returncode:
        raise SystemExit(f"the emulated network failed: {done.stderr.strip()}\n{done.stdout}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def flows_of(network):
    """Most flows from one host to another."""
    return max(pair["flows"] for pair in network["flows"])


def permutation(options, paths, round_number):
    """Gb/s of all flows together, of the slowest one, and the flows that switches told apart."""
    script = PERMUTATION.format(
        sources=" ".join(map(str, range(SPINES))), spines=SPINES, paths=paths,
        targets=" ".join(map(str, range(SPINES, 2 * SPINES))), seconds=options.seconds)
    *rows, network = emulated(options, script, round_number)
    rates = [row["gbps"] for row in rows]
    if len(rates) != SPINES or not all(row["verified"] for row in rows):
        raise SystemExit(f"flows are missing, or were not verified: {rows}")
    return sum(rates), min(rates), flows_of(network)


def all_to_all(options, paths, round_number):
    """Milliseconds of an all-to-all, and the flows that switches told apart."""
    script = ALL_TO_ALL.format(
        ranks=2 * SPINES, others=" ".join(map(str, range(1, 2 * SPINES))), paths=paths,
        bytes=options.megabytes * MIB, iterations=options.iterations)
    row, network = emulated(options, script, round_number)
    column = row["out_of_place"]
    if column["wrong"]:
        raise SystemExit(f"wrong elements: {row}")
    return column["time_us"] / 1e3, flows_of(network)


def link_gbps(options):
    """The rate of a link in Gb/s."""
    return int(options.link.rstrip("MG")) / (1000 if options.link.endswith("M") else 1)


def permutations(runs, options):
    """Each host of a leaf to one of the other."""
    best = SPINES * link_gbps(options)
    matrix = options.out / "permutation.cm"
    matrix.parent.mkdir(parents=True, exist_ok=True)
    bytes_each = int(link_gbps(options) * 1e9 / 8 * 2)
    matrix.write_text(f"Nodes {2 * SPINES}\nConnections {SPINES}\n" + "".join(
        f"{host}->{host + SPINES} id {host + 1} start 0 size {bytes_each}\n"
        for host in range(SPINES)))
    lines = {count: ((f"--matrix={matrix}",), {**NETWORK, "link": options.link, "paths": count,
                                               "seeds": options.simulated, **SIMULATED})
             for count in options.paths}
    runs.make(lines.values())
    rows, drawn = [], {"live": [], "simulated": []}
    for count in options.paths:
        each = [permutation(options, count, number) for number in range(options.seeds)]
        together, slowest, flows = zip(*each)
        sim = [bytes_each * 8 / us / 1e3 for us in runs.values(lines[count])]
        middle = [bytes_each * 8 / us / 1e3 for us in runs.values(lines[count], "fct_us.p50")]
        rows.append([count, spread(flows, 0), spread([rate / best for rate in together]),
                     spread([rate * SPINES / best for rate in slowest]),
                     spread([rate * SPINES / best for rate in middle]),
                     spread([rate * SPINES / best for rate in sim])])
        drawn["live"].append(sorted(slowest)[len(slowest) // 2] * SPINES / best)
        drawn["simulated"].append(sorted(sim)[len(sim) // 2] * SPINES / best)

    def draw(axes):
        for name, values in drawn.items():
            axes.plot(options.paths, values, "o-", label=name)
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 1)
        axes.set_xlabel("paths")
        axes.set_ylabel("slowest flow, of the link")

    return Figure(
        "Figure 19, permutation", f"{SPINES} flows between two leaves with {SPINES} spines, "
        f"{options.link} links, {options.seeds} rounds and {options.simulated} seeds; rates over "
        "the link's",
        ["paths", "flows of a pair of hosts", "live, all", "live, slowest",
         "simulated, median flow", "simulated, slowest"], rows,
        "more paths, less congestion (a graph of an all-to-all, without numbers).", draw=draw)


def all_to_alls(runs, options):
    """An all-to-all of all hosts."""
    size = options.megabytes * MIB
    lines = {count: ("all-to-all", {**NETWORK, "link": options.link, "paths": count, "mtu": 8856,
                                    "bytes": size // (2 * SPINES), "seeds": options.simulated})
             for count in options.paths}
    runs.make(lines.values())
    # Seven eighths of a rank's buffer leave through its link.
    ideal_ms = size * 7 / 8 * 8 / link_gbps(options) / 1e6
    rows, drawn = [], {"live": [], "simulated": []}
    for count in options.paths:
        each = [all_to_all(options, count, number) for number in range(options.seeds)]
        times, flows = zip(*each)
        sim = [us / 1e3 for us in runs.values(lines[count])]
        rows.append([count, spread(flows, 0), spread(times, 0), spread(
            [time / ideal_ms for time in times]), spread(sim, 0), spread(
            [time / ideal_ms for time in sim])])
        drawn["live"].append(sorted(times)[len(times) // 2] / ideal_ms)
        drawn["simulated"].append(sorted(sim)[len(sim) // 2] / ideal_ms)

    def draw(axes):
        for name, values in drawn.items():
            axes.plot(options.paths, values, "o-", label=name)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=1)
        axes.set_xlabel("paths")
        axes.set_ylabel("time over the ideal")

    return Figure(
        "Figure 19, all-to-all", f"all-to-all of {2 * SPINES} ranks, {options.megabytes} MiB each, "
        f"{options.link} links, {options.seeds} rounds and {options.simulated} seeds; ms, and over "
        f"the ideal {ideal_ms:.0f} ms",
        ["paths", "flows of a pair of hosts", "live, ms", "over the ideal", "simulated, ms",
         "over the ideal"], rows,
        "more paths, less congestion (a graph of an all-to-all, without numbers).", draw=draw)


EXPERIMENTS = {"permutation": permutations, "all-to-all": all_to_alls}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, EXPERIMENTS, full=False)
    parser.add_argument("--quick", action="store_true", help="1, 16 and 256 paths, one round")
    parser.add_argument("--paths", type=lambda text: tuple(map(int, text.split(","))),
                        help="numbers of paths, as 1,16,256")
    parser.add_argument("--simulated", type=int, default=20, help="seeds of each simulation")
    parser.add_argument("--link", default="40M", help="rate of all links")
    parser.add_argument("--seconds", type=int, default=4, help="length of a permutation")
    parser.add_argument("--megabytes", type=int, default=2, help="buffer of a rank of all-to-all")
    parser.add_argument("--iterations", type=int, default=3, help="all-to-alls of a round")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/uccl-live")
    options = parser.parse_args()
    options.fairway = options.fairway.resolve()
    counts = (1, 16, 256) if options.quick else (1, 2, 4, 8, 16, 32, 64, 128, 256)
    options.paths = options.paths or counts
    options.seeds = 1 if options.quick else options.seeds
    began, runs = time.monotonic(), Runs(options)
    figures = []
    for name in options.only or EXPERIMENTS:
        figures.append(EXPERIMENTS[name](runs, options))
        print(f"{name}: done after {time.monotonic() - began:.0f} s", file=sys.stderr)
    publish(figures, options.out, "UCCL's number of paths, live and simulated",
            time.monotonic() - began, options.json)
    runs.keep()


if __name__ == "__main__":
    main()
