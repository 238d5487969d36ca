//! Acknowledgements: building those to the peer, processing the peer's.

use super::path_marks::PathMarks;
use super::path_set::PathSet;
use super::{Channel, Timer};
use crate::api::DropReason;
use crate::control::TraceEntry;
use crate::injected_bug::InjectedBug;
use crate::placement::Verdict;
use crate::send_window::{ACKNOWLEDGED, LOST, RESENT, RESENT_AGAIN, UNCOUNTED};
use crate::shared::{Config, Schedule, Shared};
use fairway_policy::{AckSample, PathAck};
use fairway_wire::{
    Ack, AckFlags, CarriedAck, Cci, Duration, ECHO_DELAY_UNIT_NS, Instant, Msn, PathReport,
    PathReports, Psn, Sack,
};

/// Changes made so far by one acknowledgement.
#[derive(Default)]
struct Gain {
    now: Instant,
    bytes: u32,
    packets: u32,
    /// Paths on which packets were acknowledged.
    paths: PathSet,
    /// Packets that were declared lost and had not been sent again when they were acknowledged.
    revoked: u32,
    /// Marks of packets by path that are not attributed to packets yet.
    marks: PathMarks,
    /// Number of switches that the acknowledgement has passed.
    hops: u8,
}

/// A round trip that was measured.
#[derive(Clone, Copy)]
struct RoundTripSample {
    time: Duration,
    /// The part of it for which packets were in the two hosts, if that is known.
    hosts: Option<Duration>,
}

/// What an acknowledgement tells of the arrival of one packet.
struct Told {
    psn: Psn,
    /// The copy that arrived was a retransmission.
    retry: bool,
    /// Time from its arrival to the departure of the acknowledgement, in units of
    /// [`ECHO_DELAY_UNIT_NS`].
    delay: u16,
    /// The acknowledgement echoes the packet; otherwise it reports it for its path.
    is_echo: bool,
}

impl Channel {
    /// Counts a data packet that is in place (or that had nothing to place) towards the next
    /// acknowledgement.
    pub(crate) fn note_received(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        psn: Psn,
        ack_requested: bool,
        retry: bool,
    ) {
        self.tp.note_arrival(psn);
        let arrived = shared.arrived_at(now);
        let unacknowledged = self.acks.note_received(arrived, retry);
        let gap = self.tp.receive().end().distance_from(self.tp.receive().base());
        shared.counters.early_max = shared.counters.early_max.max(gap as u64);
        // A peer keeps its answers until they are acknowledged, and has room for twice as many as
        // this side may have requests.
        let every = shared.config.profile().acknowledge_every.min(self.slots.reads());
        // A peer that was told of a gap would resend what was only late.
        let closes_gap = gap == 0 && self.acks.has_reported_gap();
        if closes_gap && psn.next() != self.tp.receive().end() {
            // A congestion control is not told the round trips of packets that were late.
            self.acks.forget_echo();
        }
        let is_full = unacknowledged >= every;
        if is_full {
            self.rings.note_full_ack(&mut shared.schedule);
        }
        if ack_requested
            || closes_gap
            || self.acks.take_mark()
            || is_full
            || gap > shared.config.profile().reorder_tolerance as i32
        {
            self.acknowledge_soon(&mut shared.schedule);
        } else if !self.timers.is_armed(Timer::Acknowledge) {
            let at = now + shared.config.profile().acknowledge_delay;
            self.arm(&mut shared.schedule, Timer::Acknowledge, at);
        }
    }

    pub(crate) fn acknowledge_soon(&mut self, schedule: &mut Schedule) {
        self.acks.hasten();
        self.mark_urgent(schedule);
    }

    /// Acknowledges soon all data that has arrived and is not acknowledged yet.
    pub(crate) fn acknowledge_what_waits(&mut self, schedule: &mut Schedule) {
        if self.is_open() && self.acks.has_unacknowledged() {
            self.acknowledge_soon(schedule);
        }
    }

    /// Reads and clears the acknowledgement register. With `request`, the acknowledgement requests
    /// one in return.
    pub(crate) fn take_ack(&mut self, shared: &mut Shared, now: Instant, request: bool) -> Ack {
        let mut ack = self.acks.take(shared, now, &self.tp);
        if request {
            ack.flags = ack.flags.with(AckFlags::REQUEST);
        }
        self.timers.disarm(Timer::Acknowledge);
        ack
    }

    /// Reads the acknowledgement register for a data packet, and clears it.
    pub(super) fn take_carried_ack(&mut self, shared: &mut Shared, now: Instant) -> CarriedAck {
        self.timers.disarm(Timer::Acknowledge);
        self.acks.take_carried(shared, now, &self.tp)
    }

    /// Processes an acknowledgement from the peer.
    pub(crate) fn handle_ack(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        ack: &Ack,
        (path, hops): (u8, u8),
    ) -> Verdict {
        let selective = ack.flags.contains(AckFlags::SELECTIVE);
        if !self.tp.is_used(ack.cumulative) || (selective && !self.tp.is_used(ack.sack.highest)) {
            return shared.counters.drop(DropReason::BadAcknowledgement);
        }
        self.path_answered(&mut shared.counters, &mut shared.events, &mut shared.schedule, path);
        if ack.flags.contains(AckFlags::REQUEST) {
            self.acks.answer_by(path);
            self.acknowledge_soon(&mut shared.schedule);
        }
        self.process_ack(shared, now, ack, (path, hops));
        Verdict::Done
    }

    /// Processes the acknowledgement that a data packet from the peer carries. False if that was
    /// not agreed on, or if it names packets that were not sent.
    pub(crate) fn handle_carried_ack(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        carried: &CarriedAck,
        (path, hops): (u8, u8),
    ) -> bool {
        let cumulative = carried.cumulative();
        if !self.carries_acks || !self.tp.is_used(cumulative) {
            return false;
        }
        // Counts that have changed are reported by packets of their own.
        let (marks, duplicates) = self.recovery.reported_counts();
        let ack = Ack {
            cumulative,
            echo: cumulative,
            start_known: Msn::default(),
            echo_delay: carried.echo_delay(),
            window: carried.window(),
            marks,
            duplicates,
            cci: Cci::NONE,
            flags: carried.flags(),
            sack: Sack::default(),
            paths: PathReports::NONE,
        };
        self.process_ack(shared, now, &ack, (path, hops));
        true
    }

    /// Processes what an acknowledgement, which came by a path and passed some switches, reports.
    fn process_ack(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        ack: &Ack,
        (path, hops): (u8, u8),
    ) {
        let selective = ack.flags.contains(AckFlags::SELECTIVE);
        shared.counters.acks_received += 1;
        self.tp.widen(ack.cumulative.plus(1 + u32::from(ack.window)));
        self.note_start_known(shared, ack);
        let echo = ack.flags.contains(AckFlags::ECHO).then(|| Told {
            psn: ack.echo,
            retry: ack.flags.contains(AckFlags::ECHO_RETRY),
            delay: ack.echo_delay,
            is_echo: true,
        });
        let round_trip = echo.and_then(|told| self.round_trip_of(shared, now, &told));
        let (marked_packets, duplicates) = self.recovery.count_reports(ack);
        let mut gain = Gain { now, hops, ..Gain::default() };
        self.read_path_reports(shared, ack, &mut gain);
        self.advance_oldest(shared, ack.cumulative.next(), &mut gain);
        if selective {
            self.process_bitmap(shared, &ack.sack, &mut gain);
        }
        if gain.packets > 0 {
            self.recovery.note_progress(now, gain.packets);
            self.progressed(&shared.config, &mut shared.schedule, now);
        }
        self.note_duplicates(shared, now, duplicates);
        self.report_to_policy(shared, now, ack, (path, marked_packets), round_trip, &gain);
        // An acknowledgement that was overtaken reports what was missing then, not now.
        if selective && ack.cumulative.next() == self.tp.oldest() {
            self.detect_losses(shared, now, ack, gain.paths);
        }
        self.mark_ready(&mut shared.schedule);
    }

    /// The round trip of a packet that an acknowledgement echoes or reports, if this is its first
    /// acknowledgement and the copy that arrived is known: the only one, or the only
    /// retransmission. Without samples of retransmissions, a channel that has many to send would
    /// decide by a round trip that was measured before the loss, when queues were full. For other
    /// copies an echo gives a minimum round trip, which counts if it is longer than the known one.
    /// No packet travels out and back in no time: if the peer reports that it kept the packet for
    /// as long as the round trip took, or longer, there is no sample.
    ///
    /// Only echoes count for the channel: where a network reorders, reports also name packets that
    /// came late, and time-outs would grow with these.
    ///
    /// Where the hosts' part is known, the sample is the whole time: time-outs have to last as long
    /// as the hosts may take, and a congestion control subtracts what is not the network's.
    fn round_trip_of(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        told: &Told,
    ) -> Option<RoundTripSample> {
        let &Told { psn, retry, delay, is_echo } = told;
        if !self.tp.is_in_window(psn) {
            return None;
        }
        let sent = *self.send.record(psn, &mut shared.send_blocks);
        let is_clear = sent.is(RESENT) == retry;
        if sent.is(ACKNOWLEDGED) {
            return None;
        }
        let delay = Duration::from_ns(u64::from(delay) * ECHO_DELAY_UNIT_NS);
        let whole = now.elapsed_since(sent.sent_at);
        let (time, hosts) = match shared.host_wait {
            None => (whole.saturating_sub(delay), None),
            Some(wait) => {
                let hosts = delay.saturating_add(wait);
                (whole, (hosts < whole).then_some(hosts))
            }
        };
        if time == Duration::ZERO {
            return None;
        }
        if sent.is(RESENT_AGAIN) || !is_clear {
            // Whichever copy has arrived was not sent after the last one, so its round trip took at
            // least this long. If the first time-out is shorter than every round trip, there is no
            // other measurement.
            if is_echo && !shared.is_injected(InjectedBug::NeverMeasured) {
                self.recovery.note_round_trip_of_at_least(time);
            }
            return None;
        }
        self.paths.note_round_trip(sent.path, time);
        if is_echo {
            self.recovery.note_round_trip(time);
        }
        self.suspect(&mut shared.schedule, sent.path, Some(time));
        Some(RoundTripSample { time, hosts })
    }

    /// Reads what the acknowledgement tells of each path: its marks and its round trip.
    fn read_path_reports(&mut self, shared: &mut Shared, ack: &Ack, gain: &mut Gain) {
        let now = gain.now;
        for report in ack.paths.iter() {
            let psn = ack.cumulative.plus(report.offset as u32);
            if !self.tp.is_in_window(psn) {
                continue;
            }
            let path = self.send.record(psn, &mut shared.send_blocks).path;
            gain.marks.add(path, report.marks);
            let is_known =
                report.delay == u16::MAX || ack.flags.contains(AckFlags::ECHO) && psn == ack.echo;
            if is_known {
                continue;
            }
            let PathReport { retry, delay, .. } = report;
            let told = Told { psn, retry, delay, is_echo: false };
            let rtt = self.round_trip_of(shared, now, &told).map(|sample| sample.time);
            if rtt.is_some() {
                let ready = PathAck { now, rtt, ..PathAck::default() };
                self.paths.report_ack(path, &ready);
            }
        }
    }

    fn note_start_known(&mut self, shared: &mut Shared, ack: &Ack) {
        if !ack.flags.contains(AckFlags::START_KNOWN)
            || !self.recovery.is_newly_known(ack.start_known)
        {
            return;
        }
        for index in self.slots.messages() {
            if shared.messages[index].progress.number() == ack.start_known {
                shared.messages[index].progress.note_start_known();
            }
        }
    }

    /// Acknowledges all packets before `to`.
    fn advance_oldest(&mut self, shared: &mut Shared, to: Psn, gain: &mut Gain) {
        let from = self.tp.oldest();
        if to.distance_from(from) <= 0 {
            return;
        }
        let mut psn = from;
        while psn != to {
            self.acknowledge(shared, psn, gain);
            psn = psn.next();
        }
        self.tp.advance(to);
        if self.send.retire(from, to, &mut shared.send_blocks) {
            shared.schedule.retry_blocked();
        }
    }

    fn process_bitmap(&mut self, shared: &mut Shared, sack: &Sack, gain: &mut Gain) {
        for (word, &bits) in sack.bitmap.iter().enumerate() {
            let mut bits = bits;
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let psn = sack.base.plus(word as u32 * 32 + bit);
                if self.tp.is_in_window(psn) {
                    self.acknowledge(shared, psn, gain);
                }
            }
        }
    }

    /// Acknowledges one packet.
    fn acknowledge(&mut self, shared: &mut Shared, psn: Psn, gain: &mut Gain) {
        let record = self.send.record(psn, &mut shared.send_blocks);
        if record.is(ACKNOWLEDGED) {
            return;
        }
        record.flags |= ACKNOWLEDGED;
        let sent = *record;
        self.send.end_late_refusal(psn);
        if sent.is(LOST) {
            self.send.stop_waiting(psn, sent.bytes, &mut shared.send_blocks);
            if !sent.is(UNCOUNTED) || shared.is_injected(InjectedBug::RevokeProbe) {
                shared.counters.lost_revoked += 1;
                gain.revoked += 1;
            }
        } else {
            self.paths.land(sent.path, psn, &mut self.send.links(&mut shared.send_blocks));
            self.tp.land(u32::from(sent.bytes));
        }
        let is_trusting = shared.is_injected(InjectedBug::TrustNewPath);
        self.recovery.measure_round_trips(&mut self.paths, gain.now, psn, &sent, is_trusting);
        let marked_packets = u32::from(gain.marks.take_one(sent.path));
        let elapsed = (!sent.is(RESENT)).then(|| gain.now.elapsed_since(sent.sent_at));
        let ready = PathAck { now: gain.now, acked_packets: 1, marked_packets, rtt: None, elapsed };
        self.paths.note_marked(sent.path, marked_packets);
        self.paths.report_ack(sent.path, &ready);
        gain.bytes += u32::from(sent.bytes);
        gain.packets += 1;
        gain.paths.insert(sent.path);
        if shared.messages[sent.message()].progress.note_acknowledged() {
            self.retire(shared, sent.message());
        }
    }

    /// Restarts the retransmission timer after a new acknowledgement.
    fn progressed(&mut self, config: &Config, schedule: &mut Schedule, now: Instant) {
        let recovering = self.recovery.end_backoff();
        self.note_tail_acknowledged(schedule, now);
        if self.tp.is_idle() {
            self.timers.disarm(Timer::Retransmit);
        } else if recovering {
            // The probe was acknowledged: check at once what else it proves lost.
            self.arm(schedule, Timer::Retransmit, now);
        } else {
            // The round-trip estimate is better than when the timer was armed.
            let at = now + self.recovery.timeout(config.profile());
            let armed = self.timers.deadline(Timer::Retransmit);
            if armed.is_some_and(|armed| at.is_before(armed)) {
                self.arm(schedule, Timer::Retransmit, at);
            }
        }
    }

    /// Handles packets that had arrived before, of which the peer reports the number.
    fn note_duplicates(&mut self, shared: &mut Shared, now: Instant, duplicates: u32) {
        if duplicates > 0 {
            shared.counters.spurious += u64::from(duplicates);
            self.recovery.note_spurious();
            self.congestion.controller_mut().on_spurious(now, duplicates);
            self.trace(&mut shared.flows, now, || TraceEntry::Spurious { packets: duplicates });
        }
    }

    fn report_to_policy(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        ack: &Ack,
        (path, marked_packets): (u8, u32),
        round_trip: Option<RoundTripSample>,
        gain: &Gain,
    ) {
        if gain.revoked > 0 {
            // Packets declared lost arrived before they were sent again: undo the reaction (RFC
            // 4015).
            self.congestion.controller_mut().on_spurious(now, gain.revoked);
        }
        let rtt = round_trip.map(|sample| sample.time);
        let hosts = round_trip.and_then(|sample| sample.hosts);
        if gain.packets == 0 && rtt.is_none() && marked_packets == 0 {
            return;
        }
        for (of, marks) in gain.marks.rest() {
            let marked_packets = u32::from(marks);
            self.paths.note_marked(of, marked_packets);
            let ready = PathAck { now, marked_packets, ..PathAck::default() };
            self.paths.report_ack(of, &ready);
        }
        // Marks that no path is reported to have count for the path of the acknowledgement.
        let others = marked_packets.saturating_sub(gain.marks.total());
        self.paths.note_marked(path, others);
        if others > 0 || rtt.is_some() {
            let ready = PathAck { now, marked_packets: others, rtt, ..PathAck::default() };
            self.paths.report_ack(path, &ready);
        }
        let reports_pressure = ack.flags.contains(AckFlags::PRESSURE);
        shared.counters.pressure_received += u64::from(reports_pressure);
        let sample = AckSample {
            now,
            acked_bytes: gain.bytes,
            acked_packets: gain.packets,
            path,
            rtt,
            smoothed_rtt: self.recovery.smoothed(),
            marked_packets,
            bytes_in_flight: u64::from(self.tp.flight()),
            cci: ack.cci,
            pressure: reports_pressure || shared.backpressure.slows_transmission(),
            window_limited: self.congestion.take_limit(),
            endpoint_delay: self.endpoint_delay(now, path, rtt).or(hosts),
            hops: gain.hops,
        };
        self.congestion.controller_mut().on_ack(&sample);
        shared.counters.acks_reported += 1;
        self.trace_ack(&mut shared.flows, &sample);
        self.queue_credit_request(&mut shared.schedule, now);
    }
}
