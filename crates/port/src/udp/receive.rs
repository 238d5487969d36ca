//! Receiving, with headers and payloads taken apart by the kernel.
//!
//! The receiver usually knows what comes next: the following packets of a message it is part way
//! through. It names where their payloads belong in a [`Scatter`] plan, and one system call puts
//! headers into scratch and payloads into place. A guess can be wrong, and then nothing is lost:
//! the bytes of an arrival form one stream, and offset `k` of that stream has its fixed place `k`
//! in a linear buffer, to which any part of it can be brought back.

use std::fmt;

use fairway_wire::Ecn;

use crate::limits::{HEADER_BYTES_MAX, HEADER_SLOTS, LINEAR_BYTES, SEGMENTS_MAX};
use crate::memory::{RawSliceMut, Scratch};
use crate::udp::address::Address;

/// A guess at the next arrival: packets of `header_len` bytes of header and `payload_len` of
/// payload, and where their payloads belong.
///
/// The guess may be wrong, so targets may end up holding anything, as far as they reach: name only
/// memory whose present contents nobody needs.
pub struct Scatter {
    header_len: usize,
    payload_len: usize,
    targets: Vec<RawSliceMut>,
}

impl Default for Scatter {
    fn default() -> Self {
        Self::new()
    }
}

impl Scatter {
    /// An empty plan. Takes all memory it will need.
    pub fn new() -> Self {
        Scatter { header_len: 1, payload_len: 1, targets: Vec::with_capacity(SEGMENTS_MAX) }
    }

    /// Starts a new plan, for packets of these two lengths (in bytes, neither zero).
    ///
    /// # Panics
    /// If a length is zero or the header is longer than [`HEADER_BYTES_MAX`].
    pub fn restart(&mut self, header_len: usize, payload_len: usize) {
        assert!((1..=HEADER_BYTES_MAX).contains(&header_len), "a header of {header_len} bytes");
        assert!(payload_len > 0, "a plan without payload");
        self.header_len = header_len;
        self.payload_len = payload_len;
        self.targets.clear();
    }

    /// Where the payload of the following packet belongs. The target is `payload_len` bytes long,
    /// or shorter if it is the last. Returns false, and adds nothing, when the plan is full or
    /// already has its shorter, last target.
    ///
    /// # Panics
    /// If the target is longer than `payload_len`, or empty.
    pub fn push(&mut self, target: RawSliceMut) -> bool {
        assert!(target.len() <= self.payload_len, "a target longer than the payload");
        assert!(!target.is_empty(), "an empty target");
        let closed = self.targets.last().is_some_and(|last| last.len() < self.payload_len);
        let end = (self.targets.len() + 1) * (self.header_len + self.payload_len);
        if closed || self.targets.len() == SEGMENTS_MAX || end > LINEAR_BYTES {
            return false;
        }
        self.targets.push(target);
        true
    }

    /// Number of targets.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// True if there is no target: the same as no plan.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// The memory arrivals are received into, apart from the targets of a plan. One per receiving
/// thread is enough. All memory is taken at the start.
pub struct ReceiveBuffer {
    headers: Scratch,
    /// Offset `k` of an arrival's bytes lies at `k` here, unless it is in a header slot or target.
    linear: Scratch,
    pieces: Vec<libc::iovec>,
    header_len: usize,
    payload_len: usize,
    targets: Vec<RawSliceMut>,
    /// Segments copied a second time since this was last asked.
    pub(super) rescued: u64,
}

// SAFETY: the addresses in `pieces` point into the two scratch areas, which move along, or are
// copies of a plan's targets, valid irrespective of threads by the promise of `RawSliceMut::new`.
unsafe impl Send for ReceiveBuffer {}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// A buffer for any arrival.
    pub fn new() -> Self {
        ReceiveBuffer {
            headers: Scratch::new(HEADER_SLOTS * HEADER_BYTES_MAX),
            linear: Scratch::new(LINEAR_BYTES),
            pieces: Vec::with_capacity(2 * SEGMENTS_MAX + 1),
            header_len: 0,
            payload_len: 0,
            targets: Vec::with_capacity(SEGMENTS_MAX),
            rescued: 0,
        }
    }

    /// Bytes `at..at + len` of the arrival that was last received without a plan.
    pub(crate) fn received(&self, at: usize, len: usize) -> &[u8] {
        self.linear.bytes(at, len)
    }

    /// Lays out the pieces to receive into. What the plan has no room for goes to its own place in
    /// the linear part.
    pub(super) fn prepare(&mut self, plan: Option<&Scatter>) -> &mut [libc::iovec] {
        self.pieces.clear();
        self.targets.clear();
        let mut planned = 0;
        if let Some(plan) = plan {
            self.header_len = plan.header_len;
            self.payload_len = plan.payload_len;
            for (slot, target) in plan.targets.iter().enumerate() {
                let header = self.headers.at(slot * HEADER_BYTES_MAX, plan.header_len);
                self.pieces.push(piece(header, plan.header_len));
                self.pieces.push(piece(target.as_ptr(), target.len()));
                planned += plan.header_len + target.len();
            }
            self.targets.extend_from_slice(&plan.targets);
        }
        let rest = LINEAR_BYTES - planned;
        if rest > 0 {
            self.pieces.push(piece(self.linear.at(planned, rest), rest));
        }
        &mut self.pieces
    }

    /// Makes sense of `len` received bytes. Brings them into line if they are not what was planned.
    pub(super) fn arrived(
        &mut self,
        from: Address,
        ecn: Ecn,
        len: usize,
        coalesced: usize,
    ) -> Arrival<'_> {
        let segment_size = if coalesced == 0 || coalesced > len { len } else { coalesced };
        let segments = if len == 0 { 1 } else { len.div_ceil(segment_size) };
        let planned = !self.targets.is_empty();
        let stride = self.header_len + self.payload_len;
        // A lone packet may be shorter than planned, like the last of a run.
        let matches = segment_size == stride || (segments == 1 && len <= stride);
        let scattered = planned && matches;
        let mut arrival = Arrival {
            buffer: self,
            from,
            ecn,
            stamped_ns: 0,
            len,
            segment_size,
            segments,
            in_place: 0,
            scattered,
        };
        if scattered {
            arrival.in_place = arrival.segments_in_targets();
        } else if planned {
            arrival.buffer.gather(0, len);
            arrival.buffer.rescued += segments as u64;
        }
        arrival
    }

    /// Brings the bytes of the slots `first..`, up to stream offset `len`, into the linear part.
    fn gather(&mut self, first: usize, len: usize) {
        let stride = self.header_len + self.payload_len;
        for slot in first..self.targets.len() {
            let start = slot * stride;
            if start >= len {
                break;
            }
            let header_len = self.header_len.min(len - start);
            let source = self.headers.at(slot * HEADER_BYTES_MAX, header_len);
            // SAFETY: both ranges lie in their scratch areas (checked by `at`), which are two
            // different allocations.
            unsafe {
                let to = self.linear.at(start, header_len);
                std::ptr::copy_nonoverlapping(source, to, header_len);
            }
            let target = self.targets[slot];
            let payload_len = target.len().min(len - start - header_len);
            // SAFETY: the target is readable until the arrival is dropped, as `RawSliceMut::new`
            // demands, and is not part of this buffer, of which addresses are never given out.
            unsafe {
                let to = self.linear.at(start + header_len, payload_len);
                std::ptr::copy_nonoverlapping(target.as_ptr().cast_const(), to, payload_len);
            }
        }
    }
}

/// What one receive call brought: one packet, or a run of packets that the kernel coalesced, all of
/// one length except that the last may be shorter.
pub struct Arrival<'a> {
    buffer: &'a mut ReceiveBuffer,
    from: Address,
    ecn: Ecn,
    pub(super) stamped_ns: u64,
    len: usize,
    segment_size: usize,
    segments: usize,
    /// Payloads of the segments before this one are in their targets.
    in_place: usize,
    scattered: bool,
}

impl Arrival<'_> {
    /// Who sent it.
    pub fn from(&self) -> &Address {
        &self.from
    }

    /// The congestion bits. The kernel coalesces only packets whose bits agree.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// When the kernel received it, in nanoseconds of its real-time clock (`CLOCK_REALTIME`); zero
    /// unless that was asked for ([`crate::UdpPort::stamp_arrivals`]).
    pub fn stamped_ns(&self) -> u64 {
        self.stamped_ns
    }

    /// Bytes of all packets, headers included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an empty datagram.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length of every packet but the last, in bytes.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Number of packets; at least one.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Length of packet `index`, in bytes.
    pub fn segment_len(&self, index: usize) -> usize {
        assert!(index < self.segments, "packet {index} of {}", self.segments);
        self.segment_size.min(self.len - index * self.segment_size)
    }

    /// True if the plan was used: the packets have the planned length.
    pub fn is_scattered(&self) -> bool {
        self.scattered
    }

    /// True if the payload of packet `index` lies in the plan's target of that number.
    pub fn in_place(&self, index: usize) -> bool {
        index < self.in_place
    }

    /// The start of packet `index`: the planned number of header bytes (fewer if the packet is
    /// shorter) if its payload is in place, and otherwise the whole packet.
    #[inline]
    pub fn header(&self, index: usize) -> &[u8] {
        let len = self.segment_len(index);
        if self.in_place(index) {
            self.buffer.headers.bytes(index * HEADER_BYTES_MAX, self.buffer.header_len.min(len))
        } else {
            self.buffer.linear.bytes(index * self.segment_size, len)
        }
    }

    /// Bytes of packet `index` that lie in its target; zero if it is not in place.
    pub fn payload_len(&self, index: usize) -> usize {
        let len = self.segment_len(index);
        if self.in_place(index) { len.saturating_sub(self.buffer.header_len) } else { 0 }
    }

    /// The whole packet `index`.
    ///
    /// # Panics
    /// If it is in place: [`Arrival::rescue`] it first.
    pub fn segment(&self, index: usize) -> &[u8] {
        assert!(!self.in_place(index), "packet {index} is scattered");
        self.header(index)
    }

    /// The guess was wrong from packet `first` on: brings that packet and all later ones back, so
    /// that each is contiguous and [`Arrival::segment`] gives it.
    pub fn rescue(&mut self, first: usize) {
        if first < self.in_place {
            self.buffer.gather(first, self.len.min(self.in_place * self.segment_size));
            self.buffer.rescued += (self.in_place - first) as u64;
            self.in_place = first;
        }
    }

    pub(super) fn count_in_place(&self) -> usize {
        self.in_place
    }

    /// Segments already brought back because they were not as planned.
    pub(super) fn take_rescued(&mut self) -> u64 {
        std::mem::take(&mut self.buffer.rescued)
    }

    /// How many packets at the front lie wholly in a header slot and target.
    fn segments_in_targets(&mut self) -> usize {
        let targets = self.buffer.targets.len();
        let covered = self.segments.min(targets);
        let Some(last) = covered.checked_sub(1) else {
            return 0;
        };
        // Only the last target can be shorter than its packet's payload. What did not fit then is
        // already in its place in the linear part.
        let room = self.buffer.header_len + self.buffer.targets[last].len();
        if self.segment_len(last) > room {
            self.buffer.gather(last, self.len.min(last * self.segment_size + room));
            self.buffer.rescued += 1;
            return last;
        }
        covered
    }
}

fn piece(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

impl fmt::Debug for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scatter")
            .field("header_len", &self.header_len)
            .field("payload_len", &self.payload_len)
            .field("targets", &self.targets.len())
            .finish()
    }
}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBuffer").finish_non_exhaustive()
    }
}

impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival")
            .field("from", &self.from)
            .field("ecn", &self.ecn)
            .field("len", &self.len)
            .field("segment_size", &self.segment_size)
            .field("in_place", &self.in_place)
            .finish()
    }
}
