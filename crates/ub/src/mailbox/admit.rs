//! Admission: to which epoch a put belongs, decided once, when the first of its packets arrives.

use super::record::{Buffer, Fit, Life, Mailbox};
use super::stream::{GAP_PUTS, Gap, Position, Stream, WINDOW};
use super::{Admission, Mailboxes, Sender, Ticket};
use crate::api::{Steering, WhenEmpty};
use crate::pool::Index;
use fairway_wire::{Put, Refusal};

impl Mailboxes {
    /// Decides where a put belongs. Called once per put, with whichever of its packets arrives
    /// first, and again when the put is retried after [`Admission::Wait`] or
    /// [`Admission::OutOfOrder`], which change nothing that a sender could notice.
    ///
    /// Takes a bounded number of steps: three look-ups, at most [`WINDOW`] gaps of the sender, and
    /// each buffer is found full once.
    pub(crate) fn admit(&mut self, sender: Sender, put: &Put) -> Admission {
        let Some(mailbox) = self.addressed(put.mailbox) else {
            return Admission::Refuse(Refusal::NoMailbox);
        };
        let record = &self.records[mailbox];
        if record.life == Life::Discarding {
            return Admission::Discard;
        }
        if record.life != Life::Open || record.key != put.key {
            return Admission::Refuse(Refusal::NoMailbox);
        }
        let open = record.open;
        let admission = match self.stream(sender, put, mailbox) {
            Ok(stream) => self.decide(mailbox, stream, put),
            Err(admission) => admission,
        };
        // An unnamed put ends only epochs that turned it away.
        let ends_none = matches!(admission, Admission::Into { .. }) && !put.named;
        if !ends_none || self.records[mailbox].open != open {
            self.advance(mailbox);
        }
        admission
    }

    /// Marks a sender's puts up to this number as over: those that were not admitted never will be.
    /// Room that was kept for them is freed, and later puts do not wait for them any more.
    pub(crate) fn abandon(&mut self, sender: Sender, address: u64, sequence: u32) {
        if let Some(stream) = self.streams.find(sender, address) {
            self.mark_all_over_before(stream, sequence.wrapping_add(1), None);
            if let Some(mailbox) = self.streams.records[stream].mailbox {
                self.advance(mailbox);
            }
        }
    }

    /// Frees the room that was kept for puts behind one that names no epoch and waits for a buffer
    /// ([`Admission::Wait`]), because their sender holds them back. An epoch with such room would
    /// not end, and the application may post the next buffer only when one ends.
    pub(crate) fn yield_room(&mut self, sender: Sender, address: u64) {
        if let Some(stream) = self.streams.find(sender, address) {
            self.loosen(stream);
            if let Some(mailbox) = self.streams.records[stream].mailbox {
                self.advance(mailbox);
            }
        }
    }

    /// The stream of a put whose key is right; it is created if there is none.
    ///
    /// A stream begins with its sender's oldest put, or with one that names its epoch. For any
    /// other put of an unknown sender no room is kept: the sender may have begun to count when
    /// another mailbox had this address, and the puts before would never come.
    fn stream(
        &mut self,
        sender: Sender,
        put: &Put,
        mailbox: Index<Mailbox>,
    ) -> Result<Index<Stream>, Admission> {
        let Some(stream) = self.streams.find(sender, put.mailbox) else {
            let may_begin = put.oldest || (put.named && put.sequence <= WINDOW);
            if !may_begin {
                return Err(Admission::OutOfOrder);
            }
            let stream = self
                .streams
                .begin(sender, put.mailbox, mailbox)
                .ok_or(Admission::Refuse(Refusal::Resources))?;
            if put.oldest {
                self.streams.set_end(stream, put.sequence, Some(put.before));
            }
            return Ok(stream);
        };
        let old = self.streams.records[stream].mailbox;
        if let Some(old) = old.filter(|&old| old != mailbox) {
            // The address had no mailbox of its own, so the catch-all took the earlier puts.
            self.loosen(stream);
            self.streams.records[stream].mailbox = Some(mailbox);
            self.streams.set_rewound(stream, false);
            self.advance(old);
        }
        self.streams.records[stream].used = true;
        if put.oldest && self.end_before(stream, put) {
            self.advance(mailbox);
        }
        Ok(stream)
    }

    /// Marks everything before a sender's oldest put as over. True if something was missing.
    fn end_before(&mut self, stream: Index<Stream>, put: &Put) -> bool {
        if self.streams.is_anew(stream, put.sequence) {
            return self.begin_again(stream, put.sequence, put.before);
        }
        let Stream { rewound, rewound_at, .. } = self.streams.records[stream];
        if rewound && put.sequence.wrapping_sub(rewound_at) < 1 << 31 {
            self.streams.set_rewound(stream, false);
        }
        self.mark_all_over_before(stream, put.sequence, Some(put.before))
    }

    fn decide(&mut self, mailbox: Index<Mailbox>, stream: Index<Stream>, put: &Put) -> Admission {
        let position = self.streams.locate(stream, put.sequence);
        match position {
            Position::Beyond => return Admission::OutOfOrder,
            Position::Over => return Admission::Refuse(self.over(stream, put.sequence)),
            _ if self.records[mailbox].fenced => return self.refuse(stream, put, Refusal::Epoch),
            _ => {}
        }
        if put.named {
            return self.admit_named(mailbox, stream, position, put);
        }
        let first = self.streams.records[stream].gaps;
        match position {
            Position::Ahead(0) if first.is_none() => self.admit_next(mailbox, stream, put),
            Position::Ahead(ahead) if self.records[mailbox].counts_puts() => {
                self.admit_counted(mailbox, stream, ahead, put)
            }
            Position::Ahead(ahead) => self.admit_early(mailbox, stream, ahead, put),
            Position::Missing(gap) => {
                let record = self.streams.gaps[gap];
                if record.is_firm(&self.records[mailbox]) {
                    self.admit_missing(mailbox, stream, gap, put)
                } else if Some(gap) == first && record.lowest() == put.sequence {
                    self.admit_next(mailbox, stream, put)
                } else {
                    Admission::OutOfOrder
                }
            }
            Position::Over | Position::Beyond => Admission::OutOfOrder,
        }
    }

    /// The reason to refuse a put whose number is over: it was sent before a rewind, or it's a
    /// repeat.
    fn over(&self, stream: Index<Stream>, sequence: u32) -> Refusal {
        let record = &self.streams.records[stream];
        let before_rewind = sequence.wrapping_sub(record.rewound_at) >= 1 << 31;
        if record.rewound && before_rewind { Refusal::Epoch } else { Refusal::Operation }
    }

    /// Admits a put whose turn it is: everything before it is over.
    fn admit_next(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        put: &Put,
    ) -> Admission {
        loop {
            let record = self.records[mailbox];
            let Some(buffer) = self.buffer(mailbox, record.open) else {
                return self.no_buffer(mailbox, stream, put);
            };
            let fit = match self.buffers[buffer].is_full(&record) {
                true => Fit::NotHere,
                false => self.buffers[buffer].fit(record.steering, put.offset, 0, put.length),
            };
            match fit {
                // An epoch that has turned a put away takes no further put.
                Fit::NotHere => self.records[mailbox].open += 1,
                Fit::Never => return self.refuse(stream, put, Refusal::Length),
                Fit::At(offset) => return self.admit_unreserved(stream, buffer, offset, put),
            }
        }
    }

    /// Admits a put that names its epoch: into that one or none, whatever is missing before it.
    fn admit_named(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        position: Position,
        put: &Put,
    ) -> Admission {
        let record = self.records[mailbox];
        let Some(epoch) = record.named_epoch(put.epoch) else {
            return self.refuse(stream, put, Refusal::Epoch);
        };
        if let Position::Missing(gap) = position {
            let room = self.streams.gaps[gap];
            if room.epoch == epoch && room.is_firm(&record) {
                return self.admit_missing(mailbox, stream, gap, put);
            }
        }
        if epoch < record.open {
            return self.refuse(stream, put, Refusal::Epoch);
        }
        let Some(buffer) = self.buffer(mailbox, epoch) else {
            return self.no_buffer(mailbox, stream, put);
        };
        let target = &self.buffers[buffer];
        if target.is_full(&record) {
            // Room that is kept may yet be freed.
            return match target.reserved_puts {
                0 => self.refuse(stream, put, Refusal::Epoch),
                _ => Admission::Wait,
            };
        }
        match target.fit(record.steering, put.offset, 0, put.length) {
            Fit::At(offset) => self.admit_unreserved(stream, buffer, offset, put),
            Fit::NotHere | Fit::Never => self.refuse(stream, put, Refusal::Length),
        }
    }

    /// Admits a put that is `ahead` of the last that's over, while earlier ones are missing. It's
    /// admitted if it falls into the open epoch whatever those turn out to be, and room is kept for
    /// them.
    fn admit_early(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        ahead: u32,
        put: &Put,
    ) -> Admission {
        let record = self.records[mailbox];
        let Some(buffer) = self.buffer(mailbox, record.open) else { return Admission::OutOfOrder };
        let has_gaps = self.streams.records[stream].gaps.is_some();
        if ahead > GAP_PUTS || (put.follows && (ahead > 0 || has_gaps)) {
            return Admission::OutOfOrder;
        }
        let end = self.streams.records[stream];
        let bytes = match ahead {
            0 => 0,
            _ if !end.end_is_known => return Admission::OutOfOrder,
            _ => put.before.wrapping_sub(end.end_bytes),
        };
        let is_certain = self.buffers[buffer].takes_after(&record, bytes, ahead)
            && self.streams.gaps_of(stream).all(|gap| self.streams.gaps[gap].epoch == record.open);
        let fit = self.buffers[buffer].fit(record.steering, put.offset, bytes, put.length);
        // A put that doesn't fit is refused, or goes to the next buffer, when its turn comes.
        let (true, Fit::At(offset)) = (is_certain, fit) else { return Admission::OutOfOrder };
        if ahead > 0 {
            let room = Gap {
                epoch: record.open,
                base: end.end_bytes,
                bytes,
                offset: self.buffers[buffer].append,
                ..Gap::loose(end.end, ahead)
            };
            if !self.streams.append_gap(stream, room) {
                return Admission::OutOfOrder;
            }
            self.buffers[buffer].reserved_bytes += u64::from(bytes);
            self.buffers[buffer].reserved_puts += ahead;
        }
        let end_bytes = put.before.wrapping_add(put.length);
        self.streams.set_end(stream, put.sequence.wrapping_add(1), Some(end_bytes));
        self.append(mailbox, buffer, offset, put.length);
        self.admitted(buffer, offset, put)
    }

    /// Admits a put for which room was kept. It takes its part of the gap; what is left before and
    /// behind it stays a gap if puts are missing there, and is freed if not.
    fn admit_missing(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        gap: Index<Gap>,
        put: &Put,
    ) -> Admission {
        let room = self.streams.gaps[gap];
        let (Some(bit), Some(buffer)) = (room.bit(put.sequence), self.buffer(mailbox, room.epoch))
        else {
            return Admission::OutOfOrder;
        };
        let is_counted = self.records[mailbox].counts_puts();
        let before = if is_counted { 0 } else { put.before.wrapping_sub(room.base) };
        let length = if is_counted { 0 } else { put.length };
        let Some(behind) = room.bytes.checked_sub(before).and_then(|rest| rest.checked_sub(length))
        else {
            // The put contradicts the fields of later puts.
            return self.refuse(stream, put, Refusal::Operation);
        };
        let offset = match self.records[mailbox].steering {
            Steering::Receiver => room.offset + before,
            Steering::Sender => {
                match self.buffers[buffer].fit(Steering::Sender, put.offset, 0, put.length) {
                    Fit::At(offset) => offset,
                    Fit::NotHere | Fit::Never => return self.refuse(stream, put, Refusal::Length),
                }
            }
        };
        let lower = Gap { missing: room.missing & ((1 << bit) - 1), bytes: before, ..room };
        let upper = Gap {
            missing: (room.missing >> bit) >> 1,
            first: put.sequence.wrapping_add(1),
            base: put.before.wrapping_add(put.length),
            bytes: behind,
            offset: offset.wrapping_add(put.length),
            ..room
        };
        if !self.split(stream, gap, lower, upper) {
            return Admission::OutOfOrder;
        }
        let unused = |part: &Gap| if part.missing == 0 { part.bytes } else { 0 };
        let freed = length + unused(&lower) + unused(&upper);
        self.buffers[buffer].unreserve(freed, 1);
        self.admitted(buffer, offset, put)
    }

    /// Reduces a gap to the parts in which something is missing. Returns false, and does nothing,
    /// if that needs a record and none is free: the lowest missing put never needs one.
    fn split(&mut self, stream: Index<Stream>, gap: Index<Gap>, lower: Gap, upper: Gap) -> bool {
        let gaps = &mut self.streams.gaps;
        match (lower.missing, upper.missing) {
            (0, 0) => self.streams.remove_gap(stream, gap),
            (_, 0) => gaps[gap] = lower,
            (0, _) => gaps[gap] = upper,
            _ => {
                let Some(next) = gaps.add(upper) else { return false };
                gaps[gap] = Gap { next: Some(next), ..lower };
            }
        }
        true
    }

    /// Admits a put for which no room was kept, if its number can be recorded.
    fn admit_unreserved(
        &mut self,
        stream: Index<Stream>,
        buffer: Index<Buffer>,
        offset: u32,
        put: &Put,
    ) -> Admission {
        if !self.mark_over(stream, put.sequence, Some(put.before.wrapping_add(put.length))) {
            return Admission::OutOfOrder;
        }
        let mailbox = self.buffers[buffer].mailbox;
        self.append(mailbox, buffer, offset, put.length);
        self.admitted(buffer, offset, put)
    }

    /// In stream mode, places the next put behind this one.
    fn append(&mut self, mailbox: Index<Mailbox>, buffer: Index<Buffer>, offset: u32, length: u32) {
        if self.records[mailbox].steering == Steering::Receiver {
            self.buffers[buffer].append = offset + length;
        }
    }

    pub(super) fn admitted(&mut self, buffer: Index<Buffer>, offset: u32, put: &Put) -> Admission {
        let record = &mut self.buffers[buffer];
        let ticket: Ticket = record.assign(buffer, put.mailbox, put.length);
        Admission::Into {
            ticket,
            segment: record.segment,
            offset: record.offset + u64::from(offset),
        }
    }

    fn no_buffer(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        put: &Put,
    ) -> Admission {
        match self.records[mailbox].when_empty {
            WhenEmpty::Wait => Admission::Wait,
            WhenEmpty::Refuse => self.refuse(stream, put, Refusal::Resources),
        }
    }

    /// Refuses a put permanently: its number is over. If that can't be recorded, the sender has to
    /// try the put again.
    fn refuse(&mut self, stream: Index<Stream>, put: &Put, refusal: Refusal) -> Admission {
        match self.mark_over(stream, put.sequence, Some(put.before.wrapping_add(put.length))) {
            true => Admission::Refuse(refusal),
            false => Admission::OutOfOrder,
        }
    }
}
