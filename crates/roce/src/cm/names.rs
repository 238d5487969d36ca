//! The ids that a manager gives to its connections.

#![allow(deprecated)] // `SipHasher`: the only keyed hash of the core library.

use super::api::ConnectionId;
use super::route::LOCAL_BITS;
use core::hash::{Hasher, SipHasher};
use fairway_wire::roce::cm::CommunicationId;

/// Draws connection ids: eight bits of the process's slot, by which datagrams find the process, and
/// 24 bits that cannot be predicted without the key (SipHash-2-4 of a counter). A message with the
/// right id proves that its sender has received what was sent to its address.
pub(super) struct Names {
    slot: u8,
    key: SipHasher,
    drawn: u64,
}

impl Names {
    pub(super) fn new(slot: u8, seed: u64) -> Names {
        Names { slot, key: SipHasher::new_with_keys(seed, !seed), drawn: 0 }
    }

    /// The next number, of 64 bits.
    pub(super) fn number(&mut self) -> u64 {
        self.drawn += 1;
        let mut hasher = self.key.clone();
        hasher.write_u64(self.drawn);
        hasher.finish()
    }

    /// An id that is neither zero nor taken. At most 4,096 of the 2^24 ids may be taken.
    pub(super) fn draw(&mut self, is_taken: impl Fn(ConnectionId) -> bool) -> ConnectionId {
        loop {
            let local = self.number() as u32 & ((1 << LOCAL_BITS) - 1);
            let name = CommunicationId(u32::from(self.slot) << LOCAL_BITS | local);
            if name.0 != 0 && !is_taken(name) {
                return name;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_carry_the_slot_are_free_and_do_not_follow_one_another() {
        let mut names = Names::new(5, 77);
        let mut last = CommunicationId(0);
        let (mut ones, mut near) = (0, 0);
        for _ in 0..10_000 {
            let name = names.draw(|name| name == last);
            assert_eq!(name.0 >> LOCAL_BITS, 5);
            assert_ne!(name, last);
            near += u32::from(name.0.abs_diff(last.0) < 4096);
            ones += (name.0 << 8).count_ones();
            last = name;
        }
        // 10,000 × 24 fair bits; on average five in 10,000 random ids are within 4,096 of the one
        // before.
        assert!((118_500..121_500).contains(&ones), "{ones}");
        assert!(near < 25, "{near}");
        assert_ne!(Names::new(5, 78).draw(|_| false), Names::new(5, 77).draw(|_| false));
    }
}
