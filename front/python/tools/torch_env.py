"""Makes a virtual environment in which PyTorch runs on processors alone: torch_env.py DIR

PyPI's torch for x86-64 is linked against CUDA's libraries, several GB of them, and does not load
without them, though no code of theirs runs on a machine without a GPU. This script installs torch
and the small libraries of its run time, and puts a stub in the place of each other library: an
object with the symbols that torch names, each of which ends the program if it is ever called.
The environment takes about 1.5 GB. It needs `cc`, `readelf` and a network; programs need nothing
set, because torch looks for libraries beside itself.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import venv

PACKAGES = ["torch", "typing_extensions", "filelock", "fsspec", "jinja2", "MarkupSafe", "networkx",
            "sympy", "mpmath", "numpy", "pytest", "iniconfig", "packaging", "pluggy", "pygments",
            "expecttest"]
# The libraries of CUDA whose initialisers torch does call while it is loaded.
CUDA = ["nvidia-cuda-runtime", "nvidia-cuda-cupti", "nvidia-cufile"]
# What a symbol without a version has to begin with to be taken for one of CUDA's.
PREFIXES = ("cu", "nv", "nccl", "__cu", "__nv")

CHECK = """
import torch, torch.distributed as dist, torch.multiprocessing as mp

def rank(number, path):
    dist.init_process_group("gloo", init_method="file://" + path, rank=number, world_size=2)
    sum = torch.full((1000,), float(number + 1))
    dist.all_reduce(sum)
    assert bool((sum == 3).all()), sum
    dist.destroy_process_group()

if __name__ == "__main__":
    import sys
    assert dist.is_gloo_available()
    mp.spawn(rank, args=(sys.argv[1],), nprocs=2)
    print("torch", torch.__version__, "all_reduce of two processes over gloo: correct")
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path, help="where the environment is made")
    parser.add_argument("--torch", default="torch", help="what pip is asked for, as torch==2.15.0")
    options = parser.parse_args()
    directory = options.directory.resolve()
    venv.create(directory, with_pip=True)
    python = directory / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-deps"]
    subprocess.run([*install, options.torch, *PACKAGES[1:]], check=True)
    [libraries] = directory.glob("lib/python3*/site-packages/torch/lib")
    site = libraries.parent.parent
    subprocess.run([*install, *cuda_requirements(site)], check=True)
    for soname, symbols in missing(libraries, site).items():
        make_stub(libraries, soname, symbols)
        print(f"{soname}: {sum(map(len, symbols.values()))} symbols")
    check = directory / "check.py"
    check.write_text(CHECK, encoding="utf-8")
    meeting = directory / "meeting"
    meeting.unlink(missing_ok=True)
    subprocess.run([python, check, meeting], check=True)
    print(f". {directory}/bin/activate")


def cuda_requirements(site):
    """The versions of CUDA's run-time packages that the installed torch asks for."""
    [metadata] = site.glob("torch-*.dist-info/METADATA")
    text = metadata.read_text(encoding="utf-8")
    release = re.search(r"Requires-Dist: cuda-toolkit\[[^\]]*\]==(\d+\.\d+)", text)
    wanted = []
    for name in CUDA:
        own = re.search(rf"Requires-Dist: ({name}(?:-cu\d+)?)==([\w.]+)", text)
        if own:
            wanted.append(f"{own[1]}=={own[2]}")
        elif release and name != "nvidia-cufile":
            wanted.append(f"{name}=={release[1]}.*")
        else:
            wanted.append(name)
    return wanted


def missing(libraries, site):
    """For each library that cannot be found: the symbols wanted of it, by their version."""
    present = {path.name for path in site.glob("**/*.so*")}
    stubs, loose = {}, set()
    for library in sorted(libraries.glob("*.so*")):
        tables = run("readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", library)
        for soname in re.findall(r"\(NEEDED\).*\[(.+)\]", tables):
            if soname not in present and re.match(r"lib(cu|nv|nccl)", soname):
                stubs.setdefault(soname, {})
        owner, file = {}, None
        for line in tables.splitlines():
            if found := re.search(r"File: (\S+)\s+Cnt:", line):
                file = found[1]
            elif found := re.search(r"Name: (\S+)\s+Flags:.*Version: (\d+)", line):
                owner[found[1]] = file
        for name, version in re.findall(r" UND (\w+)(?:@+(\S+))?", tables):
            if owner.get(version) in stubs:
                stubs[owner[version]].setdefault(version, set()).add(name)
            elif not version and name.startswith(PREFIXES):
                loose.add(name)
    defined = set()
    for library in [*libraries.glob("*.so*"), *site.glob("nvidia/**/*.so*")]:
        symbols = run("readelf", "--wide", "--dyn-syms", library)
        defined.update(re.findall(r"(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)", symbols))
    for name in loose - defined:
        stems = [s for s in stubs if name.lower().startswith(s[3:].split(".so")[0].lower())]
        if stubs:
            home = max(stems, key=len) if stems else min(stubs)
            stubs[home].setdefault("", set()).add(name)
    return stubs


def make_stub(libraries, soname, symbols):
    """A library of this name with these symbols, in the directory where torch looks."""
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n"
                     for names in symbols.values() for name in sorted(names))
    command = ["cc", "-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", "-x", "c", "-",
               f"-Wl,-soname,{soname}", "-o", libraries / soname]
    script = "".join(f"{version} {{ global: {'; '.join(sorted(names))}; }};\n"
                     for version, names in symbols.items() if version)
    if script:
        versions = libraries / f"{soname}.versions"
        versions.write_text(script, encoding="utf-8")
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, input=source or "\n", text=True, check=True)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
