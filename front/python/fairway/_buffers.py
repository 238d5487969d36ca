"""Where the memory of objects is, and the pieces of memory that calls name."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any, Iterable, Sequence, Union

from . import _fairway
from ._errors import Invalid

Pieces = Union["Iterable[Sequence[int]]", Any]
"""Offset here, offset there and length of each piece, in bytes."""

_ROW = struct.Struct("=3Q")


def fixed_bytes_of(memory: Any) -> "tuple[int, int, Any]":
    """As `bytes_of`, for memory that peers access: a tensor of PyTorch can't be resized any more,
    and the object keeps its bytes if the tensor is given other ones."""
    address, length, owner = bytes_of(memory)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(memory, torch.Tensor):
        return address, length, owner
    # DLPack's capsule shares the storage, which may be resized nonetheless. PyTorch forbids that
    # only once an array of numpy refers to the storage.
    try:
        array = torch.empty(0, dtype=torch.uint8).set_(memory.untyped_storage()).numpy()
    except (TypeError, RuntimeError) as refused:
        raise Invalid(f"PyTorch cannot keep the memory of this {type(memory).__name__} in place "
                      f"({refused}): install numpy, or give an object with the buffer "
                      "protocol") from None
    return address, length, (owner, array)


def plain_bytes(buffer: Any) -> memoryview:
    """The bytes of an object with the buffer protocol."""
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise Invalid("the elements of the buffer are not in order of their indices: pass a "
                      "contiguous copy (numpy.ascontiguousarray)")
    # A buffer without elements can't be cast.
    return view.cast("B") if view.nbytes > 0 else memoryview(b"")


def bytes_of(memory: Any) -> "tuple[int, int, Any]":
    """Address, length, and an object that keeps the bytes where they are; nothing is copied."""
    if getattr(getattr(memory, "dtype", None), "hasobject", False):
        raise Invalid(f"an array of {memory.dtype} has references to Python objects, which no peer "
                      "may write: give an array of numbers")
    try:
        view = memoryview(memory)
    except (TypeError, ValueError, BufferError) as error:
        if hasattr(memory, "__array_interface__"):
            return _bytes_of_array(memory)
        if hasattr(memory, "__dlpack__"):
            try:
                capsule = memory.__dlpack__()
            except (TypeError, ValueError, BufferError, RuntimeError) as refused:
                raise Invalid(f"this {type(memory).__name__} does not give its memory away "
                              f"({refused}): give one that needs no gradient, on the CPU") from None
            address, length = _fairway.dlpack_address(capsule)
            return _checked(address, length, (memory, capsule))
        raise Invalid(
            f"a {type(memory).__name__} has no memory that can be registered ({error}): give an "
            "object with the buffer protocol, such as a numpy array or a bytearray, or with "
            "__dlpack__, such as a tensor") from None
    if view.readonly:
        raise Invalid(f"the memory of this {type(memory).__name__} is read-only: give a writable "
                      "object, such as a bytearray or a numpy array of your own")
    if not view.c_contiguous:
        raise Invalid(f"this {type(memory).__name__} is not contiguous: give one that is "
                      "(numpy.ascontiguousarray)")
    if view.nbytes == 0:
        return _checked(0, 0, view)
    # It exports the buffer as long as it lives, so that a bytearray cannot be resized.
    held = ctypes.c_char.from_buffer(view)
    return ctypes.addressof(held), view.nbytes, held


def _bytes_of_array(array: Any) -> "tuple[int, int, Any]":
    """The same for arrays of types that the buffer protocol does not know."""
    interface = array.__array_interface__
    address, read_only = interface["data"]
    if read_only or interface.get("strides") is not None:
        raise Invalid("the array is read-only or not contiguous: give a writable contiguous one")
    return _checked(address, array.nbytes, array)


def _checked(address: int, length: int, owner: Any) -> "tuple[int, int, Any]":
    if length == 0:
        raise Invalid("the memory has no bytes: give at least one")
    return address, length, owner


def rows_of(pieces: Pieces) -> bytes:
    """Returns three integers of 64 bits for each piece, in this machine's order."""
    try:
        view = None if isinstance(pieces, (list, tuple)) else memoryview(pieces)
    except TypeError:
        view = None
    if view is None:
        try:
            return b"".join(_ROW.pack(*piece) for piece in pieces)
        except (TypeError, struct.error) as error:
            raise Invalid(f"these are no pieces ({error}): give three integers for each, the "
                          "offset here, the offset there and the length, in bytes") from None
    if view.format not in ("l", "L", "q", "Q") or view.itemsize != 8 or view.shape[1:] != (3,):
        raise Invalid(f"an array of {view.format!r} with shape {view.shape} has no pieces: give "
                      "one of 64-bit integers with three columns")
    return view.tobytes()
