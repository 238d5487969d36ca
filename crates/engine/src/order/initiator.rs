//! The initiator's tracker: operations in the order in which they were posted, and what has to
//! wait before it is issued.

use super::{Key, Keyed, is_numbered};
use crate::api::OrderRequest;
use crate::list::{Linked, Links, List};
use crate::message::{Message, MessagePlace};
use crate::pool::{NONE, Pool};
use alloc::vec::Vec;
use fairway_wire::{JettyId, Tag};

/// Numbers already given to the transactions of one Jetty to one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sequences {
    /// Of the next relaxed or strict one that the target orders (modes ROT and ROL).
    pub(crate) order: u16,
    /// Of the next one whose receive completes in order.
    pub(crate) receive: u16,
}

/// What is kept of a Jetty one of whose operations has asked for order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JettyOrder {
    /// Relaxed and strict operations that are not done.
    ordered: List,
    /// READs, GETs and atomics that have not completed.
    reads: List,
    /// Operations that wait at a fence.
    fenced: List,
    /// The newest relaxed and strict operations, from `run_start` on, are numbered for the target
    /// of this channel group, which orders them; `NONE` if the initiator has to.
    run_group: u32,
    run_start: u32,
    /// Counts posts.
    serial: u32,
}

impl JettyOrder {
    pub(crate) const BYTES: usize = size_of::<JettyOrder>();
    const NEW: JettyOrder = JettyOrder {
        ordered: List { head: NONE, tail: NONE },
        reads: List { head: NONE, tail: NONE },
        fenced: List { head: NONE, tail: NONE },
        run_group: NONE,
        run_start: 0,
        serial: 0,
    };
}

/// All of it, for all Jetties.
pub(crate) struct Initiator {
    /// By Jetty: its operations that have not completed, in posting order.
    pub(crate) incomplete: Vec<List>,
    /// By Jetty: its record, or `NONE`.
    record: Vec<u32>,
    records: Pool<JettyOrder>,
    pub(crate) sequences: Keyed<Sequences>,
    /// Operations that wait for a slot and may have the last one now. Some may have gone on.
    pub(crate) promoted: Vec<u32>,
    /// Operations whose gate has opened, on their way to their channels.
    pub(crate) opened: List,
}

/// The links of `Initiator::incomplete`.
pub(crate) struct Incomplete<'a>(pub(crate) &'a mut Pool<Message>);
/// The links of `JettyOrder::ordered`.
struct Ordered<'a>(&'a mut Pool<Message>);
/// The links of `JettyOrder::reads`.
struct Reads<'a>(&'a mut Pool<Message>);

impl Linked for Incomplete<'_> {
    fn links(&mut self, index: u32) -> &mut Links {
        &mut self.0[index].incomplete_links
    }
}

impl Linked for Ordered<'_> {
    fn links(&mut self, index: u32) -> &mut Links {
        &mut self.0[index].ordered_links
    }
}

impl Linked for Reads<'_> {
    fn links(&mut self, index: u32) -> &mut Links {
        &mut self.0[index].read_links
    }
}

fn is_after(serial: u32, other: u32) -> bool {
    serial.wrapping_sub(other) as i32 > 0
}

impl Initiator {
    pub(crate) fn new(jetties: u32, records: u32) -> Self {
        Initiator {
            incomplete: alloc::vec![List::default(); jetties as usize],
            record: alloc::vec![NONE; jetties as usize],
            records: Pool::new(records),
            sequences: Keyed::new(records),
            promoted: Vec::with_capacity(records as usize),
            opened: List::default(),
        }
    }

    /// Makes sure that whatever the operation will need can be had.
    pub(crate) fn prepare(
        &mut self,
        messages: &mut Pool<Message>,
        jetty: JettyId,
        group: u32,
        order: &OrderRequest,
    ) -> bool {
        if *order == OrderRequest::default() {
            return true;
        }
        let numbered = is_numbered(order.mode, order.tag) || order.receive_in_order;
        let key = Key::of(group, jetty);
        if numbered && self.sequences.find_or_make(&key, Sequences::default()).is_none() {
            return false;
        }
        let number = jetty.value() as usize;
        if self.record[number] == NONE {
            let Some(record) = self.records.take(JettyOrder::NEW) else { return false };
            self.record[number] = record;
            self.adopt(messages, number);
        }
        true
    }

    /// The first operation that asks for order may have to wait for READs that did not.
    fn adopt(&mut self, messages: &mut Pool<Message>, jetty: usize) {
        let record = &mut self.records[self.record[jetty]];
        let mut at = self.incomplete[jetty].head;
        while at != NONE {
            let message = &mut messages[at];
            message.serial = record.serial;
            record.serial = record.serial.wrapping_add(1);
            let next = message.incomplete_links.next;
            if message.is_read() {
                record.reads.push_back(&mut Reads(messages), at);
            }
            at = next;
        }
    }

    /// Takes note of a new operation and gives it its numbers. True if it has to wait; its place
    /// says so then. `lax` lets it pass fences (a planted bug).
    pub(crate) fn post(&mut self, messages: &mut Pool<Message>, index: u32, lax: bool) -> bool {
        let jetty = messages[index].jetty;
        let number = jetty.value() as usize;
        self.incomplete[number].push_back(&mut Incomplete(messages), index);
        let record = self.record[number];
        if record == NONE {
            return false;
        }
        let record = &mut self.records[record];
        let message = &mut messages[index];
        let (order, group) = (message.order, message.group());
        message.serial = record.serial;
        record.serial = record.serial.wrapping_add(1);
        let numbered = is_numbered(order.mode, order.tag);
        if (numbered || order.receive_in_order)
            && let Some(at) = self.sequences.find(&Key::of(group, jetty))
        {
            let sequences = &mut self.sequences[at];
            if numbered {
                message.sequence = sequences.order;
                sequences.order = sequences.order.wrapping_add(1);
            }
            if order.receive_in_order {
                message.receive_sequence = sequences.receive;
                sequences.receive = sequences.receive.wrapping_add(1);
            }
        }
        message.waits_for_reads = order.fence && !record.reads.is_empty() && !lax;
        if order.tag != Tag::No {
            let continues = numbered && record.run_group == group;
            if !continues {
                record.run_group = if numbered { group } else { NONE };
                record.run_start = message.serial;
            }
            let (start, multi) = (record.run_start, message.is_multi());
            let oldest = record.ordered.head;
            // What the target would have to set aside in many packets waits here instead.
            let held_here = !numbered || multi;
            let message = &mut messages[index];
            message.waits_for_order = order.tag == Tag::So && oldest != NONE && held_here;
            if order.tag == Tag::So && oldest != NONE && is_after(start, messages[oldest].serial) {
                messages[index].waits_for_order = true;
            }
            record.ordered.push_back(&mut Ordered(messages), index);
        }
        if messages[index].is_read() {
            record.reads.push_back(&mut Reads(messages), index);
        }
        let message = &mut messages[index];
        if message.waits_for_reads {
            message.place = MessagePlace::Gated;
            record.fenced.push_back(messages, index);
            return true;
        }
        if message.waits_for_order {
            message.place = MessagePlace::Gated;
            return true;
        }
        false
    }

    /// A message that was told "too early" waits until everything before it is done. True if it
    /// does not have to.
    pub(crate) fn wait_for_order(&mut self, messages: &mut Pool<Message>, index: u32) -> bool {
        let message = &mut messages[index];
        let record = self.record[message.jetty.value() as usize];
        if record == NONE || message.order.tag == Tag::No {
            return true;
        }
        if self.records[record].ordered.head == index {
            return true;
        }
        message.waits_for_order = true;
        message.place = MessagePlace::Gated;
        false
    }

    /// An operation has been carried out, or never will be: those that wait for that may go on.
    pub(crate) fn done(&mut self, messages: &mut Pool<Message>, index: u32) {
        let message = &messages[index];
        let record = self.record[message.jetty.value() as usize];
        if record == NONE || message.order.tag == Tag::No {
            return;
        }
        let record = &mut self.records[record];
        record.ordered.unlink(&mut Ordered(messages), index);
        let head = record.ordered.head;
        if head != NONE && messages[head].place == MessagePlace::AwaitingReadSlot {
            // It may have the last slot now.
            self.promoted.push(head);
        }
        if head != NONE && messages[head].waits_for_order {
            messages[head].waits_for_order = false;
            if !messages[head].waits_for_reads {
                self.open(messages, head);
            }
        }
    }

    /// An operation has completed: fences may open.
    pub(crate) fn completed(&mut self, messages: &mut Pool<Message>, index: u32) {
        let message = &messages[index];
        let number = message.jetty.value() as usize;
        self.incomplete[number].unlink(&mut Incomplete(messages), index);
        let record = self.record[number];
        if record == NONE || !messages[index].is_read() {
            return;
        }
        self.records[record].reads.unlink(&mut Reads(messages), index);
        loop {
            let record = &mut self.records[record];
            let head = record.fenced.head;
            if head == NONE {
                return;
            }
            let oldest = record.reads.head;
            let before = oldest != NONE && is_after(messages[head].serial, messages[oldest].serial);
            if before {
                return;
            }
            record.fenced.unlink(messages, head);
            messages[head].waits_for_reads = false;
            if !messages[head].waits_for_order {
                self.open(messages, head);
            }
        }
    }

    /// Sends an operation on its way to its channel.
    pub(crate) fn open(&mut self, messages: &mut Pool<Message>, index: u32) {
        messages[index].place = MessagePlace::Opened;
        self.opened.push_back(messages, index);
    }

    /// Takes a message out of whatever it waits in, because it ends.
    pub(crate) fn withdraw(&mut self, messages: &mut Pool<Message>, index: u32) {
        let message = &messages[index];
        match message.place {
            MessagePlace::Opened => self.opened.unlink(messages, index),
            MessagePlace::Gated if message.waits_for_reads => {
                let record = self.record[message.jetty.value() as usize];
                self.records[record].fenced.unlink(messages, index);
            }
            MessagePlace::Gated => {}
            _ => return,
        }
        let message = &mut messages[index];
        message.place = MessagePlace::Unlisted;
        message.waits_for_reads = false;
        message.waits_for_order = false;
    }

    /// The Jetty has gone, with nothing of it under way.
    pub(crate) fn forget_jetty(&mut self, jetty: JettyId) {
        let number = jetty.value() as usize;
        let record = core::mem::replace(&mut self.record[number], NONE);
        if record != NONE {
            self.records.give_back(record);
        }
    }

    pub(crate) fn records_in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// Does the target execute it as soon as it arrives, whatever else is under way?
    pub(crate) fn is_first_in_order(&self, messages: &Pool<Message>, index: u32) -> bool {
        let message = &messages[index];
        if message.order.tag != Tag::So || !is_numbered(message.order.mode, message.order.tag) {
            return true;
        }
        let record = self.record[message.jetty.value() as usize];
        record == NONE || self.records[record].ordered.head == index
    }

    pub(crate) fn is_first(&self, messages: &Pool<Message>, index: u32) -> bool {
        self.incomplete[messages[index].jetty.value() as usize].head == index
    }
}
