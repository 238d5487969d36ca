//! Detects channels on which nothing has been acknowledged for long, although packets were sent.
//!
//! Set-up has proven a packet length. When a route changes, packets of that length may be lost,
//! while short ones still arrive: the peer's answers to keep-alives show that it is alive, and
//! operations would wait for ever. A channel that has stalled is therefore probed like a new one,
//! with short requests beside the long ones ([`super::sizes`]). If the peer answers only the short
//! ones, the connection is closed; the next one finds the length that fits.

use fairway_ub::wire::{Duration, Instant, Parameters, Psn};

/// Interval at which channels are checked, while their context is active.
pub(crate) const CHECK_PERIOD: Duration = Duration::from_ms(250);
/// Age of the oldest unacknowledged packet from which a channel is probed.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Time for which one of its channels must have stalled before a connection is closed.
const CLOSED_AFTER: Duration = Duration::from_secs(3);

/// The time that a channel has waited for the acknowledgement of its oldest packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    agreed: Parameters,
    /// The oldest packet, and the time at which it was first seen to be the oldest.
    oldest: Option<(Psn, Instant)>,
}

impl Watch {
    /// Returns the state of a channel that was opened with the parameters that both sides `agreed`
    /// on.
    pub(crate) fn new(agreed: Parameters) -> Watch {
        Watch { agreed, oldest: None }
    }

    /// The parameters that both sides agreed on.
    pub(crate) fn agreed(&self) -> &Parameters {
        &self.agreed
    }

    /// Records the oldest packet that was sent and not acknowledged. Returns true if it has been
    /// the same for so long that the channel is to be probed.
    pub(crate) fn note_oldest(&mut self, now: Instant, oldest: Option<Psn>) -> bool {
        if self.oldest.map(|(psn, _)| psn) != oldest {
            self.oldest = oldest.map(|psn| (psn, now));
        }
        self.waits_for(now) >= STALLED_AFTER
    }

    /// True if the channel has stalled for so long that its connection may be closed.
    pub(crate) fn is_hopeless(&self, now: Instant) -> bool {
        self.waits_for(now) >= CLOSED_AFTER
    }

    fn waits_for(&self, now: Instant) -> Duration {
        self.oldest.map_or(Duration::ZERO, |(_, since)| now.elapsed_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1_000_000_000);

    fn watch() -> Watch {
        let agreed = Parameters {
            mtu_bytes: 4096,
            paths: 4,
            window_packets: 1024,
            message_slots: 8,
            read_slots: 8,
            keep_alive_ms: 0,
            channels: 1,
            capabilities: 0,
        };
        Watch::new(agreed)
    }

    /// The instant `ms` milliseconds after the start.
    fn at(ms: u64) -> Instant {
        START + Duration::from_ms(ms)
    }

    #[test]
    fn channel_stalls_when_its_oldest_packet_stays_the_same() {
        let mut watch = watch();
        let psn = Some(Psn::new(7));
        assert!(!watch.note_oldest(at(0), psn));
        assert!(!watch.note_oldest(at(999), psn));
        assert!(watch.note_oldest(at(1000), psn) && !watch.is_hopeless(at(2999)));
        assert!(watch.is_hopeless(at(3000)));
    }

    #[test]
    fn channel_that_progresses_or_has_nothing_to_send_does_not_stall() {
        let mut watch = watch();
        for step in 0..20 {
            assert!(!watch.note_oldest(at(900 * step), Some(Psn::new(step as u32))));
        }
        assert!(!watch.note_oldest(at(20_000), None));
        assert!(!watch.note_oldest(at(60_000), None) && !watch.is_hopeless(at(60_000)));
        assert!(
            !watch.note_oldest(at(60_001), Some(Psn::new(19))),
            "the time before does not count"
        );
    }
}
