//! Packets to be sent: control packets first, then lost ones, then new ones.

use super::paths::PathTurn;
use super::{Channel, Timer};
use crate::api::{LocalRange, Transmit};
use crate::counters::Counters;
use crate::injected_bug::InjectedBug;
use crate::limits::HEADER_BYTES;
use crate::message::{Message, MessagePlace};
use crate::pool::Index;
use crate::send_window::{ACKNOWLEDGED, LOST, SendBlocks, Sent, VOID};
use crate::shared::{Config, Shared};
use fairway_wire::{
    Close, Data, Datagram, Instant, Operation, Order, Packet, Priority, Psn, Route, ServiceMode,
    Void,
};

/// Header bytes that a WRITE leaves out once its start is recorded: MAETAH and TVETAH.
const CONTINUATION_SAVES: u64 = 20;
/// Header bytes that a part of a WRITE leaves out in addition.
const PART_SAVES: u64 = 8;
/// Bytes of the acknowledgement that a data packet carries.
const CARRIED_BYTES: u32 = 8;
/// Size of a chunk of small messages, in bytes.
const SMALL_CHUNK_BYTES: u32 = 64 * 1024;

impl Channel {
    /// The next control packet, which precedes data: close, refusals, acknowledgement, probes.
    pub(crate) fn next_control(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        if let Some((ack, path)) = self.life.take_last_word() {
            return Some(self.bare(&shared.config, path, Packet::Ack(ack)));
        }
        if let Some(answer) = self.life.take_close() {
            let path = self.acks.path();
            return Some(self.bare(
                &shared.config,
                path,
                Packet::Close(Close { next: self.tp.next(), answer }),
            ));
        }
        if !self.is_open() {
            return None;
        }
        if let Some(nak) = self.take_nak(&shared.config, &mut shared.counters) {
            let path = self.acks.path();
            return Some(self.bare(&shared.config, path, Packet::Nak(nak)));
        }
        if let Some(nak) = self.acks.take_trimmed() {
            shared.counters.naks_sent += 1;
            let path = self.acks.path();
            return Some(self.bare(&shared.config, path, Packet::Nak(nak)));
        }
        // Everything that an acknowledgement lets the peer report has to be in place.
        if self.is_draining(&shared.config, &mut shared.channels) {
            return None;
        }
        if self.acks.is_due() {
            if let Some(carrier) = self.next_carrier(shared, now) {
                return Some(carrier);
            }
            let ack = self.take_ack(shared, now, false);
            let path = self.acks.take_path(shared.is_injected(InjectedBug::AnswerOneProbe));
            return Some(self.bare(&shared.config, path, Packet::Ack(ack)));
        }
        if let Some(retire) = self.next_retire(shared) {
            return Some(retire);
        }
        if let Some(credit) = self.next_credit(&shared.config) {
            return Some(credit);
        }
        if let Some(probe) = self.next_probe(shared, now) {
            return Some(probe);
        }
        if let Some(probe) = self.next_round_trip_probe(shared, now) {
            return Some(probe);
        }
        self.next_bypass(shared, now)
    }

    /// The next data packet with the acknowledgement that is due in it: if the packet can leave
    /// now, is a whole message and the only one to be sent. More packets would leave in one run
    /// with an acknowledgement behind them, for which they have to be of equal length.
    fn next_carrier(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        if !self.carries_acks || shared.flows.are_scheduled() || self.send.first_lost().is_some() {
            return None;
        }
        let index = self.line.only()?;
        let message = &shared.messages[index];
        // Room for the acknowledgement is where the payload of a full packet would be.
        let length = message.progress.carried() + CARRIED_BYTES;
        let is_whole = !message.progress.is_multi() && !message.progress.has_begun();
        let has_room = is_whole && length <= self.mtu && message.order.mode() != ServiceMode::Uno;
        if !has_room || !self.acks.can_be_carried(shared, &self.tp) {
            return None;
        }
        self.next_data(shared, now, true)
    }

    fn next_probe(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        let path = if let Some(path) = self.paths.take_probe() {
            path
        } else if self.life.take_keep_alive() {
            self.keep_alive_path(shared, now)
        } else {
            return None;
        };
        shared.counters.probes_sent += 1;
        let ack = self.take_ack(shared, now, true);
        Some(self.bare(&shared.config, path, Packet::Ack(ack)))
    }

    /// The path of a keep-alive message. While the peer stays silent, paths take turns, because a
    /// policy may stay with one that is dead.
    fn keep_alive_path(&mut self, shared: &mut Shared, now: Instant) -> u8 {
        if self.life.is_unanswered() && !shared.is_injected(InjectedBug::StayWithPath) {
            return self.paths.take_turn(PathTurn::KeepAlive);
        }
        self.choose_path(&mut shared.flows, &mut shared.random, now, 0, None)
    }

    pub(crate) fn bare(&self, config: &Config, path: u8, packet: Packet) -> Transmit {
        Transmit {
            channel: self.id,
            route: self.route(config, path, Priority::of(&packet, 0)),
            packet,
            gather: LocalRange::default(),
        }
    }

    /// The next data packet, if the window, the pace and the peer allow one. With `carries_ack` it
    /// carries the acknowledgement that is due, if it has room.
    pub(crate) fn next_data(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        carries_ack: bool,
    ) -> Option<Transmit> {
        if !self.is_open() || self.is_draining(&shared.config, &mut shared.channels) {
            return None;
        }
        let is_idle = self.tp.flight() == 0 && !shared.is_injected(InjectedBug::PaceIdle);
        if let Err(until) = self.congestion.admit(now, is_idle) {
            self.arm(&mut shared.schedule, Timer::Pace, until);
            return None;
        }
        let next = self.next_unpaced(shared, now, carries_ack);
        if next.is_none() {
            self.congestion.rest();
        }
        next
    }

    fn next_unpaced(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        carries_ack: bool,
    ) -> Option<Transmit> {
        if self.congestion.is_on_credit() && self.congestion.controller().allowance_bytes() == 0 {
            self.congestion.note_limit();
            return None;
        }
        if self.send.first_lost().is_some() {
            return self.resend(shared, now);
        }
        let index = self.next_message(shared, now)?;
        if shared.messages[index].order.mode() == ServiceMode::Uno {
            return Some(self.send_datagram(shared, now, index));
        }
        self.send_new(shared, index, now, carries_ack)
    }

    /// The first message in the queue that has its slot, or needs none.
    fn next_message(&mut self, shared: &mut Shared, now: Instant) -> Option<Index<Message>> {
        let scheduled = shared.flows.are_scheduled();
        while let Some(index) = self.line.first() {
            if scheduled && !self.passes_gate(shared, index, now) {
                continue;
            }
            let message = &mut shared.messages[index];
            let begins = message.is_open_put() && !message.progress.has_begun();
            if begins && !shared.puts.issue(&mut shared.messages, index) {
                self.delist(shared, index);
                shared.puts.wait(&mut shared.messages, index);
                continue;
            }
            if self.acquire_slots(shared, index) {
                let message = &shared.messages[index];
                let is_flowless = message.flow.is_none() && message.has_payload();
                let is_flowless = is_flowless || message.is_notice();
                if is_flowless && !shared.is_injected(InjectedBug::WaitForFlowless) {
                    // No gate holds back messages that found no record for a flow, nor notices,
                    // which come again while they are sent back. While such messages keep arriving,
                    // flows that have had their turn must not wait for the last of them.
                    self.begin_round(shared, now);
                }
                return Some(index);
            }
            self.delist(shared, index);
            self.slots.wait(&mut shared.messages, index);
        }
        if self.line.has_spent() {
            self.begin_round(shared, now);
            self.line.end_round();
        }
        None
    }

    /// Takes the slots that a message needs; false if one is not available.
    #[inline]
    fn acquire_slots(&mut self, shared: &mut Shared, index: Index<Message>) -> bool {
        if !shared.messages[index].needs_slots() {
            return true;
        }
        let first = shared.initiator.is_first_in_order(&shared.messages, index);
        self.slots.acquire(&mut shared.messages[index], index, first)
    }

    /// True if the window, the peer and the pools have room for the next new packet of a message,
    /// which has `bytes` bytes, headers included.
    #[inline]
    fn has_room(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        (bytes, window): (u32, u64),
    ) -> bool {
        let psn = self.tp.next();
        let flight = u64::from(self.tp.flight());
        if flight > 0 && flight + u64::from(bytes) > window {
            self.congestion.note_limit();
            return false;
        }
        if self.tp.psns_in_use() >= self.send.capacity() || !self.tp.has_room_at_peer() {
            return false;
        }
        if !self.send.admit(psn, &mut shared.send_blocks) {
            self.rings.enter_blocked(&mut shared.schedule);
            return false;
        }
        if flight > 0 && self.needs_path(shared, index) && !self.paths.has_room() {
            self.congestion.note_limit();
            return false;
        }
        true
    }

    /// Makes the channel ready again after send-window blocks, which it lacked, were freed. It
    /// takes the one that it lacks at once: a channel whose turn comes earlier would otherwise
    /// take every block that is freed.
    pub(crate) fn unblock(&mut self, shared: &mut Shared) {
        self.rings.left_blocked();
        let takes = !self.line.is_empty() && !shared.is_injected(InjectedBug::TakeFreedBlock);
        if takes && !self.send.admit(self.tp.next(), &mut shared.send_blocks) {
            self.rings.enter_blocked(&mut shared.schedule);
            return;
        }
        self.mark_ready(&mut shared.schedule);
    }

    fn send_new(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        now: Instant,
        carries_ack: bool,
    ) -> Option<Transmit> {
        let message = &shared.messages[index];
        let packet_index = message.progress.next_packet();
        let psn = self.tp.next();
        let payload = message.progress.payload(packet_index, self.mtu);
        let bytes = payload + HEADER_BYTES;
        let window = self.congestion.controller().window_bytes();
        if !self.has_room(shared, index, (bytes, window)) {
            return None;
        }
        let is_last_psn = self.tp.psns_in_use() + 1 >= self.send.capacity();
        let path = self.chunk_path(shared, index, bytes, now);
        self.tp.take_psn();
        *self.send.record(psn, &mut shared.send_blocks) = Sent {
            message: Some(index),
            index: packet_index,
            bytes: bytes as u16,
            flags: 0,
            ..Sent::UNUSED
        };
        shared.flows.sent(shared.messages[index].flow, now, bytes);
        let class = self.class_of(&shared.messages[index]);
        let last = self.advance_message(shared, index);
        self.launch(shared, psn, path, now);
        self.spend(&mut shared.schedule, now, bytes, true);
        let idle = last && self.line.is_empty();
        let full = u64::from(self.tp.flight() + bytes) > window || is_last_psn;
        let message = &shared.messages[index];
        let is_first = packet_index == 0;
        let start_known = message.progress.is_start_known();
        let start_known = self.paths.leaves_address_out(index, is_first, start_known);
        let enough = self.congestion.count_since_ack_request(bytes, window)
            || shared.config.profile().acknowledge_chunks;
        let over = self.paths.is_chunk_over() && enough;
        let ack_request = (idle && requests_ack(message)) || full || over;
        if ack_request {
            self.congestion.note_ack_request();
        }
        let operation = message.operation(start_known, shared.config.profile());
        let is_part = message.division.whole().is_some();
        count_continuation(&mut shared.counters, &operation, is_part);
        shared.counters.data_sent += 1;
        shared.counters.payload_sent += u64::from(payload);
        // Another message may have its turn than the one for which this was asked.
        let carries_ack = carries_ack && is_first && last && payload + CARRIED_BYTES <= self.mtu;
        let carried = carries_ack.then(|| self.take_carried_ack(shared, now));
        let message = &shared.messages[index];
        let packet = Packet::Data(Data {
            psn,
            message: message.progress.number(),
            index: packet_index,
            jetty: message.jetty,
            transaction: message.transaction,
            slot: message.slots.number(),
            ack_request,
            retry: false,
            last,
            carried,
            order: order_of(message, &operation),
            operation,
        });
        let route = self.route(&shared.config, path, class);
        Some(self.with_payload(route, packet, message, packet_index))
    }

    /// Sends an unreliable message: it ends once the caller has gathered its payload
    /// (`UbDevice::finish_datagram`).
    #[inline(never)]
    fn send_datagram(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        index: Index<Message>,
    ) -> Transmit {
        let flow = shared.messages[index].flow;
        let bytes = shared.messages[index].progress.payload(0, self.mtu) + HEADER_BYTES;
        shared.flows.sent(flow, now, bytes);
        self.delist(shared, index);
        let path = self.path_for_small(&mut shared.flows, &mut shared.random, now);
        let message = shared.messages[index];
        shared.counters.datagrams_sent += 1;
        let operation =
            message.operation(message.progress.is_start_known(), shared.config.profile());
        let number = self.datagrams.as_mut().map_or(0, |datagrams| datagrams.next());
        let packet = Packet::Datagram(Datagram {
            number,
            jetty: message.jetty,
            transaction: message.transaction,
            operation,
        });
        shared.messages[index].place = MessagePlace::Leaving;
        shared.schedule.set_leaving(index);
        let route = self.route(&shared.config, path, self.class_of(&message));
        self.with_payload(route, packet, &message, 0)
    }

    /// Counts the next packet of the message as sent; true if it was the last.
    fn advance_message(&mut self, shared: &mut Shared, index: Index<Message>) -> bool {
        let message = &mut shared.messages[index];
        if !message.progress.has_begun() {
            if message.is_open_put() {
                shared.puts.note_order(message, index);
            }
            if message.progress.needs_number() {
                let mut number = self.tp.take_message_number();
                let has_message_slot = message.slots.has_slot() && !message.is_fetch();
                if has_message_slot && !self.slots.note_number(message.slots.number(), number) {
                    // Numbers wrap, and the peer may have refused a message of this number.
                    number = self.tp.take_message_number();
                    self.slots.note_number(message.slots.number(), number);
                }
                message.progress.set_number(number);
            }
        }
        let last = message.progress.note_sent();
        self.line.note_sent(last);
        if last {
            self.delist(shared, index);
        } else if self.paths.is_chunk_over() {
            let turn_packets = shared.config.profile().message_turn_bytes.div_ceil(self.mtu);
            self.line.end_turn(&mut shared.messages, index, turn_packets);
        }
        last
    }

    /// True if the next packet of a message is the first of a chunk for which a path is to be
    /// chosen.
    fn needs_path(&self, shared: &Shared, index: Index<Message>) -> bool {
        let message = &shared.messages[index];
        let small = message.progress.carried() <= shared.config.profile().small_message_bytes;
        !small && self.paths.needs_chunk(false)
    }

    /// The path of the current chunk, or of a new one.
    fn chunk_path(
        &mut self,
        shared: &mut Shared,
        index: Index<Message>,
        bytes: u32,
        now: Instant,
    ) -> u8 {
        let message = &shared.messages[index];
        let small = message.progress.carried() <= shared.config.profile().small_message_bytes;
        if self.paths.needs_chunk(small) {
            let headers = u64::from(message.progress.packets_unsent()) * u64::from(HEADER_BYTES);
            let remaining = message.progress.bytes_unsent(self.mtu) + headers;
            let size = if small {
                SMALL_CHUNK_BYTES
            } else {
                self.congestion.controller().chunk_bytes(remaining)
            };
            let path = if small {
                self.path_for_small(&mut shared.flows, &mut shared.random, now)
            } else {
                self.choose_path(&mut shared.flows, &mut shared.random, now, size, None)
            };
            // A chunk is whole packets, and a message's packets are cut by the MTU.
            self.paths.begin_chunk(path, size.max(bytes), small);
        }
        self.paths.take_of_chunk(bytes);
        self.paths.chunk_path()
    }

    /// The packet to be retransmitted next, and whether the window had no room for it. That is the
    /// one that has waited longest, or, after a time-out, the one that the peer waits for: a peer
    /// that is short of records can accept no other. If it does not fit, a probe may leave all the
    /// same; otherwise a window that has shrunk below what is in flight opens when that is
    /// acknowledged or overdue.
    fn next_lost(
        &mut self,
        config: &Config,
        send_blocks: &mut SendBlocks,
        now: Instant,
    ) -> Option<(Psn, bool)> {
        let one_by_one =
            self.recovery.is_backing_off() && !config.is_injected(InjectedBug::OldestLast);
        let oldest = self.send.record(self.tp.oldest(), send_blocks);
        // A peer may have acknowledged the packet and still report it missing.
        let is_due = oldest.is(LOST) && !oldest.is(ACKNOWLEDGED);
        let first = match one_by_one && is_due {
            true => self.tp.oldest(),
            false => self.send.first_lost()?,
        };
        let bytes = self.send.record(first, send_blocks).bytes;
        let window = self.congestion.controller().window_bytes();
        let fits =
            u64::from(self.tp.flight()) + u64::from(bytes) <= window || self.tp.flight() == 0;
        if fits || self.congestion.controller_mut().permit_retransmit(now, u32::from(bytes)) {
            return Some((first, false));
        }
        if self.recovery.take_tail_probe() {
            return Some((first, true));
        }
        self.congestion.note_limit();
        None
    }

    /// Resends a lost packet.
    #[inline(never)]
    fn resend(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        let (psn, beyond_window) = self.next_lost(&shared.config, &mut shared.send_blocks, now)?;
        let sent = *self.send.record(psn, &mut shared.send_blocks);
        self.send.stop_waiting(psn, sent.bytes, &mut shared.send_blocks);
        let message = shared.messages[sent.message()];
        // All packets of an answered operation have arrived, and its memory may have been released:
        // only the sequence number has to be filled.
        let void = sent.is(VOID) || !message.attempts.is_open();
        let record = self.send.record(psn, &mut shared.send_blocks);
        record.flags = sent.flags_when_resent() | if void { VOID } else { 0 };
        let avoid = Some(sent.path);
        let bytes = u32::from(sent.bytes);
        let stale = !self.paths.is_usable(self.paths.chunk_path());
        if stale || self.paths.is_chunk_too_short(bytes) || avoid == Some(self.paths.chunk_path()) {
            // After a time-out each packet tries another path, until one is acknowledged.
            let chunk = self.congestion.controller().chunk_bytes(u64::from(u32::MAX));
            let size = if self.recovery.is_backing_off() { bytes } else { chunk };
            let path = self.choose_path(&mut shared.flows, &mut shared.random, now, size, avoid);
            self.paths.begin_chunk_again(path, size);
        }
        self.paths.take_of_chunk_again(bytes);
        let path = self.paths.chunk_path();
        let payload = message.progress.payload(sent.index, self.mtu);
        let class = self.class_of(&message);
        self.launch(shared, psn, path, now);
        self.spend(&mut shared.schedule, now, bytes, false);
        let chunk_ends = self.paths.is_chunk_too_short(bytes);
        let ack_request = self.send.first_lost().is_none() || chunk_ends || beyond_window;
        if void {
            shared.counters.voids_sent += 1;
            let message = self.send.late_refusal(psn).unwrap_or(message.progress.number());
            let void = Void { psn, message, ack_request: true };
            return Some(self.bare(&shared.config, path, Packet::Void(void)));
        }
        shared.counters.data_resent += 1;
        shared.counters.payload_sent += u64::from(payload);
        let operation =
            message.operation(message.progress.is_start_known(), shared.config.profile());
        let packet = Packet::Data(Data {
            psn,
            message: message.progress.number(),
            index: sent.index,
            jetty: message.jetty,
            transaction: message.transaction,
            slot: message.slots.number(),
            ack_request,
            retry: true,
            last: message.progress.is_last(sent.index),
            carried: None,
            order: order_of(&message, &operation),
            operation,
        });
        let route = self.route(&shared.config, path, class);
        Some(self.with_payload(route, packet, &message, sent.index))
    }

    /// The class of the next packet of a message.
    #[inline]
    fn class_of(&self, message: &Message) -> Priority {
        self.congestion.class_of_data(u64::from(message.local.length))
    }

    /// Records a packet as in flight on `path`.
    #[inline(always)]
    fn launch(&mut self, shared: &mut Shared, psn: Psn, path: u8, now: Instant) {
        let mut links = self.send.links(&mut shared.send_blocks);
        let bytes = self.paths.launch(path, psn, now, &mut links);
        self.tp.launch(bytes);
        self.congestion.charge(now, bytes, self.recovery.smoothed());
        self.sample_path(&mut shared.schedule, path, bytes);
        if !self.timers.is_armed(Timer::Retransmit) && !shared.is_injected(InjectedBug::ForgetTimer)
        {
            let at = now + self.recovery.timeout(shared.config.profile());
            self.arm(&mut shared.schedule, Timer::Retransmit, at);
        }
        self.note_tail_sent(&shared.config, &mut shared.schedule, now);
    }

    #[inline]
    fn with_payload(
        &self,
        route: Route,
        packet: Packet,
        message: &Message,
        index: u32,
    ) -> Transmit {
        let gather = LocalRange {
            segment: message.local.segment,
            offset: message.local.offset + u64::from(index) * u64::from(self.mtu),
            length: message.progress.payload(index, self.mtu),
        };
        Transmit { channel: self.id, route, packet, gather }
    }
}

#[inline]
fn count_continuation(counters: &mut Counters, operation: &Operation, is_part: bool) {
    if *operation == Operation::Continuation {
        let saves = CONTINUATION_SAVES + if is_part { PART_SAVES } else { 0 };
        counters.continuation_packets_sent += 1;
        counters.continuation_bytes_saved += saves;
    }
}

/// True if an operation waits for the acknowledgement of this message. A READ, get or atomic is
/// completed by its response, and no operation waits for the end of a short response:
/// acknowledgements of those may wait so that they cover more packets.
fn requests_ack(message: &Message) -> bool {
    if message.is_answer() {
        // Operations that follow an ordered READ wait until its answer has arrived.
        return message.progress.is_multi() || message.is_answer_awaited();
    }
    !message.is_fetch()
}

#[inline]
fn order_of(message: &Message, operation: &Operation) -> Order {
    if message.is_answer() || *operation == Operation::Continuation {
        return Order::NONE;
    }
    message.order.of_packet(message.slots.request_number())
}
