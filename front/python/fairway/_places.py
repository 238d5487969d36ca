"""Which registered memory an address belongs to."""

from __future__ import annotations

import bisect
import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._memory import Segment

# Number of segments from which those that were dropped are removed.
_SEGMENTS_MIN = 64


class Places:
    """The whole segments of a context, by address. Any thread may call the methods."""

    def __init__(self) -> None:
        # The number in the middle differs for all, so that no references are compared.
        self._places: "list[tuple[int, int, weakref.ref[Segment]]]" = []
        self._numbers = itertools.count()
        self._max = _SEGMENTS_MIN
        self._lock = threading.RLock()

    def add(self, segment: Segment) -> None:
        """Adds a segment, which is not held."""
        with self._lock:
            if len(self._places) >= self._max:
                self._places = [place for place in self._places if place[2]() is not None]
                self._max = max(2 * len(self._places), _SEGMENTS_MIN)
            place = (segment._address, next(self._numbers), weakref.ref(segment))
            bisect.insort(self._places, place)

    def find(self, address: int, length: int) -> "Optional[Segment]":
        """Returns the part of an open segment that has these bytes."""
        with self._lock:
            at = bisect.bisect_left(self._places, (address + 1,))
            while at > 0:
                at -= 1
                segment = self._places[at][2]()
                if segment is None or segment.closed:
                    del self._places[at]
                    continue
                offset = address - segment._address
                if offset + length <= len(segment):
                    return segment._part(offset, length)
        return None
