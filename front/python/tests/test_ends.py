"""Tests of ends: of contexts, segments, waits and processes. They need the extension module."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import traceback
import types
import unittest
import weakref

import fairway
from fairway import _inbox

# Far longer than any step takes: a test that reaches it has hung.
LIMIT = 60


def in_child(work):
    """Runs `work` in a forked child, and returns what it printed and its exit status."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, repr(work()).encode())
            os._exit(0)
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as output:
        text = output.read().decode()
    return text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(program, *arguments):
    """Runs a program in an interpreter of its own, and returns its output, errors and status."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    return done.stdout, done.stderr, done.returncode


class Pair(unittest.TestCase):
    """Two contexts, connected."""

    def setUp(self):
        self.owner = fairway.Context("127.0.0.1")
        self.addCleanup(self.owner.close)
        self.context = fairway.Context("127.0.0.1", timeout=LIMIT)
        self.addCleanup(self.context.close)
        self.peer = self.context.connect(self.owner.address)


class ForkTest(Pair):
    def setUp(self):
        super().setUp()
        self.there = self.owner.register(4096)
        self.here = self.context.register(4096)
        self.jetty = self.context.jetty()
        self.mailbox = self.context.mailbox(7)
        self.operation = self.peer.write_async(self.here, self.there.key)
        self.operation.wait(LIMIT)

    def assert_parent_works(self):
        for number in range(100):
            self.here[:8] = number.to_bytes(8, "little")
            self.peer.write(self.here[:8], self.there.key, 8 * number)
        places = range(0, 800, 8)
        there = [int.from_bytes(self.there[at:at + 8], "little") for at in places]
        self.assertEqual(there, list(range(100)))
        self.assertTrue(self.peer.alive)

    def test_every_call_in_a_forked_child_is_refused(self):
        key = self.there.key
        calls = {
            "write": lambda: self.peer.write(self.here, key),
            "write_async": lambda: self.peer.write_async(self.here, key),
            "fetch_add": lambda: self.peer.fetch_add(key, 0, 1),
            "read_many": lambda: self.peer.read_many(self.here, key, [(0, 0, 8)]),
            "stats": lambda: self.peer.stats(),
            "register": lambda: self.context.register(8),
            "connect": lambda: self.context.connect(self.owner.address),
            "address": lambda: self.context.address,
            "peers": lambda: self.context.peers(),
            "new jetty": lambda: self.context.jetty(),
            "jetty.post": lambda: self.jetty.post(self.here),
            "jetty.wait": lambda: self.jetty.wait(),
            "mailbox.post": lambda: self.mailbox.post(self.here),
            "mailbox.wait": lambda: self.mailbox.wait(),
            "epoch": lambda: self.mailbox.epoch,
            "operation.wait": lambda: self.operation.wait(),
        }

        def child():
            ended = {}
            for name, call in calls.items():
                try:
                    ended[name] = call()
                except fairway.Invalid as error:
                    ended[name] = "forked from" in str(error)
            return ended

        text, status = in_child(child)
        self.assertEqual((text, status), (repr(dict.fromkeys(calls, True)), 0))
        self.assert_parent_works()

    def test_forked_child_closes_and_drops_without_effect_on_the_parent(self):
        def child():
            self.here.close()
            self.mailbox.close()
            self.peer.close()
            self.context.close()
            del self.here, self.mailbox, self.jetty, self.operation, self.peer, self.context
            del self.there, self.owner
            return "done"

        text, status = in_child(child)
        self.assertEqual((text, status), ("'done'", 0))
        self.assert_parent_works()

    def test_forked_child_ends_its_interpreter_and_the_parent_goes_on(self):
        program = """
import fairway, os, sys
owner = fairway.Context("127.0.0.1")
there = owner.register(64)
with fairway.Context("127.0.0.1") as context:
    peer = context.connect(owner.address)
    here = context.register(bytearray(b"by the parent"))
    peer.write(here, there.key)
    child = os.fork()
    if child == 0:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(peer.write(here, there.key, 20), bytes(there[20:33]))
"""
        self.assertEqual(run(program), ("3\n13 b'by the parent'\n", "", 0))

    def test_forked_child_uses_a_context_of_its_own(self):
        address, key = self.owner.address, self.there.key

        def child():
            with fairway.Context("127.0.0.1", timeout=LIMIT) as own:
                here = own.register(bytearray(b"from the child"))
                return own.connect(address).write(here, key, 1000)

        self.assertEqual(in_child(child), ("14", 0))
        self.assertEqual(bytes(self.there[1000:1014]), b"from the child")
        self.assert_parent_works()


class CloseTest(Pair):
    def test_waits_end_when_the_context_is_closed(self):
        jetty, mailbox = self.owner.jetty(), self.owner.mailbox(7)
        segment = self.owner.register(64)
        jetty.post(segment[0:32])
        mailbox.post(segment[32:64])
        begun = threading.Barrier(5)
        ended = {}

        def wait(name, call):
            begun.wait()
            try:
                while True:
                    ended[name] = call()
            except fairway.Error as error:
                ended[name] = type(error)

        async def awaited(inbox):
            return await inbox.wait_async()

        waits = {
            "jetty": lambda: jetty.wait(LIMIT),
            "mailbox": lambda: mailbox.wait(LIMIT),
            "jetty in a loop": lambda: asyncio.run(awaited(jetty)),
            "mailbox in a loop": lambda: asyncio.run(awaited(mailbox)),
        }
        threads = [threading.Thread(target=wait, args=item) for item in waits.items()]
        for thread in threads:
            thread.start()
        begun.wait()
        self.owner.close()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(ended, dict.fromkeys(waits, fairway.PeerGone))
        for call in (lambda: jetty.post(segment), mailbox.end_epoch, jetty.wait, mailbox.wait):
            with self.assertRaisesRegex(fairway.PeerGone, "shut down"):
                call()
        mailbox.close()

    def test_posted_segment_is_not_closed_and_the_error_names_the_inbox(self):
        segment = self.owner.register(bytearray(4096))
        jetty, mailbox = self.owner.jetty(), self.owner.mailbox(0x77)
        jetty.post(segment[0:64])
        mailbox.post(segment[64:128])
        with self.assertRaisesRegex(fairway.Invalid, f"posted to Jetty {jetty.number}:"):
            segment.close()
        self.assertFalse(segment.closed)
        self.peer.send(self.context.register(bytearray(b"still open")), jetty.number)
        self.assertEqual(bytes(jetty.wait(LIMIT).data), b"still open")
        with self.assertRaisesRegex(fairway.Invalid, "posted to mailbox 0x77:"):
            segment.close()
        del mailbox
        segment.close()
        self.assertTrue(segment.closed)

    def test_segment_is_closed_after_its_context_with_all_that_is_posted(self):
        memory = bytearray(4096)
        segment = self.owner.register(memory)
        jetty, mailbox = self.owner.jetty(), self.owner.mailbox(7)
        jetty.post(segment[0:64])
        mailbox.post(segment[64:128])
        self.owner.close()
        segment.close()
        self.assertTrue(segment.closed)
        del segment, jetty, mailbox
        gc.collect()
        memory.extend(b"more")


class FakeInbox:
    """Stands for a native mailbox or Jetty whose events the test chooses."""

    def __init__(self, post=None, wait=None):
        self.post, self.wait = post, wait

    def inbox(self):
        segment = types.SimpleNamespace(_local=None)
        context = types.SimpleNamespace(timeout=LIMIT, _as_segment=lambda _: segment)
        inbox = _inbox._Inbox(context, self)
        inbox._AWAITED = "message"
        return inbox


class InboxTest(unittest.TestCase):
    def test_message_that_a_cancelled_task_takes_is_returned_to_a_thread_that_waits(self):
        main, waits = threading.current_thread(), threading.Event()

        def wait(_):
            if threading.current_thread() is not main:
                # The thread of the cancelled task takes the message while this one waits.
                waits.wait(LIMIT)
                return "the message"
            waits.set()
            raise fairway.Timeout("nothing is left for this thread")

        inbox = FakeInbox(wait=wait).inbox()

        async def run():
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(inbox._arrival_async(), 0.001)
            return inbox._arrival(LIMIT)

        self.assertEqual(asyncio.run(run()), "the message")

    def test_timeout_of_a_wait_in_rounds_names_the_whole_limit(self):
        def wait(limit):
            raise fairway.Timeout(f"nothing within {limit}")

        inbox = FakeInbox(wait=wait).inbox()
        with self.assertRaisesRegex(fairway.Timeout, "^no message within 0 s: wait longer"):
            inbox._arrival(0)

    def test_message_may_arrive_while_its_buffer_is_being_posted(self):
        posted = []

        def post(_, number):
            # What other threads may do meanwhile: post another buffer, and receive into this one.
            posted.append(number)
            if len(posted) == 1:
                inbox.post("another buffer")
                self.assertIsNotNone(inbox._posted.pop(number))

        inbox = FakeInbox(post=post).inbox()
        inbox.post("a buffer")
        self.assertEqual((posted, list(inbox._posted)), ([1, 2], [2]))

    def test_buffer_that_cannot_be_posted_is_not_held(self):
        def post(_, number):
            raise fairway.LimitReached("too many")

        inbox = FakeInbox(post=post).inbox()
        with self.assertRaises(fairway.LimitReached):
            inbox.post("a buffer")
        self.assertEqual(inbox._posted, {})


class ThreadsTest(Pair):
    def test_threads_register_and_find_memory_at_the_same_time(self):
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        self.addCleanup(sys.setswitchinterval, before)
        failures = []

        def work():
            try:
                for _ in range(300):
                    memory = [bytearray(64) for _ in range(4)]
                    segments = [self.context.register(piece) for piece in memory]
                    for piece, segment in zip(memory, segments):
                        found = self.context._as_segment(memoryview(piece)[8:16])
                        if (found.offset, found.key) != (8, segment.key):
                            failures.append("another segment")
            except Exception as error:
                failures.append(repr(error))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(failures, [])


class ErrorTest(Pair):
    def test_arguments_that_are_too_large_are_errors_of_the_package(self):
        there, here = self.owner.register(64, rights="rwa"), self.context.register(8)
        for failing in (
            lambda: self.context.register(1 << 50),
            lambda: self.context.register(1 << 70),
            lambda: self.context.register(1 << 70, shared=True),
            lambda: self.peer.write(here, there.key, 1 << 64),
            lambda: self.peer.cas(there.key, 0, 1, 2, width=-8),
            lambda: self.peer.swap(there.key, 0, 1, width=16),
        ):
            with self.assertRaises(fairway.Error):
                failing()
        with self.assertRaisesRegex(fairway.Invalid, "a word can't have -8 bytes: use 4 or 8"):
            self.peer.cas(there.key, 0, 1, 2, width=-8)

    def test_shared_memory_without_descriptors_is_an_error_of_the_package(self):
        program = """
import os, resource
import fairway
context = fairway.Context("127.0.0.1")
used = max(int(number) for number in os.listdir("/proc/self/fd"))
for more in range(12):
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        context.register(4096, shared=True)
    except fairway.SystemFailure as error:
        print(isinstance(error, OSError))
        break
    except BaseException as error:
        print(type(error))
"""
        self.assertEqual(run(program)[0], "True\n")

    def test_context_without_a_time_limit_connects_and_moves_memory(self):
        with fairway.Context("127.0.0.1", timeout=None) as context:
            there = self.owner.register(8)
            peer = context.connect(self.owner.address)
            self.assertEqual(peer.write(context.register(bytearray(b"no limit")), there.key), 8)
            self.assertEqual(bytes(there), b"no limit")

    def test_errors_name_no_item_of_rust(self):
        segments, here = [], self.context.register(8)
        with self.assertRaises(fairway.LimitReached) as segments_gone:
            while True:
                segments.append(self.context.register(8))
        with self.assertRaises(fairway.RemoteAccess) as refused:
            self.peer.write(here, self.owner.register(8).key, 4)
        jetty = self.owner.jetty(depth=2)
        buffer = self.owner.register(64)
        with self.assertRaises(fairway.LimitReached) as receives_gone:
            while True:
                jetty.post(buffer)
        for caught in (segments_gone, refused, receives_gone):
            self.assertNotIn("::", str(caught.exception))

    def test_arrays_of_objects_are_refused(self):
        class Array(bytearray):
            class dtype:
                hasobject = True

        with self.assertRaisesRegex(fairway.Invalid, "references to Python objects"):
            self.context.register(Array(8))


class ReleaseTest(Pair):
    def test_segments_are_released_by_one_thread(self):
        class Owned(bytearray):
            pass

        owners = [Owned(64) for _ in range(100)]
        gone = [weakref.ref(owner) for owner in owners]
        segments = [self.owner.register(owner) for owner in owners]
        # A segment that can't be released yet delays no other.
        held = self.owner.register(64)
        jetty = self.owner.jetty()
        jetty.post(held[0:8])
        jetty._posted.clear()
        del held, owners, segments
        gc.collect()
        while any(reference() is not None for reference in gone):
            os.sched_yield()
        named = []
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/comm") as name:
                named.append(name.read().strip())
        self.assertEqual(named.count("fairway-release"), 1)

    def test_interpreter_ends_with_and_just_after_segments(self):
        program = """
import gc
import sys
import fairway
context = fairway.Context("127.0.0.1")
segments = [context.register(64) for _ in range(4000)]
if sys.argv[1] == "dropped":
    segments.clear()
    gc.collect()
    context.register(64)
print("ends")
"""
        for how in ("dropped", "open"):
            self.assertEqual(run(program, how), ("ends\n", "", 0))

    def test_interpreter_ends_although_a_sub_interpreter_was_left(self):
        program = """
import sys
import warnings
warnings.simplefilter("ignore")
try:
    import _interpreters as interpreters
    execute = interpreters.exec
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
        execute = interpreters.run_string
    except ImportError:
        print("ends")
        sys.exit()
left = interpreters.create()
execute(left, "import fairway; context = fairway.Context('127.0.0.1')")
print("ends")
"""
        output, _, status = run(program)
        self.assertEqual((output, status), ("ends\n", 0))
