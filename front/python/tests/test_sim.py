"""Tests of fairway.sim. FAIRWAY_TOOL or FAIRWAY says where the tool is."""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import fairway

try:
    import matplotlib
except ImportError:
    matplotlib = None

SMALL = {"hosts": 16, "bytes": "20K"}


class SimTest(unittest.TestCase):
    def test_rows_of_runs_have_parameters_and_figures(self):
        rows = fairway.sim.run("permutation", routing=["ecmp", "spray"], seeds=2, **SMALL)
        self.assertEqual([(row["routing"], row["seed"], row["nodes"]) for row in rows],
                         [("ecmp", 1, 16), ("ecmp", 2, 16), ("spray", 1, 16), ("spray", 2, 16)])
        swept = fairway.sweep("permutation", routing=["ecmp", "spray"], seeds=2, nodes=16,
                              bytes="20K")
        for row, whole in zip(rows, swept):
            self.assertEqual(row["digest"], whole["result"]["digest"])
            self.assertEqual(row["fct_us.p99"], whole["result"]["fct_us"]["p99"])
            self.assertFalse([name for name, value in row.items()
                              if isinstance(value, (dict, list, tuple))])
        self.assertEqual(rows.varied, ["routing"])

    def test_rows_of_flows_agree_with_the_run(self):
        rows = fairway.sim.run("incast", senders=[3, 5], flows=True, **SMALL)
        self.assertEqual([row["senders"] for row in rows], [3] * 3 + [5] * 5)
        runs = fairway.sim.run("incast", senders=[3, 5], **SMALL)
        for run in runs:
            times = [row["fct_us"] for row in rows if row["senders"] == run["senders"]]
            self.assertAlmostEqual(max(times), run["fct_us.max"], places=3)
            self.assertEqual(len(times), run["flows"])
        self.assertEqual({row["bytes"] for row in rows}, {20480})

    def test_calls_of_a_collective_have_rows(self):
        rows = fairway.sim.run("ring-allreduce", flows=True, seeds=2, **SMALL)
        self.assertEqual([(row["seed"], row["rank"]) for row in rows],
                         [(seed, rank) for seed in (1, 2) for rank in range(16)])
        for row in rows:
            self.assertIsInstance(row["host"], int)
            self.assertAlmostEqual(row["fct_us"], row["completed_us"] - row["started_us"], 5)

    def test_number_of_flows_is_a_setting(self):
        rows = fairway.sim.run("websearch", hosts=16, flows=[5, 9])
        self.assertEqual([row["flows_completed"] for row in rows], [5, 9])
        self.assertEqual(rows.varied, ["flows"])
        rows = fairway.sim.run("websearch", hosts=16, flows=5, per_flow=True)
        self.assertEqual([row["flow"] for row in rows], list(range(5)))

    def test_seeds_can_be_named(self):
        for arguments, seeds in [({"seed": 5}, [5]), ({"seed": [7, 5]}, [7, 5]),
                                 ({"seed": 5, "seeds": 2}, [5, 6]), ({"seeds": [4, 9]}, [4, 9])]:
            rows = fairway.sim.run("incast", senders=3, **arguments, **SMALL)
            self.assertEqual([row["seed"] for row in rows], seeds)
            self.assertEqual(rows.varied, [])
            flows = fairway.sim.run("incast", senders=3, per_flow=True, **arguments, **SMALL)
            self.assertEqual([row["seed"] for row in flows[::3]], seeds)
        with self.assertRaisesRegex(ValueError, "both say which seeds"):
            fairway.sim.run(seed=[5], seeds=[5])

    def test_flow_that_did_not_end_has_no_time(self):
        rows = fairway.sim.run(flows=True, end="3us", **SMALL)
        self.assertEqual([row["fct_us"] for row in rows], [None] * 16)
        self.assertFalse(any(row["complete"] for row in rows))

    def test_run_that_did_not_end_has_no_completion(self):
        rows = fairway.sim.run(end=["3us", "1ms"], **SMALL)
        self.assertEqual([row["complete"] for row in rows], [False, True])
        self.assertEqual([row["completion_us"] is None for row in rows], [True, False])
        self.assertEqual([row["fct_us.p50"] is None for row in rows], [True, False])

    def test_refused_settings_are_reported(self):
        with self.assertRaisesRegex(fairway.SweepError, "banana"):
            fairway.sim.run(banana=3)

    def test_plot_without_matplotlib_says_what_to_install(self):
        rows = fairway.sim.run(**SMALL)
        with mock.patch.dict(sys.modules, {"matplotlib.figure": None}):
            with self.assertRaisesRegex(ImportError, "pip install matplotlib"):
                rows.plot()

    @unittest.skipIf(matplotlib is None, "matplotlib is not installed")
    def test_plot_draws_a_line_for_each_combination(self):
        rows = fairway.sim.run(routing=["ecmp", "spray"], paths=[1, 8], seeds=2, **SMALL)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "runs.svg")
            figure = rows.plot(path)
            self.assertIn("<svg", path.read_text(encoding="utf-8"))
        [axes] = figure.get_axes()
        lines = [line for line in axes.get_lines() if line.get_label() != "_"]
        self.assertEqual([line.get_label() for line in lines], ["routing ecmp", "routing spray"])
        self.assertEqual(list(lines[0].get_xdata()), [1, 8])
        flows = fairway.sim.run(routing=["ecmp", "spray"], flows=True, **SMALL).plot()
        self.assertEqual(len(flows.get_axes()[0].get_lines()), 2)
        with self.assertRaisesRegex(ValueError, "no column 'banana'"):
            rows.plot(y="banana")
        short = fairway.sim.run(end=["3us", "1ms"], **SMALL).plot().get_axes()[0]
        self.assertIn("1 of 2 runs", short.get_title())
        self.assertEqual(list(short.get_lines()[0].get_xdata()), ["1ms"])


class PartsTest(unittest.TestCase):
    """The files of a wheel beside the modules: here a tool that is a script."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tool = pathlib.Path(directory.name, "fairway")
        self.tool.write_text("#!/bin/sh\nprintf '%s\\n' tool \"$@\"\nexit 3\n", encoding="utf-8")
        self.tool.chmod(self.tool.stat().st_mode | stat.S_IXUSR)

    def test_module_passes_its_arguments_to_the_tool(self):
        environment = {**os.environ, "FAIRWAY_TOOL": str(self.tool)}
        done = subprocess.run([sys.executable, "-m", "fairway", "doctor", "a b"], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, "tool\ndoctor\na b\n"), done.stderr)

    def test_missing_tool_is_reported(self):
        package = pathlib.Path(fairway.__file__).parent
        if (package / "bin" / "fairway").exists():
            self.skipTest("this package has its tool")
        environment = {"PATH": "/nowhere", "PYTHONPATH": str(package.parent)}
        done = subprocess.run([sys.executable, "-m", "fairway", "doctor"], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("set FAIRWAY_TOOL", done.stderr)

    def test_number_of_hosts_has_one_name_at_a_time(self):
        with self.assertRaisesRegex(ValueError, "hosts and nodes"):
            fairway.sim.run("permutation", nodes=8, hosts=16)

    def test_environments_name_files_of_the_package(self):
        package = pathlib.Path(fairway.__file__).parent
        parts = {fairway.nccl_env: package / "lib" / "libnccl-net-fairway.so",
                 fairway.verbs_env: package / "lib" / "fairway" / "librdmacm.so.1"}
        for function, file in parts.items():
            if not file.is_file():
                with self.assertRaisesRegex(fairway.MissingPart, "make wheel"):
                    function()
                continue
            for name, value in function().items():
                for path in value.split(":") if name != "NCCL_NET" else ():
                    self.assertTrue(pathlib.Path(path).exists(), (name, path))

    def test_verbs_environment_keeps_what_was_there(self):
        with tempfile.TemporaryDirectory() as directory:
            libraries = pathlib.Path(directory)
            for name in ("libibverbs.so.1", "librdmacm.so.1"):
                (libraries / name).touch()
            with mock.patch("fairway._tool._LIBRARIES", libraries), \
                    mock.patch.dict(os.environ, {"LD_PRELOAD": "other.so"}):
                values = fairway.verbs_env()
        self.assertEqual(values["LD_PRELOAD"], f"{libraries}/libibverbs.so.1:other.so")
        self.assertEqual(values["LD_LIBRARY_PATH"].split(":")[0], str(libraries))


if __name__ == "__main__":
    unittest.main()
