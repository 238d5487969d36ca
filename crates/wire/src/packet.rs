//! Packet values: what the engine speaks. Payload is never in them.

use crate::{Cna, JettyId, Msn, Psn, TokenId, Tpn};

/// Who sends to whom, and along which path: the NTH and the channel numbers of RTPH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The sender's node address (SCNA).
    pub source: Cna,
    /// The receiver's node address (DCNA).
    pub destination: Cna,
    /// The sender's TP channel number (SrcTPN).
    pub source_tpn: Tpn,
    /// The receiver's TP channel number (DstTPN).
    pub destination_tpn: Tpn,
    /// The path: an entropy value, carried in NTH's load-balance factor.
    pub path: u8,
}

/// One packet of a TP channel, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Reliable data: a request or a response of the transaction layer (TPOpcode 0x01).
    Data(Data),
    /// An acknowledgement, aggregated or selective (TPACK-CC 0x03, TPSACK-CC 0x06).
    Ack(Ack),
    /// A refusal of one message (TPNAK 0x02 with RSPST ≠ 0).
    Nak(Nak),
    /// Fills a sequence number whose message was refused or abandoned (ours, 0x10).
    Void(Void),
    /// The sender is gone for good (ours, 0x11).
    Close(Close),
}

/// A data packet. Its payload, if any, follows the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Sequence number in the sender's PSN space.
    pub psn: Psn,
    /// Message number: one per transaction on this direction of the channel.
    pub message: Msn,
    /// Which packet of the message: its payload belongs `index × MTU` bytes after the start.
    pub index: u32,
    /// The issuing Jetty (INI_RC_ID); in a response, the Jetty the response is for.
    pub jetty: JettyId,
    /// Transaction sequence number of the initiator (INI_TASSN).
    pub transaction: u16,
    /// The sender-chosen slot under which the receiver keeps a message of several packets, or
    /// the initiator's read slot in a READ and its response.
    pub slot: u8,
    /// The sender wants an acknowledgement soon (RTPH A).
    pub ack_request: bool,
    /// This is a retransmission (BTAH Retry).
    pub retry: bool,
    /// This is the last packet of its message (TPOpcode b7).
    pub last: bool,
    /// What it asks for.
    pub operation: Operation,
}

/// What a data packet asks for or brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write the payload into remote memory.
    Write {
        /// Where the message starts.
        access: Access,
    },
    /// Write, then consume a receive request of `target` and complete it with `immediate`.
    WriteImmediate {
        /// Where the message starts.
        access: Access,
        /// The Jetty that is told.
        target: JettyId,
        /// Application data for the completion.
        immediate: u64,
    },
    /// Deliver the payload into the next receive buffer of `target`.
    Send {
        /// The receiving Jetty.
        target: JettyId,
        /// Length of the whole message in bytes.
        length: u32,
    },
    /// As `Send`, with immediate data.
    SendImmediate {
        /// The receiving Jetty.
        target: JettyId,
        /// Length of the whole message in bytes.
        length: u32,
        /// Application data for the completion.
        immediate: u64,
    },
    /// A further packet of a WRITE or SEND whose start the receiver has said it knows: it
    /// carries neither address nor token (ORNIC §3.2).
    Learned,
    /// Ask for remote memory.
    Read {
        /// What to read.
        access: Access,
    },
    /// Bring memory that was asked for; `slot`, `transaction` and `jetty` are the request's.
    ReadResponse,
}

/// What remote memory a message is about (MAETAH and TVETAH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Access {
    /// First byte, in the address space of the segment.
    pub address: u64,
    /// Length of the whole message in bytes.
    pub length: u32,
    /// The segment.
    pub token_id: TokenId,
    /// The secret that grants the access.
    pub token_value: u32,
}

/// Bits in a selective acknowledgement's map.
pub const SACK_BITS: u32 = 256;

/// An acknowledgement. Later ones overwrite earlier ones; nothing in it is a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Every packet up to and including this PSN has arrived and is in place.
    pub cumulative: Psn,
    /// If [`AckFlags::ECHO`]: the data packet that arrived last before this was sent.
    pub echo: Psn,
    /// If [`AckFlags::LEARNED`]: the newest message whose start the receiver knows.
    pub learned: Msn,
    /// Time from the echoed packet's arrival to this packet's departure, in 64 ns units,
    /// saturating.
    pub echo_delay: u16,
    /// How many packets after `cumulative` the receiver is able to track.
    pub window: u16,
    /// Data packets that arrived marked by a congested switch, modulo 256.
    pub marks: u8,
    /// Data packets that arrived twice, modulo 256.
    pub duplicates: u8,
    /// Congestion hint of a switch (CETPH Hint); zero if none.
    pub hint: u8,
    /// Which optional parts are valid.
    pub flags: AckFlags,
    /// If [`AckFlags::SELECTIVE`]: what has arrived beyond `cumulative`.
    pub sack: Sack,
}

/// Which parts of an [`Ack`] are valid, and what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckFlags(u8);

impl AckFlags {
    /// `echo` and `echo_delay` are valid.
    pub const ECHO: AckFlags = AckFlags(1);
    /// `learned` is valid.
    pub const LEARNED: AckFlags = AckFlags(2);
    /// `sack` is valid (the packet is a TPSACK).
    pub const SELECTIVE: AckFlags = AckFlags(4);
    /// The sender of this wants an acknowledgement back: a probe or keep-alive.
    pub const REQUEST: AckFlags = AckFlags(8);
    /// The gap at `cumulative + 1` is wider than the receiver's reorder tolerance.
    pub const BEYOND_TOLERANCE: AckFlags = AckFlags(16);
    /// The echoed packet was a retransmission.
    pub const ECHO_RETRY: AckFlags = AckFlags(32);
    /// The receiver suffers: the sender should slow down (peer back-pressure).
    pub const PRESSURE: AckFlags = AckFlags(64);
    /// Every flag that has a meaning.
    pub const ALL: u8 = 127;

    /// No flag.
    pub const fn none() -> Self {
        AckFlags(0)
    }
    /// From wire bits; unknown bits are dropped.
    pub const fn from_bits(bits: u8) -> Self {
        AckFlags(bits & Self::ALL)
    }
    /// As wire bits.
    pub const fn bits(self) -> u8 {
        self.0
    }
    /// True if every flag of `other` is set.
    pub const fn contains(self, other: AckFlags) -> bool {
        self.0 & other.0 == other.0
    }
    /// With the flags of `other` set as well.
    #[must_use]
    pub const fn with(self, other: AckFlags) -> Self {
        AckFlags(self.0 | other.0)
    }
}

/// The selective part of an acknowledgement (SAETPH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    /// The PSN of bit 0.
    pub base: Psn,
    /// Gaps in the map below this PSN have not arrived; of what lies above nothing is claimed. It
    /// is the highest PSN that has arrived, or lower while an earlier payload is being placed.
    pub highest: Psn,
    /// Bit `i` (word `i / 32`, bit `i % 32`) is set if PSN `base + i` has arrived.
    pub bitmap: [u32; (SACK_BITS / 32) as usize],
}

/// A refusal of one message; answers the packet that was refused, and each repeat of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nak {
    /// The refused packet.
    pub psn: Psn,
    /// The message it belongs to.
    pub message: Msn,
    /// Why.
    pub reason: Refusal,
    /// For [`Refusal::ReceiverNotReady`]: do not retry before this many microseconds.
    pub retry_after_us: u16,
}

/// Why a message was refused (RSPST and RSPINFO of a TPNAK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No receive was posted (RSPST 1).
    ReceiverNotReady,
    /// No such segment, wrong token, or the range leaves the segment (RSPST 3).
    Access,
    /// The segment does not grant this right (RSPST 3).
    Rights,
    /// No such Jetty, or it is not ready (RSPST 3).
    NoJetty,
    /// The message is longer than the receive buffer (RSPST 3).
    Length,
    /// The receiver does not know or does not offer this operation (RSPST 3).
    Operation,
}

/// Stands in for a data packet that will never come, so that the PSN space has no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The sequence number that is filled.
    pub psn: Psn,
    /// The message that was given up.
    pub message: Msn,
    /// The sender wants an acknowledgement soon.
    pub ack_request: bool,
}

/// The sender has closed the channel; nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// True in the answer to a close.
    pub answer: bool,
}

/// The explicit congestion notification bits of an IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable,
    /// ECN-capable, unmarked.
    Capable,
    /// Marked by a congested switch.
    Congested,
}

const _: () = assert!(size_of::<Packet>() <= 64);
const _: () = assert!(size_of::<Route>() <= 20);
