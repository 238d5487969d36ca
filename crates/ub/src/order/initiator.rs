//! The initiator's tracker: operations in the order in which they were posted, and which of them
//! have to wait before they are issued.

use super::{Key, Keyed};
use crate::api::{OrderRequest, PostError, is_numbered};
use crate::injected_bug::InjectedBug;
use crate::list::{Linked, Links, List};
use crate::message::{Message, MessagePlace};
use crate::names::ChannelIndex;
use crate::pool::{Index, Pool};
use alloc::vec::Vec;
use fairway_wire::{JettyId, ServiceMode, Tag};

/// Next sequence numbers of the transactions of one Jetty to one node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sequences {
    /// Number of the next relaxed or strict transaction that the target orders (modes ROT and ROL).
    pub(crate) order: u16,
    /// Number of the next transaction whose receive completes in order.
    pub(crate) receive: u16,
    /// Set if some were relaxed or strict, of an earlier Jetty with this number: the target holds
    /// later operations until it has received the acknowledgements of the answers to them.
    has_other_tags: bool,
}

/// State of a Jetty one of whose operations has requested order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JettyOrder {
    /// Relaxed and strict operations that are not done.
    ordered: List<Index<Message>>,
    /// READs, GETs and atomics that have not completed.
    reads: List<Index<Message>>,
    /// Operations that wait at a fence.
    fenced: List<Index<Message>>,
    /// The oldest of `ordered` that waits for a place in the share, if any.
    next_share: Option<Index<Message>>,
    /// Operations that have a place in the share, and the limit on their number.
    shares: u32,
    shares_max: u32,
    /// The newest relaxed and strict operations, from `run_start` on, are numbered for the target
    /// of this channel group, which orders them; `None` if the initiator has to order them.
    run_group: Option<ChannelIndex>,
    run_start: u32,
    /// Number of posts.
    serial: u32,
    /// Whether its ordered operations are of memory order, or of the other tags: they do not mix,
    /// because a relaxed or strict READ ends at the target only when its answer is acknowledged,
    /// and an operation that follows it in memory order would complete here before its turn.
    keeps_memory_order: Option<bool>,
    /// Set if the Jetty is gone, but the target has not acknowledged yet that it waits for nothing
    /// of it.
    is_left: bool,
}

impl JettyOrder {
    pub(crate) const BYTES: usize = size_of::<JettyOrder>();
    const NEW: JettyOrder = JettyOrder {
        ordered: List::EMPTY,
        reads: List::EMPTY,
        fenced: List::EMPTY,
        next_share: None,
        shares: 0,
        shares_max: 0,
        run_group: None,
        run_start: 0,
        serial: 0,
        keeps_memory_order: None,
        is_left: false,
    };
}

/// The initiator's order state of all Jetties.
pub(crate) struct Initiator {
    /// By Jetty: its operations that have not completed, in posting order.
    pub(crate) incomplete: Vec<List<Index<Message>>>,
    /// By Jetty: its record, if it has one.
    record: Vec<Option<Index<JettyOrder>>>,
    records: Pool<JettyOrder>,
    pub(crate) sequences: Keyed<Sequences>,
    /// Operations that wait for a slot and may have one of the last now. Some may not wait any
    /// more.
    pub(crate) promoted: Vec<Index<Message>>,
    /// Operations whose gate has opened, on their way to their channels.
    pub(crate) opened: List<Index<Message>>,
}

/// The links of `Initiator::incomplete`.
pub(crate) struct Incomplete<'a>(pub(crate) &'a mut Pool<Message>);
/// The links of `JettyOrder::ordered`.
struct Ordered<'a>(&'a mut Pool<Message>);
/// The links of `JettyOrder::reads`.
struct Reads<'a>(&'a mut Pool<Message>);

/// The links of `Tracker::reading`: an answer is in none of the initiator's lists.
pub(crate) struct Answering<'a>(pub(crate) &'a mut Pool<Message>);

impl Linked<Index<Message>> for Answering<'_> {
    fn links(&mut self, index: Index<Message>) -> &mut Links<Index<Message>> {
        self.0[index].order.ordered_links()
    }
}

impl Linked<Index<Message>> for Incomplete<'_> {
    fn links(&mut self, index: Index<Message>) -> &mut Links<Index<Message>> {
        self.0[index].order.incomplete_links()
    }
}

impl Linked<Index<Message>> for Ordered<'_> {
    fn links(&mut self, index: Index<Message>) -> &mut Links<Index<Message>> {
        self.0[index].order.ordered_links()
    }
}

impl Linked<Index<Message>> for Reads<'_> {
    fn links(&mut self, index: Index<Message>) -> &mut Links<Index<Message>> {
        self.0[index].order.read_links()
    }
}

/// Of the operations of a Jetty that the target may have to hold, a channel admits only a limited
/// number at a time, the Jetty's share: an operation that is held keeps its read slot, and if all
/// slots were held operations of other Jetties could not continue. Places are given in posting
/// order, so the oldest ordered operation never waits for one, and the operation that the others
/// follow always continues.
impl JettyOrder {
    /// Adds a new operation to the run of those that the target of `group` orders, or begins
    /// another run with it. True if an operation of an earlier run is not done. Called before the
    /// operation is put into `ordered`.
    fn join_run(
        &mut self,
        messages: &Pool<Message>,
        index: Index<Message>,
        group: Option<ChannelIndex>,
    ) -> bool {
        let serial = messages[index].order.serial();
        if group.is_none() || self.run_group != group {
            (self.run_group, self.run_start) = (group, serial);
        }
        let oldest = self.ordered.head().map(|oldest| messages[oldest].order.serial());
        if oldest.is_some_and(|oldest| is_after(self.run_start, oldest)) {
            return true;
        }
        // What was posted before the oldest does not matter, and numbers wrap.
        self.run_start = oldest.unwrap_or(serial);
        false
    }

    /// Gives a new operation a place in the share, or makes it wait for one. Called before the
    /// operation is put into `ordered`.
    fn request_share(&mut self, messages: &mut Pool<Message>, index: Index<Message>, share: u32) {
        let message = &mut messages[index];
        if !message.may_be_deferred() {
            return;
        }
        // Operations under way may be of an earlier run, to another channel.
        let is_first = self.shares == 0 && self.next_share.is_none();
        self.shares_max = if is_first { share } else { self.shares_max.min(share) };
        if self.next_share.is_none() && self.shares < self.shares_max {
            self.shares += 1;
            message.gate.take_share();
        } else {
            message.gate.await_share();
            self.next_share = self.next_share.or(Some(index));
        }
    }

    /// Frees the place of an operation that is done, or never will be. Called while it is in
    /// `ordered`.
    fn leave_share(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        if messages[index].gate.leave_share() {
            self.shares -= 1;
        }
        if self.next_share == Some(index) {
            self.find_next_share(messages);
        }
    }

    /// Gives a free place to the next operation that waits for one, which is returned, if any.
    fn pass_share_on(&mut self, messages: &mut Pool<Message>) -> Option<Index<Message>> {
        let next = self.next_share.filter(|_| self.shares < self.shares_max)?;
        self.shares += 1;
        messages[next].gate.take_share();
        self.find_next_share(messages);
        Some(next)
    }

    /// Advances to the next operation that waits: each is passed once.
    fn find_next_share(&mut self, messages: &Pool<Message>) {
        while let Some(next) = self.next_share.filter(|&next| !messages[next].gate.awaits_share()) {
            self.next_share = messages[next].order.next_ordered();
        }
    }
}

fn is_after(serial: u32, other: u32) -> bool {
    serial.wrapping_sub(other) as i32 > 0
}

impl Initiator {
    pub(crate) fn new(jetties: u32, records: u32) -> Self {
        Initiator {
            incomplete: alloc::vec![List::default(); jetties as usize],
            record: alloc::vec![None; jetties as usize],
            records: Pool::new(records),
            sequences: Keyed::new(records),
            promoted: Vec::with_capacity(records as usize),
            opened: List::default(),
        }
    }

    /// Ensures that every resource that the operation will need is available.
    #[inline]
    pub(crate) fn prepare(
        &mut self,
        messages: &mut Pool<Message>,
        jetty: JettyId,
        group: ChannelIndex,
        order: &OrderRequest,
    ) -> Result<(), PostError> {
        match *order == OrderRequest::default() {
            true => Ok(()),
            false => self.prepare_ordered(messages, jetty, group, order),
        }
    }

    #[inline(never)]
    fn prepare_ordered(
        &mut self,
        messages: &mut Pool<Message>,
        jetty: JettyId,
        group: ChannelIndex,
        order: &OrderRequest,
    ) -> Result<(), PostError> {
        let numbered = is_numbered(order.mode, order.tag) || order.receive_in_order;
        let key = Key::of(group, jetty);
        if numbered && self.sequences.find_or_make(&key, Sequences::default()).is_none() {
            return Err(PostError::TooManyOrders);
        }
        let number = jetty.value() as usize;
        let record = match self.record[number] {
            Some(record) => record,
            None => {
                let record = self.records.add(JettyOrder::NEW).ok_or(PostError::TooManyOrders)?;
                self.record[number] = Some(record);
                self.adopt(messages, number, record);
                record
            }
        };
        self.records[record].is_left = false;
        let known = self.records[record].keeps_memory_order;
        if order.tag != Tag::No && known.is_some_and(|known| known != (order.tag == Tag::Mo)) {
            return Err(PostError::MemoryOrder);
        }
        Ok(())
    }

    /// Registers earlier operations: the first one that requires order may have to wait for READs
    /// that did not.
    fn adopt(&mut self, messages: &mut Pool<Message>, jetty: usize, record: Index<JettyOrder>) {
        let record = &mut self.records[record];
        let mut next = self.incomplete[jetty].head();
        while let Some(at) = next {
            let message = &mut messages[at];
            message.order.take_serial(&mut record.serial);
            next = message.order.next_incomplete();
            if message.is_read() {
                record.reads.push_back(&mut Reads(messages), at);
            }
        }
    }

    /// Registers a new operation and gives it its numbers. True if it has to wait, which its place
    /// then says. `share`: the number of operations of its Jetty that the channel admits and the
    /// target may have to hold. `injected`: the injected bug, if any.
    #[inline]
    pub(crate) fn post(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
        share: u32,
        injected: Option<InjectedBug>,
    ) -> bool {
        let number = messages[index].jetty.value() as usize;
        self.incomplete[number].push_back(&mut Incomplete(messages), index);
        match self.record[number] {
            None => false,
            Some(record) => self.post_ordered(messages, index, record, (share, injected)),
        }
    }

    /// Registers a new operation of a Jetty that keeps order.
    #[inline(never)]
    fn post_ordered(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
        record: Index<JettyOrder>,
        (share, injected): (u32, Option<InjectedBug>),
    ) -> bool {
        let record = &mut self.records[record];
        let message = &mut messages[index];
        let (order, group) = (*message.order.request(), message.group());
        let in_memory_order = order.tag == Tag::Mo;
        let mut may_be_deferred = in_memory_order && !record.reads.is_empty();
        message.order.take_serial(&mut record.serial);
        let numbered = is_numbered(order.mode, order.tag);
        if numbered || order.receive_in_order {
            let follows_others = Self::number(&mut self.sequences, message, numbered);
            may_be_deferred |=
                in_memory_order && follows_others && injected != Some(InjectedBug::ForgetStrict);
        }
        let is_fenced = order.fence && injected != Some(InjectedBug::IgnoreFence);
        if is_fenced && !record.reads.is_empty() {
            message.gate.await_reads();
        }
        if in_memory_order && may_be_deferred {
            // The operation may have to wait at the target for a READ's answer. An acknowledgement
            // only reports that it has arrived, so its answer (mode ROT) has to report its end.
            message.order.require_answer();
        }
        if order.tag != Tag::No {
            record.keeps_memory_order = Some(order.tag == Tag::Mo);
            // Operations that the target would have to set aside in many packets wait here instead.
            let initiator_orders = !numbered || message.progress.is_multi();
            let follows_run = record.join_run(messages, index, numbered.then_some(group));
            let follows_any = !record.ordered.is_empty();
            let waits_here = order.tag == Tag::So && follows_any && initiator_orders;
            let waits = matches!(order.tag, Tag::So | Tag::Mo);
            if waits_here || (waits && follows_run) {
                messages[index].gate.await_order();
            }
            record.request_share(messages, index, share);
            record.ordered.push_back(&mut Ordered(messages), index);
        }
        if messages[index].is_read() {
            record.reads.push_back(&mut Reads(messages), index);
        }
        if messages[index].gate.awaits_reads() {
            record.fenced.push_back(messages, index);
        }
        let message = &mut messages[index];
        if !message.gate.is_closed() {
            return false;
        }
        message.place = MessagePlace::Gated;
        true
    }

    /// Gives a new operation its numbers at the target. True if it is numbered there, and some
    /// operations of its Jetty had another tag than memory order.
    fn number(sequences: &mut Keyed<Sequences>, message: &mut Message, numbered: bool) -> bool {
        let key = Key::of(message.group(), message.jetty);
        let Some(at) = sequences.find(&key) else { return false };
        let sequences = &mut sequences[at];
        if numbered {
            message.order.set_sequence(sequences.order);
            sequences.order = sequences.order.wrapping_add(1);
            sequences.has_other_tags |= message.order.tag() != Tag::Mo;
        }
        if message.order.request().receive_in_order {
            message.order.set_receive_sequence(sequences.receive);
            sequences.receive = sequences.receive.wrapping_add(1);
        }
        numbered && sequences.has_other_tags
    }

    /// Makes a message that was refused as too early wait until everything before it is done. True
    /// if it does not have to.
    pub(crate) fn wait_for_order(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
    ) -> bool {
        let message = &mut messages[index];
        if message.order.tag() == Tag::No {
            // The Jetty of an answer is the peer's, whose numbers may be larger than those here.
            return true;
        }
        let Some(record) = self.record[message.jetty.value() as usize] else { return true };
        if self.records[record].ordered.head() == Some(index) {
            return true;
        }
        message.gate.await_order();
        message.place = MessagePlace::Gated;
        false
    }

    /// Passes on the place in the share of an operation that has failed, although later operations
    /// still wait for it.
    pub(crate) fn failed(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let record = self.record[messages[index].jetty.value() as usize];
        let Some(record) = record else { return };
        self.records[record].leave_share(messages, index);
        while let Some(next) = self.records[record].pass_share_on(messages) {
            self.open_if_free(messages, next);
        }
    }

    /// Handles an operation that was executed, or never will be: operations that wait for it may
    /// continue.
    pub(crate) fn done(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let message = &messages[index];
        let number = message.jetty.value() as usize;
        let is_ordered = message.order.tag() != Tag::No;
        let Some(record) = self.record[number].filter(|_| is_ordered) else { return };
        let jetty = &mut self.records[record];
        jetty.leave_share(messages, index);
        jetty.ordered.unlink(&mut Ordered(messages), index);
        if jetty.is_left && jetty.ordered.is_empty() {
            self.record[number] = None;
            return self.records.remove(record);
        }
        if let Some(head) = jetty.ordered.head() {
            if messages[head].place == MessagePlace::AwaitingReadSlot {
                // It may have one of the last slots now.
                self.promoted.push(head);
            }
            if messages[head].gate.note_order_done() {
                self.open_if_free(messages, head);
            }
        }
        while let Some(next) = self.records[record].pass_share_on(messages) {
            self.open_if_free(messages, next);
        }
    }

    /// Handles an operation that has completed: fences may open.
    #[inline]
    pub(crate) fn completed(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let message = &messages[index];
        let (number, is_read) = (message.jetty.value() as usize, message.is_read());
        if !message.report.bars_later() {
            self.incomplete[number].unlink(&mut Incomplete(messages), index);
        }
        if is_read && let Some(record) = self.record[number] {
            self.read_completed(messages, index, record);
        }
    }

    /// Handles a READ, GET or atomic that has completed, of a Jetty that keeps order.
    fn read_completed(
        &mut self,
        messages: &mut Pool<Message>,
        index: Index<Message>,
        record: Index<JettyOrder>,
    ) {
        self.records[record].reads.unlink(&mut Reads(messages), index);
        loop {
            let record = &mut self.records[record];
            let Some(head) = record.fenced.head() else { return };
            let serial = messages[head].order.serial();
            let oldest = record.reads.head();
            if oldest.is_some_and(|oldest| is_after(serial, messages[oldest].order.serial())) {
                return;
            }
            record.fenced.unlink(messages, head);
            messages[head].gate.note_reads_completed();
            self.open_if_free(messages, head);
        }
    }

    /// Opens the gate of a message if it waits for nothing any more.
    fn open_if_free(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        if !messages[index].gate.is_closed() {
            self.open(messages, index);
        }
    }

    /// Queues an operation to be moved to its channel.
    pub(crate) fn open(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        messages[index].place = MessagePlace::Opened;
        self.opened.push_back(messages, index);
    }

    /// Removes a message that ends from any list in which it waits.
    pub(crate) fn withdraw(&mut self, messages: &mut Pool<Message>, index: Index<Message>) {
        let message = &messages[index];
        match message.place {
            MessagePlace::Opened => self.opened.unlink(messages, index),
            MessagePlace::Gated if message.gate.awaits_reads() => {
                if let Some(record) = self.record[message.jetty.value() as usize] {
                    self.records[record].fenced.unlink(messages, index);
                }
            }
            MessagePlace::Gated => {}
            _ => return,
        }
        let message = &mut messages[index];
        message.place = MessagePlace::Unlisted;
        message.gate.open();
    }

    /// Removes the record of a Jetty that has nothing under way except failed operations that bar
    /// later ones: those stay in its list, for the next Jetty of its number. `lax` forgets them (an
    /// injected bug).
    pub(crate) fn forget_jetty(&mut self, jetty: JettyId, lax: bool) {
        let number = jetty.value() as usize;
        let Some(record) = self.record[number] else { return };
        let left = &mut self.records[record];
        if !left.ordered.is_empty() && !lax {
            (left.is_left, left.keeps_memory_order) = (true, None);
            return;
        }
        self.record[number] = None;
        self.records.remove(record);
    }

    /// Skips numbers of posts, as if so many operations of a Jetty had ended.
    #[cfg(test)]
    pub(crate) fn skip_serials(&mut self, jetty: JettyId, serials: u32) {
        let record = self.record[jetty.value() as usize].expect("a Jetty that keeps order");
        let serial = &mut self.records[record].serial;
        *serial = serial.wrapping_add(serials);
    }

    pub(crate) fn records_in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// True if the target executes the message as soon as it arrives, whatever else is under way.
    pub(crate) fn is_first_in_order(
        &self,
        messages: &Pool<Message>,
        index: Index<Message>,
    ) -> bool {
        let message = &messages[index];
        let waits = match message.order.tag() {
            Tag::So => true,
            Tag::Mo => message.order.mode() == ServiceMode::Rot,
            Tag::No | Tag::Ro => false,
        };
        if !waits || !is_numbered(message.order.mode(), message.order.tag()) {
            return true;
        }
        let record = self.record[message.jetty.value() as usize];
        record.is_none_or(|record| self.records[record].ordered.head() == Some(index))
    }

    /// True if every ordered operation posted before the message is done.
    pub(crate) fn is_oldest(&self, messages: &Pool<Message>, index: Index<Message>) -> bool {
        let message = &messages[index];
        let record = self.record[message.jetty.value() as usize];
        message.order.tag() == Tag::No
            || record.is_none_or(|record| self.records[record].ordered.head() == Some(index))
    }

    pub(crate) fn is_first(&self, messages: &Pool<Message>, index: Index<Message>) -> bool {
        self.first(&messages[index]) == Some(index)
    }

    /// The oldest operation of the message's Jetty that has not completed, if any.
    pub(crate) fn first(&self, message: &Message) -> Option<Index<Message>> {
        self.incomplete.get(message.jetty.value() as usize)?.head()
    }
}
