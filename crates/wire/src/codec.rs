//! Converts packets to bytes and back, by the tables of `docs/wire.md`.
//!
//! Every header is a whole number of 32-bit big-endian words, so the layouts are written as word
//! numbers from the start of the datagram. Word 0 is the header check and words 1–3 are NTH. What
//! follows depends on NTH's field NLP: RTPH or UTPH in words 4–7 and then the headers that TPOpcode
//! selects; or directly the headers of a load or store; or a set-up message. Section numbers (§)
//! are those of UB-Base-Specification 2.0.1.

mod bypass;
mod datagram;
mod decode;
mod encode;
mod error;
mod fields;
mod refusal;
mod setup;

pub use decode::{Decoded, decode, decode_filled, decode_keyed};
pub use encode::{encode, encode_keyed, header_len};
pub use error::{DecodeError, Unsupported};
pub use setup::encode_setup;

/// Length in bytes of the longest packet header. A prefix of this length of a datagram is enough to
/// decode any packet; a set-up message needs [`SETUP_LEN`](crate::SETUP_LEN) bytes.
pub const MAX_HEADER: usize = 128;

/// Version of everything that the UB text leaves open. It seeds the header check, so that packets
/// of another version are never misread.
pub const PROTOCOL_VERSION: u8 = 8;

/// Bytes of a datagram that hold CCI of NTH.
const CCI: core::ops::Range<usize> = 11..13;

/// Seed of the header check of set-up messages. It is the same in every version, because the two
/// ends agree on a version by set-up messages.
const SETUP_VERSION: u8 = 0;

/// NTH: which header follows (byte 10, b3–b1; §5.2.2).
mod next_layer {
    pub const BYPASS: u32 = 0b001;
    pub const RTPH: u32 = 0b010;
    pub const UTPH: u32 = 0b011;
    /// Fairway's own value.
    pub const SETUP: u32 = 0b111;
}

/// RTPH and UTPH: which header follows (byte 1, b3–b0; §6.2.1).
mod next_header {
    pub const TRANSACTION: u32 = 0x0;
    pub const NOTHING: u32 = 0xf;
}

/// RTPH and UTPH: the transport opcode (byte 0, b6–b0; §6.2.1).
mod tp_opcode {
    pub const UNRELIABLE: u32 = 0x00;
    pub const DATA: u32 = 0x01;
    pub const NAK: u32 = 0x02;
    pub const ACK: u32 = 0x03;
    pub const SELECTIVE_ACK: u32 = 0x06;
    /// Fairway's own value.
    pub const VOID: u32 = 0x10;
    /// Fairway's own values, down to the end of the list.
    pub const CLOSE: u32 = 0x11;
    pub const DEMAND: u32 = 0x12;
    pub const CREDIT: u32 = 0x13;
    pub const PROBE: u32 = 0x14;
    pub const RETIRE: u32 = 0x15;
}

/// BTAH and ATAH: the transaction opcode (byte 0; §7.2.1).
mod ta_opcode {
    pub const SEND: u32 = 0x00;
    pub const SEND_IMMEDIATE: u32 = 0x01;
    pub const WRITE: u32 = 0x03;
    pub const WRITE_IMMEDIATE: u32 = 0x04;
    pub const READ: u32 = 0x06;
    pub const COMPARE_SWAP: u32 = 0x07;
    /// The first and the last atomic operation with one operand.
    pub const SWAP: u32 = 0x08;
    pub const XOR: u32 = 0x0f;
    pub const DONE: u32 = 0x11;
    pub const READ_RESPONSE: u32 = 0x12;
    pub const ATOMIC_RESPONSE: u32 = 0x13;
    /// Fairway's own values, this one and the next five.
    pub const PUT: u32 = 0x20;
    pub const GET: u32 = 0x21;
    pub const ABANDON: u32 = 0x22;
    pub const ABANDON_PUT: u32 = 0x23;
    pub const WRITE_PART: u32 = 0x24;
    pub const READ_PART: u32 = 0x25;
    /// This opcode and the next three stand only directly behind NTH.
    pub const LOAD: u32 = 0x40;
    pub const STORE: u32 = 0x41;
    pub const LOAD_RESPONSE: u32 = 0x42;
    pub const STORE_DONE: u32 = 0x43;
}

/// RTPH and ATAH: the response status (RTPH byte 12, ATAH byte 4, b7–b5; §6.2.1).
mod status {
    pub const NOT_READY: u32 = 1;
    pub const TARGET_ERROR: u32 = 3;
    /// A TPACK that also serves as the TAACK, in service mode ROL.
    pub const FUSED: u32 = 5;
}

/// Byte of a credit packet that holds the class of data sent on that credit: NTH's last, which UB
/// reserves.
const GRANTED_CLASS: usize = 15;

/// Bit of the word of RTPH with the PSN that says that a data packet carries an acknowledgement.
const CARRIES_BIT: u32 = 29;
/// Length in bytes of the acknowledgement in a data packet, which stands behind all other headers.
const CARRIED_LEN: usize = 8;

/// BitMapSize in SAETPH of the 256-bit maps that Fairway sends; code `c` stands for `64 << c` bits.
const BITMAP_256: u32 = 2;

/// Length in bytes of the check, NTH and RTPH or UTPH. No packet is shorter: those without RTPH and
/// UTPH have BTAH or ATAH in their place.
const TRANSPORT_LEN: usize = 32;
/// Length in bytes of the check, NTH, RTPH or UTPH, and BTAH or ATAH.
const TRANSACTION_LEN: usize = 48;
/// Length in bytes of the order extension, which stands directly behind BTAH.
const ORDER_LEN: usize = 4;

#[cfg(test)]
mod tests;
