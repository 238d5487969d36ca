"""The operations of `torch.distributed` by those of a group of ranks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Optional

import torch

from . import _torch_buffers as buffers
from ._errors import Error, Invalid
from ._fairway import Ranks
from ._torch_mail import Inbox, place
from ._torch_work import Watcher, Work, check_process, torch_error

Tensors = Sequence[torch.Tensor]

# The ranks end a call by themselves after this time, if no thread of Python does.
_NATIVE_TIMEOUT = 366 * 24 * 3600.0
# Silence after which the others give a rank up, in seconds.
_SILENCE = 30.0
# Time for what rank 0 finds out about a monitored barrier to reach the others.
_ANSWER = timedelta(seconds=10)
# What the entry of a rank in the store begins with: its record follows, or why it can't join.
_RECORD, _FAILED = b"+", b"-"
# Time for calls under way when a group is left, in seconds.
_LEAVE = 5.0


def _pair(source: Optional[torch.Tensor], target: Optional[torch.Tensor]) -> tuple[Any, ...]:
    return (*place(source), *place(target), (source, target))


def _single(lists: Sequence[Any]) -> Any:
    if len(lists) != 1:
        raise Invalid(f"{len(lists)} tensors for one device: pass one")
    return lists[0]


def _bytes(tensors: Tensors) -> list[int]:
    return [place(tensor)[1] for tensor in tensors]


def _await(store: Any, key: str, limit: timedelta) -> Optional[bytes]:
    try:
        store.wait([key], limit)
    except RuntimeError:
        return None
    return bytes(store.get(key))


class Group:
    """The operations of one rank of a group. Every method begins a call and returns a `Work`."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta,
                 settings: Callable[[], dict[str, Any]]) -> None:
        self.rank, self.size = rank, size
        self.timeout = timeout.total_seconds()
        self._store: Optional[Any] = store
        self._prefix = ""
        self._inboxes: dict[int, Inbox] = {}
        self._send_lock = threading.Lock()
        self._barriers = 0
        self._coalescing = threading.local()
        self._closed = False
        self._process = os.getpid()
        self._watcher = Watcher(f"fairway-torch-{rank}")
        options = {"setup_timeout": self.timeout, "timeout": _NATIVE_TIMEOUT,
                   "peer_timeout": min(_SILENCE, self.timeout)}
        try:
            self._ranks = Ranks(rank, size, self._exchange, {**options, **settings()})
        except Error as error:
            if not self._prefix:
                self._announce(_FAILED + str(error).encode())  # The others need not wait.
            raise torch_error(error) from error

    def _announce(self, entry: bytes) -> None:
        """Stores the entry of this rank for the group that is being made.

        A program may leave a group and make it again with the same store, which keeps the keys of
        the group before. The store counts the groups of each rank, so that a process that replaces
        another one goes on with its number.
        """
        store = self._store
        assert store is not None, "the group is being made"
        count = store.add(f"fairway/groups/{self.rank}", 1)
        self._prefix = f"fairway/{count}/"
        store.set(f"{self._prefix}{self.rank}", entry)

    def _exchange(self, record: bytes, timeout: float) -> list[bytes]:
        """Passes the record of this rank to all ranks, by the store of torch."""
        self._announce(_RECORD + record)
        store = self._store
        assert store is not None, "the group is being made"
        keys = [f"{self._prefix}{rank}" for rank in range(self.size)]
        store.wait(keys, timedelta(seconds=timeout))
        entries = [bytes(store.get(key)) for key in keys]
        for rank, entry in enumerate(entries):
            if entry.startswith(_FAILED):
                raise Error(f"rank {rank} can't join the group: {entry[1:].decode()}")
        return [entry[1:] for entry in entries]

    def _work(self, opts: Any, calls: Sequence[Any], result: Tensors,
              after: buffers.After = None) -> Work:
        limit = getattr(opts, "timeout", None)
        seconds = limit.total_seconds() if limit is not None else 0
        work = Work(calls, list(result), seconds if seconds > 0 else self.timeout, after)
        work.watcher = self._watcher
        # A call whose caller waits for it at once needs no other thread.
        is_async = getattr(opts, "asyncOp", True)
        batch: Optional[list[Work]] = getattr(self._coalescing, "batch", None)
        if is_async or batch is not None:
            for call in calls:
                call.go_on()
        if is_async:
            self._watcher.add(work)
        if batch is not None:
            # torch does not end a batch in which an exception was raised, so a batch must not keep
            # the tensors of works that have ended.
            batch[:] = [begun for begun in batch if not begun.has_succeeded()]
            batch.append(work)
        return work

    def _begin(self, begin: Callable[..., Any], *arguments: Any) -> Any:
        check_process(self._process)
        try:
            return begin(*arguments)
        except Error as error:
            raise torch_error(error) from error

    # Reductions.

    def all_reduce(self, tensors: Tensors, opts: Any) -> Work:
        calls, afters = [], []
        for tensor in tensors:
            call, after = self._reduce_one(tensor, opts.reduceOp, None)
            calls.append(call)
            afters.append(after)
        return self._work(opts, calls, tensors, buffers.all_of(*afters))

    def reduce(self, tensors: Tensors, opts: Any) -> Work:
        tensor = _single(tensors)
        call, after = self._reduce_one(tensor, opts.reduceOp, opts.rootRank)
        return self._work(opts, [call], tensors, after)

    def _reduce_one(self, tensor: torch.Tensor, op: Any, root: Optional[int]
                    ) -> tuple[Any, buffers.After]:
        """Reduces to a root, or to all ranks."""
        buffers.check(tensor)
        if (combine := buffers.bitwise(op, tensor.dtype)) is not None:
            source = buffers.plain(tensor)
            all_ranks = torch.empty((self.size, *source.shape), dtype=source.dtype)
            aim = "all_reduce" if root is None else f"reduce to rank {root}"
            call = self._begin(self._ranks.all_gather, _pair(source, all_ranks),
                               self.size * [place(source)[1]], self._label(tensor, aim, op))
            keeps = root is None or root == self.rank
            return call, (lambda: buffers.assign(tensor, combine(all_ranks))) if keeps else None
        numbers = buffers.numbers(tensor.dtype, op)
        memory = buffers.numeric(tensor, op)
        is_own = memory.data_ptr() == tensor.data_ptr()
        if not is_own and root in (None, self.rank):
            buffers.check_writable(tensor)
        if root is None:
            call = self._begin(self._ranks.all_reduce, _pair(memory, memory), numbers,
                               self._label(tensor))
        else:
            target = memory if root == self.rank else None
            call = self._begin(self._ranks.reduce, _pair(memory, target), numbers, root,
                               self._label(tensor))
        if is_own or root not in (None, self.rank):
            return call, None
        return call, lambda: buffers.assign(tensor, buffers.restored(memory, tensor.dtype))

    def reduce_scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        output, parts = _single(outputs), _single(inputs)
        self._check_count(parts, "input")
        call, after = self._reduce_scatter_one(output, buffers.gathered(parts), opts.reduceOp,
                                               [part.numel() for part in parts])
        return self._work(opts, [call], outputs, after)

    def reduce_scatter_single(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        calls, afters = [], []
        for output, source in zip(outputs, inputs):
            call, after = self._reduce_scatter_one(output, source, opts.reduceOp,
                                                   self.size * [output.numel()])
            calls.append(call)
            afters.append(after)
        return self._work(opts, calls, outputs, buffers.all_of(*afters))

    def _reduce_scatter_one(self, output: torch.Tensor, source: torch.Tensor, op: Any,
                            counts: list[int]) -> tuple[Any, buffers.After]:
        self._check_types(output, source)
        if sum(counts) != source.numel() or counts[self.rank] != output.numel():
            raise Invalid(f"an input of {source.numel()} elements and an output of "
                          f"{output.numel()}, but the parts of the ranks are {counts}: pass "
                          "tensors of these lengths")
        if (combine := buffers.bitwise(op, source.dtype)) is not None:
            plain, own = buffers.plain(source), counts[self.rank]
            parts = torch.empty((self.size, own), dtype=source.dtype)
            sizes = [count * source.element_size() for count in counts]
            call = self._begin(self._ranks.all_to_all, _pair(plain, parts), sizes,
                               self.size * [sizes[self.rank]],
                               self._label(source, "reduce_scatter", op))
            return call, lambda: buffers.assign(output, combine(parts).view(output.shape))
        numbers, memory = buffers.numbers(source.dtype, op), buffers.numeric(source, op)
        target, after = buffers.result(output, op)
        width = memory.element_size() * (2 if source.is_complex() else 1)
        pieces = [count * width for count in counts]
        return self._begin(self._ranks.reduce_scatter, _pair(memory, target), pieces, numbers,
                           self._label(source)), after

    @staticmethod
    def _label(tensor: torch.Tensor, aim: str = "", op: Any = None) -> str:
        """What the calls of all ranks must have in common, apart from what the ranks execute."""
        return f"{aim} {buffers.op_name(op)}, {tensor.dtype}" if aim else str(tensor.dtype)

    @staticmethod
    def _check_types(output: torch.Tensor, source: torch.Tensor) -> None:
        buffers.check(output, source)
        if output.dtype != source.dtype:
            raise Invalid(f"the output has {output.dtype}, the input {source.dtype}: "
                          "pass tensors of the same type")

    def _check_count(self, parts: Tensors, name: str) -> None:
        if len(parts) != self.size:
            raise Invalid(f"{len(parts)} {name} tensors for {self.size} ranks: pass one for each")

    def _check_parts(self, parts: Tensors, own: torch.Tensor, name: str) -> None:
        """Refuses the parts of a root that are not like its own tensor, one for each rank."""
        self._check_count(parts, name)
        buffers.check(own, *parts)
        for rank, part in enumerate(parts):
            if part.dtype != own.dtype or part.numel() != own.numel():
                raise Invalid(f"the {name} tensor of rank {rank} has {part.numel()} elements of "
                              f"{part.dtype}, that of each rank {own.numel()} of {own.dtype}: "
                              "pass tensors of the same type and length")

    # Copies.

    def broadcast(self, tensors: Tensors, opts: Any) -> Work:
        tensor, root = _single(tensors), opts.rootRank
        if root == self.rank:
            source = buffers.plain(tensor)
            call = self._begin(self._ranks.broadcast, _pair(source, source), root,
                               self._label(tensor))
            return self._work(opts, [call], tensors)
        target, after = buffers.into(tensor)
        call = self._begin(self._ranks.broadcast, _pair(None, target), root, self._label(tensor))
        return self._work(opts, [call], tensors, after)

    def all_gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        calls, afters = [], []
        for parts, source in zip(outputs, inputs):
            self._check_count(parts, "output")
            self._check_types(parts[0], source)
            target, after = buffers.spread(parts)
            calls.append(self._begin(self._ranks.all_gather,
                                     _pair(buffers.plain(source), target), _bytes(parts),
                                     self._label(source)))
            afters.append(after)
        return self._work(opts, calls, [t for parts in outputs for t in parts],
                          buffers.all_of(*afters))

    def all_gather_single(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        calls, afters = [], []
        for output, source in zip(outputs, inputs):
            self._check_types(output, source)
            target, after = buffers.into(output)
            plain = buffers.plain(source)
            calls.append(self._begin(self._ranks.all_gather, _pair(plain, target),
                                     self.size * [place(plain)[1]], self._label(source)))
            afters.append(after)
        return self._work(opts, calls, outputs, buffers.all_of(*afters))

    def gather(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work:
        source, target, after = buffers.plain(_single(inputs)), None, None
        parts: Tensors = []
        if opts.rootRank == self.rank:
            parts = _single(outputs)
            self._check_parts(parts, source, "output")
            target, after = buffers.spread(parts)
        pieces = self.size * [place(source)[1]]
        call = self._begin(self._ranks.gather, _pair(source, target), pieces, opts.rootRank,
                           self._label(source))
        return self._work(opts, [call], parts, after)

    def scatter(self, outputs: Tensors, inputs: Sequence[Tensors], opts: Any) -> Work:
        output, source = _single(outputs), None
        target, after = buffers.into(output)
        if opts.rootRank == self.rank:
            parts = _single(inputs)
            self._check_parts(parts, output, "input")
            source = buffers.gathered(parts)
        pieces = self.size * [place(target)[1]]
        call = self._begin(self._ranks.scatter, _pair(source, target), pieces, opts.rootRank,
                           self._label(output))
        return self._work(opts, [call], outputs, after)

    def all_to_all(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        for parts, name in ((outputs, "output"), (inputs, "input")):
            self._check_count(parts, name)
            buffers.check(*parts)
            if any(part.dtype != parts[0].dtype for part in parts):
                raise Invalid(f"the {name} tensors have several types: pass tensors of one type")
        source = buffers.gathered(inputs)
        target, after = buffers.spread(outputs)
        self._check_types(target, source)
        call = self._begin(self._ranks.all_to_all, _pair(source, target), _bytes(inputs),
                           _bytes(outputs), "")
        return self._work(opts, [call], outputs, after)

    def all_to_all_single(self, output: torch.Tensor, source: torch.Tensor,
                          splits: tuple[list[int], list[int]], opts: Any) -> Work:
        self._check_types(output, source)
        target, after = buffers.into(output)
        plain = buffers.plain(source)
        received, sent = self._split(output, splits[0]), self._split(source, splits[1])
        call = self._begin(self._ranks.all_to_all, _pair(plain, target), sent, received, "")
        return self._work(opts, [call], [output], after)

    def _split(self, tensor: torch.Tensor, rows: list[int]) -> list[int]:
        """Bytes of the parts of each rank, along the first dimension."""
        count, total = tensor.size(0) if tensor.dim() else 1, place(tensor)[1]
        if not rows:
            if count % self.size:
                raise Invalid(f"{count} rows can't be split among {self.size} ranks evenly: "
                              "pass the sizes of the splits")
            rows = self.size * [count // self.size]
        if len(rows) != self.size or sum(rows) != count or min(rows) < 0:
            raise Invalid(f"the splits {rows} are not {self.size} that have {count} rows together, "
                          "none of them less than 0")
        row = total // count if count else 0
        return [part * row for part in rows]

    # Messages.

    def send(self, tensors: Tensors, to: int, tag: int) -> Work:
        plain = buffers.plain(_single(tensors))
        head = torch.tensor([tag, place(plain)[1]], dtype=torch.int64)
        with self._send_lock:
            calls = [self._begin(self._ranks.send, _pair(head, None), to)]
            if place(plain)[1] > 0:
                calls.append(self._begin(self._ranks.send, _pair(plain, None), to))
        return self._work(None, calls, tensors)

    def receive(self, tensors: Tensors, source: int, tag: int) -> Work:
        check_process(self._process)
        tensor = _single(tensors)
        target, after = buffers.into(tensor)
        with self._send_lock:
            inbox = self._inboxes.setdefault(source, Inbox(self._ranks, source))
        return self._work(None, [inbox.receive(target, tag)], tensors, after)

    # Everything else.

    def barrier(self, opts: Any) -> Work:
        return self._work(opts, [self._begin(self._ranks.barrier)], [])

    def monitored_barrier(self, timeout: Optional[timedelta], wait_all: bool) -> None:
        """A barrier by the store: rank 0 finds out who is missing, and tells everybody."""
        check_process(self._process)
        if (store := self._store) is None:
            raise Invalid("the group is closed: make another one")
        seconds = timeout.total_seconds() if timeout is not None else 0
        limit = timedelta(seconds=seconds if seconds > 0 else self.timeout)
        prefix = f"{self._prefix}barrier/{self._next_barrier(store)}/"
        if self.rank > 0:
            store.set(f"{prefix}{self.rank}", b"here")
            # Rank 0 waits for the last of all others before it answers.
            verdict = _await(store, f"{prefix}end", limit + max(limit, _ANSWER))
            if verdict is None:
                raise RuntimeError(f"Rank 0 failed to pass monitoredBarrier in "
                                   f"{limit // timedelta(milliseconds=1)} ms")
            if verdict:
                raise RuntimeError(verdict.decode())
            return
        deadline = time.monotonic() + limit.total_seconds()
        missing, text = [], ""
        for rank in range(1, self.size):
            left = max(deadline - time.monotonic(), 0.1)
            if _await(store, f"{prefix}{rank}", timedelta(seconds=left)) is None:
                missing.append(rank)
                if not wait_all:
                    break
        if missing:
            ranks = ", ".join(map(str, missing))
            word = "Rank" if len(missing) == 1 else "Ranks"
            text = (f"{word} {ranks} failed to pass monitoredBarrier in "
                    f"{limit // timedelta(milliseconds=1)} ms")
        store.set(f"{prefix}end", text.encode())
        if missing:
            raise RuntimeError(text)

    def _next_barrier(self, store: Any) -> int:
        """The number of a monitored barrier that begins.

        Rank 0 counts them. Another rank takes part in the one that is under way, or else in the
        next one, so that a rank which has missed one is in step again.
        """
        key = f"{self._prefix}barriers"
        if self.rank == 0:
            return int(store.add(key, 1)) - 1
        begun = int(store.add(key, 0))
        has_ended = begun == 0 or store.check([f"{self._prefix}barrier/{begun - 1}/end"])
        number = max(begun if has_ended else begun - 1, self._barriers)
        self._barriers = number + 1
        return number

    def start_coalescing(self) -> None:
        check_process(self._process)
        self._coalescing.batch = []

    def end_coalescing(self) -> Work:
        check_process(self._process)
        batch, self._coalescing.batch = getattr(self._coalescing, "batch", None) or [], None
        return self._work(None, [_Ended(work) for work in batch], [])

    def abort(self) -> None:
        if self._process == os.getpid():
            self._ranks.abort("the program aborted the process group")
        self.close()

    def close(self) -> None:
        """Waits for calls under way for a while, and leaves the group.

        Does nothing in a child of the process that made the group: it has no thread of the group,
        and what it did would reach the other ranks in the name of its parent.
        """
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        if not self._watcher.drain(_LEAVE):
            self._ranks.abort("it left the group with calls under way")
        self._watcher.close()
        self._ranks.close()
        self._store = None  # It may listen at a port as long as it lives.


class _Ended:
    """A work as a call of another one."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def go_on(self) -> None:
        """The work's calls go on already."""

    def done(self) -> bool:
        return self._work.poll()

    def wait_a_while(self, seconds: float) -> bool:
        self._work.advance(seconds)
        return self._work.poll()

    def wait(self, timeout: float) -> None:
        self._work.wait(timedelta(seconds=max(timeout, 1e-6)))
