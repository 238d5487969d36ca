"""Every operation of torch.distributed, compared with gloo."""

import unittest

import torch
import torch.distributed as dist
from ranks import error_of, run

import fairway.torch  # noqa: F401, torch before 2.14 loads no entry points.
from fairway._torch_buffers import check

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
OTHERS = [torch.bool, torch.complex64]


def values(rank, count, dtype, salt=0):
    """Small whole numbers, so that sums are exact in every type."""
    numbers = (torch.arange(count) * 7 + rank * 3 + salt) % 5
    return (numbers % 2 == 0) if dtype == torch.bool else numbers.to(dtype)


def reductions(dtype):
    ops = ["SUM", "MIN", "MAX", "PRODUCT"]
    if dtype in INTEGERS:
        ops += ["BAND", "BOR", "BXOR"]
    if dtype.is_complex:
        ops = ["SUM"]
    return [getattr(dist.ReduceOp, name) for name in ops]


def all_reduce(group, rank, size, dtype):
    for count in (0, 1, 5, 1000):
        for op in reductions(dtype):
            tensor = values(rank, count, dtype)
            dist.all_reduce(tensor, op, group)
            yield tensor


def reduce(group, rank, size, dtype):
    for root in range(size):
        for op in reductions(dtype):
            tensor = values(rank, 33, dtype)
            dist.reduce(tensor, root, op, group)
            # What the others have after that is undefined.
            yield tensor if rank == root else torch.zeros(())


def broadcast(group, rank, size, dtype):
    for root in range(size):
        for count in (0, 1, 2049):
            tensor = values(rank, count, dtype)
            dist.broadcast(tensor, root, group)
            yield tensor


def gathers(group, rank, size, dtype):
    source = values(rank, 24, dtype).reshape(4, 6)
    parts = [torch.empty_like(source) for _ in range(size)]
    dist.all_gather(parts, source, group)
    yield from parts
    # Parts of one tensor, and columns of one.
    whole = torch.empty((size, 4, 6), dtype=dtype)
    dist.all_gather(list(whole.unbind(0)), source, group)
    yield whole
    dist.all_gather_into_tensor(whole.view(size * 4, 6), source, group)
    yield whole
    for root in range(size):
        parts = [torch.empty_like(source) for _ in range(size)] if rank == root else None
        dist.gather(source, parts, root, group)
        yield from parts or []


def scatters(group, rank, size, dtype):
    for root in range(size):
        parts = [values(to, 17, dtype, 2) for to in range(size)] if rank == root else None
        tensor = torch.empty(17, dtype=dtype)
        dist.scatter(tensor, parts, root, group)
        yield tensor
    if dtype == torch.bool or dtype.is_complex:
        return
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        tensor = torch.empty((3, 5), dtype=dtype)
        parts = [values(rank, 15, dtype, to).reshape(3, 5) for to in range(size)]
        dist.reduce_scatter(tensor, parts, op, group)
        yield tensor
        tensor = torch.empty((3, 5), dtype=dtype)
        dist.reduce_scatter_tensor(tensor, torch.cat(parts), op, group)
        yield tensor


def exchanges(group, rank, size, dtype):
    # Rank r sends r + 2 * to rows to rank `to`.
    sent = [rank + 2 * to for to in range(size)]
    received = [sender + 2 * rank for sender in range(size)]
    source = values(rank, 3 * sum(sent), dtype).reshape(-1, 3)
    target = torch.empty((sum(received), 3), dtype=dtype)
    dist.all_to_all_single(target, source, received, sent, group)
    yield target
    target = torch.empty((2 * size, 3), dtype=dtype)
    dist.all_to_all_single(target, values(rank, 6 * size, dtype).reshape(-1, 3), group=group)
    yield target
    yield from by_lists(group, source, sent, received, dtype)


def by_lists(group, source, sent, received, dtype):
    parts = [torch.empty((rows, 3), dtype=dtype) for rows in received]
    if dist.get_backend(group) == "gloo":  # It has no all-to-all of lists in some versions.
        target = torch.empty((sum(received), 3), dtype=dtype)
        dist.all_to_all_single(target, source, received, sent, group)
        parts = list(target.split(received))
    else:
        dist.all_to_all(parts, list(source.split(sent)), group)
    yield from parts


def not_contiguous(group, rank, size, dtype):
    def on(view, call):
        """Gloo ignores the strides of a view: there, the call is on a copy."""
        if dist.get_backend(group) == "gloo":
            copy = view.contiguous()
            call(copy)
            view.copy_(copy)
        else:
            call(view)

    wide = values(rank, 48, dtype).reshape(6, 8)
    on(wide.t(), lambda view: dist.all_reduce(view, group=group))
    on(wide[:, 1:3], lambda view: dist.all_reduce(view, group=group))
    yield wide
    on(wide[::2], lambda view: dist.broadcast(view, size - 1, group))
    yield wide
    columns = torch.zeros((6, size * 2), dtype=dtype)
    dist.all_gather(list(columns.split(2, 1)), wide[:, :2].contiguous(), group)
    yield columns


OPERATIONS = [all_reduce, reduce, broadcast, gathers, scatters, exchanges, not_contiguous]


def compare(rank, size):
    """Executes everything with both backends. Returns the number of tensors compared."""
    gloo, compared = dist.new_group(backend="gloo"), 0
    for dtype in FLOATS + INTEGERS + OTHERS:
        for operation in OPERATIONS:
            if dtype.is_complex and operation is not all_reduce:
                continue
            expected = list(operation(gloo, rank, size, dtype))
            got = list(operation(None, rank, size, dtype))
            assert len(got) == len(expected) > 0
            for at, (one, other) in enumerate(zip(got, expected)):
                same = one.dtype == other.dtype and torch.equal(one, other)
                assert same, f"{operation.__name__} of {dtype}, result {at}: {one}, not {other}"
                compared += 1
    return compared


def beyond_gloo(rank, size):
    """What gloo does not have, or not in every version."""
    for dtype in FLOATS:
        tensor = values(rank, 9, dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        total = sum(values(peer, 9, torch.float64) for peer in range(size))
        torch.testing.assert_close(tensor, (total / size).to(dtype))
    for dtype in (torch.int8, torch.uint8, torch.int16):
        # Their sum is more than the type holds.
        most = torch.iinfo(dtype).max
        whole, part = torch.full((2,), most, dtype=dtype), torch.zeros(1, dtype=dtype)
        dist.all_reduce(whole, dist.ReduceOp.AVG)
        dist.reduce_scatter_tensor(part, torch.full((size,), most, dtype=dtype),
                                   dist.ReduceOp.AVG)
        assert whole.tolist() == [most, most] and part.tolist() == [most], (dtype, whole, part)
    for dtype in (torch.int16, torch.int32):
        tensor = values(rank, 9, dtype) + 30000
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        assert torch.equal(tensor, torch.stack([values(peer, 9, dtype) + 30000
                                                for peer in range(size)]).amax(0))
    for dtype in (torch.complex32, torch.complex64, torch.complex128):
        part, total = torch.empty(3, dtype=dtype), size + 1j * sum(range(size))
        dist.reduce_scatter_tensor(part, torch.full((3 * size,), 1 + rank * 1j, dtype=dtype))
        whole = torch.full((5,), 1 + rank * 1j, dtype=dtype)
        dist.all_reduce(whole)
        assert part.tolist() == 3 * [total] and whole.tolist() == 5 * [total], (part, whole)
    tensors = [values(rank, 6, torch.float32), values(rank, 2, torch.int64)]
    with dist._coalescing_manager(device=torch.device("cpu")):
        for tensor in tensors[:1]:
            dist.all_reduce(tensor)
    dist.all_reduce_coalesced(tensors[1:])
    for tensor in tensors:
        every = [values(peer, len(tensor), tensor.dtype) for peer in range(size)]
        assert torch.equal(tensor, torch.stack(every).sum(0).to(tensor.dtype))
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank, "text": "x" * rank})
    assert things == [{"rank": peer, "text": "x" * peer} for peer in range(size)]


def refusals(rank, size):
    errors = [
        error_of(dist.all_reduce, torch.zeros(2), dist.ReduceOp.BAND),
        error_of(dist.all_reduce, torch.zeros(2, dtype=torch.complex64), dist.ReduceOp.MAX),
        error_of(dist.all_to_all_single, torch.zeros(3), torch.zeros(3), [1, 1, 1], [1, 1]),
        error_of(dist.recv, torch.zeros(2)),
        error_of(check, torch.zeros(2, device="meta")),
        # What only the ranks themselves find out is of the same kind.
        error_of(dist.all_gather_into_tensor, torch.zeros(size + 3), torch.zeros(1),
                 kind=fairway.Invalid),
        error_of(dist.all_reduce, torch.zeros(2, dtype=torch.bool), dist.ReduceOp.AVG,
                 kind=fairway.Invalid),
    ]
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((2,), float(size)))
    return errors


class Operations(unittest.TestCase):
    def test_every_operation_and_type_gives_what_gloo_gives(self):
        for size in (1, 2, 3, 4):
            with self.subTest(ranks=size):
                compared = run(size, compare)
                self.assertGreater(min(compared), 300)

    def test_what_gloo_does_not_have(self):
        for size in (1, 3):
            run(size, beyond_gloo)

    def test_refusals_say_what_is_possible_and_leave_the_group_alive(self):
        for errors in run(2, refusals):
            for text, part in zip(errors, ["of integers", "complex", "splits", "name the",
                                           "cpu:fairway,cuda:nccl", "buffer of that length",
                                           "truth values"]):
                self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
