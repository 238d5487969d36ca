//! Records which unreliable packets of a peer have arrived, so that none is executed twice.
//!
//! Unreliable packets have no sequence number of the transport, so a network that duplicates
//! packets, or an observer that sends a copy of one later, could cause a second execution. They are
//! counted by a number of their own, and the receiver records the last [`WINDOW`] of them, as IPsec
//! does (RFC 4303 §3.4.3, with the ring of RFC 6479): a number in the window is accepted once, and
//! one below it is late.

/// Words of the ring. One of them is always being cleared.
const WORDS: u64 = 33;
/// Numbers below the highest one that are recorded individually. Packets that are overtaken by more
/// than this many later ones are dropped, as if the network had lost them.
pub const WINDOW: u64 = (WORDS - 1) * 64;

/// The datagrams of a channel, in both directions.
#[derive(Debug)]
pub(crate) struct Datagrams {
    /// Number of the last unreliable packet sent; 0 before the first.
    sent: u64,
    arrived: ReplayWindow,
}

impl Datagrams {
    pub(crate) fn new() -> Datagrams {
        Datagrams { sent: 0, arrived: ReplayWindow { highest: 0, seen: [0; WORDS as usize] } }
    }

    /// True if nothing was ever sent or received.
    pub(crate) fn is_untouched(&self) -> bool {
        self.sent == 0 && self.arrived.highest == 0
    }

    /// The number of the next packet to be sent.
    pub(crate) fn next(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    /// Records a packet that has arrived; false if it is a copy, or below the window.
    pub(crate) fn accept(&mut self, number: u64) -> bool {
        self.arrived.accept(number)
    }
}

#[derive(Debug)]
struct ReplayWindow {
    highest: u64,
    /// One bit for each number, indexed by the number modulo the bits of the ring.
    seen: [u64; WORDS as usize],
}

impl ReplayWindow {
    fn accept(&mut self, number: u64) -> bool {
        // No sender uses 0.
        if number == 0 || self.highest.saturating_sub(number) >= WINDOW {
            return false;
        }
        let (word, highest_word) = (number / 64, self.highest / 64);
        for cleared in 1..=word.saturating_sub(highest_word).min(WORDS) {
            self.seen[((highest_word + cleared) % WORDS) as usize] = 0;
        }
        self.highest = self.highest.max(number);
        let (bit, word) = (1 << (number % 64), &mut self.seen[(word % WORDS) as usize]);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn window_takes_each_number_once_whatever_their_order() {
        let mut random = crate::random::Random::new(7);
        let mut window = Datagrams::new();
        let (mut taken, mut highest) = (BTreeSet::new(), 0);
        for _ in 0..200_000 {
            let jump = if random.number().is_multiple_of(500) { 3 * WINDOW } else { 90 };
            let ahead = random.number() % jump;
            let number = (highest + ahead).saturating_sub(random.number() % (WINDOW + 64));
            let is_late = number == 0 || highest >= number + WINDOW;
            let expected = !is_late && !taken.contains(&number);
            assert_eq!(window.accept(number), expected, "{number}, highest {highest}");
            if expected {
                taken.insert(number);
                highest = highest.max(number);
            }
        }
        assert!(highest > 500_000 && taken.len() > 100_000, "{highest}, {}", taken.len());
    }

    #[test]
    fn window_ends_at_the_highest_number_there_is() {
        let mut window = Datagrams::new();
        assert!(window.accept(1));
        assert!(window.accept(u64::MAX));
        assert!(!window.accept(u64::MAX));
        assert!(window.accept(u64::MAX - WINDOW + 1));
        assert!(!window.accept(u64::MAX - WINDOW));
        assert!(!window.accept(0));
    }
}
