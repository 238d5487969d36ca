#!/usr/bin/env python3
"""The experiments of the OpenURMA paper, run again by `fairway nic`.

Every row is run twice where the paper's model can tell: as the paper has it (`oracle`: published
constants, nothing is ever occupied) and executed (every step a server, the protocol by the engines).
Next to both stands the published figure. Nothing is kept by hand but the published figures.

    python3 repro/openurma.py                        # all of it, as tables
    python3 repro/openurma.py --only spill --plot    # one experiment; plots need matplotlib

Standard library only. Exit status 1 if an oracle row is not the published figure.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The paper's stacks, and the verb that each reads by.
READS = {"ub-ldst": "load", "ub-urma": "read", "roce-bf": "read", "roce-dma": "read"}


class Row:
    """One figure: what to run, and what was published for it."""

    def __init__(self, series, at, options, published=None, oracle=None, metric="mean_ns"):
        self.series, self.at, self.options = series, at, options
        self.published, self.oracle, self.metric = published, oracle, metric

    def lines(self):
        """The sweep lines of this row: executed, and, if it can be, as the oracle."""
        def text(options):
            return " ".join(n if v is True else f"{n}={v}" for n, v in options.items())

        yield text(self.options)
        if self.oracle is not None:
            yield text({**self.options, **self.oracle, "oracle": True})


def headline():
    """Figure 19 and Table 6: 64 B over a wire of 100 ns, one at a time."""
    published = {
        "ub-ldst": {"load": 500},
        "ub-urma": {"read": 757, "write": 750, "send": 804, "cas": 750},
        "roce-bf": {"read": 1736, "write": 1227, "send": 1281, "cas": 1477},
        "roce-dma": {"read": 2236, "write": 1727, "send": 1781, "cas": 1977},
    }
    for stack, verbs in published.items():
        for verb, figure in verbs.items():
            payload = 8 if verb == "cas" else 64
            options = {"stack": stack, "verb": verb, "payload": payload, "ops": 500}
            yield Row(stack, verb, options, figure, {"ops": 5})


def link():
    """Figure 21: the wire gets longer."""
    published = {
        "ub-ldst": [400, 500, 700, 1300],
        "ub-urma": [657, 757, 957, 1557],
        "roce-bf": [1636, 1736, 1936, 2536],
        "roce-dma": [2136, 2236, 2436, 3036],
    }
    for stack, figures in published.items():
        for at, figure in zip([50, 100, 200, 500], figures):
            options = {"stack": stack, "verb": READS[stack], "link-ns": at,
                       "workload": "ptr-chase", "ops": 500}
            yield Row(stack, at, options, figure, {"ops": 5})


def payload():
    """Figure 26: operations get longer. (A load has 64 bytes: longer ones only the oracle has.)"""
    published = {
        "ub-urma": [750, 757, 799, 962, 1621, 4251, 14776],
        "roce-bf": [1727, 1736, None, None, None, None, None],
        "roce-dma": [2227, 2236, 2276, 2441, 3098, 5730, 16253],
    }
    for stack, figures in published.items():
        for at, figure in zip([8, 64, 256, 1024, 4096, 16384, 65536], figures):
            options = {"stack": stack, "verb": "read", "payload": at, "ops": 300}
            yield Row(stack, at, options, figure, {"ops": 5})


def concurrency():
    """Figure 20, in Mops: the paper's model handles one operation at a time."""
    published = {"ub-ldst": 2.0, "ub-urma": 1.32, "roce-bf": 0.576, "roce-dma": 0.447}
    for stack, figure in published.items():
        for at in [1, 4, 16, 64, 256]:
            options = {"stack": stack, "verb": READS[stack], "concurrency": at, "ops": 5000}
            yield Row(stack, at, options, figure, metric="mops")


def spill():
    """Figure 14: n Jetties and n nodes; a step in the paper, an LRU cache here."""
    steps = {"ub-ldst": (500, 700, 1024), "ub-urma": (757, 957, 1024),
             "roce-bf": (1736, 2736, 23), "roce-dma": (2236, 3236, 23)}
    for stack, (fits, spilled, limit) in steps.items():
        for at in [1, 4, 16, 22, 23, 32, 64, 128]:
            options = {"stack": stack, "verb": READS[stack], "jetties": at, "connections": at,
                       "ops": max(2000, 3 * at * at)}
            figure = spilled if at >= limit else fits
            oracle = {"ops": 5}
            yield Row(stack, at, options, figure, oracle)
            popular = {**options, "popularity": 0.99}
            yield Row(f"{stack}, Zipf", at, popular)


def loss():
    """Figure 44, in Mops: packets are lost."""
    published = {
        "ub-ldst": [1.996, 1.9958, 1.9862, 1.9416, 1.8854],
        "ub-urma": [1.3193, 1.3191, 1.3120, 1.2790, 1.2377],
        "roce-bf": [0.5757, 0.5750, 0.5497, 0.4538, 0.3684],
        "roce-dma": [0.4470, 0.4466, 0.4312, 0.3698, 0.3111],
    }
    for stack, figures in published.items():
        for at, figure in zip([0, 0.001, 0.01, 0.05, 0.1], figures):
            options = {"stack": stack, "verb": READS[stack], "loss": at, "ops": 5000}
            yield Row(stack, at, options, figure, metric="mops")


def open_loop():
    """Figure 30: operations arrive at random; mean latency against the rate offered, in Mops."""
    published = {
        "ub-ldst": {0.2: 526, 1.0: 745, 1.8: 2698}, "ub-urma": {0.2: 820, 1.0: 1959},
        "roce-bf": {0.2: 2178, 0.5: 7588}, "roce-dma": {0.1: 2521, 0.3: 4443},
    }
    for stack, figures in published.items():
        for at in sorted({*figures, 1, 2, 4, 5, 6, 8, 16}):
            options = {"stack": stack, "verb": READS[stack], "rate": at, "ops": 10000}
            yield Row(stack, at, options, figures.get(at))


def order():
    """Figure 35: a share of the operations is strictly ordered; alone, and with 32 in flight."""
    for flight in [1, 32]:
        for mode in ["roi", "rot", "rol"]:
            for at in [0, 5, 25, 50, 100]:
                options = {"stack": "ub-urma", "verb": "write", "order": mode,
                           "order-percent": at, "concurrency": flight, "ops": 5000}
                yield Row(f"{mode}, {flight} in flight", at, options)


def lock():
    """Figure 27: contenders for a lock, which here race for it and let it go."""
    for stack in ["ub-urma", "roce-bf", "roce-dma"]:
        for at in [1, 4, 16, 64]:
            options = {"stack": stack, "workload": "cas-lock", "concurrency": at, "ops": 500}
            yield Row(stack, at, options, metric="acquire_mean_ns")


def ycsb():
    """Figure 33, in Mops: YCSB, A as published, the others not in the paper."""
    published = {"ub-ldst": 4.97, "ub-urma": 1.325, "roce-bf": 0.673, "roce-dma": 0.5035}
    for letter in "abcdef":
        for stack, figure in published.items():
            options = {"stack": stack, "workload": f"ycsb-{letter}", "ops": 5000}
            if stack == "ub-ldst" and letter != "e":
                uncached = {**options}
                yield Row("ub-ldst, uncached", letter.upper(), uncached, metric="mops")
                options["cache"] = "wb"
            known = figure if letter == "a" else None
            yield Row(stack, letter.upper(), options, known, metric="mops")


def paging():
    """Figure 25: Zipf reads of far memory; the last row is larger than what is resident."""
    published = {"ub-ldst": [76, 236, 294], "infiniswap": [89, 835, 1906],
                 "fastswap": [76, 466, 2040]}
    for stack, figures in published.items():
        for at, figure in zip([1 << 10, 1 << 16, 1 << 20], figures):
            options = {"stack": stack, "workload": "zipf", "verb": "load", "keys": at,
                       "ops": 5000}
            if stack == "ub-ldst":
                options["cache"] = "wb"
            yield Row(stack, at, options, figure)


def ablations():
    """Table 8: one feature taken away at a time, and run."""
    base = {"stack": "ub-urma", "verb": "read", "ops": 5000}
    shapes = {
        "alone": {},
        "32 in flight": {"concurrency": 32, "jetties": 8},
        "64 x 64 endpoints": {"jetties": 64, "connections": 64, "ops": 16000},
    }
    for name, shape in shapes.items():
        for without in [None, "split", "bus", "unordered"]:
            options = {**base, **shape}
            if without:
                options["without"] = without
            yield Row(name, without or "all there", options)
        yield Row(name, "roce-bf", {**base, **shape, "stack": "roce-bf"})


EXPERIMENTS = {
    "headline": headline, "link": link, "payload": payload, "concurrency": concurrency,
    "spill": spill, "loss": loss, "open-loop": open_loop, "order": order, "lock": lock,
    "ycsb": ycsb, "paging": paging, "ablations": ablations,
}


def run(fairway, rows):
    """Runs all rows in one sweep; gives, by row, the executed object and the oracle's."""
    lines = [list(row.lines()) for row in rows]
    with tempfile.NamedTemporaryFile("w", suffix=".sweep") as sweep:
        sweep.write("\n".join(line for row in lines for line in row) + "\n")
        sweep.flush()
        done = subprocess.run([fairway, "nic", "--sweep", sweep.name, "--json"],
                              stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{fairway} nic failed with status {done.returncode}")
    objects = iter(map(json.loads, done.stdout.splitlines()))
    return [[next(objects) for _ in row] for row in lines]


def figure(row, measured):
    """The row's metric of a run."""
    return measured.get(row.metric, measured["figures"].get(row.metric))


def table(name, rows, results):
    """Prints an experiment; gives how many oracle rows are not what was published."""
    print(f"\n## {name}: {EXPERIMENTS[name].__doc__}\n")
    print(f"{'series':<22} {'at':>12} {'published':>12} {'oracle':>12} {'executed':>12}"
          f" {'p99':>12}  busiest")
    wrong = 0
    for row, objects in zip(rows, results):
        executed = objects[0]
        oracle = figure(row, objects[1]) if len(objects) > 1 else None
        if oracle is not None and row.published is not None:
            wrong += oracle != row.published

        def show(value):
            return "" if value is None else f"{value:.4g}" if value < 10 else f"{value:.1f}"

        tail = None if executed["deterministic"] else executed["p99_ns"]
        busy = f"{executed['busiest']} {executed['busiest_utilisation']:.0%}"
        print(f"{row.series:<22} {row.at!s:>12} {show(row.published):>12} {show(oracle):>12}"
              f" {show(figure(row, executed)):>12} {show(tail):>12}  {busy}")
    return wrong


def plot(name, rows, results, directory):
    """Draws an experiment, if there is something to draw with."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("(no matplotlib: not drawn)")
        return
    _, axes = pyplot.subplots()
    series = {}
    for row, objects in zip(rows, results):
        series.setdefault(row.series, []).append((row.at, figure(row, objects[0]), row.published))
    for label, points in series.items():
        drawn = axes.plot([str(at) for at, _, _ in points], [y for _, y, _ in points], "o-",
                          label=label)
        known = [(str(at), y) for at, _, y in points if y is not None]
        if known:
            axes.plot(*zip(*known), "x:", color=drawn[0].get_color())
    axes.set_title(f"{name} (crosses: published)")
    axes.set_yscale("log")
    axes.set_ylabel(rows[0].metric)
    axes.legend()
    pyplot.savefig(directory / f"openurma-{name}.svg")
    pyplot.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="not all of them")
    parser.add_argument("--fairway", default=str(ROOT / "target/release/fairway"))
    parser.add_argument("--plot", action="store_true", help="draw them too")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.only or EXPERIMENTS:
        rows = list(EXPERIMENTS[name]())
        results = run(arguments.fairway, rows)
        wrong += table(name, rows, results)
        if arguments.plot:
            plot(name, rows, results, arguments.out)
    if wrong:
        sys.exit(f"{wrong} oracle rows are not the published figure")


if __name__ == "__main__":
    main()
