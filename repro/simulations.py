"""Runs of `fairway sim`, for the programs beside this file: several at a time, kept in files."""

import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from figures import publish

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAIRWAY = ROOT / "target/release/fairway"


def arguments(parser, experiments, full=True):
    """Adds what all of these programs take; `experiments` are the names that --only accepts."""
    parser.add_argument("--fairway", type=pathlib.Path, default=FAIRWAY, help="the tool")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of each run")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at a time")
    if full:
        parser.add_argument("--full", action="store_true", help="sizes as published: takes hours")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each figure")
    parser.add_argument("--csv", type=pathlib.Path, help="write every run to a file")
    parser.add_argument("--only", action="append", choices=list(experiments),
                        help="one of the experiments; may be repeated")


def program(doc, experiments, folder, title):
    """A program of a few experiments: reads its arguments, runs them all, and publishes."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments(parser, experiments, full=False)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / folder)
    options = parser.parse_args()
    began = time.monotonic()
    runs = Runs(options)
    figures = [make(runs, options) for name, make in experiments.items()
               if not options.only or name in options.only]
    runs.keep()
    publish(figures, options.out, title, time.monotonic() - began, options.json)


class Runs:
    """Simulations, each made once, however many figures need it."""

    def __init__(self, options):
        self.options = options
        self.done = {}

    def make(self, lines):
        """Runs all scenarios that were not run yet: each a workload (and its file) and a dict of
        settings, or a list of such scenarios, of which each is a seed."""
        each = (one for line in lines for one in (line if isinstance(line, list) else [line]))
        wanted = [line for line in dict.fromkeys(map(self.key, each)) if line not in self.done]
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for count, (line, results) in enumerate(zip(wanted, pool.map(self.run, wanted)), 1):
                self.done[line] = results
                if sys.stderr.isatty():
                    print(f"\r{count} of {len(wanted)} runs ", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(end="\r", file=sys.stderr)

    @staticmethod
    def key(line):
        workload, settings = line
        each = ((name, one) for name, value in sorted(settings.items())
                for one in (value if isinstance(value, (list, tuple)) else [value]))
        words = workload if isinstance(workload, tuple) else (workload,)
        return (*words, *(f"--{name}={value}" for name, value in each))

    def run(self, line):
        seeds = [] if any(word.startswith("--seeds=") for word in line) \
            else [f"--seeds={self.options.seeds}"]
        command = [self.options.fairway, "sim", *line, *seeds, "--jobs=1", "--json"]
        with tempfile.TemporaryDirectory() as directory:
            series = pathlib.Path(directory, "series.csv")
            wanted = any(word.startswith("--series-every=") for word in line)
            kind = "stream-series" if line[0] == "streams" else "series"
            command += [f"--{kind}={series}"] if wanted else []
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
            results = [json.loads(text) for text in done.stdout.splitlines()]
            if wanted:
                with series.open() as file:
                    rows = list(csv.DictReader(file))
                for result in results:
                    result["series"] = [row for row in rows if int(row["seed"]) == result["seed"]]
        return results

    def results(self, line):
        """What each seed came to."""
        lines = line if isinstance(line, list) else [line]
        return [result for one in lines for result in self.done[self.key(one)]]

    def values(self, line, figure="completion_us"):
        """What each seed came to; `figure` may be within another, as `fct_us.p99`."""
        def of(result):
            for name in figure.split("."):
                result = result[name]
            return result
        return [of(result) for result in self.results(line)]

    def median(self, line, figure="completion_us"):
        return statistics.median(self.values(line, figure))

    def spread(self, line, figure="completion_us", scale=1.0, digits=2):
        """Median, and least and most, as text."""
        return spread([value * scale for value in self.values(line, figure)], digits)

    def keep(self):
        """Writes every run to the file that --csv names."""
        if not self.options.csv:
            return
        with self.options.csv.open("w", newline="") as file:
            rows = [{"scenario": " ".join(line), **{name: value for name, value in result.items()
                                                    if not isinstance(value, (dict, list))}}
                    for line, results in self.done.items() for result in results]
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def spread(values, digits=2):
    """Median of the values, and least and most, as text."""
    low, middle, high = (f"{value:.{digits}f}"
                         for value in (min(values), statistics.median(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"
