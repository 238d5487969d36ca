"""Tests of the files that only a wheel has: the tool, the verbs libraries, the plug-in."""

import ctypes
import importlib.metadata
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import fairway

PACKAGE = pathlib.Path(fairway.__file__).parent

# Both libraries in one process, as programs load them: by name, and by versioned symbols.
LOAD = """
import ctypes
verbs, manager = ctypes.CDLL("libibverbs.so.1"), ctypes.CDLL("librdmacm.so.1")
verbs.ibv_get_device_list.restype = ctypes.c_void_p
count = ctypes.c_int(0)
assert verbs.ibv_get_device_list(ctypes.byref(count)) and count.value > 0
assert manager.rdma_create_id and manager.rdma_create_event_channel
inodes = {line.split()[4] for line in open("/proc/self/maps") if "libibverbs" in line}
assert len(inodes) == 1, inodes
print(count.value)
"""


@unittest.skipUnless((PACKAGE / "bin" / "fairway").is_file(), "this package is not a wheel")
class WheelTest(unittest.TestCase):
    def output(self, *command, **environment):
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_tool_runs_in_both_ways(self):
        version = importlib.metadata.version("fairway")
        self.assertEqual(version, fairway.__version__)
        script = pathlib.Path(sys.executable).parent / "fairway"
        self.assertEqual(self.output(str(script), "--version"), f"fairway {version}\n")
        self.assertEqual(self.output(sys.executable, "-m", "fairway", "--version"),
                         f"fairway {version}\n")

    def test_doctor_finds_the_libraries_of_the_wheel(self):
        done = subprocess.run([sys.executable, "-m", "fairway", "doctor", "--json"],
                              capture_output=True, text=True, timeout=120, check=False)
        report = json.dumps(json.loads(done.stdout))
        self.assertIn(str(PACKAGE / "lib" / "fairway"), report)

    def test_verbs_libraries_are_one_library(self):
        count = self.output(sys.executable, "-c", LOAD, **fairway.verbs_env())
        self.assertGreater(int(count), 0)
        tool = self.output(fairway.tool_path(), "run", "--", sys.executable, "-c", LOAD)
        self.assertEqual(count, tool)

    @unittest.skipUnless(shutil.which("ibv_devices"), "ibv_devices is not installed")
    def test_programs_of_the_system_load_them(self):
        self.assertIn("node GUID", self.output("ibv_devices", **fairway.verbs_env()))

    def test_plugin_is_found_if_the_wheel_has_it(self):
        file = PACKAGE / "lib" / "libnccl-net-fairway.so"
        if not file.is_file():
            self.skipTest("this wheel has no plug-in for NCCL")
        environment = fairway.nccl_env()
        self.assertEqual(environment, {"NCCL_NET_PLUGIN": str(file), "NCCL_NET": "Fairway"})
        self.assertTrue(ctypes.CDLL(str(file)).ncclNetPlugin_v10)

    def test_types_are_published(self):
        for name in ("py.typed", "_fairway.pyi"):
            self.assertTrue((PACKAGE / name).is_file(), name)


if __name__ == "__main__":
    unittest.main()
