//! Receives: each call brings a packet, or a run of packets that the kernel coalesced, into a
//! buffer of the port; of packets that lie in other memory it has only the beginnings. Its owner
//! copies nothing elsewhere before it has decoded and authenticated the header.

use std::fmt;

use fairway_wire::Ecn;

use crate::limits::RECEIVE_BYTES;
use crate::memory::{RawSlice, Scratch};
use crate::udp::address::Address;

/// The buffer into which arrivals are received. One per receiving thread is enough. Its memory is
/// allocated at the start.
pub struct ReceiveBuffer {
    bytes: Scratch,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl ReceiveBuffer {
    /// Creates a buffer that is large enough for any arrival.
    pub fn new() -> Self {
        ReceiveBuffer { bytes: Scratch::new(RECEIVE_BYTES) }
    }

    /// Maximum number of bytes of an arrival.
    pub const CAPACITY: usize = RECEIVE_BYTES;

    /// Returns room for an arrival of `len` bytes that does not come from a socket.
    ///
    /// # Panics
    /// `len` exceeds [`ReceiveBuffer::CAPACITY`].
    pub fn room_for(&mut self, len: usize) -> &mut [u8] {
        self.bytes.bytes_mut(len)
    }

    /// Returns the arrival of `len` bytes that were written to [`ReceiveBuffer::room_for`]:
    /// packets of `segment_size` bytes each, of which the last may be shorter.
    pub fn holding(&self, from: Address, ecn: Ecn, len: usize, segment_size: usize) -> Arrival<'_> {
        self.arrived(from, ecn, len, segment_size)
    }

    /// Returns the arrival of packets that lie in `outside`, of `segment_size` bytes each, of which
    /// the last may be shorter. The first `here` bytes of each, or all of a shorter one, were
    /// written to [`ReceiveBuffer::room_for`], in places of `here` bytes.
    ///
    /// # Panics
    /// If there are no packets, or the packets or their beginnings have no bytes.
    pub fn holding_beginnings(
        &self,
        from: Address,
        ecn: Ecn,
        (outside, segment_size): (RawSlice, usize),
        here: usize,
    ) -> Arrival<'_> {
        assert!(here > 0 && segment_size > 0 && !outside.is_empty(), "packets without bytes");
        let arrival = self.arrived(from, ecn, outside.len(), segment_size);
        Arrival { outside: Some((outside, here)), ..arrival }
    }

    /// Returns the arrival of the first `len` bytes of a packet of `cut_from` bytes, whose end a
    /// switch has cut off.
    pub fn holding_cut(&self, from: Address, ecn: Ecn, len: usize, cut_from: usize) -> Arrival<'_> {
        Arrival { cut_from: Some(cut_from), ..self.arrived(from, ecn, len, 0) }
    }

    /// Returns the bytes `at..at + len` of the last arrival.
    pub(crate) fn received(&self, at: usize, len: usize) -> &[u8] {
        self.bytes.bytes(at, len)
    }

    /// Returns the buffer for an arrival.
    pub(super) fn room(&mut self) -> libc::iovec {
        let base = self.bytes.at(0, RECEIVE_BYTES).cast();
        libc::iovec { iov_base: base, iov_len: RECEIVE_BYTES }
    }

    /// Returns the arrival of `len` bytes, which the kernel coalesced from packets of `coalesced`
    /// bytes each (zero: not coalesced).
    pub(super) fn arrived(
        &self,
        from: Address,
        ecn: Ecn,
        len: usize,
        coalesced: usize,
    ) -> Arrival<'_> {
        let segment_size = if coalesced == 0 || coalesced > len { len } else { coalesced };
        let segments = if len == 0 { 1 } else { len.div_ceil(segment_size) };
        Arrival {
            buffer: self,
            outside: None,
            from,
            ecn,
            stamped_ns: 0,
            len,
            segment_size,
            segments,
            cut_from: None,
        }
    }
}

/// The result of one receive call: one packet, or a run of packets that the kernel coalesced, all
/// of one length except that the last may be shorter.
pub struct Arrival<'a> {
    buffer: &'a ReceiveBuffer,
    /// Where the packets lie, if the buffer has only so many bytes of the beginning of each.
    outside: Option<(RawSlice, usize)>,
    from: Address,
    ecn: Ecn,
    pub(super) stamped_ns: u64,
    len: usize,
    segment_size: usize,
    segments: usize,
    cut_from: Option<usize>,
}

impl Arrival<'_> {
    /// The source address that the packet claims.
    pub fn from(&self) -> &Address {
        &self.from
    }

    /// The congestion bits. The kernel coalesces only packets with equal bits.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Time at which the kernel received it, in nanoseconds of its real-time clock
    /// (`CLOCK_REALTIME`); zero unless timestamps are enabled ([`crate::UdpPort::stamp_arrivals`]).
    pub fn stamped_ns(&self) -> u64 {
        self.stamped_ns
    }

    /// Bytes of all packets, including headers.
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

    /// Length of the packet that was sent, if a switch has cut off its end ("trimmed" it). The
    /// arrival is then this one packet. No checksum of it has been checked.
    pub fn cut_from(&self) -> Option<usize> {
        self.cut_from
    }

    /// Returns packet `index`, including its header; of one that lies outside of the buffer
    /// ([`Arrival::outside`]) only the beginning.
    ///
    /// # Panics
    /// There are not so many packets.
    #[inline]
    pub fn segment(&self, index: usize) -> &[u8] {
        let (start, len) = self.place(index);
        match self.outside {
            None => self.buffer.received(start, len),
            Some((_, here)) => self.buffer.received(index * here, len.min(here)),
        }
    }

    /// Returns all bytes of packet `index`, if the buffer has only its beginning. They are there
    /// until the next call of the datapath that returned the arrival, and other processes may
    /// change them.
    ///
    /// # Panics
    /// There are not so many packets.
    #[inline]
    pub fn outside(&self, index: usize) -> Option<RawSlice> {
        let (bytes, _) = self.outside?;
        let (start, len) = self.place(index);
        Some(bytes.from(start).first(len))
    }

    /// Where packet `index` begins, and its length.
    #[inline]
    fn place(&self, index: usize) -> (usize, usize) {
        assert!(index < self.segments, "packet {index} of {}", self.segments);
        let start = index * self.segment_size;
        (start, self.segment_size.min(self.len - start))
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
