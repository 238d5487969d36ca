//! The order that a message has to keep: what its operation requires, its numbers and its lists.

use super::Message;
use crate::api::{OrderRequest, is_numbered};
use crate::list::Links;
use crate::pool::Index;
use fairway_wire::{Order, ServiceMode, Tag};

/// The order of one message: what was requested, the numbers by which the target orders it, and its
/// places among the operations of its Jetty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrderState {
    request: OrderRequest,
    /// The number by which the target orders the message; in an answer, that of the peer's
    /// operation.
    sequence: u16,
    /// The number by which the target orders the receive that the message consumes.
    receive_sequence: u16,
    /// Number of the message among the posts of its Jetty, if the Jetty keeps order.
    serial: u32,
    /// Links among the operations of its Jetty that have not completed.
    incomplete: Links<Index<Message>>,
    /// Links among the relaxed and strict operations that are not done; for an answer, among those
    /// that are read from memory in memory order.
    ordered: Links<Index<Message>>,
    /// Links among the READs, GETs and atomics that have not completed.
    reads: Links<Index<Message>>,
}

impl OrderState {
    /// The order of an operation that was just posted.
    pub(super) fn of(request: OrderRequest) -> OrderState {
        OrderState {
            request,
            sequence: 0,
            receive_sequence: 0,
            serial: 0,
            incomplete: Links::UNLINKED,
            ordered: Links::UNLINKED,
            reads: Links::UNLINKED,
        }
    }

    /// The order of a part of an operation, which is in no list of its Jetty.
    pub(super) fn of_part(whole: &OrderState) -> OrderState {
        OrderState { serial: whole.serial, ..OrderState::of(whole.request) }
    }

    /// The order of the answer to the peer's operation with this number.
    pub(super) fn of_answer(sequence: u16) -> OrderState {
        OrderState { sequence, ..OrderState::of(OrderRequest::default()) }
    }

    // ---- what was requested ----

    /// The requested order, as far as it still applies.
    #[inline]
    pub(crate) fn request(&self) -> &OrderRequest {
        &self.request
    }

    /// The side that orders the message.
    #[inline]
    pub(crate) fn mode(&self) -> ServiceMode {
        self.request.mode
    }

    /// Whether the message waits for others, and others for it.
    #[inline]
    pub(crate) fn tag(&self) -> Tag {
        self.request.tag
    }

    /// True if the message has numbers that messages at the target may wait for.
    pub(crate) fn is_awaited(&self) -> bool {
        is_numbered(self.mode(), self.tag()) || self.request.receive_in_order
    }

    /// The order in a data packet of the message, which awaits its response in `request_slot`.
    #[inline]
    pub(crate) fn of_packet(&self, request_slot: u8) -> Order {
        if self.request == OrderRequest::default() {
            return Order::NONE;
        }
        Order {
            mode: self.request.mode,
            tag: self.request.tag,
            in_order: self.request.receive_in_order,
            sequence: self.sequence,
            receive_sequence: self.receive_sequence,
            request_slot,
        }
    }

    /// Makes an answer of the target, and not the acknowledgement of the packets, end the
    /// operation.
    pub(crate) fn require_answer(&mut self) {
        self.request.mode = ServiceMode::Rot;
    }

    /// Makes the completion independent of those of earlier operations.
    pub(crate) fn complete_at_once(&mut self) {
        self.request.complete_in_order = false;
    }

    /// Sets the order of the notice that follows an abandoned operation: the target orders it.
    pub(crate) fn give_up(&mut self) {
        if self.request.mode == ServiceMode::Roi {
            // An operation that the initiator orders has no number at the target.
            self.request.tag = Tag::No;
        }
        self.request.mode = ServiceMode::Rol;
    }

    /// Clears the order for a notice that needs none.
    pub(crate) fn clear_request(&mut self) {
        self.request = OrderRequest::default();
    }

    // ---- numbers ----

    /// The number by which the target orders the message; in an answer, that of the peer's
    /// operation.
    #[inline]
    pub(crate) fn sequence(&self) -> u16 {
        self.sequence
    }

    /// Sets the number by which the target orders the message.
    pub(crate) fn set_sequence(&mut self, sequence: u16) {
        self.sequence = sequence;
    }

    /// Sets the number by which the target orders the receive.
    pub(crate) fn set_receive_sequence(&mut self, sequence: u16) {
        self.receive_sequence = sequence;
    }

    /// The number of the message among the posts of its Jetty.
    #[inline]
    pub(crate) fn serial(&self) -> u32 {
        self.serial
    }

    /// Gives the message the next number among the posts of its Jetty, which wraps.
    pub(crate) fn take_serial(&mut self, next: &mut u32) {
        self.serial = *next;
        *next = next.wrapping_add(1);
    }

    /// Number of operations of its Jetty that were posted after `other`, up to and including this
    /// one.
    pub(crate) fn posts_since(&self, other: &OrderState) -> u32 {
        self.serial.wrapping_sub(other.serial)
    }

    // ---- lists ----

    /// The links of the list of operations that have not completed.
    #[inline]
    pub(crate) fn incomplete_links(&mut self) -> &mut Links<Index<Message>> {
        &mut self.incomplete
    }

    /// The links of the list of ordered operations, or of the answers of a tracker.
    #[inline]
    pub(crate) fn ordered_links(&mut self) -> &mut Links<Index<Message>> {
        &mut self.ordered
    }

    /// The links of the list of READs, GETs and atomics.
    #[inline]
    pub(crate) fn read_links(&mut self) -> &mut Links<Index<Message>> {
        &mut self.reads
    }

    /// The next operation of its Jetty that has not completed.
    #[inline]
    pub(crate) fn next_incomplete(&self) -> Option<Index<Message>> {
        self.incomplete.next()
    }

    /// The next ordered operation of its Jetty, or answer of the tracker.
    #[inline]
    pub(crate) fn next_ordered(&self) -> Option<Index<Message>> {
        self.ordered.next()
    }
}
