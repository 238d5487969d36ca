"""Tests of operations of many pieces, over loopback. They need the extension module."""

import array
import asyncio
import gc
import unittest

import fairway
from test_memory import PATTERN, Pair

try:
    import numpy
except ImportError:
    numpy = None


class PiecesTest(Pair):
    def test_pieces_are_read_to_their_places_and_nothing_else_changes(self):
        there = self.owner.register(bytearray(PATTERN), rights="r")
        here = self.context.register(bytearray(b"\xff" * 4096))
        pieces = [(0, 300, 100), (1000, 7, 1), (2000, len(PATTERN) - 50, 50)]
        self.assertEqual(self.peer.read_many(here, there.key, pieces), 151)
        expected = bytearray(b"\xff" * 4096)
        for own, other, length in pieces:
            expected[own:own + length] = PATTERN[other:other + length]
        self.assertEqual(bytes(here), bytes(expected))

    def test_pieces_are_counted_from_the_start_of_a_slice(self):
        there = self.owner.register(4096)
        here = self.context.register(bytearray(PATTERN))
        self.assertEqual(self.peer.write_many(here[1000:1100], there.key, [(90, 5, 10)]), 10)
        self.assertEqual(bytes(there[:20]), bytes(5) + PATTERN[1090:1100] + bytes(5))
        with self.assertRaisesRegex(fairway.Invalid, "piece 0 .* at 91 of 100 local bytes"):
            self.peer.write_many(here[1000:1100], there.key, [(91, 5, 10)])

    def test_more_pieces_than_are_under_way_at_a_time_all_arrive(self):
        count = 10_000
        there = self.owner.register(bytearray(PATTERN))
        here = self.context.register(4 * count)
        pieces = [(4 * at, 12 * (at * 7919 % 5000), 4) for at in range(count)]
        started = [self.peer.read_many_async(here, there.key, pieces[at:at + 2500])
                   for at in range(0, count, 2500)]
        # An operation that is started beside them finds room.
        one = self.context.register(8)
        self.assertEqual(self.peer.read(one, there.key, 8), 8)
        self.assertEqual([each.wait(timeout=20) for each in started], [10_000] * 4)
        expected = b"".join(PATTERN[other:other + 4] for _, other, _ in pieces)
        self.assertEqual(bytes(here), expected)

    def test_a_coroutine_awaits_all_pieces(self):
        there = self.owner.register(bytearray(PATTERN))
        here = self.context.register(64)

        async def read():
            return await self.peer.read_many_async(here, there.key, [(0, 64, 32), (32, 0, 32)])

        self.assertEqual(asyncio.run(asyncio.wait_for(read(), 20)), 64)
        self.assertEqual(bytes(here), PATTERN[64:96] + PATTERN[:32])

    def test_pieces_outside_of_either_memory_are_refused_before_any_is_posted(self):
        there = self.owner.register(bytearray(PATTERN))
        here = self.context.register(64)
        for piece in [(60, 0, 5), (0, len(PATTERN) - 1, 2), (0, 0, 0), (1 << 63, 0, 1 << 63)]:
            with self.subTest(piece=piece), self.assertRaisesRegex(fairway.Invalid, "piece 1 "):
                self.peer.read_many(here, there.key, [(0, 64, 8), piece])
        with self.assertRaisesRegex(fairway.Invalid, "no pieces"):
            self.peer.read_many(here, there.key, [])
        with self.assertRaisesRegex(fairway.Invalid, "three integers"):
            self.peer.read_many(here, there.key, [(0, 0, -1)])
        with self.assertRaisesRegex(fairway.Invalid, "three integers"):
            self.peer.read_many(here, there.key, [(0, 64)])
        with self.assertRaisesRegex(fairway.Invalid, "three columns"):
            self.peer.read_many(here, there.key, array.array("q", [0, 64, 8]))
        self.assertEqual(bytes(here), bytes(64))

    def test_a_refusal_by_the_peer_is_raised_when_nothing_is_under_way(self):
        there = self.owner.register(bytearray(PATTERN), rights="r")
        here = self.context.register(1 << 16)
        pieces = [(16 * at, 16 * at, 16) for at in range(2000)]
        with self.assertRaisesRegex(fairway.RemoteAccess, "rights"):
            self.peer.write_many(here, there.key, pieces)
        self.assertEqual(bytes(there), PATTERN)
        # The connection serves on.
        self.assertEqual(self.peer.read_many(here, there.key, pieces), 32_000)

    def test_pieces_of_a_closed_segment_and_a_gone_peer_are_refused(self):
        there = self.owner.register(bytearray(PATTERN))
        here, other = self.context.register(64), self.context.register(64)
        here.close()
        with self.assertRaisesRegex(fairway.Invalid, "closed"):
            self.peer.read_many(here, there.key, [(0, 0, 64)])
        self.peer.close()
        with self.assertRaises(fairway.PeerGone):
            self.peer.read_many(other, there.key, [(0, 0, 64)])

    def test_memory_is_kept_until_the_last_piece_has_arrived(self):
        there = self.owner.register(bytearray(PATTERN))
        memory = bytearray(4 * 8192)
        segment = self.context.register(memory)
        pieces = [(4 * at, 4 * at, 4) for at in range(8192)]
        operation = self.peer.read_many_async(segment, there.key, pieces)
        del segment
        gc.collect()
        self.assertEqual(operation.wait(timeout=20), 4 * 8192)
        self.assertEqual(bytes(memory), PATTERN[:4 * 8192])

    def test_shared_memory_is_copied_without_packets(self):
        there = self.owner.register(len(PATTERN), rights="r", shared=True)
        there[:] = PATTERN
        here = self.context.register(5000)
        self.peer.read(here[:8], there.key)
        before = self.peer.stats()["sent"]
        self.assertEqual(self.peer.read_many(here, there.key, [(0, 9, 3000), (4000, 1, 1)]), 3001)
        self.assertEqual(bytes(here), PATTERN[9:3009] + bytes(1000) + PATTERN[1:2] + bytes(999))
        self.assertEqual(self.peer.stats()["sent"], before)
        # The copy has a thread of its own, so a coroutine does not wait in the call.
        started = self.peer.read_many_async(here, there.key, [(0, 0, 5000)])
        self.assertEqual(started.wait(timeout=20), 5000)
        self.assertEqual(bytes(here), PATTERN[:5000])

    def test_shared_memory_is_read_by_packets_where_the_datapath_demands_them(self):
        there = self.owner.register(4096, rights="r", shared=True)
        there[:5] = b"bytes"
        with fairway.Context("127.0.0.1", datapath="udp", timeout=20) as other, \
                other.connect(self.owner.address) as peer:
            here = other.register(4096)
            before = peer.stats()["sent"]
            self.assertEqual(peer.read_many(here, there.key, [(0, 0, 4096)]), 4096)
            self.assertGreater(peer.stats()["sent"], before)
            self.assertEqual(bytes(here[:5]), b"bytes")

    def test_shared_memory_that_is_closed_or_without_rights_is_refused(self):
        there = self.owner.register(4096, rights="r", shared=True)
        here = self.context.register(4096)
        self.assertEqual(self.peer.read_many(here, there.key, [(0, 0, 4096)]), 4096)
        there[:3] = b"new"
        there.close()
        with self.assertRaises(fairway.RemoteAccess):
            self.peer.read_many(here, there.key, [(0, 0, 4096)])
        # Views of the memory stay valid; its file is gone with them only.
        self.assertEqual(bytes(there[:3]), b"new")
        closed = self.owner.register(4096, rights="w", shared=True)
        with self.assertRaisesRegex(fairway.RemoteAccess, "rights"):
            self.peer.read_many(here, closed.key, [(0, 0, 4096)])
        with self.assertRaisesRegex(fairway.Invalid, "can't be shared"):
            self.owner.register(bytearray(10), shared=True)

    @unittest.skipUnless(numpy, "numpy is not installed")
    def test_pieces_may_be_an_array_that_is_not_contiguous(self):
        there = self.owner.register(bytearray(PATTERN))
        here = self.context.register(numpy.zeros(64, "u1"))
        pieces = numpy.array([[0, 256, 8], [9, 9, 9], [8, 1, 8]])
        self.assertEqual(self.peer.read_many(here, there.key, pieces[::2]), 16)
        self.assertEqual(bytes(here[:16]), PATTERN[:8] + PATTERN[1:9])
        with self.assertRaisesRegex(fairway.Invalid, "64-bit integers"):
            self.peer.read_many(here, there.key, pieces.astype("f8"))


if __name__ == "__main__":
    unittest.main()
