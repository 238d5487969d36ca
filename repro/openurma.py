#!/usr/bin/env python3
"""The tables and figures of the OpenURMA paper, §6 to §13, run again by `fairway nic`.

Every row is run twice where the paper's model distinguishes them: as the paper has it (`oracle`: published
constants, nothing is ever occupied) and executed (every step a server, the protocol by the engines).
Next to both stand the paper's number and that of its artifact's own data.

    python3 repro/openurma.py                              # all of it, into target/openurma
    python3 repro/openurma.py --only "Figure 14" --out /tmp/x

Writes openurma.csv, page.md, and a PNG for each figure with an axis if matplotlib is there
(repro/requirements.txt). Exit status 1 if an oracle row that has to be the artifact's number isn't.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from urma import fabrics, feasibility, latency, ordering, state, summary, system, transport

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECTIONS = [feasibility, state, latency, ordering, system, transport, fabrics, summary]


def line(options):
    """Options as a line of a sweep file."""
    # A comma in a sweep file makes two runs of it.
    lists = [f"{name}={one}" for name in ("set", "without")
             for one in str(options.get(name, "")).split(",") if one]
    words = [name if at is True else f"{name}={at}" for name, at in options.items()
             if name not in ("set", "without")]
    return " ".join(words + lists)


def wanted(items):
    """Every line of a sweep that the items need, once."""
    lines = {}
    for item in items:
        for row in item.rows:
            for kind in kinds(row):
                lines.setdefault(line(kind))
    return list(lines)


def kinds(row):
    """The options of a row's runs: executed, and the oracle's."""
    if row.options is not None:
        yield row.options
    if row.oracle is not None:
        yield {**(row.options or {}), **row.oracle, "oracle": True}


def sweep(fairway, lines):
    """Runs all lines at once, on all cores; gives the objects by line."""
    with tempfile.NamedTemporaryFile("w", suffix=".sweep") as file:
        file.write("\n".join(lines) + "\n")
        file.flush()
        done = subprocess.run([fairway, "nic", "--sweep", file.name, "--json"],
                              stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{fairway} nic failed with status {done.returncode}")
    objects = [json.loads(text) for text in done.stdout.splitlines()]
    if len(objects) != len(lines):
        sys.exit(f"{len(lines)} runs were requested, and {len(objects)} returned")
    return dict(zip(lines, objects))


def commands(fairway, items):
    """Runs what is no run of the model; gives the objects by arguments."""
    found = {}
    for item in items:
        for row in item.rows:
            key = tuple(row.command or ())
            if key and key not in found:
                done = subprocess.run([fairway, *key], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, check=False)
                if done.returncode:
                    sys.exit(f"fairway {' '.join(key)}: {done.stderr}")
                found[key] = json.loads(done.stdout.splitlines()[-1])
    return found


def metric(row, measured):
    """The row's number of a run."""
    if measured is None:
        return None
    if row.metric.startswith("phase:"):
        name = row.metric.removeprefix("phase:")
        found = [phase["latency_ns"] for phase in measured["phases"] if phase["phase"] == name]
        return (found[0] if found else 0.0) * row.scale
    found = measured.get(row.metric, measured.get("figures", {}).get(row.metric))
    return None if found is None else found * row.scale


def evaluate(item, objects, others):
    """Gives [oracle, executed] for each row, and the number of rows that are wrong."""
    values, wrong = {}, []

    def value(series, at, kind="executed"):
        return values[series, at, kind]

    for row in item.rows:
        oracle = executed = None
        if row.command:
            executed = metric(row, others[tuple(row.command)])
        if row.options is not None:
            executed = metric(row, objects[line(row.options)])
        if row.oracle is not None:
            options = {**(row.options or {}), **row.oracle, "oracle": True}
            oracle = metric(row, objects[line(options)])
        values[row.series, row.at, "executed"] = executed
        values[row.series, row.at, "oracle"] = oracle
        if row.exact and oracle is not None and row.artefact is not None:
            if abs(oracle - row.artefact) > 1e-6 * abs(row.artefact):
                wrong.append(f"{item.name}: {row.series} at {row.at}: {oracle}, not {row.artefact}")
    # What others are needed for comes after all of them.
    for row in item.rows:
        if row.derive:
            values[row.series, row.at, "executed"] = row.derive(value)
    results = [(values[row.series, row.at, "oracle"], values[row.series, row.at, "executed"])
               for row in item.rows]
    return results, wrong


def show(value):
    """A number for people."""
    if value is None:
        return ""
    if value == 0 or abs(value) >= 1e6:
        return f"{value:.4g}"
    return f"{value:.4g}" if abs(value) < 10 else f"{value:.1f}"


def headlines(results):
    """The six headlines, from the items' rows."""
    def of(name, series, at, kind=1):
        item, rows, values = results[name]
        for row, pair in zip(rows, values):
            if (row.series, row.at) == (series, at):
                return pair[kind]
        raise KeyError((name, series, at))

    six, rate, ycsb = "Table 6, Figures 19, 23", "§8.3 request rate", "Figure 33"
    spill, setup, loss = "Figure 14", "Figure 18", "Figure 44"
    over = lambda a, b: f"{a / b:.2f} x"
    yield ("64 B fetch, LOAD against DMA READ", "4.37 x", "4.47 x",
           over(of(six, "roce-dma", "read", 0), of(six, "ub-ldst", "load", 0)),
           over(of(six, "roce-dma", "read"), of(six, "ub-ldst", "load")))
    one = lambda s: of(rate, f"{s}, NIC alone", "1 Jetties")
    yield ("request rate, UB against RoCE, NIC alone", "2.80 x", "0.37 x", "",
           over(one("ub-urma"), one("roce-dma")))
    core = lambda s: of(rate, f"{s}, with its core", "1 Jetty")
    yield ("request rate, UB against RoCE, one core posting", "", "", "",
           over(core("ub-urma"), core("roce-dma")))
    yield ("YCSB-A, LD/ST against DMA, cache on", "9.2 x", "9.87 x", "",
           over(of(ycsb, "ub-ldst", "A"), of(ycsb, "roce-dma", "A")))
    yield ("YCSB-A, LD/ST against DMA, cache off", "", "", "",
           over(of(ycsb, "ub-ldst, uncached", "A"), of(ycsb, "roce-dma", "A")))
    for series, what in [("roce-dma", "in turn"), ("roce-dma, Zipf 0.99", "Zipf 0.99")]:
        more = of(spill, series, 64) - of(spill, series, 1)
        old = of(spill, "roce-dma", 64, 0) - of(spill, "roce-dma", 1, 0)
        yield (f"spill cliff, DMA READ, n = 64, {what}", "+1000 ns", "+1000 ns",
               f"+{old:.0f} ns" if what == "in turn" else "", f"+{more:.0f} ns")
    yield ("set-up, 256 x 256, RoCE against UB", "(1044 x at 1024)", "261 x",
           over(of(setup, "roce-dma", 256, 0), of(setup, "ub-urma", 256, 0)),
           over(of(setup, "roce-dma", 256), of(setup, "ub-urma", 256)))
    for flight in ["1 in flight", "32 in flight"]:
        lost = [of(loss, f"{s}, lost at 5 %, in percent", flight) for s in ["ub-urma", "roce-dma"]]
        first = flight == "1 in flight"
        yield (f"rate lost at 5 % loss, {flight}: UB / RoCE", "3 % / 17 %" if first else "",
               "3.1 % / 17.3 %" if first else "", "", f"{lost[0]:.0f} % / {lost[1]:.0f} %")


def page(results, directory, drawn, seconds, partial):
    """Writes all of it as a page."""
    out = ["# OpenURMA's evaluation, run again", "",
           "Made by `python3 repro/openurma.py`; "
           "executed READs, LOADs, and WRITEs and STOREs whose range one operation owns compare the "
           "bytes they move; SENDs, unreliable WRITEs and most atomics do not, simulated networks "
           "carry no payload, and rows of state and set-up move nothing. *Oracle*: "
           "the paper's model, its constants, nothing ever occupied. *Executed*: every step a server. "
           "*Paper*: v1 of its text. *Artefact*: its repository's data.", ""]
    if not partial:
        out += ["| headline | paper | artefact | oracle | executed |", "|---|---|---|---|---|"]
        out += ["| " + " | ".join(row) + " |" for row in headlines(results)]
        out.append("")
    for item, rows, values in results.values():
        unit = f" ({item.unit})" if item.unit else ""
        out += [f"## {item.name}: {item.title}{unit}", "", item.note, ""]
        if item.name in drawn:
            out += [f"![{item.title}]({drawn[item.name]})", ""]
        if rows:
            out += ["| series | at | paper | artefact | oracle | executed |", "|---|---|---|---|---|---|"]
        for row, (oracle, executed) in zip(rows, values):
            cells = [row.series, str(row.at)]
            cells += [show(v) for v in (row.paper, row.artefact, oracle, executed)]
            out.append("| " + " | ".join(cells) + " |")
        out.append("")
    out.append(f"{seconds:.0f} seconds in all.")
    (directory / "page.md").write_text("\n".join(out) + "\n")


def table(results, directory):
    """Writes all rows as CSV."""
    with open(directory / "openurma.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["item", "section", "unit", "series", "at", "metric", "paper", "artefact",
                         "oracle", "executed", "why they differ"])
        for item, rows, values in results.values():
            for row, (oracle, executed) in zip(rows, values):
                writer.writerow([item.name, item.section, item.unit, row.series, row.at, row.metric,
                                 row.paper, row.artefact, oracle, executed, item.note])
            if not rows:
                writer.writerow([item.name, item.section, *[""] * 8, item.note])


def plots(results, directory):
    """Draws every item that has an axis; gives file names by item."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("no matplotlib: nothing is drawn (pip install -r repro/requirements.txt)",
              file=sys.stderr)
        return {}
    drawn = {}
    for item, rows, values in results.values():
        numeric = [(row, pair) for row, pair in zip(rows, values)
                   if item.axis and isinstance(row.at, (int, float))]
        if not numeric:
            continue
        _, axes = pyplot.subplots(figsize=(8, 5))
        series = {}
        for row, (oracle, executed) in numeric:
            series.setdefault(row.series, []).append((row.at, executed, oracle, row.artefact))
        for label, points in series.items():
            known = [(at, y) for at, y, _, _ in points if y is not None]
            color = axes.plot(*zip(*known), "o-", label=label)[0].get_color() if known else None
            for column, mark in [(2, "x:"), (3, "+")]:
                known = [(point[0], point[column]) for point in points if point[column] is not None]
                if known:
                    axes.plot(*zip(*known), mark, color=color)
        axes.set_title(f"{item.name}: {item.title}\n(o executed, x oracle, + artefact)", fontsize=9)
        axes.set_xlabel(item.axis)
        axes.set_ylabel(item.unit)
        axes.set_xscale("symlog" if item.log else "linear")
        if item.log:
            axes.set_yscale("log")
        axes.legend(fontsize=6)
        name = item.name.lower().replace(",", "").replace("§", "s").replace(" ", "-") + ".png"
        pyplot.savefig(directory / name, dpi=110)
        pyplot.close()
        drawn[item.name] = name
    return drawn


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="an item's name, or the beginning of it")
    parser.add_argument("--fairway", default=str(ROOT / "target/release/fairway"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target/openurma")
    arguments = parser.parse_args()
    items = [item for section in SECTIONS for item in section.items()]
    if arguments.only:
        items = [item for item in items if any(map(item.name.startswith, arguments.only))]
    if not items:
        sys.exit("no such item")
    began = time.monotonic()
    objects = sweep(arguments.fairway, wanted(items)) if wanted(items) else {}
    others = commands(arguments.fairway, items)
    results, wrong = {}, []
    for item in items:
        values, mistakes = evaluate(item, objects, others)
        results[item.name] = (item, item.rows, values)
        wrong += mistakes
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn = plots(results, arguments.out)
    table(results, arguments.out)
    page(results, arguments.out, drawn, time.monotonic() - began, bool(arguments.only))
    print((arguments.out / "page.md").read_text())
    if wrong:
        sys.exit("\n".join(["oracle rows that are not the artifact's:", *wrong]))


if __name__ == "__main__":
    main()
