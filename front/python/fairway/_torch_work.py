"""Calls under way as `torch.distributed.Work`, and the threads that end those nobody waits for."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from ._errors import Error, Invalid

# How long the thread waits for one call before it looks at the others, in seconds.
_SLICE_MIN = 0.001
_SLICE_MAX = 0.02
# Threads without a task that are kept for the next one.
_IDLE_MAX = 2


def torch_error(error: BaseException) -> BaseException:
    """The exception that programs for `torch.distributed` expect, with the same text.

    An argument that is wrong is not the end of the group, and remains `Invalid`.
    """
    if isinstance(error, Invalid) or not isinstance(error, Error):
        return error
    kind = getattr(dist, "DistBackendError", RuntimeError)
    raised = kind(f"fairway: {error}")
    raised.__cause__ = error
    return raised


def check_process(process: int) -> None:
    """Refuses what a child does with a group of the process `process`."""
    if process != os.getpid():
        raise Invalid("the group is of the process that made it: make another one in the child")


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
        self._process = os.getpid()
        self._error: Optional[BaseException] = None
        # The end of the calls; and what `get_future` returns, which is made of it, because a future
        # of torch has the error of a callback in a form that C++ knows, too.
        self._ended_future: Optional[torch.futures.Future[Any]] = None
        self._due: Optional[torch.futures.Future[Any]] = None
        self._future: Optional[torch.futures.Future[Any]] = None
        self.watcher: Optional[Watcher] = None

    def complete_future(self) -> None:
        """Completes the future of the end, if there is one that no other thread completes."""
        with self._lock:
            ended, self._due = self._due, None
        if ended is not None:
            ended.set_result(None)

    def _end(self) -> bool:
        """Takes the outcome of the calls, all of which have ended.

        Returns true if there is a future now that is to be completed.
        """
        with self._lock:
            if self._ended:
                return False
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
            self._due = self._ended_future
            return self._due is not None

    def _outcome(self, _ended: Any) -> list[torch.Tensor]:
        if self._error is not None:
            raise self._error
        return self._result

    def poll(self) -> bool:
        """True if the calls have ended, in success or failure."""
        check_process(self._process)
        if not self._ended and all(call.done() for call in list(self._calls)):
            if self._end() and self.watcher is not None:
                # A thread that only looks at a work does not run its callbacks.
                self.watcher.complete(self)
        return self._ended

    def has_succeeded(self) -> bool:
        """True if it is known that the calls have ended in success."""
        return self._ended and self._error is None

    def advance(self, seconds: float) -> None:
        """Waits for a call for at most this time."""
        for call in list(self._calls):
            if not call.done():
                call.wait_a_while(seconds)
                break

    def expire(self) -> None:
        """Ends the group if the time of the calls is up."""
        if time.monotonic() <= self._deadline:
            return
        for call in list(self._calls):
            if not call.done():
                try:
                    call.wait(0)
                except (Error, RuntimeError):
                    pass  # It is raised again when the outcome is taken.
                break

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        check_process(self._process)
        seconds = timeout.total_seconds() if timeout is not None else 0
        deadline = time.monotonic() + (seconds if seconds > 0 else self._timeout)
        try:
            self._wait_for_calls(deadline)
        except BaseException:
            # The handler of a signal has raised (KeyboardInterrupt). The calls go on without this
            # thread, and end the group if they have not ended when their time is up.
            self._leave()
            raise
        self._end()
        self.complete_future()
        # A work whose end was waited for has a future that is complete: another thread that has
        # taken it is just completing it.
        if (future := self._future) is not None:
            try:
                future.wait()
            except Exception:
                pass  # It is the error that is raised below.
        if self._error is not None:
            raise self._error
        return True

    def _wait_for_calls(self, deadline: float) -> None:
        for call in list(self._calls):
            try:
                call.wait(max(deadline - time.monotonic(), 0))
            except (Error, RuntimeError):
                if not call.done():
                    raise  # It is of the handler of a signal.
                # It is raised again when the outcome is taken.

    def _leave(self) -> None:
        for call in list(self._calls):
            call.go_on()
        if self.watcher is not None:
            self.watcher.add(self)

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
        check_process(self._process)
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
    """The threads that end works while no thread waits for them, and complete their futures.

    One thread at a time watches the works. To complete a future is to run its callbacks, which may
    take long, and may begin and wait for other works. So the thread that does it has stopped
    watching, and another one takes its place if there is anything left to do.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._works: dict[int, Work] = {}
        self._ready: deque[Work] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._idle = 0
        self._watching: Optional[threading.Thread] = None
        self._completing: set[threading.Thread] = set()

    def add(self, work: Work) -> None:
        with self._changed:
            self._works[id(work)] = work
            self._provide()

    def complete(self, work: Work) -> None:
        """Has a thread complete the future of a work. Returns at once."""
        with self._changed:
            self._ready.append(work)
            if self._watching is not threading.current_thread():
                self._provide()  # Otherwise this thread itself does it next.

    def _provide(self) -> None:
        """Wakes or starts a thread if there is a task that none has taken."""
        if not self._ready and (self._watching is not None or self._closed or not self._works):
            return
        if self._idle > 0:
            self._changed.notify_all()
            return
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            pass  # The program ends: those that there are do it, one after the other.

    def _run(self) -> None:
        while (task := self._next()) is not None:
            task()

    def _next(self) -> Optional[Callable[[], None]]:
        """Waits for a task, and takes it. Returns `None` if this thread is to end."""
        this = threading.current_thread()
        with self._changed:
            self._idle += 1
            task: Optional[Callable[[], None]] = None
            while task is None:
                if self._ready:
                    work = self._ready.popleft()
                    self._completing.add(this)
                    task = functools.partial(self._complete, work)
                elif self._works and self._watching is None and not self._closed:
                    self._watching, task = this, self._watch
                elif self._closed or self._idle > _IDLE_MAX:
                    break
                else:
                    self._changed.wait()
            self._idle -= 1
            if task is not None:
                self._provide()
            return task

    def _complete(self, work: Work) -> None:
        try:
            work.complete_future()
        finally:
            with self._changed:
                self._completing.discard(threading.current_thread())
                self._changed.notify_all()

    def _watch(self) -> None:
        """Ends works until there is a future to complete, or none is left."""
        pause = _SLICE_MIN
        while True:
            with self._changed:
                works = list(self._works.values())
                if self._closed or self._ready or not works:
                    self._watching = None
                    self._changed.notify_all()
                    return
            if self._sweep(works):
                pause = _SLICE_MIN
                continue
            for work in works:
                work.expire()
            works[0].advance(pause)
            pause = min(2 * pause, _SLICE_MAX)

    def _sweep(self, works: list[Work]) -> bool:
        """Removes the works that have ended. Returns true if there was one."""
        ended = [work for work in works if work.poll()]
        with self._changed:
            for work in ended:
                self._works.pop(id(work), None)
        return bool(ended)

    def drain(self, seconds: float) -> bool:
        """Waits for all works and callbacks for at most this time. Returns true if all ended."""
        this = threading.current_thread()

        def is_idle() -> bool:
            return not (self._works or self._ready or self._completing - {this})
        with self._changed:
            return self._changed.wait_for(is_idle, seconds)

    def close(self) -> None:
        """Ends the threads. Works that have not ended by then end when they are waited for."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            # The thread that watches uses the group, which is about to go.
            self._changed.wait_for(lambda: self._watching is None)
            works = list(self._works.values())
            self._works.clear()
        for work in works:
            work.poll()
