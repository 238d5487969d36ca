//! The requester: turns posted operations into packets (9.7.2).
//!
//! Sends are kept in the order of posting. `oldest` is the first that is not fully acknowledged,
//! and `una` its next PSN to be acknowledged. `cursor` is the next send to transmit: going back N
//! moves it to `oldest`. A send stores no PSNs, because they are assigned as the cursor reaches it.
//!
//! A long READ is sent as several requests of `read_packets` each: its answer has to fit into the
//! receiver's buffer, like the other packets of the peer, and only the length of requests limits
//! answers. Requests begin at multiples of `read_packets`; a request for the rest of an answer ends
//! at such a multiple. The peer therefore counts the same messages, whatever was lost.
//!
//! A long WRITE may be sent as WRITEs of one packet each ([`Splitting`]).

use super::api::{Event, Reliability, Status, Transmit, Transport, Work};
use super::injected_bug::InjectedBug;
use super::queue_pair::QueuePair;
use super::reading::Readings;
use super::recovery::Recovery;
use super::shared::Shared;
use super::splitting::Splitting;
use super::state::QueuePairState;
use super::window::Window;
use super::work::{Send, after};
use fairway_device::Rights;
use fairway_device::list::List;
use fairway_device::pool::Index;
use fairway_policy::DcqcnRate;
use fairway_wire::roce::Packet;
use fairway_wire::{Duration, Instant, Psn};

/// Approximate bytes around a packet's payload on Ethernet: preamble to gap, IPv4, UDP, BTH, ICRC.
pub(crate) const PACKET_OVERHEAD: u32 = 82;

/// Most PSNs between the oldest unacknowledged packet and the last: less than half of all PSNs.
const SPAN_MAX: u32 = (1 << 23) - 1;

/// READ requests that fill the window, so that one is answered while the next are under way.
const READS_PER_WINDOW: u32 = 8;

#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) queue: List<Index<Send>>,
    pub(crate) posted: u32,
    pub(crate) oldest: Option<Index<Send>>,
    pub(crate) una: Psn,
    pub(crate) cursor: Option<Index<Send>>,
    cursor_index: u32,
    pub(crate) cursor_psn: Psn,
    /// The PSN after the last one that was ever sent.
    pub(crate) high: Psn,
    /// Number of sends posted so far, which is the number of the last (SSN).
    pub(crate) number: u32,
    /// The last send for which the peer has given credit (LSN); `None` if it counts no credits.
    pub(crate) limit: Option<u32>,
    /// Unanswered requests of READs and atomics.
    pub(crate) reads_in_flight: u32,
    /// The memory that unanswered READs read.
    pub(crate) readings: Readings,
    /// PSNs of READs' answers between `una` and the cursor, which do not count to the window.
    pub(crate) read_span: u32,
    since_request: u32,
    pub(crate) reliability: Reliability,
    pub(crate) retries_left: u8,
    pub(crate) rnr_left: u8,
    pub(crate) retransmit_at: Option<Instant>,
    /// Time until which the receiver is not ready.
    pub(crate) not_before: Option<Instant>,
    /// The PSN to which the cursor was moved back, while nothing has been acknowledged since.
    pub(crate) rewound_to: Option<Psn>,
    pub(crate) recovery: Recovery,
    /// `una` at the time when everything from there on was last requested again.
    pub(crate) asked_again: Option<Psn>,
    /// Window of packets that may be in flight.
    pub(crate) window: Window,
    /// Window of packets of READ answers that may be in flight.
    pub(crate) read_window: Window,
    /// Most packets of an answer that one request of a READ covers.
    pub(crate) read_packets: u32,
    pub(crate) splitting: Splitting,
    /// True if [`Event::Drained`] has to be reported.
    pub(crate) draining: bool,
    /// The send whose memory is missing.
    pub(crate) missing: Option<Index<Send>>,
    /// PSNs of the unreliable packet that was polled last, until its payload is known to be
    /// gathered.
    pub(crate) leaving: u32,
    /// The rate control (DCQCN), if there is one.
    pub(crate) rate: Option<DcqcnRate>,
    /// Time at which the rate control allows the next packet.
    paced_until: Option<Instant>,
}

impl Requester {
    pub(crate) fn new() -> Requester {
        Requester {
            queue: List::default(),
            posted: 0,
            oldest: None,
            una: Psn::new(0),
            cursor: None,
            cursor_index: 0,
            cursor_psn: Psn::new(0),
            high: Psn::new(0),
            number: 0,
            limit: None,
            reads_in_flight: 0,
            readings: Readings::default(),
            read_span: 0,
            since_request: 0,
            reliability: Reliability::default(),
            retries_left: 0,
            rnr_left: 0,
            retransmit_at: None,
            not_before: None,
            rewound_to: None,
            recovery: Recovery::default(),
            asked_again: None,
            window: Window::new(0),
            read_window: Window::new(0),
            read_packets: 1,
            splitting: Splitting::default(),
            draining: false,
            missing: None,
            leaving: 0,
            rate: None,
            paced_until: None,
        }
    }

    pub(crate) fn begin(&mut self, first: Psn, reliability: &Reliability) {
        (self.una, self.cursor_psn, self.high) = (first, first, first);
        (self.number, self.limit, self.since_request) = (0, None, 0);
        self.adjust(reliability);
    }

    /// Changes time-outs and retries.
    pub(crate) fn adjust(&mut self, reliability: &Reliability) {
        self.reliability = *reliability;
        self.readings.reserve(reliability.read_depth);
        self.restore_retries();
    }

    /// Discards all sends.
    pub(crate) fn forget(&mut self) {
        let (una, reliability) = (self.una, self.reliability);
        let (rate, window) = (self.rate.take(), self.window.anew());
        let (read_window, read_packets) = (self.read_window.anew(), self.read_packets);
        let mut readings = core::mem::take(&mut self.readings);
        readings.clear();
        *self = Requester { rate, window, read_window, read_packets, readings, ..Requester::new() };
        self.begin(una, &reliability);
    }

    /// Sets the limits of packets in flight, for requests and for answers.
    pub(crate) fn limit_windows(&mut self, packets: u32) {
        (self.window, self.read_window) = (Window::new(packets), Window::new(packets));
        self.read_packets = (packets / READS_PER_WINDOW).max(1);
    }

    /// Counts a posted send in messages of the peer: each request of a READ is one, and each packet
    /// of a WRITE that is `split`.
    pub(crate) fn count(&mut self, work: &Work, packets: u32, split: bool) {
        let requests = match work {
            Work::Read { .. } => packets.div_ceil(self.read_packets),
            _ if split => packets,
            _ => 1,
        };
        self.number = self.number.wrapping_add(requests);
    }

    /// Number of PSNs of the request that begins at packet `position` of a send.
    pub(crate) fn taken(&self, send: &Send, position: u32) -> u32 {
        match send.is_answered() {
            true => {
                let rest = self.read_packets - position % self.read_packets;
                rest.min(send.packets - position)
            }
            false => 1,
        }
    }

    pub(crate) fn restore_retries(&mut self) {
        self.retries_left = self.reliability.retries;
        self.rnr_left = self.reliability.rnr_retries;
    }

    /// True if part of the send at the cursor has been sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.cursor_index > 0 || self.cursor_psn.is_before(self.high)
    }

    /// Time to wait for an acknowledgement: the configured time-out, up to four times as long after
    /// time-outs without progress. C9-141 allows the timer one to four times that time.
    fn ack_timeout(&self) -> Duration {
        let Reliability { timeout, retries, .. } = self.reliability;
        timeout.times(1 << retries.saturating_sub(self.retries_left).min(2))
    }

    /// Number of packets after which an acknowledgement is requested, small enough for the window.
    fn acknowledge_every(&self, shared: &Shared) -> u32 {
        shared.profile.acknowledge_every.min((self.window.packets() / 2).max(1))
    }

    /// Number of PSNs sent and not acknowledged.
    fn span(&self) -> u32 {
        self.cursor_psn.distance_from(self.una).max(0) as u32
    }
}

impl QueuePair {
    /// Appends a send to the queue.
    pub(crate) fn append(&mut self, shared: &mut Shared, index: Index<Send>) {
        let requester = &mut self.requester;
        requester.queue.push_back(&mut shared.sends, index);
        requester.posted += 1;
        requester.oldest = requester.oldest.or(Some(index));
        if requester.cursor.is_none() {
            (requester.cursor, requester.cursor_index) = (Some(index), 0);
        }
        self.mark_ready(shared);
    }

    /// The next packet of a request, if one may be sent now.
    pub(crate) fn next_request(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        let index = self.requester.cursor;
        let sends = matches!(self.state, QueuePairState::ReadyToSend | QueuePairState::SendDrained);
        if !sends || self.requester.not_before.is_some() || self.is_paced(shared, now) {
            return None;
        }
        if self.requester.recovery.is_due() {
            return self.repair(shared, now);
        }
        let index = index?;
        if self.is_missing(shared, index) {
            return None;
        }
        let send = shared.sends[index];
        if !self.requester.has_begun() && !self.may_begin(shared, index, &send) {
            return None;
        }
        if !self.is_in_window(&send) {
            return None;
        }
        if shared.is_revoked(self.domain, &send.local) {
            // Earlier sends end as they would have without the failure.
            if self.requester.oldest == Some(index) {
                self.fail(shared, index, Status::LocalProtection);
            }
            return None;
        }
        let requester = &self.requester;
        let position = requester.cursor_index;
        // The acknowledgement of its first packet shows that the peer has a receive for it.
        let beyond_credit =
            send.takes_receive() && send.acknowledged == 0 && self.is_beyond_credit(&send);
        // One packet may always be in flight, because its acknowledgement brings new credits.
        if beyond_credit && requester.span() > 0 {
            return None;
        }
        let psn = requester.cursor_psn;
        let resent = psn.is_before(requester.high);
        let taken = requester.taken(&send, position);
        let last = position + taken == send.packets;
        let ack_request = last
            || beyond_credit
            || (resent && psn == requester.una)
            || requester.since_request + 1 >= requester.acknowledge_every(shared);
        if send.has_payload() && !self.passes_gate(shared, now) {
            return None;
        }
        let (operation, gather) = self.request(&send, position, last);
        let mut bth = self.bth(psn);
        bth.ack_request = ack_request && self.transport == Transport::Rc;
        bth.solicited = send.solicited && last;
        let mut to = self.peer.address;
        if let Work::Datagram { to: peer, .. } = send.work {
            bth.destination = peer.queue_pair;
            to = peer.address;
        }
        shared.counters.resent_packets += u64::from(resent);
        if bth.ack_request && !resent && !send.is_answered() {
            self.requester.recovery.time(psn, now);
        }
        self.sent(shared, now, taken, bth.ack_request);
        self.pace(now, gather.length() + PACKET_OVERHEAD);
        self.charge_flow(shared, now, gather.length());
        Some(Transmit { queue_pair: self.number, to, packet: Packet { bth, operation }, gather })
    }

    /// True if the send at the cursor, if there is one, has payload to send.
    pub(crate) fn next_has_payload(&self, shared: &Shared) -> bool {
        self.requester.cursor.is_some_and(|index| shared.sends[index].has_payload())
    }

    /// True if the rate does not allow a packet now; a timer is then set for when it does.
    fn is_paced(&mut self, shared: &mut Shared, now: Instant) -> bool {
        match self.requester.paced_until {
            Some(until) if now.is_before(until) => {
                shared.deadlines.wake_by(self.index, until);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn pace(&mut self, now: Instant, bytes: u32) {
        let Some(rate) = &mut self.requester.rate else { return };
        let span = rate.on_sent(now, bytes);
        let from = self.requester.paced_until.map_or(now, |until| until.max(now));
        self.requester.paced_until = (span > Duration::ZERO).then(|| from + span);
    }

    /// Handles a congestion notification of the peer.
    pub(crate) fn handle_notification(&mut self, shared: &mut Shared, now: Instant) {
        shared.counters.cnps_received += 1;
        if let Some(rate) = &mut self.requester.rate {
            rate.on_notification(now);
        }
    }

    /// Whether the send at the cursor may begin.
    fn may_begin(&mut self, shared: &mut Shared, index: Index<Send>, send: &Send) -> bool {
        if self.state == QueuePairState::SendDrained {
            return false;
        }
        if send.faulty {
            if self.requester.oldest == Some(index) {
                self.fail(shared, index, Status::LocalProtection);
            }
            return false;
        }
        let relaxed =
            self.rights.contains(Rights::RELAXED) || shared.is_injected(InjectedBug::SendOverRead);
        if !relaxed && self.requester.readings.are_changed_by(send) {
            return false;
        }
        !(send.fence && self.requester.reads_in_flight > 0)
    }

    fn is_in_window(&self, send: &Send) -> bool {
        let requester = &self.requester;
        if self.transport != Transport::Rc {
            return true;
        }
        let span = requester.span();
        let taken = requester.taken(send, requester.cursor_index);
        if span + taken >= SPAN_MAX {
            return false;
        }
        match send.is_answered() {
            true => {
                let answers = requester.read_span + taken;
                requester.reads_in_flight < u32::from(requester.reliability.read_depth)
                    && (requester.reads_in_flight == 0
                        || answers <= requester.read_window.packets())
            }
            false => span.saturating_sub(requester.read_span) < requester.window.packets(),
        }
    }

    fn is_beyond_credit(&self, send: &Send) -> bool {
        self.requester
            .limit
            .is_some_and(|limit| Psn::new(send.number).distance_from(Psn::new(limit)) > 0)
    }

    /// Advances the cursor past the packet that was sent, which took `taken` PSNs.
    fn sent(&mut self, shared: &mut Shared, now: Instant, taken: u32, ack_requested: bool) {
        let requester = &mut self.requester;
        let Some(index) = requester.cursor else { return };
        let send = &mut shared.sends[index];
        if send.is_answered() {
            send.in_flight += 1;
            requester.reads_in_flight += 1;
            requester.read_span += taken;
            requester.readings.sent(index, send);
        }
        requester.since_request = if ack_requested { 0 } else { requester.since_request + 1 };
        requester.cursor_psn = requester.cursor_psn.plus(taken);
        requester.cursor_index += taken;
        if requester.cursor_index == send.packets {
            (requester.cursor, requester.cursor_index) = (send.links.next(), 0);
        }
        if requester.high.is_before(requester.cursor_psn) {
            requester.high = requester.cursor_psn;
        }
        if self.transport == Transport::Rc {
            if requester.retransmit_at.is_none() {
                self.arm(shared, now);
            } else if requester.recovery.probe_at().is_none() {
                self.arm_probe(shared, now);
            }
            return;
        }
        // There are no acknowledgements, so a packet that has been sent is complete.
        requester.leaving = taken;
        shared.leaving = Some(self.index);
    }

    /// Moves the cursor back to the first unacknowledged packet.
    pub(crate) fn rewind(&mut self, shared: &mut Shared) {
        let requester = &mut self.requester;
        let mut next = requester.oldest;
        while let Some(at) = next {
            let send = &mut shared.sends[at];
            requester.reads_in_flight -= core::mem::take(&mut send.in_flight);
            if next == requester.cursor {
                break;
            }
            next = send.links.next();
        }
        requester.read_span = 0;
        requester.readings.clear();
        requester.recovery.give_up();
        requester.rewound_to = Some(requester.una);
        requester.asked_again = requester.rewound_to;
        self.move_cursor_to_oldest(shared);
        self.mark_ready(shared);
    }

    pub(crate) fn move_cursor_to_oldest(&mut self, shared: &Shared) {
        let requester = &mut self.requester;
        requester.cursor = requester.oldest;
        requester.cursor_psn = requester.una;
        requester.cursor_index =
            requester.oldest.map_or(0, |oldest| shared.sends[oldest].acknowledged);
    }

    /// Restarts the retransmission timer, which runs while a packet is unacknowledged.
    pub(crate) fn arm(&mut self, shared: &mut Shared, now: Instant) {
        let requester = &mut self.requester;
        requester.retransmit_at = match requester.una == requester.high {
            true => None,
            false => after(now, requester.ack_timeout()),
        };
        if let Some(at) = requester.retransmit_at {
            shared.deadlines.wake_by(self.index, at);
        }
        self.arm_probe(shared, now);
    }

    /// Handles the timers that have expired, and sets the time of the next.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Instant) {
        if self.requester.not_before.is_some_and(|at| now.is_at_or_after(at)) {
            self.requester.not_before = None;
            self.mark_ready(shared);
        }
        if self.requester.paced_until.is_some_and(|at| now.is_at_or_after(at)) {
            self.requester.paced_until = None;
            self.mark_ready(shared);
        }
        if self.requester.retransmit_at.is_some_and(|at| now.is_at_or_after(at)) {
            self.time_out(shared, now);
        }
        self.probe_if_due(shared, now);
        let Requester { not_before, retransmit_at, paced_until, .. } = self.requester;
        let probe_at = self.requester.recovery.probe_at();
        let flow = self.wake_flow(shared, now);
        for at in [not_before, retransmit_at, paced_until, probe_at, flow].into_iter().flatten() {
            shared.deadlines.wake_by(self.index, at);
        }
    }

    /// Shrinks the windows after a loss.
    pub(crate) fn note_loss(&mut self, shared: &Shared) {
        let requester = &mut self.requester;
        requester.splitting.note_loss();
        if !shared.profile.window_adapts {
            return;
        }
        requester.window.shrink();
        if requester.read_span > 0 {
            requester.read_window.shrink_from(requester.read_span);
        }
    }

    fn time_out(&mut self, shared: &mut Shared, now: Instant) {
        self.requester.retransmit_at = None;
        if self.requester.una == self.requester.high {
            return;
        }
        shared.counters.timeouts += 1;
        if self.requester.retries_left == 0 {
            return self.fail_oldest(shared, Status::RetryExceeded);
        }
        self.requester.retries_left -= 1;
        if !self.begin_repair(shared) {
            self.note_loss(shared);
            self.rewind(shared);
        }
        // If the window does not even allow a retransmission, the next time-out tries again.
        self.requester.rewound_to = None;
        self.arm(shared, now);
    }

    /// Completes finished sends, in order.
    pub(crate) fn complete_ready(&mut self, shared: &mut Shared) {
        while let Some(index) = self.requester.queue.head() {
            if !shared.sends[index].is_done() {
                break;
            }
            self.requester.queue.unlink(&mut shared.sends, index);
            self.requester.posted -= 1;
            shared.complete_send(self.number, self.send_queue, index, Status::Success);
        }
        self.note_drained(shared);
    }

    /// Fails a send: the sends behind it are flushed, and the queue pair enters an error state.
    pub(crate) fn fail(&mut self, shared: &mut Shared, index: Index<Send>, status: Status) {
        self.end_sends(shared, Some(index), status);
    }

    /// Fails the oldest send in the same way.
    pub(crate) fn fail_oldest(&mut self, shared: &mut Shared, status: Status) {
        self.end_sends(shared, self.requester.oldest, status);
    }

    pub(crate) fn end_sends(
        &mut self,
        shared: &mut Shared,
        failed: Option<Index<Send>>,
        status: Status,
    ) {
        self.flush_sends(shared, failed, status);
        if self.transport == Transport::Rc {
            return self.fault(shared, status);
        }
        shared.events.push_back(Event::Fault { queue_pair: self.number, status });
        self.state = QueuePairState::SendError;
    }

    /// Completes every send: `failed` with its own status, the others as flushed.
    pub(crate) fn flush_sends(
        &mut self,
        shared: &mut Shared,
        failed: Option<Index<Send>>,
        status: Status,
    ) {
        while let Some(index) = self.requester.queue.pop_front(&mut shared.sends) {
            let status = if Some(index) == failed { status } else { Status::Flushed };
            shared.complete_send(self.number, self.send_queue, index, status);
        }
        let next = self.requester.high;
        self.requester.una = next;
        self.requester.forget();
    }
}
