//! Early puts to a mailbox whose epochs take a number of puts: the epoch of each is known by
//! counting, so room can be kept in several epochs at once.

use super::record::{Buffer, Fit, Mailbox};
use super::stream::{GAP_PUTS, Gap, Stream, WINDOW};
use super::{Admission, Mailboxes};
use crate::pool::Index;
use fairway_wire::Put;

/// The place of an early put.
struct Place {
    epoch: u64,
    buffer: Index<Buffer>,
    /// Number of gaps for which room has to be kept.
    gaps: u32,
}

impl Mailboxes {
    /// Admits a put that is `ahead` of the last that's over, while earlier ones are missing. Room
    /// for the missing ones is kept in the open epoch and in as many further ones as they fill, and
    /// this put takes the place behind them. The epochs before it are full then, so none of them is
    /// the open one any more.
    pub(super) fn admit_counted(
        &mut self,
        mailbox: Index<Mailbox>,
        stream: Index<Stream>,
        ahead: u32,
        put: &Put,
    ) -> Admission {
        let record = self.records[mailbox];
        let record_of = self.streams.records[stream];
        if put.follows && (ahead > 0 || record_of.gaps.is_some()) {
            return Admission::OutOfOrder;
        }
        let is_firm = |gap: Index<Gap>| self.streams.gaps[gap].is_firm(&record);
        if !self.streams.gaps_of(stream).all(is_firm) {
            return Admission::OutOfOrder;
        }
        let Some(place) = self.place_behind(mailbox, ahead) else { return Admission::OutOfOrder };
        let fit = self.buffers[place.buffer].fit(record.steering, put.offset, 0, put.length);
        // A put that doesn't fit is refused when its turn comes.
        let (Fit::At(offset), true) = (fit, self.streams.has_gaps(place.gaps)) else {
            return Admission::OutOfOrder;
        };
        self.keep_room(mailbox, stream, ahead);
        let end_bytes = put.before.wrapping_add(put.length);
        self.streams.set_end(stream, put.sequence.wrapping_add(1), Some(end_bytes));
        self.records[mailbox].open = place.epoch;
        self.admitted(place.buffer, offset, put)
    }

    /// The place behind `ahead` puts that come next; `None` if not all the epochs up to it have a
    /// buffer, or too many of them are full. Looks at `WINDOW` epochs at most.
    fn place_behind(&self, mailbox: Index<Mailbox>, ahead: u32) -> Option<Place> {
        let record = self.records[mailbox];
        let (mut left, mut gaps) = (u64::from(ahead), 0);
        for epoch in (record.open..).take(WINDOW as usize + 1) {
            let buffer = self.buffer(mailbox, epoch)?;
            let room = self.buffers[buffer].puts_left(&record);
            gaps += (room.min(left) as u32).div_ceil(GAP_PUTS);
            if room > left {
                return Some(Place { epoch, buffer, gaps });
            }
            left -= room;
        }
        None
    }

    /// Keeps room for the next `ahead` puts of a stream, where there's some: at least one gap for
    /// each epoch.
    fn keep_room(&mut self, mailbox: Index<Mailbox>, stream: Index<Stream>, ahead: u32) {
        let record = self.records[mailbox];
        let (mut first, mut left) = (self.streams.records[stream].end, ahead);
        let mut epoch = record.open;
        while left > 0 {
            let Some(buffer) = self.buffer(mailbox, epoch) else { break };
            let room = self.buffers[buffer].puts_left(&record);
            let count = room.min(u64::from(left.min(GAP_PUTS))) as u32;
            if count == 0 {
                epoch += 1;
                continue;
            }
            self.buffers[buffer].reserved_puts += count;
            let is_noted =
                self.streams.append_gap(stream, Gap { epoch, ..Gap::loose(first, count) });
            debug_assert!(is_noted, "a record for each gap was free");
            (first, left) = (first.wrapping_add(count), left - count);
        }
    }
}
