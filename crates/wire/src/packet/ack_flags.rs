//! Flags of acknowledgements.

/// Which parts of an [`Ack`](crate::Ack) are valid, and what it requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckFlags(u8);

impl AckFlags {
    /// `echo` and `echo_delay` are valid.
    pub const ECHO: AckFlags = AckFlags(1);
    /// `start_known` is valid.
    pub const START_KNOWN: AckFlags = AckFlags(2);
    /// `sack` is valid (the packet is a TPSACK).
    pub const SELECTIVE: AckFlags = AckFlags(4);
    /// The sender of this acknowledgement requests one in return: it is a probe or keep-alive.
    pub const REQUEST: AckFlags = AckFlags(8);
    /// The gap at `cumulative + 1` is wider than the receiver's reorder tolerance.
    pub const BEYOND_TOLERANCE: AckFlags = AckFlags(16);
    /// The echoed packet was a retransmission.
    pub const ECHO_RETRY: AckFlags = AckFlags(32);
    /// The receiver is overloaded: its peer should slow down (back-pressure).
    pub const PRESSURE: AckFlags = AckFlags(64);
    /// Every flag that has a meaning.
    pub const ALL: u8 = 127;

    /// No flag.
    pub const fn none() -> Self {
        AckFlags(0)
    }
    /// The flags in these wire bits; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        AckFlags(bits & Self::ALL)
    }
    /// The flags as wire bits.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// True if every flag of `other` is set.
    pub const fn contains(self, other: AckFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// These flags with those of `other` set as well.
    #[must_use]
    pub const fn with(self, other: AckFlags) -> Self {
        AckFlags(self.0 | other.0)
    }
}
