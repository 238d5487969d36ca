//! Packet values: what the engine speaks. Payload is never in them.

use crate::{Cna, JettyId, Msn, Psn, TokenId, Tpn};

mod credit_request;

pub use credit_request::{CREDIT_MAX, Credit, CreditRequest, Probe};

/// Source, destination and path of a packet: the NTH and the channel numbers of RTPH.
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
    /// The sender wants to send more than it was granted (ours, 0x12).
    CreditRequest(CreditRequest),
    /// The receiver grants (ours, 0x13).
    Credit(Credit),
    /// Measures a round trip (ours, 0x14).
    Probe(Probe),
    /// Unreliable data (mode UNO): no sequence number, no acknowledgement (UTPH).
    Datagram(Datagram),
    /// A load or store, or its answer: no transport header at all (TP Bypass, §8.3).
    Bypass(Bypass),
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
    /// What the transaction asks of the order; [`Order::NONE`] in responses and in
    /// [`Operation::Continuation`].
    pub order: Order,
    /// What it asks for.
    pub operation: Operation,
}

/// The side that orders transactions which ask for order (UB §7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ServiceMode {
    /// Reliable, ordered by the initiator: it withholds what has to wait.
    Roi = 0,
    /// Reliable, ordered by the target: it defers the execution of what has to wait.
    Rot = 1,
    /// Reliable, ordered by the lower layer: the transport's acknowledgement is the transaction's.
    #[default]
    Rol = 2,
    /// Unreliable and unordered.
    Uno = 3,
}

/// What a transaction asks of the order of execution (UB §7.3, ODR\[1:0\]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tag {
    /// No order: it neither waits nor is waited for.
    #[default]
    No = 0,
    /// Relaxed order: it does not wait, but later strict ones wait for it.
    Ro = 1,
    /// Strict order: it waits for every earlier relaxed or strict one of its Jetty.
    So = 2,
    /// Memory order: its payload may arrive at any time, but the target's memory changes as if it
    /// was executed after every earlier ordered one of its Jetty, and before every later one of
    /// memory order. A READ returns the bytes of that moment. (Ours: UB leaves the value free.)
    Mo = 3,
}

/// The ordering fields of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The side that orders; never [`ServiceMode::Uno`] in a data packet.
    pub mode: ServiceMode,
    /// What it asks for.
    pub tag: Tag,
    /// Its completion at the target comes after those of all earlier such transactions (ODR\[2\]).
    pub in_order: bool,
    /// If `tag` is not [`Tag::No`], otherwise 0: counts the ordered transactions of its
    /// Jetty to this node, modulo 2^16.
    pub sequence: u16,
    /// If `in_order`, otherwise 0: counts those transactions of its Jetty to this node.
    pub receive_sequence: u16,
    /// Under which the initiator waits for the response, if the mode is ROI or ROT and the
    /// operation has no response of its own; otherwise 0.
    pub request_slot: u8,
}

impl Order {
    /// Asks for nothing (mode ROL, tag NO).
    pub const NONE: Order = Order {
        mode: ServiceMode::Rol,
        tag: Tag::No,
        in_order: false,
        sequence: 0,
        receive_sequence: 0,
        request_slot: 0,
    };
}

/// The Jetty or Jetty group that a message names, and the secret that grants it (MTETAH, TVETAH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The Jetty or group.
    pub jetty: JettyId,
    /// Its token value.
    pub token_value: u32,
    /// For a group that dispatches by hint: member = hint mod members.
    pub hint: u8,
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
        target: Target,
        /// Application data for the completion.
        immediate: u64,
    },
    /// Deliver the payload into the next receive buffer of `target`.
    Send {
        /// The receiving Jetty.
        target: Target,
        /// Length of the whole message in bytes.
        length: u32,
    },
    /// As `Send`, with immediate data.
    SendImmediate {
        /// The receiving Jetty.
        target: Target,
        /// Length of the whole message in bytes.
        length: u32,
        /// Application data for the completion.
        immediate: u64,
    },
    /// A further packet of a WRITE, SEND or PUT whose start the receiver has said it knows: it
    /// carries neither address nor token (ORNIC §3.2).
    Continuation,
    /// Ask for remote memory.
    Read {
        /// What to read.
        access: Access,
    },
    /// Bring memory that was asked for; `slot`, `transaction` and `jetty` are the request's.
    ReadResponse,
    /// Change remote memory atomically and ask for its old value; one packet without payload.
    Atomic {
        /// The word: `length` is 4 or 8.
        access: Access,
        /// How it changes.
        operator: AtomicOperator,
        /// The operand; the new value of a compare-and-swap. 0 for a load.
        operand: u64,
        /// What a compare-and-swap compares with; otherwise 0.
        compare: u64,
    },
    /// The old value of a word; `slot`, `transaction` and `jetty` are the request's.
    AtomicResponse {
        /// What it was before.
        value: u64,
    },
    /// The transaction is done (TAACK), for modes ROI and ROT; `slot` is the request's
    /// `request_slot`, `transaction` and `jetty` are the request's.
    Done {
        /// Why it was refused, if it was.
        refusal: Option<Refusal>,
        /// For [`Refusal::ReceiverNotReady`]: do not retry before this many microseconds.
        retry_after_us: u16,
    },
    /// Put the payload into the current buffer of a mailbox (RVMA).
    Put(Put),
    /// Ask for bytes of a mailbox's current buffer; answered by `ReadResponse`.
    Get(Get),
    /// A transaction was given up after it took its place in an order: the target no longer waits
    /// for the numbers in `order`. One packet without payload.
    Abandon,
    /// All puts of this Jetty to this mailbox up to a number are over.
    AbandonPut {
        /// The mailbox.
        mailbox: u64,
        /// The sequence number of the last one.
        sequence: u32,
    },
}

/// How an atomic changes its word. Values are those of UB's TAOpcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AtomicOperator {
    /// Becomes the operand if it equals `compare`.
    CompareSwap = 0x07,
    /// Becomes the operand; the old value is wanted.
    Swap = 0x08,
    /// Becomes the operand.
    Store = 0x09,
    /// Stays.
    Load = 0x0A,
    /// Plus the operand, wrapping.
    Add = 0x0B,
    /// Minus the operand, wrapping.
    Subtract = 0x0C,
    /// And.
    And = 0x0D,
    /// Or.
    Or = 0x0E,
    /// Exclusive or.
    Xor = 0x0F,
}

impl AtomicOperator {
    /// All of them, in the order of their opcodes.
    pub const ALL: [AtomicOperator; 9] = [
        AtomicOperator::CompareSwap,
        AtomicOperator::Swap,
        AtomicOperator::Store,
        AtomicOperator::Load,
        AtomicOperator::Add,
        AtomicOperator::Subtract,
        AtomicOperator::And,
        AtomicOperator::Or,
        AtomicOperator::Xor,
    ];

    /// What a word that holds `old` becomes. For 4-byte words the caller truncates.
    pub const fn apply(self, old: u64, operand: u64, compare: u64) -> u64 {
        match self {
            AtomicOperator::CompareSwap => {
                if old == compare {
                    operand
                } else {
                    old
                }
            }
            AtomicOperator::Swap | AtomicOperator::Store => operand,
            AtomicOperator::Load => old,
            AtomicOperator::Add => old.wrapping_add(operand),
            AtomicOperator::Subtract => old.wrapping_sub(operand),
            AtomicOperator::And => old & operand,
            AtomicOperator::Or => old | operand,
            AtomicOperator::Xor => old ^ operand,
        }
    }
}

/// A put into a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Put {
    /// The mailbox's address.
    pub mailbox: u64,
    /// Where in the buffer the message belongs; 0 for a mailbox in stream mode.
    pub offset: u64,
    /// Counts the puts of this Jetty to this mailbox, modulo 2^32.
    pub sequence: u32,
    /// Bytes of all its earlier puts to this mailbox, modulo 2^32.
    pub before: u32,
    /// Length of the whole message in bytes.
    pub length: u32,
    /// The mailbox's key.
    pub key: u32,
    /// The epoch it belongs to, modulo 2^32; only if `named`.
    pub epoch: u32,
    /// It belongs to `epoch` and to no other.
    pub named: bool,
    /// Every earlier put of this Jetty to this mailbox is over, so the target waits for none.
    pub oldest: bool,
    /// An earlier one may be waiting for other operations, or for its epoch: no room is to be kept
    /// for it.
    pub follows: bool,
}

/// A question for bytes of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Get {
    /// The mailbox's address.
    pub mailbox: u64,
    /// First byte, from the start of the buffer.
    pub offset: u64,
    /// Length in bytes.
    pub length: u32,
    /// The mailbox's key.
    pub key: u32,
    /// The epoch that is asked for, modulo 2^32; only if `named`, otherwise the current one.
    pub epoch: u32,
    /// `epoch` counts.
    pub named: bool,
}

/// An unreliable message of one packet: WRITE, WRITE_IMM, SEND, SEND_IMM (mode UNO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Counts the datagrams of the sender on this channel, so that the receiver executes none
    /// twice.
    pub number: u64,
    /// The issuing Jetty.
    pub jetty: JettyId,
    /// Its transaction number.
    pub transaction: u16,
    /// What it asks for.
    pub operation: Operation,
}

/// A load or store that bypasses the transport, or its answer. Loads are answered and stores are
/// done as often as they arrive anew; the number tells a late copy from a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// Counts the loads and stores of the initiator on this channel; a repeat keeps its number.
    pub number: u32,
    /// No load or store before this number will be repeated: copies of those are late.
    pub oldest: u32,
    /// The issuing Jetty.
    pub jetty: JettyId,
    /// What it is.
    pub operation: BypassOperation,
}

/// The kinds of [`Bypass`] packets (TAOpcodes 0x40 to 0x43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassOperation {
    /// Ask for up to 64 bytes.
    Load {
        /// What to read.
        access: Access,
    },
    /// Write the payload, up to 64 bytes.
    Store {
        /// Where to.
        access: Access,
    },
    /// The bytes asked for are the payload.
    LoadResponse {
        /// Why there are none, if it was refused.
        refusal: Option<Refusal>,
    },
    /// The store is done.
    StoreDone {
        /// Why not, if it was refused.
        refusal: Option<Refusal>,
    },
}

/// The longest load or store, in bytes: a cache line.
pub const BYPASS_BYTES: u32 = 64;

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

/// The unit of [`Ack::echo_delay`], in nanoseconds.
pub const ECHO_DELAY_UNIT_NS: u64 = 64;

/// An acknowledgement. Later ones overwrite earlier ones; nothing in it is a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Every packet up to and including this PSN has arrived and is in place.
    pub cumulative: Psn,
    /// If [`AckFlags::ECHO`]: the data packet that arrived last before this was sent.
    pub echo: Psn,
    /// If [`AckFlags::START_KNOWN`]: the newest message whose start the receiver knows.
    pub start_known: Msn,
    /// Time from the echoed packet's arrival to this packet's departure, in units of
    /// [`ECHO_DELAY_UNIT_NS`], saturating.
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
    /// `start_known` is valid.
    pub const START_KNOWN: AckFlags = AckFlags(2);
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
    /// A transaction it has to follow is still missing: try again when that is done (RSPST 1).
    OutOfOrder,
    /// The address of an atomic is no multiple of its length (RSPST 3).
    Misaligned,
    /// The receiver has no record free in which to keep the order asked for (RSPST 3).
    Resources,
    /// No such mailbox, wrong key, or it is closed (RSPST 3).
    NoMailbox,
    /// The epoch named is over (RSPST 3).
    Epoch,
    /// Not of a message, but of one packet: a switch has cut its payload off, and only the header
    /// came. Send it again (RSPST 1). Only in a [`Nak`].
    Trimmed {
        /// What was cut was a retransmission.
        retry: bool,
    },
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
    /// The sequence number after the last one that the sender has used. The receiver ignores a
    /// close whose number lies outside its window.
    pub next: Psn,
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

const _: () = assert!(size_of::<Packet>() <= 80);
const _: () = assert!(size_of::<Route>() <= 20);
