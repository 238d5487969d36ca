"""Sends and receives with tags.

The ranks of a group match the messages from one rank to another in their order. To match them by
their tags, each message is preceded by one with its tag and its length. A message for which no
receive with its tag has been called is kept until one is.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Optional

import torch

from ._errors import Invalid


def place(tensor: Optional[torch.Tensor]) -> tuple[int, int]:
    """Address and length in bytes of a contiguous tensor."""
    if tensor is None:
        return 0, 0
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


class Receive:
    """A receive that has been called."""

    def __init__(self, inbox: Inbox, tensor: torch.Tensor, tag: int) -> None:
        self.inbox = inbox
        self.tensor = tensor
        self.tag = tag
        self.ended = False
        self.error: Optional[BaseException] = None

    def go_on(self) -> None:
        """The calls of the inbox go on already."""

    def done(self) -> bool:
        self.inbox.step()
        return self.ended

    def wait_a_while(self, seconds: float) -> bool:
        call = self.inbox.call
        if call is not None and not self.ended:
            call.wait_a_while(seconds)
        return self.done()

    def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self.done():
            left = deadline - time.monotonic()
            call = self.inbox.call
            if call is not None and left <= 0:
                call.wait(0)  # Ends the group, and raises.
            elif call is not None:
                call.wait_a_while(left)
        if self.error is not None:
            raise self.error


class Inbox:
    """What this rank receives from another one."""

    def __init__(self, ranks: Any, peer: int) -> None:
        self._ranks = ranks
        self._peer = peer
        self._lock = threading.Lock()
        self._wanted: list[Receive] = []
        # Messages that came before their receives: tag and bytes.
        self._kept: list[tuple[int, torch.Tensor]] = []
        # The receive under way, and what it is for: None for a tag and a length.
        self.call: Optional[Any] = None
        self._head = torch.zeros(2, dtype=torch.int64)
        self._into: Optional[Receive] = None
        self._bytes: Optional[torch.Tensor] = None

    def receive(self, tensor: torch.Tensor, tag: int) -> Receive:
        """Receives the next message with this tag into a contiguous tensor."""
        receive = Receive(self, tensor, tag)
        with self._lock:
            for at, (kept_tag, kept) in enumerate(self._kept):
                if kept_tag == tag:
                    del self._kept[at]
                    self._deliver(receive, kept)
                    return receive
            self._wanted.append(receive)
        self.step()
        return receive

    def step(self) -> None:
        """Does what can be done without waiting."""
        if not self._lock.acquire(blocking=False):
            return  # Another thread does it.
        try:
            self._advance()
        except Exception as error:  # The group is over: every receive fails.
            for receive in self._wanted + ([self._into] if self._into else []):
                receive.error, receive.ended = error, True
            self._wanted, self._into = [], None
        finally:
            self._lock.release()

    def _advance(self) -> None:
        while True:
            if self.call is None:
                if not self._wanted:
                    return
                self._start(self._head)
            call = self.call
            if not call.done():
                return
            call.wait(0)
            self.call = None
            if self._bytes is None:
                self._begin_message(*map(int, self._head.tolist()))
            else:
                self._end_message()

    def _start(self, tensor: torch.Tensor) -> None:
        self.call = self._ranks.receive((0, 0, *place(tensor), tensor), self._peer)
        self.call.go_on()

    def _begin_message(self, tag: int, length: int) -> None:
        """A tag and a length have come: finds out where the bytes belong."""
        wanted = next((receive for receive in self._wanted if receive.tag == tag), None)
        self._bytes = None
        if wanted is not None and place(wanted.tensor)[1] == length:
            self._wanted.remove(wanted)
            self._into, self._bytes = wanted, wanted.tensor
        else:
            self._into, self._bytes = None, torch.empty(length, dtype=torch.uint8)
            self._kept_tag = tag
        if length > 0:
            self._start(self._bytes)
        else:
            self._end_message()

    def _end_message(self) -> None:
        into, got = self._into, self._bytes
        self._into, self._bytes = None, None
        if into is not None:
            into.ended = True
            return
        assert got is not None
        wanted = next((r for r in self._wanted if r.tag == self._kept_tag), None)
        if wanted is None:
            self._kept.append((self._kept_tag, got))
        else:
            self._wanted.remove(wanted)
            self._deliver(wanted, got)

    def _deliver(self, receive: Receive, got: torch.Tensor) -> None:
        length = place(receive.tensor)[1]
        if length == got.numel():
            if length > 0:
                into = receive.tensor.detach().reshape(-1).view(torch.uint8)
                into.copy_(got)
        else:
            receive.error = Invalid(
                f"rank {self._peer} sent {got.numel()} bytes with the tag {receive.tag}, but the "
                f"tensor of the receive has {length}: receive into a tensor of the same length")
        receive.ended = True
