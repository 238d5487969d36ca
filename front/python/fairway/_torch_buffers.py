"""Tensors as the buffers of collective operations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from ._errors import Invalid

After = Optional[Callable[[], None]]

_ELEMENTS = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.int8: "i8", torch.uint8: "u8", torch.int32: "i32", torch.int64: "i64",
}
for _name in ("uint32", "uint64"):  # Not in every version of torch.
    if hasattr(torch, _name):
        _ELEMENTS[getattr(torch, _name)] = _name.replace("uint", "u")

# Types that are combined in a wider one, and those of which an average needs that, because their
# sum may be too large for them.
_WIDER = {torch.int16: torch.int32}
if hasattr(torch, "uint16"):
    _WIDER[torch.uint16] = torch.int32
_WIDER_AVERAGED = {torch.int8: torch.int32, torch.uint8: torch.int32}

_REDUCTIONS = {"SUM": "sum", "AVG": "average", "PRODUCT": "product", "MIN": "min", "MAX": "max"}
_BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
# Sum and product of truth values are "or" and "and".
_BOOLEAN = {"SUM": "max", "MAX": "max", "BOR": "max", "PRODUCT": "min", "MIN": "min",
            "BAND": "min"}


def check(*tensors: torch.Tensor) -> None:
    """Refuses tensors that are not in the memory of the host."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise Invalid(f"the tensor is on {tensor.device}, but fairway moves tensors of the "
                          'CPU: name a backend for each device, as "cpu:fairway,cuda:nccl"')
        if tensor.layout != torch.strided:
            raise Invalid(f"the tensor has the layout {tensor.layout}: make it dense")


def check_writable(*tensors: torch.Tensor) -> None:
    """Refuses tensors to write of which several elements are one place in memory."""
    for tensor in tensors:
        if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride())):
            raise Invalid("several elements of an expanded tensor are one place in memory: pass a "
                          "copy (`tensor.clone()`)")


def is_plain(tensor: torch.Tensor) -> bool:
    """True if the bytes of the tensor are its elements, in order."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself if it is plain, or else a copy."""
    check(tensor)
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def into(tensor: torch.Tensor) -> tuple[torch.Tensor, After]:
    """A plain tensor to write, and what brings its elements to `tensor` if that is another one."""
    check(tensor)
    if is_plain(tensor):
        return tensor, None
    check_writable(tensor)
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    return copy, lambda: assign(tensor, copy)


def assign(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies the elements of a tensor into another one."""
    target.detach().copy_(source)


def flat(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, bool]:
    """One plain tensor of the bytes of all, and whether it is their own memory."""
    check(*tensors)
    if _are_consecutive(tensors):
        first = tensors[0]
        count = sum(tensor.numel() for tensor in tensors)
        return first.detach().as_strided((count,), (1,)), True
    return torch.empty(sum(map(torch.Tensor.numel, tensors)), dtype=tensors[0].dtype), False


def _are_consecutive(tensors: Sequence[torch.Tensor]) -> bool:
    end, first = tensors[0].data_ptr(), tensors[0]
    storage = first.untyped_storage().data_ptr()
    for tensor in tensors:
        same = tensor.dtype == first.dtype and tensor.untyped_storage().data_ptr() == storage
        if not (same and is_plain(tensor) and tensor.data_ptr() == end and tensor.numel() > 0):
            return False
        end += tensor.numel() * tensor.element_size()
    return True


def gathered(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all tensors, one after the other, in one plain tensor."""
    joined, is_own = flat(tensors)
    if not is_own:
        torch.cat([tensor.detach().reshape(-1) for tensor in tensors], out=joined)
    return joined


def spread(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, After]:
    """A plain tensor to write, and what brings its parts to the tensors if that is needed."""
    joined, is_own = flat(tensors)
    if is_own:
        return joined, None
    check_writable(*tensors)

    def after() -> None:
        parts = joined.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts):
            tensor.detach().copy_(part.view(tensor.shape))
    return joined, after


def all_of(*steps: After) -> After:
    """What does all of the steps that there are."""
    present = [step for step in steps if step is not None]
    if not present:
        return None

    def after() -> None:
        for step in present:
            step()
    return after


def op_name(op: Any) -> str:
    """The name of a `ReduceOp`."""
    for name in (*_REDUCTIONS, *_BITWISE):
        if op == getattr(dist.ReduceOp, name, None):
            return name
    known = ", ".join((*_REDUCTIONS, *_BITWISE))
    raise Invalid(f"there is no reduction {op}: choose one of {known}")


def bitwise(op: Any, dtype: torch.dtype) -> Optional[Callable[[torch.Tensor], torch.Tensor]]:
    """The combination along the first dimension, for the operations that ranks do not execute."""
    name = op_name(op)
    if name not in _BITWISE or (dtype == torch.bool and name in _BOOLEAN):
        return None
    if dtype.is_floating_point or dtype.is_complex:
        raise Invalid(f"{name} is of integers, but the tensor has {dtype}")
    return lambda stacked: functools.reduce(_BITWISE[name], stacked.unbind(0))


def numbers(dtype: torch.dtype, op: Any) -> tuple[str, str]:
    """Names of the elements and of the reduction, for tensors that `numeric` returns."""
    name = op_name(op)
    if dtype == torch.bool:
        if name not in _BOOLEAN:
            raise Invalid(f"{name} is not for truth values: choose one of {', '.join(_BOOLEAN)}")
        return "u8", _BOOLEAN[name]
    if dtype.is_complex:
        if name not in ("SUM", "AVG"):
            raise Invalid(f"{name} is not for complex numbers: use SUM or AVG")
        dtype = torch.empty((), dtype=dtype).real.dtype
    element = _ELEMENTS.get(_wide(dtype, name))
    if element is None:
        raise Invalid(f"elements of type {dtype} can't be combined: convert them first")
    return element, _REDUCTIONS[name]


def _wide(dtype: torch.dtype, name: str) -> torch.dtype:
    """The type in which a reduction combines elements of a type."""
    wider = {**_WIDER, **_WIDER_AVERAGED} if name == "AVG" else _WIDER
    return wider.get(dtype, dtype)


def numeric(tensor: torch.Tensor, op: Any) -> torch.Tensor:
    """The elements as numbers that ranks combine: the same memory if possible."""
    tensor = plain(tensor)
    if tensor.dtype == torch.bool:
        return tensor.view(torch.uint8)
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    return tensor.to(_wide(tensor.dtype, op_name(op)))


def result(tensor: torch.Tensor, op: Any) -> tuple[torch.Tensor, After]:
    """A tensor of numbers to write, and what brings them to `tensor` if that is needed."""
    check(tensor)
    if is_plain(tensor) and _wide(tensor.dtype, op_name(op)) == tensor.dtype:
        return numeric(tensor, op), None
    check_writable(tensor)
    memory = numeric(torch.empty(tensor.shape, dtype=tensor.dtype), op)
    return memory, lambda: assign(tensor, restored(memory, tensor.dtype))


def restored(memory: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Numbers that `numeric` made, as elements of this type."""
    if dtype == torch.bool:
        return memory.view(torch.bool)
    if dtype.is_complex:
        return torch.view_as_complex(memory)
    return memory.to(dtype)
