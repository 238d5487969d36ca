"""Waiting in asyncio's event loops."""

from __future__ import annotations

import asyncio
from typing import Any


class Watcher:
    """Wakes the tasks of one event loop whose operations have ended.

    The loop watches a descriptor while tasks wait, and not otherwise.
    """

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._waiting: "dict[int, list[asyncio.Future[None]]]" = {}

    async def ended(self, operation: Any) -> None:
        """Returns when the operation has ended."""
        if operation.watch(self._reactor):
            return
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.add_reader(self._reactor.fileno(), self._wake, loop)
        self._waiting.setdefault(operation.id, []).append(future)
        await future

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        for number in self._reactor.take():
            for future in self._waiting.pop(number, ()):
                # It may have been cancelled.
                if not future.done():
                    future.set_result(None)
        if not self._waiting:
            loop.remove_reader(self._reactor.fileno())
