"""Asynchronous calls, messages, sub-groups, and groups that fail."""

import atexit
import gc
import os
import signal
import threading
import unittest
import weakref
from datetime import timedelta

import torch
import torch.distributed as dist
from ranks import error_of, run

import fairway.torch


def asynchronous(rank, size):
    tensors = [torch.full((10_000,), float(rank + at)) for at in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    while not works[5].is_completed():
        os.sched_yield()
    assert tensors[5][0] == sum(peer + 5 for peer in range(size))
    futures = [work.get_future().then(lambda done: done.value()[0].sum().item())
               for work in works[4:]]
    for work in reversed(works[:4]):
        work.wait()
        assert work.is_completed()
    expected = [10_000.0 * sum(peer + at for peer in range(size)) for at in range(8)]
    assert [future.wait() for future in futures] == expected[4:]
    for tensor, total in zip(tensors, expected):
        assert tensor.sum().item() == total
    # No thread waits for this one, and nothing keeps it.
    left = torch.ones((7, 3)).t()
    dist.all_reduce(left, async_op=True)
    parts = [torch.zeros(2, 2).t() for _ in range(size)]
    dist.all_gather(parts, torch.full((2, 2), float(rank)), async_op=True).get_future().wait()
    assert [part[0, 0].item() for part in parts] == list(range(size))
    dist.barrier()
    assert torch.equal(left, torch.full((3, 7), float(size)))


def inside_callbacks(rank, size):
    """Callbacks begin further calls, and wait for them."""
    def sum_again(done):
        future = dist.all_reduce(done.value()[0], async_op=True).get_future()
        return future.wait()[0]
    for _ in range(20):
        work = dist.all_reduce(torch.ones(3), async_op=True)
        future = work.get_future()
        work.wait()
        assert future.done(), "the end of the call was waited for"
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        twice = future.then(sum_again).then(lambda done: dist.all_reduce(done.value()))
        twice.wait()
        assert future.value()[0].tolist() == 3 * [float(size ** 3)]
    return True


def slow_callback(rank, size):
    """A callback at rank 0 waits for what its thread does only after another call has ended."""
    store, release = dist.distributed_c10d._get_default_store(), threading.Event()
    if rank == 1:
        # The first call has not ended when the callback is added to it.
        store.wait(["added"], timedelta(seconds=60))
    first = dist.all_reduce(torch.ones(2), async_op=True).get_future()
    if rank == 0:
        first = first.then(lambda done: release.wait(30))
        store.set("added", b"yes")
    dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
    release.set()
    return bool(first.wait())


def late_behind_another(rank, size):
    """The first call has a day; the second one has the time of the group, and ends the group."""
    store = dist.distributed_c10d._get_default_store()
    group = dist.distributed_c10d._get_default_group()
    if rank == 1:
        store.wait(["over"], timedelta(seconds=60))
        return error_of(dist.all_reduce, torch.zeros(4))
    dist.distributed_c10d._set_pg_timeout(timedelta(days=1), group)
    first = dist.all_reduce(torch.zeros(4), async_op=True).get_future()
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), group)
    second = dist.all_reduce(torch.zeros(5), async_op=True).get_future()
    text = error_of(second.wait)
    error_of(first.wait)
    store.set("over", b"yes")
    return text


def again(rank, size):
    """Groups are left and made again with the same store; one rank is later than the others."""
    store = dist.distributed_c10d._get_default_store()
    for round in range(3):
        if rank == round:
            store.wait([f"left/{round}"], timedelta(seconds=30))
        dist.destroy_process_group()
        if rank != round:
            store.set(f"left/{round}", b"yes")
        dist.init_process_group("fairway", store=store, rank=rank, world_size=size,
                                timeout=timedelta(seconds=30))
        pair = dist.new_group([0, 1])
        for group in (None, pair):
            tensor = torch.tensor([rank + 1])
            if group is None or rank < 2:
                dist.all_reduce(tensor, group=group)
                members = range(size) if group is None else range(2)
                assert tensor.item() == sum(member + 1 for member in members)
        # The keys of the group before do not count as having come.
        if round < 2:
            dist.monitored_barrier(timeout=timedelta(seconds=20))
    if rank == 0:
        return error_of(dist.monitored_barrier, timeout=timedelta(seconds=1))
    return ""


def forked(rank, size):
    """A child that ends leaves the group of its parent as it is, and ends without an error."""
    dist.all_reduce(torch.ones(2))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        text = error_of(dist.all_reduce, torch.ones(2), kind=fairway.Invalid)
        dist.destroy_process_group()
        if "make another one" not in text:
            os.write(2, text.encode())
        # What an interpreter does at its end, without what belongs to the parent's tests.
        atexit._run_exitfuncs()
        fairway.torch._keep.clear()
        gc.collect()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == 2 * [float(size)]
    return status, text


def messages(rank, size):
    """Both send first; receives are by tags, in another order; some come before they are wanted."""
    others = [peer for peer in range(size) if peer != rank]
    sent = {(peer, tag): torch.arange(tag * 1000) + 100 * rank + tag
            for peer in others for tag in (0, 1, 2)}
    works = [dist.isend(tensor, peer, tag=tag) for (peer, tag), tensor in sent.items()]
    got = {}
    for peer in others:
        for tag in (2, 0, 1):
            got[peer, tag] = torch.zeros(tag * 1000, dtype=torch.int64)
            works.append(dist.irecv(got[peer, tag], peer, tag=tag))
    for work in works:
        work.wait()
    for (peer, tag), tensor in got.items():
        assert torch.equal(tensor, torch.arange(tag * 1000) + 100 * peer + tag)
    # Around a ring, with a call of all between, and with a batch.
    token, after, before = torch.zeros(5), (rank + 1) % size, (rank - 1) % size
    operations = [dist.P2POp(dist.isend, torch.full((5,), float(rank)), after),
                  dist.P2POp(dist.irecv, token, before)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert token[0] == before
    wide = torch.zeros(4, 4)
    if rank == 0:
        dist.send(torch.arange(8.0), 1)
    elif rank == 1:
        dist.recv(wide[:, ::2], 0)
        assert torch.equal(wide[:, ::2].reshape(-1), torch.arange(8.0)), wide
        assert not wide[:, 1::2].any()


def wrong_length(rank, size):
    if rank == 0:
        dist.send(torch.zeros(3), 1)
        dist.send(torch.ones(2), 1)
        return ""
    text = error_of(dist.recv, torch.zeros(2), 0)
    got = torch.zeros(2)
    dist.recv(got, 0)
    assert torch.equal(got, torch.ones(2))
    return text


def sub_groups(rank, size):
    pairs = [dist.new_group([first, second]) for first in range(size)
             for second in range(first + 1, size)]
    members = [(first, second) for first in range(size) for second in range(first + 1, size)]
    for group, (first, second) in zip(pairs, members):
        if rank in (first, second):
            tensor = torch.tensor([rank + 1])
            dist.all_reduce(tensor, group=group)
            assert tensor.item() == first + second + 2
            tensor = torch.tensor([rank])
            dist.broadcast(tensor, second, group)
            assert tensor.item() == second
    half, _ = dist.new_subgroups(2) if size == 4 else (None, None)
    if half is not None:
        assert dist.get_world_size(half) == 2
        dist.barrier(half)


def monitored(rank, size, wait_all):
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    if rank in (1, 2):
        return ""
    return error_of(dist.monitored_barrier, timeout=timedelta(seconds=1),
                    wait_all_ranks=wait_all)


def disagreeing(rank, size):
    tensor = torch.zeros(100)
    if rank == 1:
        return error_of(dist.broadcast, tensor, 0)
    return error_of(dist.all_reduce, tensor)


def disagreeing_in_gathered_calls(rank, size, case):
    """The ranks execute the same copies, but for different operations, roots or types."""
    tensor = torch.full((4,), rank + 5, dtype=torch.int32)
    if case == "operation":
        def call():
            dist.all_reduce(tensor, dist.ReduceOp.BOR if rank else dist.ReduceOp.BAND)
    elif case == "scattered":
        def call():
            op = dist.ReduceOp.BXOR if rank else dist.ReduceOp.BAND
            dist.reduce_scatter_tensor(torch.zeros(2, dtype=torch.int32), tensor, op)
    elif case == "root":
        def call():
            dist.reduce(tensor, rank, dist.ReduceOp.BOR)
    elif case == "gather":
        def call():
            if rank == 0:
                dist.all_reduce(tensor, dist.ReduceOp.BOR)
            else:
                dist.all_gather_into_tensor(torch.zeros(8, dtype=torch.int32), tensor)
    elif case == "type":
        def call():
            dist.broadcast(tensor if rank else tensor.float(), 0)
    else:
        def call():
            truth = tensor[:1].to(torch.bool if rank else torch.uint8)
            dist.all_reduce(truth, dist.ReduceOp.MAX)

    def both():
        call()
        dist.barrier()  # A root has sent everything, and learns of it by its next call.
    return error_of(both)


def left(rank, size):
    """A group that was left keeps neither its backend nor the store."""
    store = dist.PrefixStore("left", dist.distributed_c10d._get_default_store())
    group = fairway.torch._create(store, rank, size, timedelta(seconds=30))
    assert len(fairway.torch._keep) == 2
    group.allreduce([torch.ones(2)]).wait()
    assert not group.supports_splitting and not group.supports_shrinking
    assert group.options._timeout == timedelta(seconds=30)
    gone = weakref.ref(group.group._store)
    del store
    group.shutdown()
    assert len(fairway.torch._keep) == 1 and gone() is None
    return error_of(group.monitored_barrier, kind=fairway.Invalid)


def refused(rank, size):
    source = torch.ones(4)
    text = error_of(dist.all_to_all_single, torch.zeros(4), source, [5, -1], [5, -1],
                    kind=fairway.Invalid)
    assert "less than 0" in text, text
    with fairway.Context("127.0.0.1") as context:
        text = error_of(context.register, torch.zeros(3, requires_grad=True),
                        kind=fairway.Invalid)
    assert "gradient" in text, text
    os.environ["FAIRWAY_PEER_TIMEOUT"] = "soon"
    text = error_of(fairway.torch._settings, None, kind=fairway.Invalid)
    assert "FAIRWAY_PEER_TIMEOUT=soon" in text, text
    os.environ["FAIRWAY_PEER_TIMEOUT"] = "2.5"
    assert fairway.torch._settings(None)["peer_timeout"] == 2.5
    dist.barrier()


def parts_of_other_shapes(rank, size):
    """Lists whose tensors have the right total, and nothing else."""
    texts, own = [], torch.full((2,), 3.0)
    if rank == 0:
        uneven = [torch.ones(1), torch.full((3,), 2.0)]
        for parts in (uneven, [own]):
            texts.append(error_of(dist.scatter, torch.zeros(2), parts, 0, kind=fairway.Invalid))
            texts.append(error_of(dist.gather, own, parts, 0, kind=fairway.Invalid))
    texts.append(error_of(dist.all_to_all, [torch.zeros(2)], [own], kind=fairway.Invalid))
    wide = torch.zeros(size + 1, dtype=torch.int32)
    texts.append(error_of(dist.reduce_scatter_tensor, torch.zeros(1, dtype=torch.int32), wide,
                          dist.ReduceOp.BOR, kind=fairway.Invalid))
    texts.append(error_of(dist.all_reduce, torch.ones(1).expand(4), kind=fairway.Invalid))
    dist.all_reduce(own)
    assert own.tolist() == 2 * [3.0 * size]
    return texts


def interrupted(rank, size, kind):
    """The handler of a signal raises while rank 0 waits in a call that rank 1 has not begun."""
    store = dist.distributed_c10d._get_default_store()
    tensor = torch.ones(3)
    if rank == 1:
        store.wait(["interrupted"], timedelta(seconds=60))
        dist.all_reduce(tensor)
        return tensor.tolist()

    def interrupt(_number, _frame):
        raise kind("by the handler")
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        dist.all_reduce(tensor)
    except kind as error:
        # The call goes on without its caller, and so does the group.
        store.set("interrupted", b"yes")
        return str(error)
    return "the call has ended"


def on_loopback():
    return {"bind": "127.0.0.1"}


def gone_while_joining(rank, size):
    """Rank 1 ends when it has told where it is."""
    store = dist.PrefixStore("joining", dist.distributed_c10d._get_default_store())
    if rank == 1:
        class Told:
            add = staticmethod(store.add)

            @staticmethod
            def set(key, value):
                store.set(key, value)
                os.kill(os.getpid(), signal.SIGKILL)
        fairway.torch.Group(Told, rank, size, timedelta(seconds=600), on_loopback)
    return error_of(fairway.torch.Group, store, rank, size, timedelta(seconds=600), on_loopback)


def unable_to_join(rank, size, address):
    """Rank 1 has an address that can't be used, and all ask for a group."""
    store = dist.PrefixStore("unable", dist.distributed_c10d._get_default_store())
    os.environ["FAIRWAY_BIND"] = "127.0.0.1" if rank == 0 else address
    return error_of(fairway.torch._create, store, rank, size, timedelta(seconds=600))


def unfinished_batch(rank, size):
    """torch does not end a batch in which an exception was raised."""
    group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    group.start_coalescing()
    held = []
    for _ in range(5):
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        held.append(weakref.ref(tensor.untyped_storage()))
        del tensor
    gc.collect()
    return sum(storage() is not None for storage in held)


def batches_of_threads(rank, size):
    errors = []

    def exchange(tag):
        try:
            for at in range(50):
                got = torch.zeros(2)
                sent = torch.full((2,), float(100 * tag + at))
                works = dist.batch_isend_irecv([
                    dist.P2POp(dist.isend, sent, 1 - rank, tag=tag),
                    dist.P2POp(dist.irecv, got, 1 - rank, tag=tag)])
                for work in works:
                    work.wait()
                assert torch.equal(got, sent), (got, sent)
        except BaseException as error:
            errors.append(repr(error))
    threads = [threading.Thread(target=exchange, args=(tag,)) for tag in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def missed_barrier(rank, size):
    """Rank 1 misses one, and is in step again with the next one."""
    store, text = dist.distributed_c10d._get_default_store(), ""
    if rank == 0:
        text = error_of(dist.monitored_barrier, timeout=timedelta(seconds=1))
        store.set("missed", b"yes")
    store.wait(["missed"], timedelta(seconds=60))
    for _ in range(3):
        dist.monitored_barrier(timeout=timedelta(seconds=30))
    return text


def refused_in_child(rank, size):
    """What a child does with a group of its parent is refused, also with works of the parent."""
    work = dist.all_reduce(torch.ones(2), async_op=True)
    group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        calls = [work.wait, work.get_future, lambda: dist.recv(torch.zeros(1), 1 - rank),
                 lambda: dist.monitored_barrier(timeout=timedelta(seconds=1)),
                 group.start_coalescing, work.is_completed]
        texts = [error_of(call, kind=fairway.Invalid) for call in
                 [lambda call=call: call() and None for call in calls]]
        os.write(writer, "".join(text[-9:] for text in texts).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    os.waitpid(child, 0)
    work.wait()
    dist.monitored_barrier(timeout=timedelta(seconds=30))
    return text


def killed(rank, size):
    dist.all_reduce(torch.zeros(10))
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return error_of(dist.all_reduce, torch.zeros(100_000))


def late(rank, size):
    """Rank 1 does not come: rank 0 has a time-out that names it."""
    store, tensor = dist.distributed_c10d._get_default_store(), torch.zeros(4)
    if rank == 1:
        store.wait(["over"], timedelta(seconds=60))
        return error_of(dist.all_reduce, tensor)
    text = error_of(lambda: dist.all_reduce(tensor, async_op=True).get_future().wait())
    store.set("over", b"yes")
    return text


def of_earlier_versions(rank, size):
    """The class for torch before 2.14, where the backend is the process group."""
    store = dist.PrefixStore("earlier", dist.distributed_c10d._get_default_store())
    made = fairway.torch.Group(store, rank, size, timedelta(seconds=30),
                               lambda: {**on_loopback(), "policy": "cc=swift"})
    group = fairway.torch.FairwayProcessGroup(made)
    tensor, whole = torch.full((6,), float(rank)), torch.zeros(6 * size)
    group.allreduce([tensor]).wait()
    assert torch.equal(tensor, torch.full((6,), float(sum(range(size)))))
    group._allgather_base(whole, torch.full((6,), float(rank))).wait()
    assert whole.tolist() == [float(peer) for peer in range(size) for _ in range(6)]
    group.shutdown()
    assert "closed" in error_of(group.allreduce, [tensor])


def names(rank, size):
    assert dist.get_backend() == "fairway"
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=50))
    dist.barrier()
    return dist.distributed_c10d._get_default_group().name()


def mixed(rank, size):
    tensor = torch.full((3,), 2.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == 3 * [2.0 * size]
    return dist.get_backend_config()


class Ends(unittest.TestCase):
    def test_calls_in_the_background_end_and_complete_their_futures(self):
        for size in (1, 2, 3):
            run(size, asynchronous)

    def test_callbacks_may_begin_calls_and_wait_for_them(self):
        for size in (1, 2, 3):
            self.assertEqual(run(size, inside_callbacks, timeout=20), size * [True])

    def test_a_slow_callback_holds_up_no_other_call(self):
        self.assertEqual(run(2, slow_callback), [True, True])

    def test_every_call_has_a_time_limit_of_its_own(self):
        self.assertIn("did not end within", run(2, late_behind_another)[0])

    def test_a_group_is_made_again_with_the_same_store(self):
        self.assertIn("Rank 1", run(3, again)[0])

    def test_a_child_of_a_rank_ends_without_harm(self):
        for status, text in run(2, forked):
            self.assertEqual((status, text), (0, ""))

    def test_messages_find_the_receives_with_their_tags(self):
        for size in (2, 3):
            run(size, messages)
        self.assertIn("sent 12 bytes with the tag 0, but the tensor of the receive has 8",
                      run(2, wrong_length)[1])

    def test_sub_groups(self):
        run(4, sub_groups)

    def test_monitored_barrier_names_who_is_missing(self):
        for text in run(3, monitored, False)[::3]:
            self.assertRegex(text, "^Rank 1 failed to pass monitoredBarrier in 1000 ms")
        self.assertRegex(run(4, monitored, True)[3], "^Ranks 1, 2 failed to pass")

    def test_ranks_that_call_different_operations_all_fail(self):
        for text in run(3, disagreeing):
            self.assertRegex(text, "disagree.*(broadcast|all-reduce)|given up|is gone")

    def test_operations_that_are_executed_alike_are_told_apart(self):
        for case in ("operation", "scattered", "root", "gather", "type", "truth"):
            for text in run(2, disagreeing_in_gathered_calls, case):
                self.assertRegex(text, "ranks disagree|given up|is gone", case)

    def test_a_group_that_was_left_keeps_nothing(self):
        for text in run(2, left):
            self.assertIn("closed", text)

    def test_wrong_arguments_are_refused_and_the_group_goes_on(self):
        run(2, refused)

    def test_lists_of_tensors_with_other_shapes_are_refused_and_the_group_goes_on(self):
        for texts in run(2, parts_of_other_shapes):
            self.assertTrue(all("pass" in text for text in texts), texts)

    def test_the_handler_of_a_signal_may_raise_while_a_call_is_waited_for(self):
        for kind in (KeyboardInterrupt, RuntimeError, OSError):
            self.assertEqual(run(2, interrupted, kind), ["by the handler", 3 * [2.0]])

    def test_a_rank_that_ends_while_the_others_join_is_named(self):
        [text] = run(2, gone_while_joining, dead=[1])
        self.assertIn("rank 1 is gone: its process has ended", text)

    def test_a_rank_that_cannot_join_tells_the_others(self):
        for address in ("192.0.2.77", "here"):
            text = run(2, unable_to_join, address)[0]
            self.assertIn("rank 1 can't join the group", text)
            self.assertIn(address, text)

    def test_a_batch_without_an_end_keeps_no_tensors(self):
        self.assertTrue(all(held <= 1 for held in run(2, unfinished_batch)))

    def test_threads_have_batches_of_their_own(self):
        self.assertEqual(run(2, batches_of_threads), [[], []])

    def test_a_rank_that_missed_a_monitored_barrier_is_in_step_with_the_next(self):
        self.assertIn("Rank 1 failed to pass", run(2, missed_barrier)[0])

    def test_a_child_is_refused_whatever_it_calls(self):
        self.assertEqual(run(2, refused_in_child), 2 * [6 * "the child"])

    def test_the_rank_that_was_killed_is_named(self):
        for text in run(3, killed, dead=[2]):
            self.assertIn("rank 2", text)

    def test_a_call_that_is_late_ends_the_group(self):
        texts = run(2, late, timeout=3)
        self.assertRegex(texts[0], "all-reduce.*did not end within.*rank 1")
        self.assertRegex(texts[1], "given up|is gone")

    def test_the_class_for_earlier_versions_and_policies(self):
        run(2, of_earlier_versions)

    def test_names_and_one_backend_a_device(self):
        self.assertEqual(len(run(2, names)), 2)
        # Without a GPU, gloo stands for the other device's backend.
        for text in run(2, mixed, backend="cpu:fairway,cuda:gloo"):
            self.assertIn("cpu:fairway", text)


if __name__ == "__main__":
    unittest.main()
