//! Set-up messages and the lengths of their datagrams.

use fairway_wire::{SETUP_LEN, Setup, SetupMessage};

use super::lengths::packet_length;

/// A set-up message and the length of its datagram in bytes, zeros behind the message included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    /// The message.
    pub setup: Setup,
    /// Bytes of the datagram, without headers of IP and UDP.
    pub length: usize,
}

impl Padded {
    /// A message as long as the longest packets with `mtu_bytes` of payload.
    pub fn to_mtu(setup: Setup, mtu_bytes: u16) -> Padded {
        Padded { setup, length: packet_length(mtu_bytes).max(SETUP_LEN) }
    }

    /// A message without padding.
    pub fn short(setup: Setup) -> Padded {
        Padded { setup, length: SETUP_LEN }
    }

    /// The answer to this HELLO: an offer is as long as the packets that it offers, and no answer
    /// is longer than its HELLO.
    #[must_use]
    pub fn answered(&self, answer: Setup) -> Padded {
        match &answer.message {
            SetupMessage::Welcome(welcome) => {
                let whole = Padded::to_mtu(answer, welcome.offer.mtu_bytes);
                Padded { length: whole.length.min(self.length), ..whole }
            }
            _ => Padded::short(answer),
        }
    }
}
