#!/usr/bin/env python3
"""Two unmodified perftest programs that share a wire: a pair with 4 KB messages beside one with 1 MB
messages, and the latency of 256 B beside 64 KB messages, as in figures 11 and 13 and table 2 of the
SCR paper, live, over both providers of the verbs library, without and with a scheduler.

    python3 repro/perftest_pairs.py                  # as root: three rounds, some minutes
    python3 repro/perftest_pairs.py --provider roce --rounds 1 --seconds 3

The wire is emulated by `fairway emulate --topology` between two network namespaces, which needs root,
`ip` and perftest. Every process has a scheduler of its own, so each is given half of the payload's
line as its `line`. Prints a table in Markdown: medians of all rounds, with the least and the greatest.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ADDRESS = "10.83.0.2"
# Part of the emulated line, in thousandths, that the two processes divide: the rest is for
# acknowledgements, and for headers that the pacer does not count.
USED = 985


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", choices=["roce", "fairway"], action="append")
    parser.add_argument("--rate", type=int, default=200, help="the wire, in Mb/s (200)")
    parser.add_argument("--seconds", type=int, default=5, help="of each run (5)")
    parser.add_argument("--rounds", type=int, default=3, help="(3)")
    parser.add_argument("--fairway", default=str(ROOT / "target/release/fairway"), help="the tool")
    parser.add_argument("--library", default=str(ROOT / "target/release/fairway-verbs"),
                        help="folder of libibverbs.so.1")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    return parser.parse_args()


def policies(rate):
    """Names of schedulers, and the policy of each process."""
    half = f"line={rate * USED // 2}Kbps"
    return {"none": None, "`static`": f"sched=static:{half}",
            "`water-filling`": f"sched=water-filling:{half}"}


class Program:
    """A perftest program in a namespace."""

    def __init__(self, options, host, provider, policy, command):
        environment = dict(os.environ, FAIRWAY_PROVIDER=provider, FAIRWAY_DATAPATH="udp",
                           LD_LIBRARY_PATH=options.library,
                           LD_PRELOAD=f"{options.library}/libibverbs.so.1")
        environment["FAIRWAY_DEVICES"] = "^lo"
        if provider == "roce":
            del environment["FAIRWAY_DATAPATH"]
        if policy:
            environment["FAIRWAY_POLICY"] = policy
        variables = [f"{name}={environment[name]}" for name in environment
                     if name.startswith(("FAIRWAY_", "LD_"))]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", f"{options.inside}-{host}", "env", *variables, *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def numbers(self, timeout):
        """The numbers of the last line with numbers alone."""
        text = self.process.communicate(timeout=timeout)[0]
        rows = []
        for line in text.splitlines():
            try:
                rows.append([float(word) for word in line.split()])
            except ValueError:
                pass
        rows = [row for row in rows if len(row) >= 4]
        if self.process.returncode or not rows:
            raise RuntimeError(f"{self.process.args}: {text}")
        return rows[-1]

    def end(self):
        self.process.kill()
        self.process.communicate()


def await_listeners(options, count):
    """Waits until the servers of `count` programs listen for their clients."""
    ports = {f"{port:04X}" for port in range(18515, 18515 + count)}
    for _ in range(300):
        table = subprocess.run(["ip", "netns", "exec", f"{options.inside}-1", "cat",
                                "/proc/net/tcp", "/proc/net/tcp6"],
                               capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in table.splitlines()]
        # State 0A: the socket listens.
        if ports <= {row[1].rpartition(":")[2] for row in rows if row[3] == "0A"}:
            return
        time.sleep(0.05)
    raise RuntimeError(f"no server listens at port {' and '.join(sorted(ports))} (hexadecimal)")


def run(options, provider, policy, commands):
    """Runs pairs of programs at once. Returns the numbers of each client."""
    programs = []
    try:
        for port, command in enumerate(commands, 18515):
            programs.append(Program(options, 1, provider, policy, [*command, "-p", str(port)]))
        await_listeners(options, len(commands))
        clients = [Program(options, 0, provider, policy, [*command, "-p", str(port), ADDRESS])
                   for port, command in enumerate(commands, 18515)]
        programs += clients
        return [client.numbers(options.seconds * 4 + 40) for client in clients]
    finally:
        for program in programs:
            program.end()


def bandwidth(options, size, *more):
    return ["ib_write_bw", "-F", "--report_gbits", "-x", "0", "-s", str(size), "-D",
            str(options.seconds), *more]


def latency(options, size):
    return ["ib_write_lat", "-F", "-x", "0", "-s", str(size), "-D", str(options.seconds)]


def jain(rates):
    return sum(rates) ** 2 / len(rates) / sum(rate * rate for rate in rates)


def spread(values, digits):
    text = [f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values))]
    return f"{text[0]} ({text[1]}–{text[2]})"


def inside(options):
    print("| provider | scheduler | 4 KB, Mb/s | beside 1 MB, Mb/s | Jain's index | utilisation | "
          "256 B beside 64 KB, us | 64 KB, Mb/s |")
    print("|---|---|---|---|---|---|---|---|")
    for provider in options.provider or ["roce", "fairway"]:
        rows = {name: [] for name in policies(options.rate)}
        for _ in range(options.rounds):
            for name, policy in policies(options.rate).items():
                small, large = [1000 * numbers[3] for numbers in run(
                    options, provider, policy,
                    [bandwidth(options, 4096), bandwidth(options, 1 << 20, "-t", "8")])]
                delay, beside = run(options, provider, policy,
                                    [latency(options, 256), bandwidth(options, 65536)])
                rows[name].append((small, large, jain([small, large]),
                                   (small + large) / options.rate, delay[2], 1000 * beside[3]))
        for name, row in rows.items():
            cells = [spread(values, digits) for values, digits in zip(zip(*row), (0, 0, 2, 2, 0, 0))]
            print(f"| {provider} | {name} | {' | '.join(cells)} |", flush=True)


def main():
    options = arguments()
    if options.inside:
        return inside(options)
    with tempfile.TemporaryDirectory() as folder:
        topology = pathlib.Path(folder) / "wire.txt"
        topology.write_text(f"topology leaf-spine\nnodes 2\nhosts-per-leaf 2\n"
                            f"link {options.rate}M\nlatency 50us\nqueue 256K\n")
        prefix = f"fwp{os.getpid()}"
        command = [options.fairway, "emulate", "--prefix", prefix, "--topology", topology, "--",
                   sys.executable, *sys.argv, "--inside", prefix]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
