//! Mailboxes: each rule by itself, then random schedules against an independent model.

mod hostile;
mod life;
mod model;
mod rules;
mod storm;

use super::*;
use crate::api::{SegmentId, Steering, WhenEmpty};
use alloc::vec::Vec;
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

/// A buffer that covers a segment.
pub(super) fn range(segment: u32, length: u32) -> LocalRange {
    LocalRange { segment: SegmentId::new(segment), offset: 0, length }
}

/// The puts of one sender, numbered as its NIC numbers them.
pub(super) struct Source {
    pub(super) sender: Sender,
    pub(super) sequence: Cell<u32>,
    pub(super) before: Cell<u32>,
    begun: Cell<bool>,
}

impl Source {
    pub(super) fn new(number: u32) -> Self {
        Source {
            sender: sender(number),
            sequence: Cell::new(0),
            before: Cell::new(0),
            begun: Cell::new(false),
        }
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
            oldest: !self.begun.replace(true),
            follows: false,
        };
        self.sequence.set(put.sequence.wrapping_add(1));
        self.before.set(put.before.wrapping_add(length));
        put
    }

    pub(super) fn named(&self, length: u32, offset: u64, epoch: u32) -> Put {
        Put { epoch, named: true, ..self.put(length, offset) }
    }
}

pub(super) fn drain_released(mailboxes: &mut Mailboxes) -> Vec<u32> {
    core::iter::from_fn(|| mailboxes.poll_released()).collect()
}

/// A mailbox with `buffers` buffers of 100 bytes, in segments 0, 1, ...
pub(super) struct Bench {
    pub(super) mailboxes: Mailboxes,
    pub(super) id: MailboxId,
}

impl Bench {
    pub(super) fn new(config: &MailboxConfig, buffers: u32) -> Self {
        let mut mailboxes = Mailboxes::new(&limits(64, 16));
        let id = mailboxes.create(config).unwrap();
        let mut bench = Bench { mailboxes, id };
        for segment in 0..buffers {
            bench.post(segment, 100);
        }
        bench
    }

    pub(super) fn bytes(threshold: u64, buffers: u32) -> Self {
        Bench::new(&config(Threshold::Bytes(threshold), Steering::Sender), buffers)
    }

    pub(super) fn stream(threshold: u64, buffers: u32) -> Self {
        Bench::new(&config(Threshold::Bytes(threshold), Steering::Receiver), buffers)
    }

    pub(super) fn post(&mut self, segment: u32, length: u32) {
        let id = u64::from(segment) + 1000;
        self.mailboxes.post_buffer(self.id, id, range(segment, length)).unwrap();
    }

    pub(super) fn admit(&mut self, source: &Source, put: &Put) -> Admission {
        self.mailboxes.admit(source.sender, put)
    }

    /// Admits a put that has to be admitted; returns its ticket, segment and offset.
    #[track_caller]
    pub(super) fn start(&mut self, source: &Source, put: &Put) -> (Ticket, u32, u64) {
        match self.admit(source, put) {
            Admission::Into { ticket, segment, offset } => (ticket, segment, offset),
            other => panic!("{other:?} for {put:?}"),
        }
    }

    /// Admits, places and finishes a put; returns the segment.
    #[track_caller]
    pub(super) fn whole(&mut self, source: &Source, put: &Put) -> u32 {
        let (ticket, segment, _) = self.start(source, put);
        self.mailboxes.placed(ticket, put.length);
        self.mailboxes.finish(ticket);
        segment
    }

    /// Epochs done since the last call, as (epoch, bytes, puts, early).
    pub(super) fn done(&mut self) -> Vec<(u64, u64, u64, bool)> {
        core::iter::from_fn(|| self.mailboxes.poll_done())
            .map(|done| (done.epoch, done.bytes, done.operations, done.early))
            .collect()
    }
}
