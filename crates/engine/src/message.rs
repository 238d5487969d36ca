//! Messages being sent: operations of our own, and the answers to peers' reads.

use crate::api::{LocalRange, Status};
use crate::list::{Linked, Links};
use crate::pool::Pool;
use fairway_wire::{Instant, JettyId, Msn, Psn, TokenId};

/// One message (transaction) on its way out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// The application's number for it.
    pub(crate) id: u64,
    pub(crate) local: LocalRange,
    pub(crate) remote_address: u64,
    pub(crate) immediate: u64,
    pub(crate) token_value: u32,
    pub(crate) token_id: TokenId,
    /// Our Jetty; for the answer to a read, the reader's.
    pub(crate) jetty: JettyId,
    /// The peer's Jetty, where the operation names one.
    pub(crate) target: JettyId,
    pub(crate) channel: u32,
    pub(crate) number: Msn,
    /// Packets it takes; at least one.
    pub(crate) packets: u32,
    /// The next packet to be sent for the first time.
    pub(crate) next_index: u32,
    /// Packets sent and not acknowledged.
    pub(crate) outstanding: u32,
    /// Of a read: bytes of the answer in place.
    pub(crate) placed: u32,
    /// Of a read: which packets of the answer have come.
    pub(crate) answer: Progress,
    /// After a refusal: when to try again.
    pub(crate) retry_at: Instant,
    pub(crate) links: Links,
    pub(crate) transaction: u16,
    /// The slot under which the receiver keeps it, or the read slot; if `has_slot`.
    pub(crate) slot: u8,
    pub(crate) retries: u8,
    pub(crate) kind: MessageKind,
    pub(crate) place: MessagePlace,
    pub(crate) outcome: Outcome,
    pub(crate) has_slot: bool,
    pub(crate) signaled: bool,
    /// The receiver has said that it knows where the message starts.
    pub(crate) learned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Write,
    WriteImmediate,
    Read,
    Send,
    SendImmediate,
    /// The answer to a peer's read.
    ReadResponse,
}

/// Which list of its channel a message is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePlace {
    /// None: all of it has been sent at least once, or it was given up.
    Unlisted,
    /// Waiting for its turn to send.
    Sending,
    /// Waiting for a message slot.
    AwaitingSlot,
    /// Waiting for a read slot.
    AwaitingReadSlot,
    /// Refused, and waiting to be tried again.
    AwaitingReceiver,
}

/// How a message is going to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing stands against it.
    Open,
    /// Refused for lack of a receive: to be tried again once nothing of it is in flight.
    NotReady,
    /// Refused for good.
    Failed(Status),
    /// A read whose answer is complete, and which has been reported.
    Reported,
}

impl Message {
    pub(crate) fn is_multi(&self) -> bool {
        self.packets > 1
    }

    /// Payload bytes of packet `index`. A read's request has none.
    pub(crate) fn payload(&self, index: u32, mtu: u32) -> u32 {
        if self.kind == MessageKind::Read {
            return 0;
        }
        let before = u64::from(index) * u64::from(mtu);
        (u64::from(self.local.length) - before).min(u64::from(mtu)) as u32
    }

    /// Bytes still to be sent for the first time.
    pub(crate) fn remaining(&self, mtu: u32) -> u64 {
        if self.kind == MessageKind::Read {
            return 0;
        }
        u64::from(self.local.length).saturating_sub(u64::from(self.next_index) * u64::from(mtu))
    }
}

/// Packets a message of `length` bytes takes.
pub(crate) fn packets_of(length: u32, mtu: u32) -> u32 {
    length.div_ceil(mtu).max(1)
}

impl Linked for Pool<Message> {
    fn links(&mut self, index: u32) -> &mut Links {
        &mut self[index].links
    }
}

/// Which packets of a message have come, as far as guesses about the next ones need to know.
///
/// A guess lets the kernel scatter payload before anybody has read the header, so it must never
/// name memory that already holds its data. Packets of a message that left together have the same
/// `psn − index` difference: they form a run. Every packet that has come lies in one of the runs
/// kept here or before `closed`, so packet `j` is certain not to have come if it is not before
/// `closed` and no run that spans it says that the PSN it would have there has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Packets before this index may have come.
    closed: u32,
    runs: [Run; RUNS],
    count: u8,
}

/// Runs that are kept; the lowest is forgotten first.
const RUNS: usize = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    difference: Psn,
    first: u32,
    last: u32,
}

impl Progress {
    pub(crate) fn note(&mut self, psn: Psn, index: u32) {
        let difference = psn.minus(index % Psn::SPACE);
        let count = usize::from(self.count);
        for run in &mut self.runs[..count] {
            if run.difference == difference {
                run.first = run.first.min(index);
                run.last = run.last.max(index);
                return;
            }
        }
        let new = Run { difference, first: index, last: index };
        if count < RUNS {
            self.runs[count] = new;
            self.count += 1;
            return;
        }
        let mut lowest = new;
        for run in &mut self.runs {
            if run.last < lowest.last {
                core::mem::swap(run, &mut lowest);
            }
        }
        self.closed = self.closed.max(lowest.last.saturating_add(1));
    }

    /// Is it certain that packet `index` has not come?
    pub(crate) fn is_open(&self, index: u32, arrived: impl Fn(Psn) -> bool) -> bool {
        index >= self.closed
            && self.runs[..usize::from(self.count)].iter().all(|run| {
                index < run.first
                    || index > run.last
                    || !arrived(run.difference.plus(index % Psn::SPACE))
            })
    }
}

#[cfg(test)]
mod tests;
