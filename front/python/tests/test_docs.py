"""The examples of the documentation, run as they are printed.

A block of Python that begins with a comment `# name.py` is a program of its own. All others of a
section (up to the next heading of level 2) share their names. The block of text that follows has to
be what they print. Sections that need the simulator, numpy or matplotlib are skipped without them.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import fairway

PAGES = [pathlib.Path(path) for path in os.environ.get("FAIRWAY_PAGES", "").split(":") if path]
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def sections(page):
    """Title, text and blocks of each section of a page."""
    for text in re.split(r"^## ", page.read_text(encoding="utf-8"), flags=re.MULTILINE):
        blocks = BLOCK.findall(text)
        if any(kind == "python" for kind, _ in blocks):
            yield text.splitlines()[0], blocks


def missing(code):
    """What this machine lacks to run the code, or None."""
    if "dask" in code:
        return "there is no cluster"
    simulates = re.search(r"fairway\.(sim|sweep)", code)
    if simulates and not fairway._tool.find_tool():
        return "there is no tool"
    if not simulates and not importlib.util.find_spec("fairway._fairway"):
        return "there is no extension module"
    for name, sign in [("numpy", r"numpy|\.array\("), ("matplotlib", r"\.plot\("),
                       ("pandas", "pandas"), ("polars", "polars"), ("torch", "torch")]:
        if re.search(sign, code) and not importlib.util.find_spec(name):
            return f"{name} is not installed"
    return None


@unittest.skipUnless(PAGES, "FAIRWAY_PAGES names no page")
class DocsTest(unittest.TestCase):
    maxDiff = None

    def test_examples_print_what_the_pages_say(self):
        ran, skipped = [], []
        for page in PAGES:
            for title, blocks in sections(page):
                code = "".join(text for kind, text in blocks if kind == "python")
                lack = missing(code)
                (skipped if lack else ran).append(f"{page.name}, {title}: {lack or 'run'}")
                if not lack:
                    with self.subTest(page=page.name, section=title):
                        self.run_section(blocks)
        print(*ran, *skipped, sep="\n", file=sys.stderr)
        if not ran:
            self.skipTest("; ".join(skipped))

    def run_section(self, blocks):
        programs, names, printed = [], {"__name__": "example"}, ""
        with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
            for kind, text in blocks:
                if kind == "python" and re.match(r"# \w+\.py\n", text):
                    programs.append(text)
                elif kind == "python":
                    out = io.StringIO()
                    with contextlib.redirect_stdout(out):
                        exec(compile(text, "example", "exec"), names)
                    printed += out.getvalue()
                elif programs:
                    self.assertEqual(self.run_pair(programs), text)
                    programs = []
                else:
                    self.assertEqual(printed, text)
                    printed = ""
        self.assertEqual((programs, printed), ([], ""), "output that the page does not have")

    def run_pair(self, programs):
        """Runs two programs, of which the second gets the line that the first prints. Returns what
        they print beside that."""
        first, second = [[sys.executable, "-c", program] for program in programs]
        with subprocess.Popen(first, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as owner:
            line = owner.stdout.readline()
            done = subprocess.run([*second, *line.split()], capture_output=True, text=True,
                                  timeout=60, check=False)
            rest, _ = owner.communicate("\n", timeout=60)
        self.assertEqual((done.returncode, owner.returncode), (0, 0), done.stderr)
        return done.stdout + rest


if not hasattr(contextlib, "chdir"):
    @contextlib.contextmanager
    def _chdir(path):
        before = os.getcwd()
        os.chdir(path)
        try:
            yield
        finally:
            os.chdir(before)

    contextlib.chdir = _chdir


if __name__ == "__main__":
    unittest.main()
