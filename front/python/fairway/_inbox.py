"""Memory for which the receiver chooses the place: mailboxes, and messages to Jetties."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
import time
from typing import TYPE_CHECKING, Any, Optional, Union

from ._errors import Invalid, Timeout

if TYPE_CHECKING:
    from . import _fairway
    from ._memory import Context, Segment

# Seconds for which a thread waits before it looks whether another one has taken what it waits for:
# one that waits on behalf of a task does so for this long after the task was cancelled.
_ROUND = 0.2


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The end of an epoch of a mailbox: its buffer is full, or was ended early."""

    number: int
    """Number of the epoch, from 0."""
    buffer: Segment
    """The buffer that was posted, with the bytes that were put."""
    bytes: int
    """Number of bytes that were put."""
    puts: int
    """Number of puts."""
    early: bool
    """Whether the application ended the epoch before it was full."""
    cancelled: int
    """Number of puts that were cut off because their sender is gone."""
    extent: int
    """For a stream: bytes from the start of the buffer to the end of the last put."""


@dataclasses.dataclass(frozen=True)
class Message:
    """A message that a Jetty has received."""

    data: Segment
    """The bytes of the message, in the buffer that was posted."""
    immediate: Optional[int]
    """The sender's immediate data."""
    sender: Optional[str]
    """The sender's address, while it is connected."""


class _Inbox:
    """What mailboxes and Jetties share: posted buffers, and waits."""

    _AWAITED: str

    def __init__(self, context: Context, native: "Union[_fairway.Mailbox, _fairway.Endpoint]"
                 ) -> None:
        self._context, self._inbox = context, native
        self._posted: "dict[int, Segment]" = {}
        self._numbers = itertools.count(1)
        # What arrived for tasks that had been cancelled by then.
        self._ready: "collections.deque[Any]" = collections.deque()

    def post(self, buffer: Any) -> None:
        """Adds a buffer: a segment, a slice of one, or an array in one. It may be written by peers
        until a wait returns it."""
        segment = self._context._as_segment(buffer)
        number = next(self._numbers)
        # In the table before another thread can receive into it.
        self._posted[number] = segment
        try:
            self._inbox.post(segment._local, number)
        except BaseException:
            del self._posted[number]
            raise

    def _arrival(self, timeout: Optional[float]) -> Any:
        limit = self._context.timeout if timeout is None else timeout
        ends = None if limit is None else time.monotonic() + limit
        left = limit
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            try:
                return self._inbox.wait(_ROUND if left is None else min(left, _ROUND))
            except Timeout:
                if ends is None:
                    continue
                if left <= 0 and not self._ready:
                    raise Timeout(f"no {self._AWAITED} within {limit} s: wait longer, or check the "
                                  "peer") from None
                left = max(ends - time.monotonic(), 0)

    async def _arrival_async(self) -> Any:
        loop = asyncio.get_running_loop()
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                await loop.run_in_executor(None, self._collect)

    def _collect(self) -> None:
        try:
            self._ready.append(self._inbox.wait(_ROUND))
        except Timeout:
            pass


class Mailbox(_Inbox):
    """Memory that peers put into without knowing its address (RVMA): they name the mailbox, and
    this side posts the buffers. Each buffer receives the puts of one epoch.

    Args:
        address: The mailbox's address; None: it receives puts to addresses without a mailbox.
        key: The number that senders must name.
        epoch_puts: Number of puts after which an epoch ends (default: 1).
        epoch_bytes: Number of bytes after which an epoch ends, instead.
        stream: Whether puts are appended, instead of being placed at the sender's offset.
        refuse_when_empty: Whether puts fail while no buffer is posted, instead of waiting.
        retired: Number of buffers of ended epochs that peers may still `get`.

    They are created by `Context.mailbox`.
    """

    _AWAITED = "epoch"
    _SETTINGS = ("key", "epoch_puts", "epoch_bytes", "stream", "refuse_when_empty", "retired")

    def __init__(self, context: Context, address: Optional[int], **settings: Any) -> None:
        for name in settings:
            if name not in self._SETTINGS:
                raise TypeError(f"there is no setting {name!r}: use {', '.join(self._SETTINGS)}")
        if settings.get("epoch_puts") and settings.get("epoch_bytes"):
            raise Invalid("an epoch can't end by both epoch_puts and epoch_bytes: give one")
        self.address = address
        self._native = context._native.mailbox({"address": address, **settings})
        super().__init__(context, self._native)

    def wait(self, timeout: Optional[float] = None) -> Epoch:
        """Waits for the end of the next epoch, for at most `timeout` seconds (None: the
        context's).

        Raises:
            Timeout: No epoch has ended.
        """
        return self._epoch(self._arrival(timeout))

    async def wait_async(self) -> Epoch:
        """Waits likewise, in an event loop and without a limit. A thread of the loop's executor
        waits on its behalf; an epoch that ends after a cancellation is returned by the next
        wait."""
        return self._epoch(await self._arrival_async())

    @property
    def epoch(self) -> int:
        """Number of the current epoch."""
        return self._native.epoch

    def end_epoch(self) -> int:
        """Ends the current epoch before it is full, and returns its number."""
        return self._native.end_epoch()

    def close(self) -> None:
        """Closes the mailbox: puts are refused from now on."""
        self._native.close()

    def __enter__(self) -> Mailbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _epoch(self, fields: "dict[str, Any]") -> Epoch:
        fields = dict(fields)
        return Epoch(buffer=self._posted.pop(fields.pop("id")), **fields)


class Jetty(_Inbox):
    """Receives messages, each in a buffer that was posted before. Created by `Context.jetty`."""

    _AWAITED = "message"

    def __init__(self, context: Context, number: Optional[int], depth: int, token: int) -> None:
        self._native = context._native.jetty(number, depth, token)
        super().__init__(context, self._native)

    @property
    def number(self) -> int:
        """The number that peers send to."""
        return self._native.number

    def wait(self, timeout: Optional[float] = None) -> Message:
        """Waits for the next message, for at most `timeout` seconds (None: the context's).

        Raises:
            Timeout: No message has arrived.
        """
        return self._message(self._arrival(timeout))

    async def wait_async(self) -> Message:
        """Waits likewise, in an event loop and without a limit, as `Mailbox.wait_async` does."""
        return self._message(await self._arrival_async())

    def _message(self, fields: "tuple[int, int, Optional[int], Optional[str]]") -> Message:
        number, length, immediate, sender = fields
        buffer = self._posted.pop(number)
        return Message(data=buffer[:length], immediate=immediate, sender=sender)
