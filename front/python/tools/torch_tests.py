"""Runs the tests of the backend of torch.distributed: torch_tests.py LIBRARY [TEST...]

LIBRARY is the extension, as cargo has built it. The package is put together in a temporary folder
with its entry point, as pip would install it. Run this with an interpreter that has torch
(`torch_env.py` makes one). Without names, all tests are run, and then those of torch's own cases
that `tests/distributed/torch_cases.txt` lists, each with the name that the backend takes for it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
TESTS = HERE / "tests" / "distributed"


def package(directory, library):
    """Puts the package into a folder for PYTHONPATH."""
    target = directory / "fairway"
    ignored = shutil.ignore_patterns("__pycache__", "bin", "lib", "*.so")
    shutil.copytree(HERE / "fairway", target, ignore=ignored)
    shutil.copy(library, target / "_fairway.abi3.so")
    metadata = directory / "fairway-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fairway\nVersion: 0\n")
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    [_, after] = project.split('[project.entry-points."torch.distributed.backends"]\n')
    entry = after.split("\n\n")[0].replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[torch.distributed.backends]\n{entry}\n")


def main(library, *names):
    with tempfile.TemporaryDirectory() as directory:
        package(pathlib.Path(directory), library)
        path = os.pathsep.join(filter(None, [directory, os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
                       "FAIRWAY_PAGE": str(HERE.parent.parent / "docs" / "torch.md"),
                       "FAIRWAY_PAGES": str(HERE / "README.md"), "TEMP_DIR": directory}
        python = [sys.executable, "-W", "ignore"]
        tests = [*python, "-m", "unittest", "--verbose", *names]
        lines = (TESTS / "torch_cases.txt").read_text(encoding="utf-8").splitlines()
        cases = [line.split() for line in lines]
        own = [[*python, str(TESTS / "torch_cases.py"), backend,
                *(name for of, name in cases if of == backend)] for backend in ("fairway", "gloo")]
        docs = [*python, "-m", "unittest", "test_docs"]
        for command in [tests] if names else [tests, docs, *own]:
            place = TESTS.parent if command is docs else TESTS
            done = subprocess.run(command, cwd=place, env=environment, check=False)
            if done.returncode:
                return done.returncode
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
