"""Tests of fairway.sweep. FAIRWAY says where the tool is."""

import concurrent.futures
import csv
import os
import pathlib
import signal
import tempfile
import unittest

import fairway

try:
    import pandas
except ImportError:
    pandas = None

try:
    import polars
except ImportError:
    polars = None

SMALL = {"nodes": 16, "bytes": "20K"}


class Engine:
    """An executor that is none of Python's own: what Dask's client has of one."""

    def __init__(self):
        self.requested = []

    def submit(self, function, argument):
        self.requested.append(argument)
        future = concurrent.futures.Future()
        future.set_result(function(argument))
        return future


class SweepTest(unittest.TestCase):
    def test_the_handler_of_a_signal_may_raise_while_runs_are_under_way(self):
        class Interrupted(Exception):
            pass

        def interrupt(_number, _frame):
            raise Interrupted
        before = signal.signal(signal.SIGALRM, interrupt)
        with tempfile.TemporaryDirectory() as directory:
            # A tool that never ends by itself, and tells its process.
            tool = pathlib.Path(directory) / "tool"
            tool.write_text('#!/bin/sh\necho $$ > "$0.$$"\nexec sleep 1000\n')
            tool.chmod(0o755)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            try:
                with self.assertRaises(Interrupted):
                    fairway.sweep("permutation", seeds=4, jobs=2, tool=tool)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
            for told in pathlib.Path(directory).glob("tool.*"):
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(told.read_text()), 0)

    def test_rows_of_simulations_are_written_like_those_of_sweeps(self):
        rows = fairway.sim.run("permutation", **SMALL)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "rows.csv"
            fairway.write_csv(rows, path)
            with open(path, newline="", encoding="utf-8") as lines:
                [line] = csv.DictReader(lines)
        self.assertEqual(line["workload"], "permutation")
        self.assertEqual(float(line["completion_us"]), rows[0]["completion_us"])

    def test_every_combination_is_run_once(self):
        seen = []
        rows = fairway.sweep("permutation", routing=["ecmp", "spray"], paths=[1, 8], seeds=2,
                             each=seen.append, **SMALL)
        self.assertEqual(rows, seen)
        points = [(row["routing"], row["paths"], row["seed"]) for row in rows]
        self.assertEqual(points, [("ecmp", 1, 1), ("ecmp", 1, 2), ("ecmp", 8, 1), ("ecmp", 8, 2),
                                  ("spray", 1, 1), ("spray", 1, 2), ("spray", 8, 1),
                                  ("spray", 8, 2)])
        for row in rows:
            self.assertTrue(row["complete"])
            self.assertEqual((row["result"]["seed"], row["result"]["flows"]), (row["seed"], 16))
        # Five packets a flow: one path more or less may change nothing, another seed does.
        for first, second in zip(rows[::2], rows[1::2]):
            self.assertNotEqual(first["result"]["digest"], second["result"]["digest"])

    def test_wherever_it_runs_it_is_the_same(self):
        arguments = {"senders": [3, 9], "seeds": [5, 7], "check": True, **SMALL}
        here = fairway.sweep("incast", jobs=1, **arguments)
        engine = Engine()
        with concurrent.futures.ProcessPoolExecutor(2) as processes:
            for executor in (engine, processes):
                there = fairway.sweep("incast", executor=executor, **arguments)
                digests = [[row["result"]["digest"] for row in rows] for rows in (here, there)]
                self.assertEqual(*digests)
        self.assertEqual([point["seed"] for _, _, point in engine.requested], [5, 7, 5, 7])

    def test_what_is_given_twice_and_what_is_cut_short(self):
        rows = fairway.sweep(fail=("0-16@5us..9us", "1-16@5us..9us"), end=["3us", "1s"], **SMALL)
        self.assertEqual([row["complete"] for row in rows], [False, True])
        self.assertEqual(rows[0]["result"]["flows_completed"], 0)

    def test_a_trace_is_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "step.trace")
            path.write_text("ranks 16\nall-reduce all 64K\n", encoding="utf-8")
            [row] = fairway.sweep("trace", file=path)
            self.assertEqual(row["result"]["operations"][0]["name"], "all-reduce")

    def test_rows_become_a_table(self):
        rows = fairway.sweep(hosts_per_leaf=[4, 8], topology="leaf-spine", **SMALL)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "sweep.csv")
            fairway.write_csv(rows, path)
            with open(path, newline="", encoding="utf-8") as lines:
                table = list(csv.DictReader(lines))
        self.assertEqual([row["hosts_per_leaf"] for row in table], ["4", "8"])
        for row, line in zip(rows, table):
            self.assertEqual(float(line["fct_us.p99"]), row["result"]["fct_us"]["p99"])

    def test_seeds_are_those_that_were_named(self):
        for arguments, seeds in [({"seed": 5}, [5]), ({"seed": [5, 6, 7]}, [5, 6, 7]),
                                 ({"seed": 5, "seeds": 2}, [5, 6]), ({"seeds": 2}, [1, 2])]:
            rows = fairway.sweep("incast", senders=3, **arguments, **SMALL)
            self.assertEqual([row["seed"] for row in rows], seeds)
            self.assertEqual([row["result"]["seed"] for row in rows], seeds)
        for arguments in ({"seed": [5], "seeds": 2}, {"seed": 5, "seeds": [5, 6]}):
            with self.assertRaisesRegex(ValueError, "both say which seeds"):
                fairway.sweep(**arguments)

    def test_truth_values_of_a_table_are_read_as_such(self):
        rows = fairway.sweep(end=["3us", "1s"], check=True, **SMALL)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "sweep.csv")
            fairway.write_csv(rows, path)
            with open(path, newline="", encoding="utf-8") as lines:
                table = list(csv.DictReader(lines))
            self.assertEqual([row["complete"] for row in table], ["false", "true"])
            self.assertEqual([row["check"] for row in table], ["true", "true"])
            for library in (pandas, polars):
                if library is not None:
                    read = library.read_csv(path)
                    self.assertEqual(list(read["complete"] == False), [True, False])  # noqa: E712

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(fairway.SweepError, "1001 hosts|no three-tier"):
            fairway.sweep(nodes=1001, topology="fat-tree")
        with self.assertRaisesRegex(fairway.SweepError, "banana"):
            fairway.sweep(banana=3)
        with self.assertRaisesRegex(fairway.SweepError, "cannot be run"):
            fairway.sweep(tool="/nowhere/fairway")
        with self.assertRaisesRegex(fairway.SweepError, "not done after 0.001 s"):
            fairway.sweep(nodes=128, timeout=0.001)
        with self.assertRaisesRegex(ValueError, "paths has no value"):
            fairway.sweep(paths=[])
        with self.assertRaisesRegex(ValueError, "seeds"):
            fairway.sweep(seeds=0)
        with self.assertRaisesRegex(ValueError, "jobs"):
            fairway.sweep(jobs=0)


if __name__ == "__main__":
    unittest.main()
