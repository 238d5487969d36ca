//! Mailboxes: each rule by itself, then random schedules against an independent model.

mod hostile;
mod model;
mod rules;
mod storm;

use super::*;
use crate::api::{SegmentId, Steering, WhenEmpty};
use core::cell::Cell;
use fairway_wire::Put;

pub(super) const ADDRESS: u64 = 0x11FF_0011;
pub(super) const KEY: u32 = 77;

pub(super) fn limits(buffers: u32, streams: u32) -> Limits {
    Limits { mailboxes: 4, mailbox_buffers: buffers, put_streams: streams, ..Limits::default() }
}

pub(super) fn config(threshold: Threshold, steering: Steering) -> MailboxConfig {
    MailboxConfig {
        address: Some(ADDRESS),
        key: KEY,
        threshold,
        steering,
        when_empty: WhenEmpty::Wait,
        retired: 0,
    }
}

pub(super) fn sender(number: u32) -> Sender {
    Sender { channel: number, jetty: JettyId::new(number) }
}

/// A buffer that is a segment of its own.
pub(super) fn range(segment: u32, length: u32) -> LocalRange {
    LocalRange { segment: SegmentId(segment), offset: 0, length }
}

/// The puts of one sender, numbered as its NIC numbers them.
pub(super) struct Source {
    pub(super) sender: Sender,
    pub(super) sequence: Cell<u32>,
    pub(super) before: Cell<u32>,
}

impl Source {
    pub(super) fn new(number: u32) -> Self {
        Source { sender: sender(number), sequence: Cell::new(0), before: Cell::new(0) }
    }

    pub(super) fn put(&self, length: u32, offset: u64) -> Put {
        let put = Put {
            mailbox: ADDRESS,
            offset,
            sequence: self.sequence.get(),
            before: self.before.get(),
            length,
            key: KEY,
            epoch: 0,
            named: false,
        };
        self.sequence.set(put.sequence.wrapping_add(1));
        self.before.set(put.before.wrapping_add(length));
        put
    }

    pub(super) fn named(&self, length: u32, offset: u64, epoch: u32) -> Put {
        Put { epoch, named: true, ..self.put(length, offset) }
    }
}

pub(super) fn drain_released(mailboxes: &mut Mailboxes) -> alloc::vec::Vec<u32> {
    core::iter::from_fn(|| mailboxes.poll_released()).collect()
}
