"""Calls under way as `torch.distributed.Work`, and the thread that ends those nobody waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from ._errors import Error

# How long the thread waits for one call before it looks at the others, in seconds.
_SLICE_MIN = 0.001
_SLICE_MAX = 0.02


def torch_error(error: BaseException) -> BaseException:
    """The exception that programs for `torch.distributed` expect, with the same text."""
    if not isinstance(error, Error):
        return error
    kind = getattr(dist, "DistBackendError", RuntimeError)
    raised = kind(f"fairway: {error}")
    raised.__cause__ = error
    return raised


# The works whose future this thread asks for, while `is_completed_of_any` looks for one.
_asked = threading.local()


def is_completed_of_any(of_torch: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The method `is_completed` of all works of torch, extended to those of Python.

    A work that reaches a program through a backend of Python is an object of C++ that calls the
    methods `wait` and `get_future` of `Work` below, but not `is_completed`: it would be False for
    ever. The call of `get_future` tells which work is behind it.
    """
    def is_completed(work: Any) -> bool:
        if of_torch(work) or type(work) is not dist.Work:
            return of_torch(work)
        _asked.works = []
        try:
            work.get_future()
            return any(asked.poll() for asked in _asked.works)
        except RuntimeError:
            return False  # Works of other backends may have no future.
        finally:
            _asked.works = None
    return is_completed


class Work(dist.Work):
    """One or more calls that have begun, and what is to be done when all have ended."""

    def __init__(self, calls: Sequence[Any], result: list[torch.Tensor], timeout: float,
                 after: Optional[Callable[[], None]] = None) -> None:
        super().__init__()
        self._calls = list(calls)
        self._result = result
        self._after = after
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._lock = threading.RLock()
        self._ended = False
        self._error: Optional[BaseException] = None
        # The end of the calls; and what `get_future` returns, which is made of it, because a future
        # of torch has the error of a callback in a form that C++ knows, too.
        self._ended_future: Optional[torch.futures.Future[Any]] = None
        self._future: Optional[torch.futures.Future[Any]] = None
        self.watcher: Optional[Watcher] = None

    def _end(self) -> None:
        """Takes the outcome of the calls, all of which have ended."""
        with self._lock:
            if self._ended:
                return
            try:
                for call in self._calls:
                    call.wait(0)
                if self._after is not None:
                    with torch.no_grad():
                        self._after()
            except BaseException as error:  # The caller, or the future, gets it.
                self._error = torch_error(error)
            # Nothing refers to the buffers any longer.
            self._calls, self._after = [], None
            self._ended = True
            ended = self._ended_future
        if ended is not None:
            ended.set_result(None)

    def _outcome(self, _ended: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def poll(self) -> bool:
        """True if the calls have ended, in success or failure."""
        if not self._ended and all(call.done() for call in list(self._calls)):
            self._end()
        return self._ended

    def advance(self, seconds: float) -> None:
        """Waits for a call for at most this time. If the time of the call is up, ends the group."""
        for call in list(self._calls):
            if not call.done():
                if time.monotonic() > self._deadline:
                    try:
                        call.wait(0)
                    except Error:
                        pass  # It is raised again when the outcome is taken.
                else:
                    call.wait_a_while(seconds)
                break

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        seconds = timeout.total_seconds() if timeout is not None else 0
        deadline = time.monotonic() + (seconds if seconds > 0 else self._timeout)
        for call in list(self._calls):
            try:
                call.wait(max(deadline - time.monotonic(), 0))
            except (Error, RuntimeError):
                pass  # It is raised again when the outcome is taken.
        self._end()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.poll()

    def is_success(self) -> bool:
        return self.poll() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error if self.poll() else None

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._result

    def get_future(self) -> torch.futures.Future[Any]:
        if (asked := getattr(_asked, "works", None)) is not None:
            asked.append(self)
            return torch.futures.Future()
        with self._lock:
            if self._future is not None:
                return self._future
            ended: torch.futures.Future[Any] = torch.futures.Future()
            self._ended_future, self._future = ended, ended.then(self._outcome)
            has_ended = self._ended
        if has_ended:
            ended.set_result(None)
        elif self.watcher is not None:
            self.watcher.add(self)
        return self._future


class Watcher:
    """A thread that ends works while no thread waits for them, and completes their futures."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._works: dict[int, Work] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: Optional[threading.Thread] = None

    def add(self, work: Work) -> None:
        with self._changed:
            self._works[id(work)] = work
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        pause = _SLICE_MIN
        while True:
            with self._changed:
                while not self._works and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                works = list(self._works.values())
            if not self._sweep(works):
                works[0].advance(pause)
                pause = min(2 * pause, _SLICE_MAX)
            else:
                pause = _SLICE_MIN

    def _sweep(self, works: list[Work]) -> bool:
        """Removes the works that have ended. Returns true if there was one."""
        ended = [work for work in works if work.poll()]
        with self._changed:
            for work in ended:
                self._works.pop(id(work), None)
        return bool(ended)

    def drain(self, seconds: float) -> bool:
        """Waits for all works for at most this time. Returns true if all have ended."""
        deadline = time.monotonic() + seconds
        while True:
            with self._changed:
                works = list(self._works.values())
            self._sweep(works)
            unfinished = [work for work in works if not work.poll()]
            if not unfinished or time.monotonic() > deadline:
                return not unfinished
            unfinished[0].advance(_SLICE_MAX)

    def close(self) -> None:
        """Ends the thread. Works that have not ended by then end when they are waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._changed:
            works = list(self._works.values())
            self._works.clear()
        for work in works:
            work.poll()
