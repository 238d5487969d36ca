"""The programs of the documentation, run as they are printed."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PAGE = os.environ.get("FAIRWAY_PAGE")
PROGRAM = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```\n+(?:[^`].*\n+)*?"
                     r"```sh\n(torchrun .*)\n```\n+```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@unittest.skipUnless(PAGE, "FAIRWAY_PAGE names no page")
class Examples(unittest.TestCase):
    def test_programs_print_what_the_page_says(self):
        programs = PROGRAM.findall(pathlib.Path(PAGE).read_text(encoding="utf-8"))
        self.assertGreater(len(programs), 0)
        for text, name, command, printed in programs:
            with self.subTest(program=name), tempfile.TemporaryDirectory() as directory:
                pathlib.Path(directory, name).write_text(text, encoding="utf-8")
                run = [sys.executable, "-m", "torch.distributed.run", *command.split()[1:]]
                done = subprocess.run(run, cwd=directory, capture_output=True, text=True,
                                      timeout=200, check=False,
                                      env={**os.environ, "OMP_NUM_THREADS": "1"})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, printed)


if __name__ == "__main__":
    unittest.main()
