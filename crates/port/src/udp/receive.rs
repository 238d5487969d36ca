//! Receiving: each call brings a packet, or a run of packets that the kernel joined, into a buffer
//! of the port. Nothing goes anywhere else before its owner has read the header and proven it.

use std::fmt;

use fairway_wire::Ecn;

use crate::limits::RECEIVE_BYTES;
use crate::memory::Scratch;
use crate::udp::address::Address;

/// The memory that arrivals are received into. One per receiving thread is enough. All of it is
/// taken at the start.
pub struct ReceiveBuffer {
    bytes: Scratch,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// A buffer for any arrival.
    pub fn new() -> Self {
        ReceiveBuffer { bytes: Scratch::new(RECEIVE_BYTES) }
    }

    /// Bytes `at..at + len` of what was received last.
    pub(crate) fn received(&self, at: usize, len: usize) -> &[u8] {
        self.bytes.bytes(at, len)
    }

    /// The room for an arrival.
    pub(super) fn room(&mut self) -> libc::iovec {
        let base = self.bytes.at(0, RECEIVE_BYTES).cast();
        libc::iovec { iov_base: base, iov_len: RECEIVE_BYTES }
    }

    /// Makes sense of `len` received bytes; the kernel says that it joined packets of `coalesced`
    /// bytes each (zero: it did not).
    pub(super) fn arrived(
        &self,
        from: Address,
        ecn: Ecn,
        len: usize,
        coalesced: usize,
    ) -> Arrival<'_> {
        let segment_size = if coalesced == 0 || coalesced > len { len } else { coalesced };
        let segments = if len == 0 { 1 } else { len.div_ceil(segment_size) };
        Arrival { buffer: self, from, ecn, stamped_ns: 0, len, segment_size, segments }
    }
}

/// What one receive call brought: one packet, or a run of packets that the kernel coalesced, all of
/// one length except that the last may be shorter.
pub struct Arrival<'a> {
    buffer: &'a ReceiveBuffer,
    from: Address,
    ecn: Ecn,
    pub(super) stamped_ns: u64,
    len: usize,
    segment_size: usize,
    segments: usize,
}

impl Arrival<'_> {
    /// The address that it claims to come from.
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

    /// Packet `index`, its header included.
    ///
    /// # Panics
    /// There are not so many packets.
    #[inline]
    pub fn segment(&self, index: usize) -> &[u8] {
        assert!(index < self.segments, "packet {index} of {}", self.segments);
        let start = index * self.segment_size;
        self.buffer.received(start, self.segment_size.min(self.len - start))
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
            .finish()
    }
}
