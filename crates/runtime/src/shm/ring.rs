//! Rings of records in memory that two processes share: in each, one process writes and the other
//! reads.
//!
//! The file begins with two rings. Each is a page of control words, and [`RING_BYTES`] of records:
//!
//! | offset in the page | word | written by |
//! |---|---|---|
//! | 0 | bytes written since the start, 64 bits | the writer |
//! | 128 | bytes read since the start, 64 bits | the reader |
//! | 256 | 1 while the reader sleeps and must be woken, 32 bits | both |
//!
//! A record is a head of 64 bytes and the packets of a train, in a piece. Records begin at
//! multiples of 64 bytes. One that does not fit before the end of the ring is preceded by a *skip*
//! record that takes the rest.
//!
//! The other process may write anything at any time. The head is therefore copied before it is
//! checked, and every length is checked against the ring; a ring that breaks the rules is
//! [`Broken`] and is not used any more.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use fairway_port::{Address, RawSlice, ReceiveBuffer, SEGMENTS_MAX, TRAIN_BYTES_MAX, Train};

use fairway_wire::{Ecn, MAX_HEADER, SETUP_LEN};

use crate::memory::{Gone, Memory, SharedBytes};

/// Bytes of records in a ring: about what a core's cache holds, so that a bulk transfer is copied
/// from cache to cache.
pub(super) const RING_BYTES: usize = 1 << 20;
/// Bytes of a page of control words.
const CONTROL_BYTES: usize = 4096;
/// Length of the file.
pub(super) const FILE_BYTES: usize = 2 * (CONTROL_BYTES + RING_BYTES);
/// Length of a record's head, and alignment of records, in bytes.
const HEAD_BYTES: usize = 64;

/// Records of packets from this length on (but the last, which may be shorter) stay in the ring
/// until their payload has been copied to its place. Others are copied to the receive buffer: that
/// is cheaper than their headers alone.
const LONG_BYTES: usize = 6144;
/// Bytes of the beginning of a packet that are copied to the receive buffer: all headers.
const BEGINNING_BYTES: usize = SETUP_LEN;
const _: () = assert!(BEGINNING_BYTES >= MAX_HEADER && BEGINNING_BYTES <= LONG_BYTES);

/// Number of cache lines that a reader fetches before a record is announced: those of a message of
/// 64 bytes and its acknowledgement.
const PREFETCHED_LINES: usize = 4;

const WRITTEN: usize = 0;
const READ: usize = 128;
const ASLEEP: usize = 256;

/// Kind of a record that carries packets.
const PACKETS: u8 = 1;
/// Kind of a record that only takes the rest of the ring.
const SKIP: u8 = 2;

/// Congestion bits, as the head has them.
const NOT_CAPABLE: u8 = 0;
const CAPABLE: u8 = 1;
const CONGESTED: u8 = 2;

/// The other process has broken the rules of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Result of writing a train to a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It is there for the reader. `wakes`: the reader sleeps, and must be woken.
    Yes {
        /// The reader's event descriptor must be rung.
        wakes: bool,
    },
    /// There is not enough room.
    Full,
    /// Memory of a payload has been unmapped. Nothing was written.
    Gone,
    /// The ring is broken.
    Broken,
}

/// Head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the packets.
    len: usize,
    /// Bytes of every packet but the last.
    segment_size: usize,
    /// The destination: index of the reader's socket.
    pub(super) socket: usize,
    ecn: Ecn,
    from: Address,
}

impl Head {
    fn encode(&self, kind: u8) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = kind;
        bytes[1] = match self.ecn {
            Ecn::NotCapable => NOT_CAPABLE,
            Ecn::Capable => CAPABLE,
            Ecn::Congested => CONGESTED,
        };
        [bytes[2], bytes[3]] = (self.socket as u16).to_ne_bytes();
        let (words, []) = bytes.as_chunks_mut::<4>() else { unreachable!("whole words") };
        words[1] = (self.len as u32).to_ne_bytes();
        words[2] = (self.segment_size as u32).to_ne_bytes();
        *bytes[16..].first_chunk_mut().expect("room for an address") = self.from.to_bytes();
        bytes
    }

    /// Decodes a head of packets, which may be up to `available` bytes long. `None`: it is no such
    /// head. `source`: an address from which the packets probably come.
    fn decode(bytes: &[u8; HEAD_BYTES], available: usize, source: Option<Address>) -> Option<Head> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
        };
        let from = *bytes[16..].first_chunk().expect("room for an address");
        let head = Head {
            len: word(4),
            segment_size: word(8),
            socket: usize::from(u16::from_ne_bytes([bytes[2], bytes[3]])),
            ecn: match bytes[1] {
                NOT_CAPABLE => Ecn::NotCapable,
                CAPABLE => Ecn::Capable,
                CONGESTED => Ecn::Congested,
                _ => return None,
            },
            from: match source {
                Some(source) if source.to_bytes() == from => source,
                _ => Address::from_bytes(&from)?,
            },
        };
        let Head { len, segment_size, .. } = head;
        let sound = bytes[0] == PACKETS
            && (1..=TRAIN_BYTES_MAX).contains(&len)
            && HEAD_BYTES + len <= available
            && (1..=len).contains(&segment_size)
            && len.div_ceil(segment_size) <= SEGMENTS_MAX;
        sound.then_some(head)
    }
}

/// One of the two rings of a file.
struct Ring {
    memory: Arc<Memory>,
    /// Offset of the control words.
    control: usize,
}

impl Ring {
    /// The file's first ring, or its second one.
    fn new(memory: &Arc<Memory>, second: bool) -> Ring {
        assert!(memory.len() >= FILE_BYTES && memory.is_writable(), "a file of two rings");
        let control = if second { CONTROL_BYTES + RING_BYTES } else { 0 };
        Ring { memory: memory.clone(), control }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: aligned, since mappings begin at a page, and within the mapping, which lives as
        // long as the ring; both processes access it by atomics only.
        unsafe {
            let start = self.memory.start().as_ptr().add(self.control + offset);
            AtomicU64::from_ptr(start.cast())
        }
    }

    fn asleep(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe {
            let start = self.memory.start().as_ptr().add(self.control + ASLEEP);
            AtomicU32::from_ptr(start.cast())
        }
    }

    /// Begins to fetch the cache lines of a short record, from a position that counts all bytes
    /// since the start.
    #[inline]
    fn prefetch(&self, position: u64) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in 0..PREFETCHED_LINES {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let place = (position as usize + line * HEAD_BYTES) % RING_BYTES;
            let at =
                self.memory.start().as_ptr().wrapping_add(self.control + CONTROL_BYTES + place);
            // SAFETY: a hint, which may name any address.
            unsafe { _mm_prefetch::<{ _MM_HINT_T0 }>(at.cast()) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = position;
    }

    /// Returns `length` bytes from a place in the records.
    fn bytes(&self, place: usize, length: usize) -> SharedBytes<'_> {
        self.memory.bytes(self.control + CONTROL_BYTES + place, length)
    }
}

/// Bytes that a record of packets of `len` bytes takes.
fn record_bytes(len: usize) -> usize {
    HEAD_BYTES + len.next_multiple_of(HEAD_BYTES)
}

/// The writer's end of a ring.
pub(super) struct Writer {
    ring: Ring,
    written: u64,
    /// Bytes that the reader is known to have read.
    read: u64,
}

impl Writer {
    pub(super) fn new(memory: &Arc<Memory>, second: bool) -> Writer {
        Writer { ring: Ring::new(memory, second), written: 0, read: 0 }
    }

    /// Bytes that the reader is known to have read: it changes while the reader works.
    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// Writes the packets of a train, which come from `from` and go to the reader's socket number
    /// `socket`.
    pub(super) fn push(&mut self, socket: usize, from: &Address, train: &Train) -> Pushed {
        let len = train.bytes();
        let place = (self.written % RING_BYTES as u64) as usize;
        let rest = RING_BYTES - place;
        let skipped = if record_bytes(len) <= rest { 0 } else { rest };
        let needed = skipped + record_bytes(len);
        match self.has_room(needed) {
            Ok(true) => {}
            Ok(false) => return Pushed::Full,
            Err(Broken) => return Pushed::Broken,
        }
        let segment_size = train.segment_size().min(len);
        let head = Head { len, segment_size, socket, ecn: train.ecn(), from: *from };
        let start = if skipped == 0 { place } else { 0 };
        let write = || -> Result<(), Gone> {
            if skipped > 0 {
                self.ring.bytes(place, HEAD_BYTES).write(&head.encode(SKIP))?;
            }
            self.ring.bytes(start, HEAD_BYTES).write(&head.encode(PACKETS))?;
            self.copy(start + HEAD_BYTES, train)
        };
        if write().is_err() {
            return Pushed::Gone;
        }
        self.written += needed as u64;
        self.ring.word(WRITTEN).store(self.written, Ordering::Release);
        // Either this thread sees that the reader sleeps, or the reader sees the record before it
        // does ([`Reader::arm`]).
        fence(Ordering::SeqCst);
        let asleep = self.ring.asleep();
        let wakes = asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::Relaxed) != 0;
        Pushed::Yes { wakes }
    }

    fn copy(&self, mut place: usize, train: &Train) -> Result<(), Gone> {
        for index in 0..train.len() {
            let header = train.header(index);
            self.ring.bytes(place, header.len()).write(header)?;
            place += header.len();
            let payload = train.payload(index);
            // SAFETY: the train's owner promised that the payload stays the application's while it
            // is in the train.
            unsafe { self.copy_payload(place, payload)? };
            place += payload.len();
        }
        Ok(())
    }

    /// # Safety
    /// The payload is the application's memory, mapped or not, until the call returns.
    unsafe fn copy_payload(&self, place: usize, payload: RawSlice) -> Result<(), Gone> {
        let Some(start) = std::ptr::NonNull::new(payload.as_ptr().cast_mut()) else {
            return Ok(());
        };
        // SAFETY: as the caller says.
        let (length, payload) = (payload.len(), unsafe { SharedBytes::new(start, payload.len()) });
        payload.copy_to(self.ring.bytes(place, length))
    }

    fn has_room(&mut self, needed: usize) -> Result<bool, Broken> {
        let room = |read: u64| RING_BYTES as u64 - (self.written - read);
        if room(self.read) >= needed as u64 {
            return Ok(true);
        }
        let read = self.ring.word(READ).load(Ordering::Acquire);
        if read < self.read || read > self.written || !read.is_multiple_of(HEAD_BYTES as u64) {
            return Err(Broken);
        }
        self.read = read;
        Ok(room(read) >= needed as u64)
    }
}

/// The reader's end of a ring.
pub(super) struct Reader {
    ring: Ring,
    read: u64,
    /// True if packets of the last record stay in the ring: the writer has not been told yet that
    /// it was read.
    holds: bool,
    /// Bytes that are known to have been written.
    written: u64,
    /// The next record, once it has been looked at.
    next: Option<Head>,
    /// True if the last record was short, as the next one probably is.
    was_short: bool,
    /// The source of the last record, which most records share.
    source: Option<Address>,
    /// The local address at which the writer reaches this side, if packets to it would leave from
    /// another one.
    local: Option<IpAddr>,
}

impl Reader {
    pub(super) fn new(memory: &Arc<Memory>, second: bool) -> Reader {
        Reader {
            local: None,
            ring: Ring::new(memory, second),
            read: 0,
            holds: false,
            written: 0,
            next: None,
            was_short: false,
            source: None,
        }
    }

    /// Sets the local address that the source of every arrival names.
    pub(super) fn set_local(&mut self, local: Option<IpAddr>) {
        self.local = local;
    }

    /// Returns the head of the next record, if there is one.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<Head>, Broken> {
        self.release();
        if self.next.is_some() {
            return Ok(self.next);
        }
        if self.read == self.written {
            // A short record crosses to this core's cache together with the word that announces
            // it. A long one does not: its writer would lose lines that it is about to write.
            if self.was_short {
                self.ring.prefetch(self.read);
            }
            let written = self.ring.word(WRITTEN).load(Ordering::Acquire);
            if written == self.read {
                return Ok(None);
            }
            if written < self.read
                || written - self.read > RING_BYTES as u64
                || !written.is_multiple_of(HEAD_BYTES as u64)
            {
                return Err(Broken);
            }
            self.written = written;
        }
        self.next = Some(self.look()?);
        Ok(self.next)
    }

    /// Copies and checks the head of the next record, which has been written.
    fn look(&mut self) -> Result<Head, Broken> {
        let place = (self.read % RING_BYTES as u64) as usize;
        let rest = RING_BYTES - place;
        let (bytes, unread) = (self.head_at(place)?, self.unread());
        if bytes[0] != SKIP {
            return Head::decode(&bytes, rest.min(unread), self.source).ok_or(Broken);
        }
        // What takes the rest of the ring is followed by a record at its start.
        if rest >= unread {
            return Err(Broken);
        }
        self.read += rest as u64;
        let (bytes, unread) = (self.head_at(0)?, self.unread());
        Head::decode(&bytes, RING_BYTES.min(unread), self.source).ok_or(Broken)
    }

    fn unread(&self) -> usize {
        (self.written - self.read) as usize
    }

    fn head_at(&self, place: usize) -> Result<[u8; HEAD_BYTES], Broken> {
        let mut bytes = [0; HEAD_BYTES];
        self.ring.bytes(place, HEAD_BYTES).read(&mut bytes).map_err(|Gone| Broken)?;
        Ok(bytes)
    }

    /// Reports to the writer that the last record was read, if that is still to be done.
    #[inline]
    fn release(&mut self) {
        if std::mem::take(&mut self.holds) {
            self.ring.word(READ).store(self.read, Ordering::Release);
        }
    }

    /// Returns the packets of the next record, which [`Reader::peek`] has returned. Short ones are
    /// copied to `buffer`. Of long ones only the beginnings are, and the packets stay in the ring
    /// until the next call of [`Reader::peek`] or [`Reader::arm`], or the end of the reader.
    pub(super) fn pop<'b>(
        &mut self,
        buffer: &'b mut ReceiveBuffer,
    ) -> Result<fairway_port::Arrival<'b>, Broken> {
        let head = self.next.take().ok_or(Broken)?;
        self.source = Some(head.from);
        self.was_short = record_bytes(head.len) <= PREFETCHED_LINES * HEAD_BYTES;
        let place = (self.read % RING_BYTES as u64) as usize + HEAD_BYTES;
        // `look` has checked that the record ends within what was written.
        self.read += record_bytes(head.len) as u64;
        self.holds = true;
        let from = head.from.reached_at(self.local);
        if head.segment_size >= LONG_BYTES {
            let packets = self.copy_beginnings(place, &head, buffer)?;
            let packets = (packets, head.segment_size);
            return Ok(buffer.holding_beginnings(from, head.ecn, packets, BEGINNING_BYTES));
        }
        let room = buffer.room_for(head.len);
        self.ring.bytes(place, head.len).read(room).map_err(|Gone| Broken)?;
        self.release();
        Ok(buffer.holding(from, head.ecn, head.len, head.segment_size))
    }

    /// Copies the beginning of each packet of a record to `buffer`, and returns all bytes of the
    /// packets, where they lie.
    fn copy_beginnings(
        &self,
        place: usize,
        head: &Head,
        buffer: &mut ReceiveBuffer,
    ) -> Result<RawSlice, Broken> {
        let count = head.len.div_ceil(head.segment_size);
        let room = buffer.room_for(count * BEGINNING_BYTES);
        for (index, room) in room.chunks_exact_mut(BEGINNING_BYTES).enumerate() {
            let start = index * head.segment_size;
            let length = BEGINNING_BYTES.min(head.len - start);
            let beginning = self.ring.bytes(place + start, length);
            beginning.read(&mut room[..length]).map_err(|Gone| Broken)?;
        }
        // SAFETY: the memory is mapped as long as the reader exists, whose owner removes it only in
        // calls that end the packets' time here. They are read as bytes that may change.
        Ok(unsafe { RawSlice::new(self.ring.bytes(place, head.len).start(), head.len) })
    }

    /// Requests to be woken by the next record. Returns true if there is one already.
    pub(super) fn arm(&mut self) -> bool {
        self.release();
        self.ring.asleep().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.next.is_some()
            || self.read != self.written
            || self.ring.word(WRITTEN).load(Ordering::Acquire) != self.read
    }

    /// Ends the request of [`Reader::arm`].
    pub(super) fn disarm(&self) {
        self.ring.asleep().store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Writer {
    /// Writes a control word or a record's byte, as a hostile process could.
    pub(super) fn deface(&mut self, place: usize, bytes: &[u8]) {
        self.ring.bytes(place, bytes.len()).write(bytes).unwrap();
    }

    /// Claims that so many bytes have been written.
    pub(super) fn claim(&mut self, written: u64) {
        self.ring.word(WRITTEN).store(written, Ordering::Release);
    }
}

#[cfg(test)]
impl Reader {
    /// Claims that so many bytes have been read, as a hostile process could.
    pub(super) fn claim(&mut self, read: u64) {
        self.ring.word(READ).store(read, Ordering::Release);
    }
}
