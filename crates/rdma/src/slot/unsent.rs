//! Forwarded datagrams that the receiver's full queue did not accept.
//!
//! Linux queues ten datagrams for a Unix socket (`net.unix.max_dgram_qlen`), fewer than a program
//! that opens twenty connections sends at once. Peers repeat lost datagrams, but all of them
//! together and in the same order, so the last of a burst would be lost each time.

use std::collections::VecDeque;

use fairway_ub::wire::{Duration, Instant};

use super::{Destination, ForwardResult};

/// Delay of the first retry. Each further one waits a quarter of the oldest forwarded datagram's
/// age.
const RETRY_INTERVAL_MIN: Duration = Duration::from_us(250);

/// Age at which a forwarded datagram that was not accepted is dropped: its sender repeats it.
const AGE_MAX: Duration = Duration::from_secs(1);

/// Maximum number of forwarded datagrams that wait for one receiver; `OF_ALL_MAX` limits those for
/// all.
const OF_ONE_MAX: usize = 512;
const OF_ALL_MAX: usize = 4096;

struct Unsent {
    to: Destination,
    bytes: Box<[u8]>,
    since: Instant,
}

/// The forwarded datagrams that wait, the oldest first.
#[derive(Default)]
pub(super) struct Queue {
    forwarded: VecDeque<Unsent>,
    /// Time at which they are sent again.
    pub(super) retry_at: Option<Instant>,
    /// Number of datagrams that were dropped after they had waited.
    pub(super) dropped: u64,
}

impl Queue {
    /// True if a new datagram to this receiver has to wait behind an earlier one.
    pub(super) fn waits_for(&self, to: Destination) -> bool {
        self.forwarded.iter().any(|forwarded| forwarded.to == to)
    }

    pub(super) fn len(&self) -> usize {
        self.forwarded.len()
    }

    /// Stores a forwarded datagram, if there is room.
    pub(super) fn push(&mut self, now: Instant, to: Destination, bytes: &[u8]) -> ForwardResult {
        let of_one = self.forwarded.iter().filter(|forwarded| forwarded.to == to).count();
        if of_one >= OF_ONE_MAX || self.forwarded.len() >= OF_ALL_MAX {
            return ForwardResult::Full;
        }
        self.forwarded.push_back(Unsent { to, bytes: bytes.into(), since: now });
        self.retry_at.get_or_insert(now + RETRY_INTERVAL_MIN);
        ForwardResult::Later
    }

    /// Sends all of them again. A receiver with a full queue does not delay those of others.
    pub(super) fn retry(
        &mut self,
        now: Instant,
        mut send: impl FnMut(Destination, &[u8]) -> ForwardResult,
    ) {
        let mut full: Vec<Destination> = Vec::new();
        let mut dropped = 0;
        self.forwarded.retain(|forwarded| {
            if now.is_at_or_after(forwarded.since + AGE_MAX) {
                dropped += 1;
                return false;
            }
            if full.contains(&forwarded.to) {
                return true;
            }
            match send(forwarded.to, &forwarded.bytes) {
                ForwardResult::Sent => false,
                ForwardResult::Full | ForwardResult::Later => {
                    full.push(forwarded.to);
                    true
                }
                ForwardResult::NoProcess => {
                    dropped += 1;
                    false
                }
            }
        });
        self.dropped += dropped;
        let oldest = self.forwarded.front();
        self.retry_at = oldest.map(|forwarded| {
            let age = now.since(forwarded.since);
            now + Duration::from_ns(age.as_ns() / 4).max(RETRY_INTERVAL_MIN)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Destination = Destination::Slot(1);
    const OTHER: Destination = Destination::Slot(2);

    /// Returns the calls of `send`, with a queue that accepts `room` datagrams per receiver.
    fn retry(queue: &mut Queue, now: Instant, room: usize) -> Vec<(Destination, u8)> {
        let mut taken = Vec::new();
        queue.retry(now, |to, bytes| {
            if taken.iter().filter(|(other, _)| *other == to).count() == room {
                return ForwardResult::Full;
            }
            taken.push((to, bytes[0]));
            ForwardResult::Sent
        });
        taken
    }

    #[test]
    fn a_burst_arrives_in_order() {
        let mut queue = Queue::default();
        let mut now = Instant::ZERO;
        for number in 0..25 {
            assert_eq!(queue.push(now, ONE, &[number]), ForwardResult::Later);
        }
        let mut arrived = Vec::new();
        while let Some(at) = queue.retry_at {
            now = at;
            arrived.extend(retry(&mut queue, now, 10).into_iter().map(|(_, number)| number));
        }
        assert_eq!(arrived, (0..25).collect::<Vec<u8>>());
        assert_eq!((queue.dropped, queue.len()), (0, 0));
    }

    #[test]
    fn a_full_queue_holds_up_no_other() {
        let mut queue = Queue::default();
        let now = Instant::ZERO;
        for number in 0..3 {
            queue.push(now, ONE, &[number]);
        }
        queue.push(now, OTHER, &[9]);
        let taken = retry(&mut queue, now, 1);
        assert_eq!(taken, [(ONE, 0), (OTHER, 9)]);
        assert!(queue.waits_for(ONE) && !queue.waits_for(OTHER));
    }

    #[test]
    fn datagram_that_is_never_taken_is_dropped_after_a_second() {
        let mut queue = Queue::default();
        queue.push(Instant::ZERO, ONE, &[0]);
        let mut tries = 0;
        while let Some(at) = queue.retry_at {
            assert!(retry(&mut queue, at, 0).is_empty());
            tries += 1;
        }
        assert_eq!((queue.dropped, queue.len()), (1, 0));
        assert!(tries < 60, "{tries}");
    }

    #[test]
    fn one_addressee_takes_no_more_than_its_share() {
        let mut queue = Queue::default();
        let pushed = |queue: &mut Queue, to| queue.push(Instant::ZERO, to, &[0]);
        for _ in 0..OF_ONE_MAX {
            assert_eq!(pushed(&mut queue, ONE), ForwardResult::Later);
        }
        assert_eq!(pushed(&mut queue, ONE), ForwardResult::Full);
        assert_eq!(pushed(&mut queue, OTHER), ForwardResult::Later);
    }
}
