"""Memory that is mapped for a segment."""

from __future__ import annotations

import mmap
from typing import Any

from ._errors import Invalid, SystemFailure

# No system has more memory.
_BYTES_MAX = 1 << 62


def check_length(length: int) -> None:
    """Refuses lengths that no memory has."""
    if not 1 <= length <= _BYTES_MAX:
        raise Invalid(f"a segment can't have {length} bytes: give a number from 1 to {_BYTES_MAX}")


def anonymous(length: int) -> mmap.mmap:
    """Maps new memory."""
    return _mapped(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def of_file(file: int, length: int) -> mmap.mmap:
    """Maps the memory of a file, which other processes may map, too."""
    return _mapped(file, length)


def _mapped(file: int, length: int, **settings: Any) -> mmap.mmap:
    try:
        return mmap.mmap(file, length, **settings)
    except (OSError, MemoryError) as error:
        raise SystemFailure(f"could not map {length} bytes: {error}") from error
