"""Runs the example that moves a KV cache, with a small one. It needs the extension and numpy."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLES = os.environ.get("FAIRWAY_EXAMPLES") or HERE.parents[2] / "examples" / "python"
EXAMPLE = pathlib.Path(EXAMPLES) / "kv_cache.py"
SMALL = ["--layers", "3", "--tokens", "100", "--rounds", "1"]


def run(*arguments):
    command = [sys.executable, EXAMPLE, *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=100, check=False)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class KvCacheTest(unittest.TestCase):
    def test_every_peer_that_is_installed_moves_every_byte(self):
        done = run(*SMALL, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        # 100 tokens need 7 blocks of 16.
        self.assertEqual((result["pieces"], result["piece_bytes"]), (21, 65536))
        self.assertTrue(result["compared"])
        zmq = ["zmq"] if importlib.util.find_spec("zmq") else []
        self.assertEqual(list(result["peers"]), ["fairway", "fairway-udp", "tcp", *zmq])
        for name, samples in result["peers"].items():
            with self.subTest(peer=name):
                [sample] = samples
                self.assertGreater(sample["first_layer_s"], 0)
                self.assertLessEqual(sample["first_layer_s"], sample["request_s"])
        if not zmq:
            self.assertIn("not installed", result["missing"]["zmq"])

    def test_two_programs_meet_at_an_address_and_the_shape_is_that_of_the_prefill(self):
        command = [sys.executable, EXAMPLE, "--serve", "--once", *SMALL]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as prefill:
            address = prefill.stdout.readline().split()[-1]
            done = run("--from", address, "--rounds", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(prefill.wait(20), 0)
        self.assertIn("100 tokens: 21 pieces of 64 KiB", done.stdout)
        self.assertIn("every byte compared", done.stdout)
        self.assertIn("fairway ", done.stdout)

    def test_an_unknown_peer_is_named(self):
        done = run("--peer", "pigeon")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no peer 'pigeon'", done.stderr)


if __name__ == "__main__":
    unittest.main()
