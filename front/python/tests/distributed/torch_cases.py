"""Runs torch's own cases for `torch.distributed`: torch_cases.py fairway|gloo [NAME...]

The cases are those of the wheel of torch (`torch.testing._internal.distributed`), which need the
package `expecttest`. They know which backends have what, and skip many cases for all but their own.
With `gloo`, fairway takes the name of gloo, so that such cases run with it. Without names, all that
can run without a GPU are run. Prints the names of the cases that did not succeed, and the numbers.
"""

import os
import sys
import unittest

BACKEND = sys.argv[1] if len(sys.argv) > 1 else "fairway"
os.environ["BACKEND"] = BACKEND
os.environ.setdefault("WORLD_SIZE", "3")
os.environ.setdefault("TEMP_DIR", "/tmp")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

import fairway.torch  # noqa: E402

fairway.torch.register()
if BACKEND == "gloo":
    dist.Backend._plugins["GLOO"] = dist.Backend._plugins["FAIRWAY"]
# The cases are chosen when their module is imported.
common_distributed.DistTestCases.backend_feature["ddp"].add("fairway")

from torch.testing._internal.distributed import distributed_test  # noqa: E402


class TestFairway(distributed_test.TestDistBackend,
                  distributed_test.DistributedTest._DistTestBase):
    """The cases; each runs in processes that are forked, which starts them quickly."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def _spawn_processes(self):
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def main(names):
    loader = unittest.TestLoader()
    every = loader.getTestCaseNames(TestFairway)
    names = names or [name for name in every if "cuda" not in name and "nccl" not in name]
    suite = unittest.TestSuite(TestFairway(name) for name in names)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    skipped = {case.id().split(".")[-1]: why for case, why in result.skipped}
    bad = [case.id().split(".")[-1] for case, _ in result.failures + result.errors]
    for name in bad:
        print("failed:", name)
    for name in names:
        if name not in bad and name not in skipped:
            print("succeeded:", name)
    print(f"{result.testsRun - len(bad) - len(skipped)} succeeded, {len(bad)} failed, "
          f"{len(skipped)} skipped")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
