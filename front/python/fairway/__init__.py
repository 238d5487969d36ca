"""Remote memory over ordinary Ethernet, and the simulator of the networks below it.

`Context`, `Segment` and `Peer` read and write memory of other machines; `fairway.sim.run` and
`sweep` run the simulator; `nccl_env` and `verbs_env` set up NCCL and RDMA programs. Names are
imported when they are first used, so that programs which only simulate load no extension.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._errors import (ConnectionRefused, Error, Invalid, LimitReached, OperationFailed, PeerGone,
                      RemoteAccess, SystemFailure, Timeout)
from ._sweep import SweepError, sweep, write_csv
from ._tool import MissingPart, nccl_env, tool_path, verbs_env

if TYPE_CHECKING:
    from . import sim
    from ._inbox import Epoch, Jetty, Mailbox, Message
    from ._memory import Context, Key, Operation, Peer, RemoteMemory, Segment

__version__ = "0.1.0"

__all__ = [
    "ConnectionRefused", "Context", "Epoch", "Error", "Invalid", "Jetty", "Key", "LimitReached",
    "Mailbox", "Message", "MissingPart", "Operation", "OperationFailed", "Peer", "PeerGone",
    "RemoteAccess", "RemoteMemory", "Segment", "SweepError", "SystemFailure", "Timeout",
    "nccl_env", "sim", "sweep", "tool_path", "verbs_env", "write_csv",
]

# The modules of the names that are imported late.
_LATE = {
    **dict.fromkeys(["Context", "Key", "Operation", "Peer", "RemoteMemory", "Segment"], "_memory"),
    **dict.fromkeys(["Epoch", "Jetty", "Mailbox", "Message"], "_inbox"),
}


def __getattr__(name: str) -> Any:
    if name == "sim":
        return importlib.import_module(".sim", __name__)
    if name in _LATE:
        value = getattr(importlib.import_module("." + _LATE[name], __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
