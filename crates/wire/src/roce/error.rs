//! Why a datagram was refused as a RoCEv2 packet.

use core::fmt;

/// Why a datagram was refused. A wrong ICRC is detected elsewhere: see [`Icrc`](super::Icrc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The datagram, or the prefix of it that was passed, ends inside its headers or trailer.
    TooShort {
        /// Number of bytes that are needed.
        needed: usize,
        /// Number of bytes that were passed.
        available: usize,
    },
    /// Payload follows the headers of a packet that cannot have any.
    TooLong {
        /// Number of bytes of payload.
        extra: usize,
    },
    /// TVer is a version that is not implemented.
    UnsupportedVersion(u8),
    /// The opcode is undefined, or of a service that Fairway does not offer (RD, XRC, the
    /// manufacturers' own).
    UnknownOpcode(u8),
    /// A field has an invalid value.
    BadField {
        /// The field's name in `docs/wire.md`.
        field: &'static str,
        /// The field's value.
        value: u32,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::TooShort { needed, available } => {
                write!(f, "{available} bytes where a RoCE packet needs {needed}")
            }
            DecodeError::TooLong { extra } => {
                write!(f, "{extra} bytes of payload in a packet without any")
            }
            DecodeError::UnsupportedVersion(version) => {
                write!(f, "transport version {version} is not supported")
            }
            DecodeError::UnknownOpcode(code) => write!(f, "unknown BTH opcode {code:#04x}"),
            DecodeError::BadField { field, value } => {
                write!(f, "field {field} cannot hold {value:#x}")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why the bytes of an IP packet do not contain a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterError {
    /// The packet ends before its headers or before the lengths in them.
    TooShort,
    /// The packet is neither IPv4 nor IPv6; the value is its version.
    Version(u8),
    /// The packet has IPv4 options or IPv6 extension headers, or is not UDP. The value is the next
    /// protocol's number, or 0 for options.
    NotUdp(u8),
    /// The packet is a fragment.
    Fragment,
    /// The lengths in the IP and UDP headers contradict each other.
    Length,
}

impl fmt::Display for OuterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OuterError::TooShort => write!(f, "the IP packet is truncated"),
            OuterError::Version(version) => write!(f, "IP version {version}"),
            OuterError::NotUdp(0) => write!(f, "an IPv4 header with options"),
            OuterError::NotUdp(protocol) => write!(f, "IP protocol {protocol} instead of UDP"),
            OuterError::Fragment => write!(f, "a fragment of an IP packet"),
            OuterError::Length => write!(f, "the lengths in IP and UDP headers do not agree"),
        }
    }
}

impl core::error::Error for OuterError {}
