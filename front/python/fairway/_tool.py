"""The files of the wheel beside the package: the tool, the verbs libraries, the NCCL plug-in."""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Optional

_PACKAGE = pathlib.Path(__file__).resolve().parent
# The tool looks for the libraries here, beside its own directory.
_LIBRARIES = _PACKAGE / "lib" / "fairway"
_PLUGIN = _PACKAGE / "lib" / "libnccl-net-fairway.so"


class MissingPart(RuntimeError):
    """A file that wheels contain is not there; the message says how to get it."""


def find_tool(tool: "str | os.PathLike[str] | None" = None) -> Optional[str]:
    """The path of the tool, or None: what is given, what the environment names, the one of the
    wheel, the one of the search path."""
    if tool:
        return os.fspath(tool)
    named = os.environ.get("FAIRWAY_TOOL") or os.environ.get("FAIRWAY")
    own = _PACKAGE / "bin" / "fairway"
    return named or (str(own) if own.is_file() else shutil.which("fairway"))


def tool_path() -> str:
    """Returns the path of the program `fairway`: the one that the variable FAIRWAY_TOOL names, the
    one in this wheel, or the one of the search path.

    Raises:
        MissingPart: There is none.
    """
    found = find_tool()
    if not found:
        raise MissingPart(
            "there is no program 'fairway' in this package nor in the search path: install the "
            "wheel (make wheel), or set FAIRWAY_TOOL to the path of the program")
    return found


def nccl_env() -> "dict[str, str]":
    """Returns the environment variables with which NCCL uses Fairway as its network.

    They have to be set before NCCL is initialised: `os.environ.update(fairway.nccl_env())`.

    Raises:
        MissingPart: This package has no plug-in for NCCL.
    """
    if not _PLUGIN.is_file():
        raise MissingPart(
            f"there is no {_PLUGIN.name} in {_PLUGIN.parent}: install a wheel of a platform for "
            "which the plug-in is built (make wheel), or set NCCL_NET_PLUGIN to its path yourself")
    return {"NCCL_NET_PLUGIN": str(_PLUGIN), "NCCL_NET": "Fairway"}


def verbs_env() -> "dict[str, str]":
    """Returns the environment variables with which programs use Fairway's libibverbs.so.1 and
    librdmacm.so.1, as `fairway run` sets them.

    The loader reads them when a program starts, so they are for `subprocess.run(..., env={
    **os.environ, **fairway.verbs_env()})`.

    Raises:
        MissingPart: This package has no verbs libraries.
    """
    first = _LIBRARIES / "libibverbs.so.1"
    for library in (first, _LIBRARIES / "librdmacm.so.1"):
        if not library.is_file():
            raise MissingPart(f"there is no {library.name} in {library.parent}: install the wheel "
                              "(make wheel), or start the program by `fairway run`")

    def in_front(entry: pathlib.Path, variable: str) -> str:
        rest = os.environ.get(variable)
        return f"{entry}:{rest}" if rest else str(entry)

    return {"LD_LIBRARY_PATH": in_front(_LIBRARIES, "LD_LIBRARY_PATH"),
            "LD_PRELOAD": in_front(first, "LD_PRELOAD")}
