"""The backend `fairway` of `torch.distributed`, for tensors of the CPU.

From torch 2.14 on, an installed package is found by itself; before, `import fairway.torch` first:

    torch.distributed.init_process_group("fairway")
    torch.distributed.init_process_group("cpu:fairway,cuda:nccl")

Settings come from the environment: `FAIRWAY_BIND` is the address of this host to use (by default
the one from which it reaches MASTER_ADDR), `FAIRWAY_POLICY` a policy of the network,
`FAIRWAY_ALGORITHM` an algorithm for all operations that it can execute, and `FAIRWAY_PEER_TIMEOUT`
the silence in seconds after which the others give a rank up.
"""

from __future__ import annotations

import atexit
import ipaddress
import os
import weakref
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from . import _torch_buffers as buffers
from ._errors import Error, Invalid
from ._fairway import own_address
from ._torch_group import Group, Tensors
from ._torch_work import Work, is_completed_of_any, torch_error

__all__ = ["FairwayBackend", "FairwayProcessGroup", "register"]

_open: weakref.WeakSet[Group] = weakref.WeakSet()


def _opts(kind: str, **values: Any) -> Any:
    made = getattr(dist, kind)()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _raises(method: Any) -> Any:
    """Lets a method raise what programs for torch expect."""
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return method(self, *arguments, **named)
        except Error as error:
            if isinstance(error, Invalid):
                raise
            raise torch_error(error) from error
    call.__name__, call.__doc__ = method.__name__, method.__doc__
    return call


class _Operations:
    """The methods that torch calls, for both classes below."""

    group: Group

    def getBackendName(self) -> str:
        return "fairway"

    def name(self) -> str:
        return "fairway"

    def rank(self) -> int:
        return self.group.rank

    def size(self) -> int:
        return self.group.size

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Any = None) -> Work:
        if isinstance(tensors, torch.Tensor):
            tensors = [tensors]
        if not hasattr(opts, "reduceOp"):
            opts = _opts("AllreduceOptions", **({"reduceOp": opts} if opts is not None else {}))
        return self.group.all_reduce(tensors, opts)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        return self.group.broadcast(tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        return self.group.reduce(tensors, opts)

    def allgather(self, outputs: Any, inputs: Tensors, opts: Any = None) -> Work:
        return self.group.all_gather(outputs, inputs, opts)

    def allgather_coalesced(self, outputs: Any, inputs: Tensors, opts: Any = None) -> Work:
        # In torch there is a list for each rank; here, one for each tensor.
        return self.group.all_gather([list(parts) for parts in zip(*outputs)], inputs, opts)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor,
                          opts: Any = None) -> Work:
        return self.group.all_gather_single([output], [source], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors,
                                    opts: Any = None) -> Work:
        return self.group.all_gather_single(outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Tensors, opts: Any) -> Work:
        return self.group.gather(outputs, inputs, opts)

    def scatter(self, outputs: Tensors, inputs: Any, opts: Any) -> Work:
        return self.group.scatter(outputs, inputs, opts)

    def reduce_scatter(self, outputs: Tensors, inputs: Any, opts: Any) -> Work:
        return self.group.reduce_scatter(outputs, inputs, opts)

    def reduce_scatter_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any) -> Work:
        return self.group.reduce_scatter_single([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors,
                                        opts: Any) -> Work:
        return self.group.reduce_scatter_single(outputs, inputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work:
        return self.group.all_to_all(outputs, inputs, opts)

    def all_to_all_single(self, output: torch.Tensor, source: torch.Tensor, output_splits: Any,
                          input_splits: Any, opts: Any = None) -> Work:
        splits = (list(output_splits or []), list(input_splits or []))
        return self.group.all_to_all_single(output, source, splits, opts)

    alltoall_base = all_to_all_single

    def send(self, tensors: Tensors, to: int, tag: int = 0) -> Work:
        return self.group.send(tensors, to, tag)

    def recv(self, tensors: Tensors, source: int, tag: int = 0) -> Work:
        return self.group.receive(tensors, source, tag)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> Work:
        raise Invalid("fairway receives from one rank at a time: name the rank in `src`")

    def barrier(self, opts: Any = None) -> Work:
        return self.group.barrier(opts)

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        timeout = getattr(opts, "timeout", opts)
        self.group.monitored_barrier(timeout, wait_all_ranks)

    def start_coalescing(self) -> None:
        self.group.start_coalescing()

    def end_coalescing(self) -> Work:
        return self.group.end_coalescing()

    @property
    def supports_coalescing(self) -> bool:
        # If it is True, torch lets only one thread at a time begin a batch of sends and receives.
        return False

    def set_timeout(self, timeout: timedelta) -> None:
        self.group.timeout = timeout.total_seconds()

    def _set_default_timeout(self, timeout: timedelta) -> None:
        self.set_timeout(timeout)

    def _set_sequence_number_for_group(self) -> None:
        pass

    @property
    def options(self) -> Any:
        made = dist._Backend.Options("fairway")
        made._timeout = timedelta(seconds=self.group.timeout)
        return made

    @property
    def supports_splitting(self) -> bool:
        return False  # `new_group` makes sub-groups.

    @property
    def supports_shrinking(self) -> bool:
        return False

    def abort(self) -> None:
        self.group.abort()
        _keep.pop(id(self), None)

    def shutdown(self) -> None:
        self.group.close()
        _keep.pop(id(self), None)


for _name, _method in list(vars(_Operations).items()):
    if callable(_method) and not _name.startswith("__"):
        setattr(_Operations, _name, _raises(_method))


class FairwayBackend(_Operations, dist._Backend):
    """The backend for torch 2.14 and later, where a group may have one for each device."""

    def __init__(self, group: Group) -> None:
        dist._Backend.__init__(self, group.rank, group.size)
        self.group = group


class FairwayProcessGroup(_Operations, dist.ProcessGroup):
    """The process group for earlier versions of torch, where a backend of Python is the group."""

    def __init__(self, group: Group) -> None:
        dist.ProcessGroup.__init__(self, group.rank, group.size)
        self.group = group

    def _start_coalescing(self, device: Any) -> None:
        self.group.start_coalescing()

    def _end_coalescing(self, device: Any) -> Work:
        return self.group.end_coalescing()


def _master(store: Any) -> Optional[str]:
    """The host of rank 0, if the store or the environment knows it."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return getattr(store, "host", None) or os.environ.get("MASTER_ADDR")


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise Invalid(f"{name}={text}: give a number of seconds above 0")
    return seconds


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _settings(store: Any) -> dict[str, Any]:
    bind = os.environ.get("FAIRWAY_BIND")
    # Without a master, the address of the default route; alone, that of the host itself.
    if bind is not None and not _is_address(bind):
        raise Invalid(f"FAIRWAY_BIND={bind}: give an IP address of this host")
    bind = bind or own_address(_master(store) or "192.0.2.1") or "127.0.0.1"
    settings: dict[str, Any] = {"bind": bind}
    if text := os.environ.get("FAIRWAY_PEER_TIMEOUT"):
        settings["peer_timeout"] = _seconds("FAIRWAY_PEER_TIMEOUT", text)
    for name in ("policy", "algorithm"):
        if value := os.environ.get(f"FAIRWAY_{name.upper()}"):
            settings[name] = value
    return settings


def _has_python_backends() -> bool:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return version >= (2, 14)


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    group = Group(store, rank, size, timeout, lambda: _settings(store))
    _open.add(group)
    kind = FairwayBackend if _has_python_backends() else FairwayProcessGroup
    made = kind(group)
    _keep[id(made)] = made  # torch holds the part of C++ only.
    return made


# The backends whose groups have not been left, by their identity.
_keep: dict[int, Any] = {}


@atexit.register
def _close_all() -> None:
    """The last messages of this rank arrive before the process ends; children close nothing."""
    for group in list(_open):
        group.close()


def register() -> None:
    """Registers the backend; importing this module does it, too."""
    if not hasattr(dist.Backend, "FAIRWAY"):
        dist.Backend.register_backend("fairway", _create, devices=["cpu"])
        if _has_python_backends():
            dist.Work.is_completed = is_completed_of_any(dist.Work.is_completed)


if dist.is_available():
    register()
