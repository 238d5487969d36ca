//! TP channel groups at set-up: which of a group's channels are open, and which may join.
//!
//! A client opens a group's first channel as any other, and both sides agree on how many channels
//! the group has. The client then requests each of the others, and names the first one and a number
//! from 1 in the HELLO. The server accepts each number once. A connection is complete when all
//! channels are open.

use fairway_wire::{GROUP_MAX, Joins, Parameters};

/// The channels of a group whose first one is open, as either side records them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    /// Number of channels of the complete group.
    count: u16,
    /// Paths of each channel.
    paths: u16,
    /// Channels that are open, one bit for each, by number.
    open: u16,
}

impl Members {
    /// A group whose first channel has been opened with what both sides `agreed` on.
    pub fn new(agreed: &Parameters) -> Members {
        Members { count: agreed.channels.clamp(1, GROUP_MAX), paths: agreed.paths, open: 1 }
    }

    /// True if a channel may join: its number is one of the group's and not taken, and it agrees on
    /// as many paths.
    pub fn admits(self, joins: Joins, agreed: &Parameters) -> bool {
        self.is_missing(joins.number) && agreed.paths == self.paths
    }

    /// Records that the channel of this number is open.
    pub fn join(&mut self, number: u8) {
        if self.is_missing(number) {
            self.open |= 1 << number;
        }
    }

    /// The numbers of the channels that are not open, which a client has to request.
    pub fn missing(self) -> impl Iterator<Item = u8> {
        (0..self.count as u8).filter(move |number| self.is_missing(*number))
    }

    /// True if every channel of the group is open.
    pub fn is_complete(self) -> bool {
        self.missing().next().is_none()
    }

    fn is_missing(self, number: u8) -> bool {
        u16::from(number) < self.count && self.open & 1 << number == 0
    }
}
