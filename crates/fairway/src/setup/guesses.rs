//! Limits the wrong keys that a source address may use, over all its connections.
//!
//! The protocol ends a connection whose peer guesses the keys of segments, Jetties and mailboxes.
//! The peer could connect again, or guess over many connections at once. Wrong keys are therefore
//! counted by source, too ([`Source`]), in the same way as the protocol counts them: a burst of
//! guesses, and then one per interval. A source that has used up its guesses loses the connection
//! that it used for the last, and gets no new one before it has earned a guess. Sources are found
//! as in [`super::quota`].

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::IpAddr;

use fairway_ub::Profile;
use fairway_ub::wire::{Duration, Instant};

use super::quota::Source;

/// Number of records in the table. Sources that share a record share its allowance.
const RECORDS: usize = 1024;

/// Number of wrong keys that each source has used.
pub(crate) struct Guesses {
    hasher: RandomState,
    most: u32,
    /// Interval in which a source earns one guess.
    interval: Duration,
    records: Box<[Record]>,
}

#[derive(Clone, Copy)]
struct Record {
    spent: u32,
    at: Instant,
}

impl Guesses {
    /// Allows as many guesses as the protocol allows over one connection.
    pub(crate) fn new(profile: &Profile) -> Guesses {
        let records = vec![Record { spent: 0, at: Instant::ZERO }; RECORDS].into();
        let (most, interval) = (profile.refused_keys, profile.refused_key_interval);
        Guesses { hasher: RandomState::new(), most, interval, records }
    }

    /// Counts a wrong key of a source. Returns false if the source exceeded its allowance.
    pub(crate) fn note(&mut self, now: Instant, from: IpAddr) -> bool {
        let most = self.most;
        let record = self.record(now, from);
        record.spent = record.spent.saturating_add(1).min(most.saturating_add(1));
        record.spent <= most
    }

    /// True if a source may open a new connection.
    pub(crate) fn allows(&mut self, now: Instant, from: IpAddr) -> bool {
        self.record(now, from).spent <= self.most
    }

    /// Returns the record of a source, after the guesses earned meanwhile have been added.
    fn record(&mut self, now: Instant, from: IpAddr) -> &mut Record {
        let hash = self.hasher.hash_one(Source::of(from));
        let record = &mut self.records[hash as usize % RECORDS];
        let earned = now.since(record.at).as_ps() / self.interval.as_ps().max(1);
        // An instant that appears to be in the future is more than 106 days old.
        if record.spent == 0 || now.is_before(record.at) || earned >= u64::from(record.spent) {
            *record = Record { spent: 0, at: now };
        } else {
            record.spent -= earned as u32;
            record.at = record.at + self.interval.times(earned);
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUESSER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn guesses() -> (Guesses, Instant) {
        let interval = Duration::from_ms(10);
        let profile = Profile::new().refused_keys(100).refused_key_interval(interval);
        (Guesses::new(&profile), Instant::from_ns(1_000_000_000))
    }

    #[test]
    fn source_gets_so_many_guesses_and_then_what_time_brings() {
        let (mut guesses, now) = guesses();
        let at_once = (0..1000).filter(|_| guesses.note(now, GUESSER)).count();
        assert_eq!(at_once, 100);
        assert!(!guesses.allows(now, GUESSER));
        // A guess beyond the allowance has to be earned, too.
        let later = now + Duration::from_ms(10);
        assert!(guesses.allows(later, GUESSER) && !guesses.note(later, GUESSER));
        let later = now + Duration::from_ms(520);
        assert_eq!((0..1000).filter(|_| guesses.note(later, GUESSER)).count(), 50);
        let much_later = now + Duration::from_secs(1 << 23);
        assert_eq!((0..1000).filter(|_| guesses.note(much_later, GUESSER)).count(), 100);
    }

    #[test]
    fn other_sources_keep_their_guesses() {
        let (mut guesses, now) = guesses();
        while guesses.note(now, GUESSER) {}
        let others = (0..64).map(|net| IpAddr::from([198, 51, 100, net]));
        let allowed = others.filter(|other| guesses.allows(now, *other)).count();
        assert!(allowed >= 60, "{allowed} of 64 others");
    }
}
