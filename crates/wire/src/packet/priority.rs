//! The class of a packet, by which a switch chooses the packet that it sends next.

use super::Packet;

/// A priority class: a switch sends no packet while one of a higher class waits for the same link.
///
/// [`Priority::CONTROL`] is the class of packets without a sequence number: acknowledgements,
/// refusals, credit, probes, and loads. Numbered packets have the seven classes of data below it,
/// also those without payload, because one that overtakes others makes these seem lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// The class of data unless a policy names another one: the lowest.
    pub const DATA: Priority = Priority(0);
    /// The highest class of data.
    pub const DATA_MAX: Priority = Priority(6);
    /// The class of control packets: the highest.
    pub const CONTROL: Priority = Priority(7);
    /// Number of classes.
    pub const COUNT: u8 = 8;

    /// The class with a number, 0 for the lowest; of a number above 7, the highest.
    #[inline]
    pub const fn new(number: u8) -> Priority {
        if number < Self::COUNT { Priority(number) } else { Self::CONTROL }
    }

    /// The class of data with a number, 0 for the lowest; of a number above 6, the highest of data.
    #[inline]
    pub const fn of_data(number: u8) -> Priority {
        if number < Self::CONTROL.0 { Priority(number) } else { Self::DATA_MAX }
    }

    /// The class of a packet with this many bytes of payload for which no policy names another.
    #[inline]
    pub const fn of(packet: &Packet, payload: u32) -> Priority {
        match packet {
            Packet::Data(_) | Packet::Void(_) | Packet::Datagram(_) => Self::DATA,
            Packet::Bypass(_) if payload > 0 => Self::DATA,
            _ => Self::CONTROL,
        }
    }

    /// The number of the class, from 0 for the lowest to 7.
    #[inline]
    pub const fn number(self) -> u8 {
        self.0
    }
}
