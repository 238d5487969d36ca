//! Why a datagram is not a packet.

use crate::Tpn;
use core::fmt;

/// Why a datagram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The datagram, or the part of it that was handed in, ends inside its headers.
    TooShort {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// More bytes follow the headers than the packet can have payload; most have none.
    TooLong {
        /// How many more.
        extra: usize,
    },
    /// The header check is wrong: damaged on the way, of another protocol version, or not ours.
    BadCheck,
    /// There is no key for the channel that it names as its destination.
    NoKey(Tpn),
    /// TPVer, TAver or a set-up message's version is one we do not speak.
    UnsupportedVersion(u8),
    /// NTH names a next layer that is not defined.
    UnknownNextLayer(u8),
    /// RTPH has an opcode that is not defined.
    UnknownTpOpcode(u8),
    /// BTAH or ATAH has an opcode that is not defined.
    UnknownTaOpcode(u8),
    /// A set-up message of a kind that is not defined.
    UnknownSetup(u8),
    /// Well defined, but we do not offer it.
    NotSupported(Unsupported),
    /// A field has a value it cannot have.
    BadField {
        /// The field's name in `docs/wire.md`.
        field: &'static str,
        /// What it held.
        value: u32,
    },
}

/// What UB defines and this version does not offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// UPIH, EIDH or CIPH after RTPH or UTPH.
    TransportExtension(u8),
    /// TPACK or TPSACK without CETPH, or a congestion notification.
    TpOpcode(u8),
    /// An operation: notify, byte enables, prefetch, writeback, management.
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
                write!(f, "version {version} is not spoken here")
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
