//! Detection of lost packets, by later acknowledgements and by the timer.

use super::path_set::PathSet;
use super::{Channel, Timer};
use crate::flow::Flows;
use crate::send_window::{ACKNOWLEDGED, LOST, SendBlocks, Sent};
use crate::shared::{Schedule, Shared};
use fairway_policy::{Evidence, LossSample};
use fairway_wire::{Ack, AckFlags, Duration, Instant, Psn, SACK_BITS, Sack};

/// Most paths that a channel can have.
const PATHS_MAX: usize = 256;

/// Packets that were declared lost together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) bytes: u32,
    /// When the newest of them had been sent. Without a meaning while `bytes` is zero.
    sent_at: Instant,
}

impl Lost {
    /// One packet.
    pub(crate) fn packet(sent: &Sent) -> Lost {
        Lost { bytes: u32::from(sent.bytes), sent_at: sent.sent_at }
    }

    /// Adds `other` packets.
    pub(crate) fn add(&mut self, other: Lost) {
        match (self.bytes, other.bytes) {
            (0, _) => *self = other,
            (_, 0) => {}
            (_, bytes) => {
                self.bytes += bytes;
                self.sent_at = self.sent_at.max(other.sent_at);
            }
        }
    }
}

/// Bytes that were declared lost on each path, and the paths that lost any.
struct Losses {
    bytes: [u32; PATHS_MAX],
    paths: PathSet,
    /// All of them.
    all: Lost,
}

impl Losses {
    #[inline]
    fn add(&mut self, path: u8, lost: Lost) {
        if lost.bytes > 0 {
            self.paths.insert(path);
            self.bytes[usize::from(path)] += lost.bytes;
            self.all.add(lost);
        }
    }
}

impl Channel {
    /// Runs the loss detector on the packets that an acknowledgement reports missing: those of its
    /// map and, if that is too short for the window, the oldest of each path in `touched`, or of
    /// all busy paths if the detector looks across paths.
    ///
    /// Only an explicit report counts: a packet outside the map's range is unknown, not missing.
    pub(super) fn detect_losses(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        ack: &Ack,
        touched: PathSet,
    ) {
        let mut lost =
            Losses { bytes: [0; PATHS_MAX], paths: PathSet::default(), all: Lost::default() };
        // Of the packets that are neither acknowledged nor lost now, the time at which the oldest
        // was sent.
        let mut oldest: Option<Instant> = None;
        if !is_complete(ack) {
            let across = self.recovery.compares_across_paths();
            for path in if across { self.paths.busy() } else { touched } {
                match self.paths.oldest(path) {
                    None => self.paths.note_idle(path),
                    Some(_) => lost.add(path, self.detect_on_path(shared, now, ack, path)),
                }
                if let Some(psn) = self.paths.oldest(path) {
                    let sent_at = self.send.record(psn, &mut shared.send_blocks).sent_at;
                    oldest = oldest.into_iter().chain([sent_at]).reduce(Instant::min);
                }
            }
        }
        let missing = self.detect_in_map(shared, now, ack, &mut lost);
        let behind = self.first_behind(ack.sack.highest, &mut shared.send_blocks);
        let oldest = oldest.into_iter().chain(missing).chain(behind).reduce(Instant::min);
        let newest = self.recovery.newest_acknowledged();
        if let Some(overdue) = self.recovery.overdue_after()
            && let Some(sent_at) = oldest
            && newest.is_some_and(|newest| sent_at.is_before(newest))
        {
            self.check_overtaken_at(&mut shared.schedule, sent_at + overdue);
        }
        // One call reports all losses of a path, however they were found.
        for path in lost.paths {
            let mut on_path =
                Lost { bytes: lost.bytes[usize::from(path)], sent_at: lost.all.sent_at };
            on_path.add(self.expire_silent_path(shared, now, path));
            self.report_loss(&mut shared.flows, &mut shared.schedule, now, (on_path, path), false);
        }
    }

    /// When the packet behind the highest one that has arrived was sent, if it is in flight: one
    /// that was resent later may have overtaken it.
    fn first_behind(&self, highest: Psn, send_blocks: &mut SendBlocks) -> Option<Instant> {
        let psn = highest.next();
        if !self.tp.is_in_window(psn) {
            return None;
        }
        let sent = self.send.record(psn, send_blocks);
        (!sent.is(LOST | ACKNOWLEDGED)).then_some(sent.sent_at)
    }

    /// Runs the loss detector on the oldest packets of a path; returns those declared lost.
    fn detect_on_path(&mut self, shared: &mut Shared, now: Instant, ack: &Ack, path: u8) -> Lost {
        let mut lost = Lost::default();
        while let Some(oldest) = self.paths.oldest(path) {
            let packet = self.try_lose(shared, now, ack, oldest);
            if packet.bytes == 0 {
                break;
            }
            lost.add(packet);
        }
        lost
    }

    /// Runs the loss detector on every packet that the map reports missing. A map shows only a
    /// small part of a large window: if the oldest packet of a path is outside, those behind it
    /// would wait until it has been repaired. Adds the bytes lost on each path to `lost`. Of the
    /// missing packets that are not lost, returns the time at which the oldest was sent.
    fn detect_in_map(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        ack: &Ack,
        lost: &mut Losses,
    ) -> Option<Instant> {
        let mut oldest: Option<Instant> = None;
        for (word, &bits) in ack.sack.bitmap.iter().enumerate() {
            let mut holes = !bits;
            while holes != 0 {
                let psn = ack.sack.base.plus(word as u32 * 32 + holes.trailing_zeros());
                holes &= holes - 1;
                if !psn.is_before(ack.sack.highest) || !self.tp.is_used(psn) {
                    return oldest;
                }
                if psn.is_before(self.tp.oldest()) {
                    continue;
                }
                let sent = *self.send.record(psn, &mut shared.send_blocks);
                if sent.is(LOST | ACKNOWLEDGED) {
                    continue;
                }
                match self.try_lose(shared, now, ack, psn) {
                    Lost { bytes: 0, .. } => {
                        oldest = oldest.into_iter().chain([sent.sent_at]).reduce(Instant::min);
                    }
                    packet => lost.add(sent.path, packet),
                }
            }
        }
        oldest
    }

    /// Runs the loss detector on a packet in flight; returns it if it was declared lost.
    fn try_lose(&mut self, shared: &mut Shared, now: Instant, ack: &Ack, psn: Psn) -> Lost {
        let sent = *self.send.record(psn, &mut shared.send_blocks);
        let overtaken = self.paths.overtaken(sent.path, sent.path_sequence);
        let age = now.elapsed_since(sent.sent_at);
        // Each further copy waits twice as long as the one before it: if a network delays packets
        // far beyond the measured round trips, copies would pile up in it.
        if sent.further_copies() > 0
            && age < self.recovery.time_of_copy(&shared.config, sent.further_copies())
        {
            return Lost::default();
        }
        let passed = self.recovery.is_passed(&sent, overtaken);
        if !passed || !self.is_reported_missing(psn, &ack.sack) {
            return Lost::default();
        }
        let psn_distance = ack.sack.highest.distance_from(psn).max(0) as u32;
        let evidence = Evidence {
            path_distance: overtaken.max(0) as u32,
            psn_distance,
            beyond_tolerance: ack.flags.contains(AckFlags::BEYOND_TOLERANCE)
                && psn_distance > shared.config.profile().reorder_tolerance,
            age,
            overtaken_by: self.recovery.overtaken_by(&sent),
            smoothed_rtt: self.round_trip_of_path(sent.path),
        };
        if !self.recovery.is_lost(&evidence) {
            return Lost::default();
        }
        self.declare_lost(shared, psn, &sent);
        Lost::packet(&sent)
    }

    /// Smoothed round trip of a path. One that has not been measured is assumed to be as long as
    /// the others.
    fn round_trip_of_path(&self, path: u8) -> Duration {
        match self.paths.round_trip(path) {
            Duration::ZERO => self.recovery.smoothed(),
            measured => measured,
        }
    }

    /// Handles a path that has lost packets. If nothing on it was acknowledged for a round trip,
    /// that counts as a time-out; returns what is in flight on a path that this takes out of use.
    fn expire_silent_path(&mut self, shared: &mut Shared, now: Instant, path: u8) -> Lost {
        let silence = self.recovery.smoothed().times(2);
        if !self.paths.take_silence(path, now, silence) || !self.path_timed_out(shared, path, now) {
            return Lost::default();
        }
        self.lose_all_on_path(shared, path)
    }

    /// Declares everything in flight on a path lost, and returns it.
    pub(super) fn lose_all_on_path(&mut self, shared: &mut Shared, path: u8) -> Lost {
        let mut lost = Lost::default();
        while let Some(psn) = self.paths.oldest(path) {
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            lost.add(Lost::packet(&sent));
            self.declare_lost(shared, psn, &sent);
        }
        lost
    }

    fn is_reported_missing(&self, psn: Psn, sack: &Sack) -> bool {
        let bit = psn.distance_from(sack.base);
        psn.is_before(sack.highest)
            && (psn == self.tp.oldest() || (0..SACK_BITS as i32).contains(&bit))
    }

    /// Moves a packet from its path to the list of those to be resent.
    pub(crate) fn declare_lost(&mut self, shared: &mut Shared, psn: Psn, sent: &Sent) {
        self.take_from_path(
            &shared.flows,
            &mut shared.schedule,
            &mut shared.send_blocks,
            psn,
            sent,
        );
        self.paths.note_lost(sent.path);
        shared.counters.lost += 1;
    }

    /// Schedules a packet for resending without declaring it lost.
    pub(crate) fn take_from_path(
        &mut self,
        flows: &Flows,
        schedule: &mut Schedule,
        send_blocks: &mut SendBlocks,
        psn: Psn,
        sent: &Sent,
    ) {
        self.send.record(psn, send_blocks).flags |= LOST;
        self.paths.land(sent.path, psn, &mut self.send.links(send_blocks));
        self.send.await_resend(psn, sent.bytes, send_blocks);
        // Even a packet that only fills a sequence number needs credit.
        self.queue_credit_request(schedule, flows.now);
        self.tp.land(u32::from(sent.bytes));
    }

    pub(crate) fn report_loss(
        &mut self,
        flows: &mut Flows,
        schedule: &mut Schedule,
        now: Instant,
        (lost, path): (Lost, u8),
        by_timeout: bool,
    ) {
        let smoothed_rtt = self.recovery.smoothed();
        let Lost { bytes: lost_bytes, sent_at } = lost;
        let sample = LossSample { now, lost_bytes, path, smoothed_rtt, by_timeout, sent_at };
        self.congestion.controller_mut().on_loss(&sample);
        self.paths.report_loss(path, &sample);
        self.trace_loss(flows, &sample);
        self.suspect(schedule, path, None);
        self.queue_credit_request(schedule, now);
    }

    /// Handles an overdue oldest packet of some path. It is resent as a probe; the others of its
    /// path follow only if packets that were sent later have been acknowledged, so that a peer that
    /// was merely stopped does not receive everything twice.
    pub(crate) fn retransmit_timer(&mut self, shared: &mut Shared, now: Instant) {
        if self.tp.is_idle() {
            return;
        }
        let timeout = self.recovery.timeout(shared.config.profile());
        let mut next: Option<Instant> = None;
        let mut fired = false;
        // While recently sent packets are being acknowledged, an overdue packet is an ordinary
        // loss, not the silence after which a sender has to start over.
        let silent = self.recovery.is_silent(now, timeout);
        for path in self.paths.busy() {
            let lost = self.expire_path(shared, now, path);
            fired |= lost.bytes > 0;
            if lost.bytes > 0 {
                self.report_loss(
                    &mut shared.flows,
                    &mut shared.schedule,
                    now,
                    (lost, path),
                    silent,
                );
            }
            if let Some(oldest) = self.paths.oldest(path) {
                let sent_at = self.send.record(oldest, &mut shared.send_blocks).sent_at;
                let due = (sent_at + timeout).max(now + timeout.divided_by(4));
                next = Some(next.map_or(due, |at| at.min(due)));
            }
        }
        if fired {
            self.recovery.note_late();
            self.resend_oldest(shared);
            self.recovery.back_off();
            self.paths.end_chunk();
            shared.counters.timeouts += 1;
            self.mark_ready(&mut shared.schedule);
        }
        let again = now + self.recovery.timeout(shared.config.profile());
        let at = if fired { again } else { next.unwrap_or(again) };
        self.arm(&mut shared.schedule, Timer::Retransmit, at);
    }

    /// Resends, with every time-out, the packet that the peer waits for: a peer that is short of
    /// records may be able to accept no other.
    fn resend_oldest(&mut self, shared: &mut Shared) {
        let oldest = self.tp.oldest();
        let sent = *self.send.record(oldest, &mut shared.send_blocks);
        if !sent.is(LOST | ACKNOWLEDGED) {
            self.declare_lost(shared, oldest, &sent);
        }
    }

    /// Declares overdue packets of one path lost, and returns them.
    fn expire_path(&mut self, shared: &mut Shared, now: Instant, path: u8) -> Lost {
        let timeout = self.recovery.timeout(shared.config.profile());
        // If the window counts retransmissions, all overdue packets leave it, or none could be sent
        // again. A packet that is acknowledged before its retransmission is not sent again.
        let bounded = !self.congestion.controller_mut().permit_retransmit(now, 0);
        let mut lost = Lost::default();
        let mut down = false;
        while let Some(psn) = self.paths.oldest(path) {
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            if !down && now.is_before(sent.sent_at + timeout) {
                return lost;
            }
            let passed = self.recovery.is_long_passed(&sent);
            if lost.bytes > 0 && !passed && !down && !bounded {
                return lost;
            }
            if lost.bytes == 0 {
                down = self.path_timed_out(shared, path, now);
            }
            lost.add(Lost::packet(&sent));
            self.declare_lost(shared, psn, &sent);
        }
        lost
    }
}

/// True if the map of an acknowledgement shows every packet that may have been overtaken.
fn is_complete(ack: &Ack) -> bool {
    let base = ack.cumulative.next();
    ack.sack.base == base && ack.sack.highest.distance_from(base) < SACK_BITS as i32
}
