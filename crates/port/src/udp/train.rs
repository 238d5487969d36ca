//! A run of packets that is sent in one call.

use std::fmt;

use fairway_wire::Ecn;

use crate::limits::{HEADER_BYTES_MAX, SEGMENTS_MAX, TRAIN_BYTES_MAX};
use crate::memory::{RawSlice, Scratch};

/// Longest fill of one packet, in bytes ([`Train::fill_last`]).
const FILL_MAX: usize = ZEROS.len() + FILL_END;
/// Most pieces of a packet: header, payload, zeros, and the end of the fill.
const PIECES_MAX: usize = 4;
/// Length of the end of a fill, in bytes.
const FILL_END: usize = 2;

/// What a packet is filled with, but the end.
static ZEROS: [u8; 16 * 1024] = [0; 16 * 1024];

/// Packets with one destination and one socket, gathered for one segmentation-offloaded call.
///
/// The kernel cuts a train at equal distances, so all packets have the length of the first, except
/// that the last may be shorter. [`Train::push`] enforces that: if it returns an error, send the
/// train, clear it, and push again. A last packet that is shorter can be filled up
/// ([`Train::fill_last`]).
///
/// Headers are copied into the train. Payload is only referred to, and must stay in place until the
/// train has been sent.
pub struct Train {
    headers: Scratch,
    segments: Vec<Segment>,
    /// The pieces header, payload, fill, header, payload, … without empty ones.
    gather: Vec<libc::iovec>,
    /// The same pieces, those that follow each other in memory joined: the kernel takes time for
    /// each.
    joined: Vec<libc::iovec>,
    /// Length of the headers.
    header_bytes: usize,
    segments_max: usize,
    /// Number of packets at the front that have been sent.
    skipped: usize,
    /// Length of every packet but the last.
    segment_size: usize,
    bytes: usize,
    /// True once a shorter packet was pushed, which has to be the last.
    closed: bool,
    /// Bytes with which packets were filled.
    filled: usize,
    ecn: Ecn,
    /// Code point of all packets, below 64.
    dscp: u8,
}

// SAFETY: the raw addresses in `gather` point into `headers`, which moves along, and at payload
// whose validity the makers of the `RawSlice`s promised irrespective of threads.
unsafe impl Send for Train {}

#[derive(Clone, Copy)]
struct Segment {
    header_at: u32,
    header_len: u16,
    first_piece: u16,
    payload: RawSlice,
}

/// The reason why a packet cannot join a train: send the train, clear it, and push the packet
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoesNotFit {
    /// The packet is longer than the packets in the train.
    Longer,
    /// The train ends in a shorter packet.
    Closed,
    /// The train has as many packets as one call may carry.
    Packets,
    /// The train would exceed [`TRAIN_BYTES_MAX`]. For the first packet of a train this means that
    /// the packet cannot be sent at all.
    Bytes,
}

impl Train {
    /// Creates an empty train of at most `segments_max` packets, usually the port's
    /// [`crate::Features::segments_max`]. Allocates all memory that it will need.
    pub fn new(segments_max: usize) -> Self {
        let segments_max = segments_max.clamp(1, SEGMENTS_MAX);
        Train {
            headers: Scratch::new(segments_max * (HEADER_BYTES_MAX + FILL_END)),
            segments: Vec::with_capacity(segments_max),
            gather: Vec::with_capacity(PIECES_MAX * segments_max),
            joined: Vec::with_capacity(PIECES_MAX * segments_max),
            header_bytes: 0,
            segments_max,
            skipped: 0,
            segment_size: 0,
            bytes: 0,
            closed: false,
            filled: 0,
            ecn: Ecn::Capable,
            dscp: 0,
        }
    }

    /// Removes all packets; the next ones are sent ECN-capable and unmarked, as best effort.
    pub fn clear(&mut self) {
        self.segments.clear();
        self.gather.clear();
        self.joined.clear();
        self.header_bytes = 0;
        self.skipped = 0;
        self.segment_size = 0;
        self.bytes = 0;
        self.closed = false;
        self.filled = 0;
        self.ecn = Ecn::Capable;
        self.dscp = 0;
    }

    /// Adds a packet: `header`, which is copied, then `payload`. Either may be empty, but not both.
    ///
    /// # Errors
    /// The packet does not fit this train, which stays as it was.
    ///
    /// # Panics
    /// If the header is longer than [`HEADER_BYTES_MAX`] or the packet is empty.
    #[inline]
    pub fn push(&mut self, header: &[u8], payload: RawSlice) -> Result<(), DoesNotFit> {
        let len = header.len() + payload.len();
        assert!(header.len() <= HEADER_BYTES_MAX, "a header of {} bytes", header.len());
        assert!(len > 0, "an empty packet");
        self.check(len)?;
        let slot = self.headers.at(self.header_bytes, header.len());
        let first_piece = self.gather.len() as u16;
        if !header.is_empty() {
            // SAFETY: `slot` has room for `header.len()` bytes, checked by `at`; a header borrowed
            // from another part of this train is impossible while `self` is borrowed mutably.
            unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), slot, header.len()) };
            self.add_piece(libc::iovec { iov_base: slot.cast(), iov_len: header.len() });
        }
        if !payload.is_empty() {
            let base = payload.as_ptr().cast_mut().cast();
            self.add_piece(libc::iovec { iov_base: base, iov_len: payload.len() });
        }
        let (header_at, header_len) = (self.header_bytes as u32, header.len() as u16);
        self.segments.push(Segment { header_at, header_len, first_piece, payload });
        self.header_bytes += header.len();
        self.closed = len < self.segment_size;
        self.segment_size = self.segment_size.max(len);
        self.bytes += len;
        Ok(())
    }

    /// True if a packet has been filled.
    pub fn is_filled(&self) -> bool {
        self.filled > 0
    }

    /// Bytes of the packets yet to be sent, including headers, without their fill.
    pub fn packet_bytes(&self) -> usize {
        match self.skipped == 0 {
            true => self.bytes - self.filled,
            false => (0..self.len()).map(|index| self.packet_len(index)).sum(),
        }
    }

    /// True if the last packet is shorter than the others, so that none may follow.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Fills the last packet with zeros and `end` up to the length of the others, so that one of
    /// `next` bytes may follow. Its receiver has to tell the fill from the packet. Returns false,
    /// and changes nothing, if the packet is not shorter by at least the length of `end`, or by
    /// more than `most` bytes, or if the next packet would not fit all the same.
    pub fn fill_last(&mut self, most: usize, next: usize, end: [u8; FILL_END]) -> bool {
        let Some(last) = self.segments.last() else { return false };
        let fill = self.segment_size - last.len();
        let is_possible = self.closed && (FILL_END..=most.min(FILL_MAX)).contains(&fill);
        let fits = next <= self.segment_size
            && self.segments.len() < self.segments_max
            && self.bytes + fill + next <= TRAIN_BYTES_MAX;
        if !is_possible || !fits {
            return false;
        }
        let zeros = &ZEROS[..fill - FILL_END];
        if !zeros.is_empty() {
            let base = zeros.as_ptr().cast_mut().cast();
            self.add_piece(libc::iovec { iov_base: base, iov_len: zeros.len() });
        }
        let slot = self.headers.at(self.header_bytes, FILL_END);
        // SAFETY: `slot` has room for the end, checked by `at`, and `end` is on the stack.
        unsafe { std::ptr::copy_nonoverlapping(end.as_ptr(), slot, FILL_END) };
        self.add_piece(libc::iovec { iov_base: slot.cast(), iov_len: FILL_END });
        self.header_bytes += FILL_END;
        self.bytes += fill;
        self.closed = false;
        self.filled += fill;
        true
    }

    #[inline]
    fn add_piece(&mut self, piece: libc::iovec) {
        self.gather.push(piece);
        match self.joined.last_mut() {
            Some(last) if last.iov_base.addr() + last.iov_len == piece.iov_base.addr() => {
                last.iov_len += piece.iov_len;
            }
            _ => self.joined.push(piece),
        }
    }

    /// Checks that a packet of `len` bytes may join, and returns the reason if not.
    pub fn check(&self, len: usize) -> Result<(), DoesNotFit> {
        if self.segments.len() >= self.segments_max {
            Err(DoesNotFit::Packets)
        } else if self.bytes + len > TRAIN_BYTES_MAX {
            Err(DoesNotFit::Bytes)
        } else if self.closed {
            Err(DoesNotFit::Closed)
        } else if !self.segments.is_empty() && len > self.segment_size {
            Err(DoesNotFit::Longer)
        } else {
            Ok(())
        }
    }

    /// Marks the first `count` of the remaining packets as sent, after [`crate::Sent::Blocked`].
    pub fn skip(&mut self, count: usize) {
        assert!(count <= self.len(), "skipping {count} of {} packets", self.len());
        self.skipped += count;
    }

    /// Sets the congestion bits of all packets of this train (until [`Train::clear`]).
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// The congestion bits with which these packets are sent.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Sets the code point (DSCP) of all packets of this train, 0 to 63 (until [`Train::clear`]).
    ///
    /// # Panics
    /// If the number is above 63.
    pub fn set_dscp(&mut self, dscp: u8) {
        assert!(dscp < 64, "DSCP {dscp}");
        self.dscp = dscp;
    }

    /// The code point with which these packets are sent.
    pub fn dscp(&self) -> u8 {
        self.dscp
    }

    /// Number of packets yet to be sent.
    pub fn len(&self) -> usize {
        self.segments.len() - self.skipped
    }

    /// True if no packet is left to be sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the packets yet to be sent, including headers and fill.
    pub fn bytes(&self) -> usize {
        if self.skipped == 0 {
            self.bytes
        } else {
            (0..self.len()).map(|index| self.datagram_len(index)).sum()
        }
    }

    /// Length of every packet but the last, in bytes; zero in an empty train.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Length of packet `index` of those yet to be sent, in bytes, without its fill.
    pub fn packet_len(&self, index: usize) -> usize {
        self.segments[self.skipped + index].len()
    }

    /// Length of packet `index` of those yet to be sent, in bytes, with its fill.
    pub(crate) fn datagram_len(&self, index: usize) -> usize {
        self.pieces_of(index).iter().map(|piece| piece.iov_len).sum()
    }

    /// Returns the header of packet `index`, as it was pushed.
    pub fn header(&self, index: usize) -> &[u8] {
        let slot = self.skipped + index;
        let Segment { header_at, header_len, .. } = self.segments[slot];
        self.headers.bytes(header_at as usize, usize::from(header_len))
    }

    /// Returns the payload of packet `index`, as it was pushed.
    pub fn payload(&self, index: usize) -> RawSlice {
        self.segments[self.skipped + index].payload
    }

    /// Returns the pieces of all packets yet to be sent, in order.
    pub(crate) fn pieces(&self) -> &[libc::iovec] {
        if self.skipped == 0 {
            return &self.joined;
        }
        let first = self.segments.get(self.skipped).map_or(self.gather.len(), Segment::first);
        &self.gather[first..]
    }

    /// Returns the pieces of packet `index` of those yet to be sent.
    pub(crate) fn pieces_of(&self, index: usize) -> &[libc::iovec] {
        let slot = self.skipped + index;
        let end = self.segments.get(slot + 1).map_or(self.gather.len(), Segment::first);
        &self.gather[self.segments[slot].first()..end]
    }
}

impl Segment {
    fn first(&self) -> usize {
        usize::from(self.first_piece)
    }

    /// Length of the packet, without its fill.
    fn len(&self) -> usize {
        usize::from(self.header_len) + self.payload.len()
    }
}

impl fmt::Debug for Train {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Train")
            .field("packets", &self.len())
            .field("segment_size", &self.segment_size)
            .field("bytes", &self.bytes())
            .field("ecn", &self.ecn)
            .finish()
    }
}

impl fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DoesNotFit::Longer => "the packet is longer than those in the train",
            DoesNotFit::Closed => "the train ends in a shorter packet",
            DoesNotFit::Packets => "the train has as many packets as one call may carry",
            DoesNotFit::Bytes => "the train would be longer than one call may carry",
        })
    }
}

impl std::error::Error for DoesNotFit {}
