//! Why a datagram was refused by the decoder.

use crate::Tpn;
use core::fmt;

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The datagram, or the prefix of it that was passed, ends inside its headers.
    TooShort {
        /// Number of bytes that are needed.
        needed: usize,
        /// Number of bytes that were passed.
        available: usize,
    },
    /// More bytes follow the headers than the packet can have as payload; most packets have none.
    TooLong {
        /// Number of bytes in excess.
        extra: usize,
    },
    /// The header check is wrong: the header is damaged, of another protocol version, or not
    /// Fairway's.
    BadCheck,
    /// The receiver has no key for the channel that the packet gives as its destination.
    NoKey(Tpn),
    /// TPVer, TAver or the version of a set-up message is not implemented.
    UnsupportedVersion(u8),
    /// NTH names a next layer that is not defined.
    UnknownNextLayer(u8),
    /// RTPH has an opcode that is not defined.
    UnknownTpOpcode(u8),
    /// BTAH or ATAH has an opcode that is not defined.
    UnknownTaOpcode(u8),
    /// A set-up message has a kind that is not defined.
    UnknownSetup(u8),
    /// The packet is well defined, but Fairway does not offer it.
    NotSupported(Unsupported),
    /// A field has an invalid value.
    BadField {
        /// The field's name in `docs/wire.md`.
        field: &'static str,
        /// The field's value.
        value: u32,
    },
}

/// A feature that UB defines and this version does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// UPIH, EIDH or CIPH after RTPH or UTPH.
    TransportExtension(u8),
    /// TPACK or TPSACK without CETPH, or a congestion notification.
    TpOpcode(u8),
    /// A transaction opcode: notify, byte enables, prefetch, writeback, management.
    TaOpcode(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::TooShort { needed, available } => {
                write!(f, "{available} bytes where the headers need {needed}")
            }
            DecodeError::TooLong { extra } => {
                write!(f, "{extra} bytes more than the packet can carry")
            }
            DecodeError::BadCheck => write!(f, "wrong header check"),
            DecodeError::NoKey(channel) => {
                write!(f, "no key for channel number {:#08x}", channel.value())
            }
            DecodeError::UnsupportedVersion(version) => {
                write!(f, "version {version} is not supported")
            }
            DecodeError::UnknownNextLayer(code) => write!(f, "unknown next layer {code:#05b}"),
            DecodeError::UnknownTpOpcode(code) => write!(f, "unknown TPOpcode {code:#04x}"),
            DecodeError::UnknownTaOpcode(code) => write!(f, "unknown TAOpcode {code:#04x}"),
            DecodeError::UnknownSetup(code) => write!(f, "unknown set-up message {code}"),
            DecodeError::NotSupported(what) => write!(f, "not supported yet: {what}"),
            DecodeError::BadField { field, value } => {
                write!(f, "field {field} cannot hold {value:#x}")
            }
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::TransportExtension(code) => {
                write!(f, "next header {code:#x} after the transport's")
            }
            Unsupported::TpOpcode(code) => write!(f, "TPOpcode {code:#04x}"),
            Unsupported::TaOpcode(code) => write!(f, "TAOpcode {code:#04x}"),
        }
    }
}

impl core::error::Error for DecodeError {}
