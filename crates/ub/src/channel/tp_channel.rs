//! The protocol state that every packet of a channel touches.

use crate::api::ChannelConfig;
use crate::limits::Limits;
use crate::pool::Pool;
use crate::receive_window::ReceiveWindow;
use fairway_wire::{Cna, Msn, Psn, Route, Tpn};

/// The protocol state that every packet touches: 56 bytes (checked below), as OpenURMA counts a TP
/// channel (paper Table 4). Blocks, records and lists come from shared pools on demand.
#[derive(Debug)]
pub(crate) struct TpChannel {
    receive: ReceiveWindow,
    remote: Cna,
    remote_tpn: Tpn,
    /// The next PSN to be used.
    next: Psn,
    /// The oldest PSN not acknowledged; equal to `next` if there is none.
    oldest: Psn,
    /// The peer tracks PSNs before this one.
    edge: Psn,
    /// Bytes in flight, headers included.
    flight: u32,
    next_message: Msn,
    /// The data packet that arrived last.
    echo: Psn,
}

const _: () = assert!(size_of::<TpChannel>() == 56);

/// Edges of both windows while nothing is on its way, and the number of the next message.
#[derive(Clone, Copy, Debug)]
pub(super) struct TpRest {
    next: Psn,
    edge: Psn,
    next_message: Msn,
    expected: Psn,
    echo: Psn,
}

impl TpChannel {
    pub(super) fn new(config: &ChannelConfig, limits: &Limits) -> TpChannel {
        TpChannel {
            receive: ReceiveWindow::new(config.remote_first_psn, limits.window_packets),
            remote: config.remote,
            remote_tpn: config.remote_tpn,
            next: config.first_psn,
            oldest: config.first_psn,
            edge: config.first_psn.plus(config.remote_window),
            flight: 0,
            next_message: config.first_message,
            echo: config.remote_first_psn,
        }
    }

    // ---- the peer ----

    pub(super) fn remote(&self) -> Cna {
        self.remote
    }

    #[inline]
    pub(super) fn remote_tpn(&self) -> Tpn {
        self.remote_tpn
    }

    /// True if a packet was sent by the peer. Packets that bypass the transport have no header that
    /// would name the sender's channel.
    #[inline]
    pub(super) fn is_peer(&self, route: &Route, bypasses: bool) -> bool {
        route.source == self.remote && (bypasses || route.source_tpn == self.remote_tpn)
    }

    // ---- what is sent ----

    /// The next PSN to be used.
    #[inline]
    pub(super) fn next(&self) -> Psn {
        self.next
    }

    /// The oldest PSN not acknowledged; the next one to be used if there is none.
    #[inline]
    pub(super) fn oldest(&self) -> Psn {
        self.oldest
    }

    /// True if everything that was sent is acknowledged.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.oldest == self.next
    }

    /// True if a PSN was used and is not before the oldest that is not acknowledged.
    #[inline]
    pub(super) fn is_in_window(&self, psn: Psn) -> bool {
        psn.distance_from(self.oldest) >= 0 && self.is_used(psn)
    }

    /// True if a PSN is before the next one to be used.
    #[inline]
    pub(super) fn is_used(&self, psn: Psn) -> bool {
        psn.distance_from(self.next) < 0
    }

    /// PSNs from the oldest that is not acknowledged up to the next one.
    #[inline]
    pub(super) fn psns_in_use(&self) -> u32 {
        self.next.distance_from(self.oldest) as u32
    }

    /// True if the peer tracks the next PSN.
    #[inline]
    pub(super) fn has_room_at_peer(&self) -> bool {
        self.edge.distance_from(self.next) > 0
    }

    /// Sets the window's edge: the peer tracks PSNs before `edge`, or did when it reported this,
    /// because the window never shrinks.
    #[inline]
    pub(super) fn widen(&mut self, edge: Psn) {
        if edge.distance_from(self.edge) > 0 {
            self.edge = edge;
        }
    }

    /// Takes the next PSN.
    #[inline]
    pub(super) fn take_psn(&mut self) -> Psn {
        let psn = self.next;
        self.next = psn.next();
        psn
    }

    /// Takes the number of a new message.
    #[inline]
    pub(super) fn take_message_number(&mut self) -> Msn {
        let number = self.next_message;
        self.next_message = number.next();
        number
    }

    /// Skips numbers of messages, as if so many had been sent.
    #[cfg(test)]
    pub(super) fn skip_messages(&mut self, numbers: u32) {
        self.next_message = Msn::new(self.next_message.value().wrapping_add(numbers));
    }

    /// Notes that everything before `to` is acknowledged.
    #[inline]
    pub(super) fn advance(&mut self, to: Psn) {
        self.oldest = to;
    }

    /// Bytes in flight, headers included.
    #[inline]
    pub(super) fn flight(&self) -> u32 {
        self.flight
    }

    /// Counts a packet that leaves as in flight.
    #[inline]
    pub(super) fn launch(&mut self, bytes: u32) {
        self.flight += bytes;
    }

    /// Uncounts a packet that is not in flight any more.
    #[inline]
    pub(super) fn land(&mut self, bytes: u32) {
        self.flight -= bytes;
    }

    // ---- what arrives ----

    /// The window of received PSNs.
    #[inline]
    pub(super) fn receive(&self) -> &ReceiveWindow {
        &self.receive
    }

    #[inline]
    pub(super) fn receive_mut(&mut self) -> &mut ReceiveWindow {
        &mut self.receive
    }

    /// The PSN of the data packet that arrived last.
    #[inline]
    pub(super) fn echo(&self) -> Psn {
        self.echo
    }

    /// Notes that a data packet has arrived.
    #[inline]
    pub(super) fn note_arrival(&mut self, psn: Psn) {
        self.echo = psn;
    }

    // ---- rest ----

    /// What a channel at rest keeps of this; `None` if packets are on their way, or missing.
    pub(super) fn rest(&self) -> Option<TpRest> {
        let is_quiet =
            self.is_idle() && self.flight == 0 && self.receive.end() == self.receive.base();
        is_quiet.then(|| TpRest {
            next: self.next,
            edge: self.edge,
            next_message: self.next_message,
            expected: self.receive.base(),
            echo: self.echo,
        })
    }

    /// Continues where a channel was that went to rest.
    /// `is_behind` injects a bug.
    pub(super) fn resume(&mut self, rest: &TpRest, limits: &Limits, is_behind: bool) {
        let expected = if is_behind { rest.expected.minus(1) } else { rest.expected };
        self.receive = ReceiveWindow::new(expected, limits.window_packets);
        (self.next, self.oldest, self.edge) = (rest.next, rest.next, rest.edge);
        (self.next_message, self.echo) = (rest.next_message, rest.echo);
    }

    /// Ends flight and returns the blocks of the receive window, when the channel ends.
    pub(super) fn flush(&mut self, pool: &mut Pool<u16>) {
        self.oldest = self.next;
        self.flight = 0;
        self.receive.clear(pool);
    }
}
