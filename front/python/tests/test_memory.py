"""Tests of remote memory, over loopback. They need the extension module."""

import asyncio
import gc
import os
import pickle
import signal
import socket
import struct
import tempfile
import threading
import time
import unittest
import weakref

import fairway

try:
    import numpy
except ImportError:
    numpy = None

try:
    import torch
except ImportError:
    torch = None

PATTERN = bytes(range(256)) * 256


class Pair(unittest.TestCase):
    """Two contexts, connected."""

    def setUp(self):
        self.owner = fairway.Context("127.0.0.1")
        self.addCleanup(self.owner.close)
        self.context = fairway.Context("127.0.0.1", timeout=20)
        self.addCleanup(self.context.close)
        self.peer = self.context.connect(self.owner.address)


class MemoryTest(Pair):
    def test_write_and_read_move_exactly_the_bytes_of_the_slice(self):
        there = self.owner.register(1 << 16)
        here = self.context.register(bytearray(PATTERN))
        self.assertEqual(self.peer.write(here[256:768], there.key, 1000), 512)
        self.assertEqual(bytes(there[1000:1512]), PATTERN[256:768])
        self.assertEqual(bytes(there[:1000]) + bytes(there[1512:]), bytes((1 << 16) - 512))
        back = self.context.register(bytearray(b"\xff" * 600))
        self.assertEqual(self.peer.read(back[20:532], there.key, 1000), 512)
        self.assertEqual(bytes(back), b"\xff" * 20 + PATTERN[256:768] + b"\xff" * 68)

    def test_key_survives_text_and_pickle(self):
        there = self.owner.register(4096)
        self.assertEqual(fairway.Key(str(there.key)), there.key)
        self.assertEqual(pickle.loads(pickle.dumps(there.key)), there.key)
        self.assertEqual(len(there.key), 4096)
        here = self.context.register(bytearray(b"by text"))
        self.peer.write(here, str(there.key))
        self.assertEqual(bytes(there[:7]), b"by text")
        with self.assertRaisesRegex(fairway.Invalid, "48 hexadecimal digits"):
            self.peer.write(here, "no key")

    def test_segment_is_a_writable_buffer_of_the_memory_itself(self):
        memory = bytearray(64)
        segment = self.context.register(memory)
        view = memoryview(segment)
        self.assertEqual((view.format, view.shape, view.strides), ("B", (64,), (1,)))
        self.assertFalse(view.readonly)
        view[3] = 7
        segment[10:14] = b"abcd"
        segment[20] = 255
        struct.pack_into("<I", segment, 30, 0x01020304)
        self.assertEqual(memory[3], 7)
        self.assertEqual(memory[10:14], b"abcd")
        self.assertEqual((memory[20], segment[20]), (255, 255))
        self.assertEqual(memory[30:34], b"\x04\x03\x02\x01")
        with tempfile.TemporaryFile() as file:
            file.write(b"from a file")
            file.seek(0)
            self.assertEqual(file.readinto(segment[40:]), 11)
        self.assertEqual(memory[40:51], b"from a file")

    def test_bytearray_keeps_its_size_while_it_is_registered(self):
        memory = bytearray(64)
        segment = self.context.register(memory)
        with self.assertRaises(BufferError):
            memory.extend(b"more")
        segment.close()
        del segment
        gc.collect()
        memory.extend(b"more")
        self.assertEqual(len(memory), 68)

    def test_closed_segment_refuses_peers_and_this_side(self):
        memory = bytearray(64)
        there = self.owner.register(memory)
        key, here = there.key, self.context.register(8)
        with there:
            self.peer.write(here, key)
        self.assertTrue(there.closed)
        with self.assertRaises(fairway.RemoteAccess) as caught:
            self.peer.write(here, key)
        self.assertEqual(caught.exception.status, "RemoteAccess")
        self.assertIsInstance(caught.exception, PermissionError)
        here.close()
        with self.assertRaisesRegex(fairway.Invalid, "closed"):
            self.peer.write(here, key)
        # The views stay good.
        self.assertEqual(bytes(there), bytes(memory))

    def test_memory_is_released_when_nothing_refers_to_the_segment(self):
        class Owned(bytearray):
            pass

        memory = Owned(4096)
        gone = weakref.ref(memory)
        segment = self.context.register(memory)
        part = segment[10:20]
        del memory, segment
        gc.collect()
        self.assertIsNotNone(gone())
        del part
        deadline = time.monotonic() + 20
        while gone() is not None and time.monotonic() < deadline:
            gc.collect()
            os.sched_yield()
        self.assertIsNone(gone())

    def test_rights_are_enforced(self):
        there = self.owner.register(64, rights="r")
        here = self.context.register(64)
        self.peer.read(here, there.key)
        with self.assertRaisesRegex(fairway.RemoteAccess, "rights"):
            self.peer.write(here, there.key)
        with self.assertRaisesRegex(fairway.Invalid, "rights can't be \"x\""):
            self.owner.register(64, rights="x")

    def test_atomics_return_the_previous_value(self):
        there = self.owner.register(64, rights="rwa")
        self.assertEqual(self.peer.fetch_add(there.key, 8, 40), 0)
        self.assertEqual(self.peer.cas(there.key, 8, 40, 42), 40)
        self.assertEqual(self.peer.cas(there.key, 8, 40, 1), 42)
        self.assertEqual(self.peer.fetch_add(there.key, 8, -2), 42)
        self.assertEqual(self.peer.swap(there.key, 16, 9, width=4), 0)
        self.assertEqual(struct.unpack_from("<QI", there, 8), (40, 9))
        with self.assertRaisesRegex(fairway.Invalid, "4 bytes can't hold 4294967296"):
            self.peer.swap(there.key, 16, 1 << 32, width=4)
        with self.assertRaisesRegex(fairway.OperationFailed, "multiple"):
            self.peer.swap(there.key, 3, 1)

    def test_remote_memory_is_sliced_and_assigned(self):
        there = self.owner.register(1024)
        here = self.context.register(bytearray(PATTERN[:1024]))
        remote = self.peer.memory(there.key)
        remote[100:200] = here[0:100]
        self.assertEqual(bytes(there[100:200]), PATTERN[:100])
        remote[100:200][50:].read(here[900:950])
        self.assertEqual(bytes(here[900:950]), PATTERN[50:100])
        with self.assertRaisesRegex(fairway.Invalid, "10 local bytes don't fit 20"):
            remote[0:20] = here[0:10]

    def test_memory_that_cannot_be_registered_is_refused(self):
        for memory, words in [(b"constant", "read-only"), (memoryview(bytearray(9))[::2], "contig"),
                              (bytearray(), "no bytes"), (0, "0 bytes"), ("text", "buffer")]:
            with self.assertRaisesRegex(fairway.Invalid, words):
                self.context.register(memory)
        with self.assertRaisesRegex(fairway.Invalid, "in no open segment"):
            self.peer.write(bytearray(8), self.owner.register(8).key)

    def test_other_threads_run_while_one_waits(self):
        mailbox = self.owner.mailbox(5)
        arrived = []
        waiter = threading.Thread(target=lambda: arrived.append(mailbox.wait(30)))
        waiter.start()
        # This thread gets the interpreter while the other one waits for what this one sends.
        mailbox.post(self.owner.register(16))
        self.peer.put(self.context.register(bytearray(b"sixteen bytes...")), 5)
        waiter.join(30)
        self.assertEqual(bytes(arrived[0].buffer), b"sixteen bytes...")

    def test_interrupt_ends_a_wait(self):
        # A shell starts background jobs with SIGINT ignored, and Python leaves it so.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        mailbox = self.owner.mailbox(6)
        main = threading.main_thread().ident
        timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            mailbox.wait(60)
        timer.join()


class ErrorTest(unittest.TestCase):
    def test_connection_errors_have_their_classes_and_remedies(self):
        with fairway.Context("127.0.0.1") as context:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
                silent.bind(("127.0.0.1", 0))
                port = silent.getsockname()[1]
                with self.assertRaisesRegex(fairway.Timeout, "did not answer") as caught:
                    context.connect(f"127.0.0.1:{port}", timeout=0.1)
                self.assertIsInstance(caught.exception, TimeoutError)
            with self.assertRaisesRegex(fairway.ConnectionRefused, "start the program") as caught:
                context.connect(f"127.0.0.1:{port}", timeout=20)
            self.assertIsInstance(caught.exception, ConnectionRefusedError)
            with self.assertRaisesRegex(fairway.SystemFailure, "check the name"):
                context.connect("no-such-host.invalid:1")
            with self.assertRaisesRegex(fairway.Invalid, "HOST:PORT"):
                context.connect("nowhere")
            with self.assertRaisesRegex(fairway.Invalid, "timeout can't be -1"):
                context.connect("127.0.0.1:9", timeout=-1)

    def test_settings_are_checked(self):
        with self.assertRaisesRegex(fairway.Invalid, "paths"):
            fairway.Context("127.0.0.1", paths=0)
        with self.assertRaisesRegex(fairway.Invalid, "bind can't be"):
            fairway.Context("nowhere")
        with self.assertRaisesRegex(fairway.Invalid, "policy"):
            fairway.Context("127.0.0.1", policy="cc=none-of-these")
        with self.assertRaisesRegex(TypeError, "no setting 'pahts'"):
            fairway.Context("127.0.0.1", pahts=3)
        with self.assertRaisesRegex(fairway.SystemFailure, "192.0.2.1"):
            fairway.Context("192.0.2.1")

    def test_time_limit_of_a_context_is_checked(self):
        for wrong in (-1, float("nan")):
            with self.assertRaisesRegex(fairway.Invalid, f"timeout can't be {wrong}"):
                fairway.Context("127.0.0.1", timeout=wrong)

    def test_peer_that_closed_is_gone(self):
        context, owner = fairway.Context("127.0.0.1"), fairway.Context("127.0.0.1")
        with context:
            key, here = owner.register(8).key, context.register(8)
            peer = context.connect(owner.address)
            self.assertTrue(peer.alive)
            owner.close()
            with self.assertRaises(fairway.PeerGone) as caught:
                while True:
                    peer.write(here, key)
            self.assertIsInstance(caught.exception, ConnectionError)
            self.assertFalse(peer.alive)


class AsyncTest(Pair):
    def test_many_operations_are_awaited_together(self):
        there = self.owner.register(1 << 16)
        here = self.context.register(bytearray(PATTERN))

        async def run():
            pieces = range(0, 1 << 16, 1024)
            writes = [self.peer.write_async(here[at:at + 1024], there.key, at) for at in pieces]
            self.assertEqual(await asyncio.gather(*writes), [1024] * 64)

        asyncio.run(run())
        self.assertEqual(bytes(there), PATTERN)

    def test_two_loops_share_a_context(self):
        there = self.owner.register(64, rights="rwa")

        async def count():
            for _ in range(50):
                await self.peer.fetch_add_async(there.key, 0, 1)

        threads = [threading.Thread(target=asyncio.run, args=(count(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(struct.unpack_from("<Q", there), (100,))

    def test_failure_is_raised_by_await_and_by_wait(self):
        here = self.context.register(8)
        there = self.owner.register(8)

        async def run():
            with self.assertRaises(fairway.RemoteAccess):
                await self.peer.write_async(here, there.key, 1)
            return await self.peer.write_async(here, there.key)

        self.assertEqual(asyncio.run(run()), 8)
        operation = self.peer.read_async(here, there.key, 9)
        with self.assertRaises(fairway.RemoteAccess):
            operation.wait(20)
        self.assertTrue(operation.done())

    def test_cancelled_wait_loses_no_epoch(self):
        mailbox = self.owner.mailbox(7)
        mailbox.post(self.owner.register(4))

        async def run():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(mailbox.wait_async(), 0.01)
            peer = await self.context.connect_async(self.owner.address)
            await peer.put_async(self.context.register(bytearray(b"kept")), 7)
            return await asyncio.wait_for(mailbox.wait_async(), 30)

        self.assertEqual(bytes(asyncio.run(run()).buffer), b"kept")

    def test_operations_fail_when_the_context_is_closed(self):
        here = self.context.register(8)
        mailbox = self.owner.mailbox(8)
        stuck = self.peer.put_async(here, mailbox.address)
        self.context.close()
        with self.assertRaises(fairway.PeerGone):
            stuck.wait(20)
        with self.assertRaises(fairway.PeerGone):
            self.peer.write_async(here, self.owner.register(8).key)


class InboxTest(Pair):
    def test_puts_fill_the_buffers_in_their_order(self):
        mailbox = self.owner.mailbox(0x11ff0011, epoch_bytes=64, key=9)
        memory = self.owner.register(128)
        mailbox.post(memory[64:128])
        mailbox.post(memory[0:64])
        here = self.context.register(bytearray(PATTERN))
        for at in (32, 0):
            self.peer.put(here[at:at + 32], mailbox.address, key=9, offset=at)
        first = mailbox.wait()
        self.assertEqual((first.number, first.puts, first.bytes, first.early), (0, 2, 64, False))
        self.assertEqual((bytes(first.buffer), first.buffer.offset), (PATTERN[:64], 64))
        self.peer.put(here[64:74], mailbox.address, key=9)
        self.assertEqual(mailbox.end_epoch(), 1)
        second = mailbox.wait()
        self.assertEqual((second.early, second.bytes), (True, 10))
        self.assertEqual(bytes(memory[:10]), PATTERN[64:74])
        with self.assertRaises(fairway.RemoteAccess):
            self.peer.put(here[:8], mailbox.address, key=8)
        with self.assertRaisesRegex(fairway.Timeout, "no epoch within"):
            mailbox.wait(0)

    def test_retired_buffer_is_read_by_get(self):
        mailbox = self.owner.mailbox(3, retired=1)
        mailbox.post(self.owner.register(bytearray(8)))
        self.peer.put(self.context.register(bytearray(b"retired!")), 3)
        mailbox.wait()
        here = self.context.register(8)
        self.peer.get(here, 3, epoch=0)
        self.assertEqual(bytes(here), b"retired!")

    def test_messages_arrive_in_posted_buffers(self):
        jetty = self.owner.jetty(token=77)
        memory = self.owner.register(96)
        for at in (0, 32, 64):
            jetty.post(memory[at:at + 32])
        here = self.context.register(bytearray(b"three words here"))
        self.peer.send(here[0:5], jetty.number, token=77)
        self.peer.send(here[6:11], jetty.number, token=77, immediate=1 << 40)
        messages = [jetty.wait(), jetty.wait()]
        self.assertEqual([bytes(message.data) for message in messages], [b"three", b"words"])
        self.assertEqual([message.immediate for message in messages], [None, 1 << 40])
        self.assertIsNotNone(messages[0].sender)
        with self.assertRaises(fairway.RemoteAccess):
            self.peer.send(here, jetty.number, token=78)
        awaited = self.peer.send_async(here[12:], jetty.number, token=77)
        self.assertEqual(bytes(asyncio.run(jetty.wait_async()).data), b"here")
        self.assertEqual(awaited.wait(20), 4)


@unittest.skipIf(numpy is None, "numpy is not installed")
class NumpyTest(Pair):
    def test_arrays_are_registered_in_place(self):
        array = numpy.arange(1000, dtype="f8").reshape(10, 100)
        with self.context.register(bytearray(16)) as segment:
            segment[0:0] = numpy.zeros((0, 3))
            with self.assertRaisesRegex(fairway.Invalid, "contiguous"):
                segment[:] = numpy.zeros((4, 2), dtype="u2", order="F")
            segment[:] = numpy.full((4, 2), 0x0101, dtype="u2")
            self.assertEqual(bytes(segment), 16 * b"\x01")
        there = self.owner.register(array)
        result = numpy.full((4, 100), numpy.nan)
        self.context.register(result, rights="")
        with self.assertRaisesRegex(fairway.Invalid, "in no open segment"):
            # Nothing kept the segment.
            self.peer.read(result, there.key)
        segment = self.context.register(result, rights="")
        self.peer.read(result[1:3], there.key, array[5:7].__array_interface__["data"][0]
                       - array.__array_interface__["data"][0])
        numpy.testing.assert_array_equal(result[1:3], array[5:7])
        self.assertTrue(numpy.isnan(result[[0, 3]]).all())
        self.assertEqual(segment.nbytes, result.nbytes)
        with self.assertRaisesRegex(fairway.Invalid, "contiguous"):
            self.peer.read(result[:, 1:3], there.key)

    def test_array_over_a_segment_sees_what_peers_write(self):
        there = self.owner.register(4096)
        seen = there.array("f4", (32, 32))
        here = self.context.register(4096)
        here.array("f4")[:] = numpy.arange(1024)
        self.peer.write(here, there.key)
        numpy.testing.assert_array_equal(seen.ravel(), numpy.arange(1024, dtype="f4"))
        # The array holds the memory, also when the segment is closed.
        there.close()
        del there
        gc.collect()
        self.assertEqual(seen[31, 31], 1023)

    def test_dlpack_shares_the_memory(self):
        segment = self.context.register(16)
        if not hasattr(numpy, "from_dlpack"):
            self.skipTest("this numpy has no from_dlpack")
        array = numpy.from_dlpack(segment)
        segment[5] = 99
        self.assertEqual((array.shape, array.dtype, array[5]), ((16,), numpy.uint8, 99))

    def test_types_beyond_the_buffer_protocol(self):
        times = numpy.zeros(4, dtype="M8[s]")
        there = self.owner.register(times)
        here = self.context.register(numpy.arange(4).astype("i8"))
        self.peer.write(here, there.key)
        self.assertEqual(times.astype("i8").tolist(), [0, 1, 2, 3])


@unittest.skipIf(torch is None, "torch is not installed")
class TorchTest(Pair):
    def test_tensors_are_registered_in_place(self):
        tensor = torch.zeros(64, dtype=torch.bfloat16)
        there = self.owner.register(tensor)
        source = torch.arange(64, dtype=torch.bfloat16)
        here = self.context.register(source)
        self.peer.write(source[32:], there.key, 64)
        self.assertTrue(torch.equal(tensor[32:], source[32:]))
        self.assertEqual(tensor[:32].abs().sum().item(), 0)
        shared = torch.from_dlpack(here)
        source[1] = 0
        self.assertEqual(shared[2:4].tolist(), [0, 0])
        with self.assertRaisesRegex(fairway.Invalid, "contiguous"):
            self.context.register(torch.zeros(8, 8).t())

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_registered_tensors_cannot_be_resized(self):
        for tensor in (torch.zeros(64), torch.zeros(64, dtype=torch.bfloat16), torch.tensor(1.5),
                       torch.zeros(4, 8)[2:]):
            there = self.owner.register(tensor)
            self.assertEqual(len(there), tensor.numel() * tensor.element_size())
            for resize in (lambda: tensor.resize_(1 << 16),
                           lambda: tensor.untyped_storage().resize_(0)):
                with self.assertRaisesRegex(RuntimeError, "not resizable"):
                    resize()
        with self.assertRaisesRegex(fairway.Invalid, "no bytes"):
            self.owner.register(torch.zeros(0))

    @unittest.skipIf(numpy is None, "numpy is not installed")
    def test_bytes_of_a_tensor_stay_when_it_is_given_others(self):
        def set_storage(tensor):
            tensor.set_(torch.zeros(4, dtype=torch.uint8).untyped_storage())

        def set_data(tensor):
            tensor.data = torch.zeros(4, dtype=torch.uint8)

        for change in (set_storage, set_data):
            # The system takes memory of this size back at once when PyTorch frees it.
            tensor = torch.zeros(1 << 26, dtype=torch.uint8)
            address = tensor.data_ptr() + (1 << 25)
            there = self.owner.register(tensor, rights="rw")
            change(tensor)
            gc.collect()
            self.assertTrue(_is_mapped(address), change.__name__)
            here = self.context.register(bytearray(b"late"))
            self.peer.write(here, there.key, 1 << 25)
            self.assertEqual(bytes(there[1 << 25:(1 << 25) + 4]), b"late")

    def test_tensors_that_are_only_looked_up_may_be_resized(self):
        tensor = torch.zeros(8)
        with self.assertRaisesRegex(fairway.Invalid, "in no open segment"):
            self.peer.write(tensor, self.owner.register(32).key)
        tensor.resize_(1 << 16)
        self.assertEqual(tensor.numel(), 1 << 16)


def _is_mapped(address):
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            start, end = (int(bound, 16) for bound in line.split()[0].split("-"))
            if start <= address < end:
                return True
    return False


if __name__ == "__main__":
    unittest.main()
