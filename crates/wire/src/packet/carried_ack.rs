//! The acknowledgement in a data packet.

use crate::{AckFlags, Psn};
use core::num::NonZeroU32;

/// An acknowledgement that a data packet carries, which then needs no packet of its own.
///
/// It reports nothing but its fields: no gap, no marks, no duplicates and no path. A receiver that
/// has any of those to report sends an [`Ack`](crate::Ack).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedAck {
    /// The first word of the wire, with b31 set, so that `None` has a value of its own.
    first: NonZeroU32,
    echo_delay: u16,
    window: u16,
}

impl CarriedAck {
    const PRESENT: NonZeroU32 = NonZeroU32::new(1 << 31).expect("not zero");
    /// The bits of the first word that have a meaning on the wire.
    const DEFINED: u32 =
        (AckFlags::ECHO.with(AckFlags::ECHO_RETRY).bits() as u32) << 24 | 0x00ff_ffff;

    /// Acknowledges every packet up to and including `cumulative`; the receiver is able to track
    /// `window` packets after it. Of `flags` only [`AckFlags::ECHO`] and [`AckFlags::ECHO_RETRY`]
    /// are carried: that packet arrived last, `echo_delay` before this departure, in units of
    /// [`ECHO_DELAY_UNIT_NS`](crate::ECHO_DELAY_UNIT_NS), saturating.
    pub fn new(cumulative: Psn, flags: AckFlags, echo_delay: u16, window: u16) -> CarriedAck {
        CarriedAck::from_words([
            u32::from(flags.bits()) << 24 | cumulative.value(),
            u32::from(echo_delay) << 16 | u32::from(window),
        ])
    }

    /// Reads the two words of the wire. Reserved bits are ignored.
    #[inline(always)]
    pub(crate) fn from_words([first, second]: [u32; 2]) -> CarriedAck {
        let first = Self::PRESENT | first & Self::DEFINED;
        CarriedAck { first, echo_delay: (second >> 16) as u16, window: second as u16 }
    }

    /// The two words of the wire.
    #[inline(always)]
    pub(crate) fn words(&self) -> [u32; 2] {
        let second = u32::from(self.echo_delay) << 16 | u32::from(self.window);
        [self.first.get() & Self::DEFINED, second]
    }

    /// Every packet up to and including this PSN has arrived and has been placed.
    #[inline]
    pub fn cumulative(&self) -> Psn {
        Psn::new(self.first.get())
    }

    /// [`AckFlags::ECHO`] if the packet [`Self::cumulative`] arrived last before this left, with
    /// [`AckFlags::ECHO_RETRY`] if that was a retransmission.
    #[inline]
    pub fn flags(&self) -> AckFlags {
        AckFlags::from_bits((self.first.get() >> 24) as u8)
    }

    /// Time from the echoed packet's arrival to this packet's departure, in units of
    /// [`ECHO_DELAY_UNIT_NS`](crate::ECHO_DELAY_UNIT_NS), saturating.
    #[inline]
    pub fn echo_delay(&self) -> u16 {
        self.echo_delay
    }

    /// How many packets after [`Self::cumulative`] the receiver is able to track.
    #[inline]
    pub fn window(&self) -> u16 {
        self.window
    }
}
