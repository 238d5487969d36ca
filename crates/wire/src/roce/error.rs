//! Why a datagram is not a RoCEv2 packet.

use core::fmt;

/// Why a datagram was refused. Its ICRC is another matter: see [`Icrc`](super::Icrc).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The datagram, or the part of it that was handed in, ends inside its headers or trailer.
    TooShort {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes there are.
        available: usize,
    },
    /// Payload follows the headers of a packet that has none.
    TooLong {
        /// How many bytes.
        extra: usize,
    },
    /// TVer is one we do not speak.
    UnsupportedVersion(u8),
    /// The opcode is undefined, or of a service we do not offer (RD, XRC, the manufacturers' own).
    UnknownOpcode(u8),
    /// A field has a value it cannot have.
    BadField {
        /// The field's name in `docs/wire.md`.
        field: &'static str,
        /// What it held.
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
                write!(f, "transport version {version} is not spoken here")
            }
            DecodeError::UnknownOpcode(code) => write!(f, "unknown BTH opcode {code:#04x}"),
            DecodeError::BadField { field, value } => {
                write!(f, "field {field} cannot hold {value:#x}")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Why the bytes of an IP packet do not enclose a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterError {
    /// It ends before its headers or the lengths they state.
    TooShort,
    /// Neither IPv4 nor IPv6.
    Version(u8),
    /// An IPv4 header with options, or an IPv6 packet with extension headers, or not UDP: the next
    /// protocol's number, or 0 for options.
    NotUdp(u8),
    /// It is a fragment.
    Fragment,
    /// The lengths in its IP and UDP headers contradict each other.
    Length,
}

impl fmt::Display for OuterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OuterError::TooShort => write!(f, "the IP packet is cut"),
            OuterError::Version(version) => write!(f, "IP version {version}"),
            OuterError::NotUdp(0) => write!(f, "an IPv4 header with options"),
            OuterError::NotUdp(protocol) => write!(f, "protocol {protocol} where UDP is wanted"),
            OuterError::Fragment => write!(f, "a fragment of an IP packet"),
            OuterError::Length => write!(f, "the lengths in IP and UDP headers do not agree"),
        }
    }
}

impl core::error::Error for OuterError {}
