//! The puts of one sender to one mailbox address, in the order of their sequence numbers: which
//! have been admitted or given up, and which are missing.

use super::hash_index::{Chained, HashIndex, mix};
use super::record::Mailbox;
use super::{Mailboxes, Sender};
use crate::list::{Links, List, ListRecord};
use crate::pool::{Index, Pool};

/// A put this many behind the first missing one of its sender may still be admitted.
pub(super) const WINDOW: u32 = 128;

/// Numbers this far behind the last put that is over are not those of puts that are missing: as
/// senders number their puts, none is open.
const REACH: u32 = 2 * WINDOW;

/// Idle streams that are spared at most before one is forgotten.
const SPARED_MAX: u32 = 8;

/// Most puts in a gap: as many as `Gap::missing` has bits.
pub(super) const GAP_PUTS: u32 = 64;

/// Value of `Gap::epoch` for a gap for which no room is kept.
pub(super) const LOOSE: u64 = u64::MAX;

/// A sender's puts to one address. Everything before `end` is over (admitted, refused or given up),
/// except what its gaps list as missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) address: u64,
    pub(super) sender: Sender,
    /// The mailbox to which the puts go at present; `None` in a free record.
    pub(super) mailbox: Option<Index<Mailbox>>,
    /// The sequence number behind the last put that is over.
    pub(super) end: u32,
    /// Bytes of all puts before `end`, modulo 2^32; only if `end_is_known`.
    pub(super) end_bytes: u32,
    /// The gaps, in order: each holds at least one missing put, so that there are never more than
    /// [`WINDOW`].
    pub(super) gaps: Option<Index<Gap>>,
    /// Puts missing before this number were sent before a rewind; only if `rewound`.
    pub(super) rewound_at: u32,
    pub(super) chain: Option<Index<Stream>>,
    /// False if the last put before `end` was given up, so that its length is unknown.
    pub(super) end_is_known: bool,
    pub(super) rewound: bool,
    /// True if the stream is in `Streams::idle`.
    listed: bool,
    /// True if a put of the stream was judged since the stream was spared last.
    pub(super) used: bool,
    /// The links of `Streams::idle`.
    links: Links<Index<Stream>>,
}

/// Neighbouring puts of a stream of which some are missing; what follows them is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// The epoch in which room is kept for the missing puts, or [`LOOSE`].
    pub(super) epoch: u64,
    /// Bit `i`: put `first + i` is missing. Never 0.
    pub(super) missing: u64,
    pub(super) first: u32,
    /// The field `before` of the gap's first put. This and the following fields only count if
    /// `epoch` isn't [`LOOSE`].
    pub(super) base: u32,
    /// Bytes kept free.
    pub(super) bytes: u32,
    /// Stream mode: offset of those bytes in the buffer.
    pub(super) offset: u32,
    pub(super) next: Option<Index<Gap>>,
}

const _: () = assert!(size_of::<Stream>() <= 56);
const _: () = assert!(size_of::<Gap>() <= 40);

/// Where a sequence number lies in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// This far behind the last put that is over: 0 is the next.
    Ahead(u32),
    /// The put is missing in this gap.
    Missing(Index<Gap>),
    /// The put is over.
    Over,
    /// The put is too far behind the first missing one.
    Beyond,
}

impl Gap {
    /// A gap of `count` puts, all missing, for which no room is kept.
    pub(super) fn loose(first: u32, count: u32) -> Self {
        debug_assert!((1..=GAP_PUTS).contains(&count));
        let missing = u64::MAX >> (64 - count);
        Gap { epoch: LOOSE, missing, first, base: 0, bytes: 0, offset: 0, next: None }
    }

    /// The bit of put `sequence`, if it's missing here.
    pub(super) fn bit(&self, sequence: u32) -> Option<u32> {
        let distance = sequence.wrapping_sub(self.first);
        (distance < 64 && self.missing >> distance & 1 == 1).then_some(distance)
    }

    /// The number of the first missing put.
    pub(super) fn lowest(&self) -> u32 {
        self.first.wrapping_add(self.missing.trailing_zeros())
    }

    /// True if room is kept for the gap's puts. The application's early end of their epoch ends
    /// that.
    pub(super) fn is_firm(&self, mailbox: &Mailbox) -> bool {
        self.epoch != LOOSE && self.epoch >= mailbox.ended
    }
}

impl ListRecord for Stream {
    fn links(&mut self) -> &mut Links<Index<Stream>> {
        &mut self.links
    }
}

impl Chained for Stream {
    fn chain(&mut self) -> &mut Option<Index<Stream>> {
        &mut self.chain
    }
    fn next(&self) -> Option<Index<Stream>> {
        self.chain
    }
}

/// All streams and their gaps.
///
/// A stream is *idle* if it has no gaps, and no put of it that was sent before a rewind can still
/// come. The record of an idle stream may be used for another one. The next put of its sender that
/// is judged then finds no record, and begins the stream again if it is marked as the oldest; until
/// it is, it is sent back. That is as if the stream had begun there: all puts before it have ended,
/// and none behind it was judged before, because a put that is judged before an earlier one leaves
/// a gap. A packet that is delayed or repeated in the network changes nothing: the channel judges
/// each packet number once, and a put ends only when all its numbers have been judged.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) records: Pool<Stream>,
    /// Idle streams, in the order in which they became idle or were spared.
    idle: List<Index<Stream>>,
    pub(super) gaps: Pool<Gap>,
    index: HashIndex<Stream>,
}

impl Streams {
    pub(super) fn new(capacity: u32) -> Self {
        Streams {
            records: Pool::new(capacity),
            idle: List::EMPTY,
            gaps: Pool::new(capacity),
            index: HashIndex::new(capacity),
        }
    }

    pub(super) fn find(&self, sender: Sender, address: u64) -> Option<Index<Stream>> {
        self.index.find(&self.records, hash(sender, address), |stream| {
            stream.sender == sender && stream.address == address
        })
    }

    /// Creates a stream, if a record is free or that of an idle stream can be used.
    pub(super) fn begin(
        &mut self,
        sender: Sender,
        address: u64,
        mailbox: Index<Mailbox>,
    ) -> Option<Index<Stream>> {
        let hash = hash(sender, address);
        if !self.index.has_room(&self.records, hash) {
            return None;
        }
        if self.records.is_exhausted() {
            self.forget_idle();
        }
        let stream = self.records.add(Stream {
            address,
            sender,
            mailbox: Some(mailbox),
            end: 0,
            end_bytes: 0,
            gaps: None,
            rewound_at: 0,
            chain: None,
            end_is_known: true,
            rewound: false,
            listed: false,
            used: false,
            links: Links::UNLINKED,
        })?;
        self.index.insert(&mut self.records, hash, stream);
        self.note_idle(stream);
        Some(stream)
    }

    /// Forgets an idle stream, if there is one: the first that was not used since it became idle or
    /// was spared, among the first few.
    fn forget_idle(&mut self) {
        for _ in 0..SPARED_MAX {
            let Some(first) = self.idle.head().filter(|&first| self.records[first].used) else {
                break;
            };
            self.records[first].used = false;
            self.idle.unlink(&mut self.records, first);
            self.idle.push_back(&mut self.records, first);
        }
        if let Some(first) = self.idle.head() {
            self.free(first);
        }
    }

    /// Puts a stream into the list of idle ones, or removes it from there. Called after each change
    /// of its gaps and of `rewound`.
    fn note_idle(&mut self, stream: Index<Stream>) {
        let record = &mut self.records[stream];
        let is_idle = record.gaps.is_none() && !record.rewound;
        if core::mem::replace(&mut record.listed, is_idle) == is_idle {
            return;
        }
        match is_idle {
            true => self.idle.push_back(&mut self.records, stream),
            false => self.idle.unlink(&mut self.records, stream),
        }
    }

    /// Notes whether puts of the stream may come that were sent before a rewind.
    pub(super) fn set_rewound(&mut self, stream: Index<Stream>, rewound: bool) {
        self.records[stream].rewound = rewound;
        self.note_idle(stream);
    }

    /// Frees a stream that has no gaps.
    fn free(&mut self, stream: Index<Stream>) {
        let Stream { sender, address, gaps, listed, .. } = self.records[stream];
        debug_assert!(gaps.is_none());
        if listed {
            self.idle.unlink(&mut self.records, stream);
        }
        self.index.remove(&mut self.records, hash(sender, address), stream);
        self.records[stream].mailbox = None;
        self.records.remove(stream);
    }

    /// The position of `sequence`. Walks at most [`WINDOW`] gaps.
    pub(super) fn locate(&self, stream: Index<Stream>, sequence: u32) -> Position {
        let Stream { end, gaps, .. } = self.records[stream];
        let ahead = sequence.wrapping_sub(end);
        if ahead < 1 << 31 {
            let first = gaps.map_or(end, |first| self.gaps[first].lowest());
            let window = sequence.wrapping_sub(first);
            return if window <= WINDOW { Position::Ahead(ahead) } else { Position::Beyond };
        }
        match self.gaps_of(stream).find(|&gap| self.gaps[gap].bit(sequence).is_some()) {
            Some(gap) => Position::Missing(gap),
            None => Position::Over,
        }
    }

    /// True if the number of a put that is marked as the oldest is so far behind that its sender
    /// must have forgotten its numbers, and counts from another one.
    pub(super) fn is_anew(&self, stream: Index<Stream>, sequence: u32) -> bool {
        let behind = self.records[stream].end.wrapping_sub(sequence);
        behind > REACH && behind <= 1 << 31
    }

    pub(super) fn gaps_of(&self, stream: Index<Stream>) -> impl Iterator<Item = Index<Gap>> + '_ {
        core::iter::successors(self.records[stream].gaps, |&gap| self.gaps[gap].next)
    }

    /// True if at least `count` records for gaps are free.
    pub(super) fn has_gaps(&self, count: u32) -> bool {
        self.gaps.capacity() - self.gaps.in_use() >= count
    }

    /// Appends a gap to the others. Returns false, and does nothing, if no record is free.
    pub(super) fn append_gap(&mut self, stream: Index<Stream>, gap: Gap) -> bool {
        let last = self.gaps_of(stream).last();
        let Some(index) = self.gaps.add(gap) else { return false };
        match last {
            None => self.records[stream].gaps = Some(index),
            Some(last) => self.gaps[last].next = Some(index),
        }
        self.note_idle(stream);
        true
    }

    pub(super) fn remove_gap(&mut self, stream: Index<Stream>, gap: Index<Gap>) {
        let next = self.gaps[gap].next;
        let previous = self.gaps_of(stream).find(|&other| self.gaps[other].next == Some(gap));
        match previous {
            None => self.records[stream].gaps = next,
            Some(previous) => self.gaps[previous].next = next,
        }
        self.gaps.remove(gap);
        self.note_idle(stream);
    }

    /// Marks everything up to and including `sequence`, which is the next or a later one, as over,
    /// except what lies between. Returns false, and does nothing, if no record for a gap is free.
    pub(super) fn extend(
        &mut self,
        stream: Index<Stream>,
        sequence: u32,
        end_bytes: Option<u32>,
    ) -> bool {
        let mut end = self.records[stream].end;
        let gaps = sequence.wrapping_sub(end).div_ceil(GAP_PUTS);
        if !self.has_gaps(gaps) {
            return false;
        }
        for _ in 0..gaps {
            let count = sequence.wrapping_sub(end).min(GAP_PUTS);
            self.append_gap(stream, Gap::loose(end, count));
            end = end.wrapping_add(count);
        }
        self.set_end(stream, sequence.wrapping_add(1), end_bytes);
        true
    }

    pub(super) fn set_end(&mut self, stream: Index<Stream>, end: u32, end_bytes: Option<u32>) {
        let stream = &mut self.records[stream];
        stream.end = end;
        stream.end_bytes = end_bytes.unwrap_or(0);
        stream.end_is_known = end_bytes.is_some();
    }
}

impl Mailboxes {
    /// Marks a put as over that was not admitted where room may be kept for it: it was refused,
    /// given up, or names another epoch. Returns false, and does nothing, if that can't be
    /// recorded.
    pub(super) fn mark_over(
        &mut self,
        stream: Index<Stream>,
        sequence: u32,
        end_bytes: Option<u32>,
    ) -> bool {
        match self.streams.locate(stream, sequence) {
            Position::Over => true,
            Position::Beyond => false,
            Position::Ahead(_) => self.streams.extend(stream, sequence, end_bytes),
            Position::Missing(gap) => {
                self.strike(stream, gap, sequence);
                true
            }
        }
    }

    /// Begins a stream again whose sender has forgotten its numbers: everything before this put is
    /// over. True if something was missing.
    pub(super) fn begin_again(&mut self, stream: Index<Stream>, sequence: u32, bytes: u32) -> bool {
        let had_gaps = self.streams.records[stream].gaps.is_some();
        self.strike_all(stream);
        self.streams.set_end(stream, sequence, Some(bytes));
        self.streams.set_rewound(stream, false);
        had_gaps
    }

    /// Marks everything before this number as over, with `bytes` bytes in total. True if something
    /// was missing.
    pub(super) fn mark_all_over_before(
        &mut self,
        stream: Index<Stream>,
        sequence: u32,
        bytes: Option<u32>,
    ) -> bool {
        let Stream { end, gaps, .. } = self.streams.records[stream];
        let ahead = sequence.wrapping_sub(end);
        if ahead < 1 << 31 {
            self.strike_all(stream);
            // A stream that its sender has made anew counts bytes from 0, whatever its number is.
            if ahead > 0 || bytes.is_some() {
                self.streams.set_end(stream, sequence, bytes);
            }
            return gaps.is_some();
        }
        let mut struck = false;
        while let Some(gap) = self.streams.records[stream].gaps {
            let lowest = self.streams.gaps[gap].lowest();
            if end.wrapping_sub(lowest) <= end.wrapping_sub(sequence) {
                break;
            }
            self.strike(stream, gap, lowest);
            struck = true;
        }
        struck
    }

    /// Removes one put from a gap. The room kept for it is freed: as an operation at once, its
    /// bytes when nothing is missing in the gap, because only then is it known how many they were.
    fn strike(&mut self, stream: Index<Stream>, gap: Index<Gap>, sequence: u32) {
        let Some(mailbox) = self.streams.records[stream].mailbox else { return };
        let Some(bit) = self.streams.gaps[gap].bit(sequence) else { return };
        self.streams.gaps[gap].missing &= !(1 << bit);
        let record = self.streams.gaps[gap];
        let is_last = record.missing == 0;
        if record.is_firm(&self.records[mailbox]) {
            let bytes = if is_last { record.bytes } else { 0 };
            self.unreserve(mailbox, record.epoch, bytes, 1);
        }
        if is_last {
            self.streams.remove_gap(stream, gap);
        }
    }

    /// Drops all gaps of a stream and the room kept for them.
    fn strike_all(&mut self, stream: Index<Stream>) {
        self.loosen(stream);
        while let Some(gap) = self.streams.records[stream].gaps {
            self.streams.remove_gap(stream, gap);
        }
    }

    /// Frees the room that is kept for all gaps of a stream.
    pub(super) fn loosen(&mut self, stream: Index<Stream>) {
        let Some(mailbox) = self.streams.records[stream].mailbox else { return };
        let mut next = self.streams.records[stream].gaps;
        while let Some(at) = next {
            let record = self.streams.gaps[at];
            if record.is_firm(&self.records[mailbox]) {
                let puts = record.missing.count_ones();
                self.unreserve(mailbox, record.epoch, record.bytes, puts);
            }
            self.streams.gaps[at].epoch = LOOSE;
            next = record.next;
        }
    }

    fn unreserve(&mut self, mailbox: Index<Mailbox>, epoch: u64, bytes: u32, puts: u32) {
        // An epoch in which room is kept isn't done, so its buffer exists.
        if let Some(buffer) = self.buffer(mailbox, epoch) {
            self.buffers[buffer].unreserve(bytes, puts);
        }
    }

    /// Ends a stream.
    pub(super) fn end_stream(&mut self, stream: Index<Stream>) {
        self.strike_all(stream);
        self.streams.free(stream);
    }

    /// Ends the streams that `which` selects. Walks all of them.
    pub(super) fn end_streams(&mut self, which: impl Fn(&Stream) -> bool) {
        for stream in self.streams.records.ever_taken() {
            let record = self.streams.records[stream];
            if let Some(mailbox) = record.mailbox.filter(|_| which(&record)) {
                self.end_stream(stream);
                self.advance(mailbox);
            }
        }
    }

    /// Records in every stream of a mailbox that its missing puts were sent before a rewind. The
    /// buffers have been released already.
    pub(super) fn cut_streams(&mut self, mailbox: Index<Mailbox>) {
        for stream in self.streams.records.ever_taken() {
            if self.streams.records[stream].mailbox == Some(mailbox) {
                self.strike_all(stream);
                let record = &mut self.streams.records[stream];
                record.rewound_at = record.end;
                self.streams.set_rewound(stream, true);
            }
        }
    }
}

fn hash(sender: Sender, address: u64) -> u64 {
    mix(address, u64::from(sender.channel) << 32 | u64::from(sender.jetty.value()))
}
