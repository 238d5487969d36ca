//! Selective repeat, as an option ([`OutOfOrder`](super::OutOfOrder)): only missing packets are
//! retransmitted.
//!
//! A refusal in RoCE contains the first missing packet, so only that packet is retransmitted
//! ("repaired"). If the following acknowledgement stops at another packet that was sent before the
//! repair, that packet is taken as lost and repaired without a refusal (the partial
//! acknowledgements of RFC 6582). Only the requester can detect the loss of the last packets that
//! were sent. It therefore also repairs the oldest packet when nothing has arrived for a few round
//! trips (like the tail loss probes of RFC 8985), with an interval that doubles each time. Only the
//! configured time-out decides whether the peer is alive.

use super::api::Transmit;
use super::queue_pair::QueuePair;
use super::requester::PACKET_OVERHEAD;
use super::shared::Shared;
use super::state::QueuePairState;
use fairway_wire::roce::{Bth, Packet};
use fairway_wire::{Duration, Instant, Psn};

/// After this many repairs in a row, each of the packet directly behind the one before, the peer is
/// assumed to drop early packets, and everything is retransmitted.
const NEIGHBOURS_MAX: u8 = 3;

/// Shortest silence after which a packet is repaired.
const PROBE_MIN: Duration = Duration::from_us(200);

/// The same before any round trip was measured.
const PROBE_FIRST: Duration = Duration::from_ms(2);

/// Largest number of times that the probe interval doubles.
const DOUBLINGS_MAX: u8 = 8;

#[derive(Debug, Default)]
pub(crate) struct Recovery {
    /// True if only the packet at `una` is to be retransmitted, without moving the cursor.
    due: bool,
    /// PSNs before this one were sent before the last repair.
    until: Option<Psn>,
    /// The packet that was repaired last, and the number of repairs in a row of neighbouring
    /// packets.
    last: Option<Psn>,
    neighbours: u8,
    probe_at: Option<Instant>,
    /// Probes since the last progress.
    probes: u8,
    /// A packet whose acknowledgement will measure a round trip, and the time at which it was sent.
    timed: Option<(Psn, Instant)>,
    round_trip: Option<RoundTrip>,
}

/// Estimate of the round trip, as in RFC 6298.
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrip {
    fn after(earlier: Option<RoundTrip>, sample: Duration) -> RoundTrip {
        let sample = sample.as_ps();
        let Some(RoundTrip { smoothed, variation }) = earlier else {
            let variation = Duration::from_ps(sample / 2);
            return RoundTrip { smoothed: Duration::from_ps(sample), variation };
        };
        let (smoothed, variation) = (smoothed.as_ps(), variation.as_ps());
        let deviation = smoothed.abs_diff(sample);
        RoundTrip {
            smoothed: Duration::from_ps(smoothed - smoothed / 8 + sample / 8),
            variation: Duration::from_ps(variation - variation / 4 + deviation / 4),
        }
    }
}

impl Recovery {
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    pub(crate) fn probe_at(&self) -> Option<Instant> {
        self.probe_at
    }

    /// Ends recovery, because everything is retransmitted.
    pub(crate) fn give_up(&mut self) {
        (self.due, self.until, self.neighbours, self.timed) = (false, None, 0, None);
    }

    /// Starts measuring a round trip with a packet that requests an acknowledgement.
    pub(crate) fn time(&mut self, psn: Psn, now: Instant) {
        self.timed = self.timed.or(Some((psn, now)));
    }

    /// Records that everything before `una` is acknowledged.
    fn acknowledged(&mut self, una: Psn, now: Instant) {
        if let Some((psn, at)) = self.timed
            && psn.is_before(una)
        {
            self.timed = None;
            self.round_trip = Some(RoundTrip::after(self.round_trip, now.since(at)));
        }
    }

    /// Silence after which the oldest packet is retransmitted.
    fn probe_timeout(&self) -> Duration {
        let silence = match self.round_trip {
            None => PROBE_FIRST,
            Some(RoundTrip { smoothed, variation }) => {
                let span = Duration::from_ps(2 * smoothed.as_ps() + 4 * variation.as_ps());
                span.max(PROBE_MIN)
            }
        };
        silence.times(1 << self.probes.min(DOUBLINGS_MAX))
    }
}

impl QueuePair {
    /// True if the oldest packet may be retransmitted alone: it is under way, and an
    /// acknowledgement is its only answer.
    fn is_repairable(&self, shared: &Shared) -> bool {
        let requester = &self.requester;
        shared.profile.out_of_order.is_some()
            && requester.una.is_before(requester.cursor_psn)
            && requester.oldest.is_some_and(|oldest| !shared.sends[oldest].is_answered())
    }

    /// Schedules the retransmission of the oldest packet alone. Returns false if everything has to
    /// be retransmitted.
    pub(crate) fn begin_repair(&mut self, shared: &mut Shared) -> bool {
        if !self.is_repairable(shared) {
            return false;
        }
        let (una, recovery) = (self.requester.una, &mut self.requester.recovery);
        if recovery.last != Some(una) {
            let is_next = recovery.last.is_some_and(|last| last.next() == una);
            recovery.neighbours = if is_next { recovery.neighbours + 1 } else { 0 };
        }
        if recovery.neighbours >= NEIGHBOURS_MAX {
            return false;
        }
        (recovery.last, recovery.due, recovery.timed) = (Some(una), true, None);
        recovery.until = Some(self.requester.high);
        self.requester.splitting.note_loss();
        self.requester.rewound_to = Some(una);
        self.mark_ready(shared);
        true
    }

    /// Repairs the packet at the new `una`: it was lost as well, if it was sent before the last
    /// repair.
    pub(crate) fn continue_recovery(&mut self, shared: &mut Shared, now: Instant) {
        let una = self.requester.una;
        let recovery = &mut self.requester.recovery;
        recovery.acknowledged(una, now);
        (recovery.due, recovery.probes) = (false, 0);
        let Some(until) = recovery.until else { return };
        if !una.is_before(until) {
            recovery.until = None;
            return;
        }
        if self.begin_repair(shared) {
            // Recovery ends at the same PSN as before.
            self.requester.recovery.until = Some(until);
        } else if self.is_repairable(shared) {
            self.note_loss(shared);
            self.rewind(shared);
        }
    }

    /// Retransmits the packet at `una`.
    pub(crate) fn repair(&mut self, shared: &mut Shared, now: Instant) -> Option<Transmit> {
        self.requester.recovery.due = false;
        let oldest = self.requester.oldest?;
        if !self.is_repairable(shared) {
            return None;
        }
        if self.is_missing(shared, oldest) {
            return None;
        }
        let send = shared.sends[oldest];
        if shared.is_revoked(self.domain, &send.local) {
            self.fail(shared, oldest, super::api::Status::LocalProtection);
            return None;
        }
        let position = send.acknowledged;
        let last = position + 1 == send.packets;
        let (operation, gather) = self.request(&send, position, last);
        let solicited = send.solicited && last;
        let bth = Bth { ack_request: true, solicited, ..self.bth(self.requester.una) };
        shared.counters.resent_packets += 1;
        self.pace(now, gather.length() + PACKET_OVERHEAD);
        self.charge_flow(shared, now, gather.length());
        let packet = Packet { bth, operation };
        Some(Transmit { queue_pair: self.number, to: self.peer.address, packet, gather })
    }

    /// Restarts the probe timer, which runs while a packet is unacknowledged.
    pub(crate) fn arm_probe(&mut self, shared: &mut Shared, now: Instant) {
        let waits = self.is_repairable(shared);
        let recovery = &mut self.requester.recovery;
        recovery.probe_at = waits.then(|| now + recovery.probe_timeout());
        if let Some(at) = recovery.probe_at {
            shared.deadlines.wake_by(self.index, at);
        }
    }

    /// Retransmits the oldest packet if nothing has arrived for too long.
    pub(crate) fn probe_if_due(&mut self, shared: &mut Shared, now: Instant) {
        if !self.requester.recovery.probe_at.is_some_and(|at| now.is_at_or_after(at)) {
            return;
        }
        let sends = matches!(self.state, QueuePairState::ReadyToSend | QueuePairState::SendDrained);
        let recovery = &mut self.requester.recovery;
        recovery.probe_at = None;
        if !sends || self.requester.not_before.is_some() {
            return;
        }
        recovery.probes = recovery.probes.saturating_add(1);
        if self.begin_repair(shared) {
            shared.counters.probes += 1;
        }
        self.arm_probe(shared, now);
    }
}
