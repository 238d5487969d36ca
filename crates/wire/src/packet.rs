//! Packet values, as the protocol handles them. They never contain payload.

use crate::{Cna, JettyId, Msn, Psn, TokenId, Tpn};

mod ack_flags;
mod carried_ack;
mod cci;
mod credit_request;
mod executed;
mod part;
mod path_reports;
mod priority;

pub use ack_flags::AckFlags;
pub use carried_ack::CarriedAck;
pub use cci::Cci;
pub use credit_request::{CREDIT_MAX, Credit, CreditRequest, Probe};
pub use executed::{EXECUTED_MAX, Executed};
pub use part::Part;
pub use path_reports::{PATH_REPORTS_MAX, PathReport, PathReports};
pub use priority::Priority;

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
    /// The class in which switches serve the packet, carried in NTH's SL.
    pub priority: Priority,
    /// What switches on the way have written (NTH CCI).
    pub cci: Cci,
}

/// One packet of a TP channel, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A reliable data packet: a request or a response of the transaction layer (TPOpcode 0x01).
    Data(Data),
    /// An acknowledgement, aggregated or selective (TPACK-CC 0x03, TPSACK-CC 0x06).
    Ack(Ack),
    /// A refusal of one message (TPNAK 0x02 with RSPST ≠ 0).
    Nak(Nak),
    /// Fills a sequence number whose message was refused or abandoned (Fairway's own, 0x10).
    Void(Void),
    /// The sender has closed the channel (Fairway's own, 0x11).
    Close(Close),
    /// The sender has ended its side of another channel of the group.
    Retire(Retire),
    /// A credit request: the sender has more to send than it was granted (Fairway's own, 0x12).
    CreditRequest(CreditRequest),
    /// Credit that the receiver grants (Fairway's own, 0x13).
    Credit(Credit),
    /// Measures a round trip (Fairway's own, 0x14).
    Probe(Probe),
    /// Unreliable data (mode UNO) behind UTPH: no sequence number, no acknowledgement.
    Datagram(Datagram),
    /// A load or store, or its answer, without a transport header (TP Bypass, §8.3).
    Bypass(Bypass),
}

/// A data packet. Its payload, if any, follows the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Sequence number in the sender's PSN space.
    pub psn: Psn,
    /// Message number: one per transaction on this direction of the channel.
    pub message: Msn,
    /// Number of the packet within the message, from 0: its payload belongs `index × MTU` bytes
    /// after the start.
    pub index: u32,
    /// The issuing Jetty (INI_RC_ID); in a response, the Jetty the response is for.
    pub jetty: JettyId,
    /// Transaction sequence number of the initiator (INI_TASSN).
    pub transaction: u16,
    /// The sender-chosen slot under which the receiver keeps a message of several packets, or
    /// the initiator's read slot in a READ and its response.
    pub slot: u8,
    /// The sender requests an acknowledgement soon (RTPH A).
    pub ack_request: bool,
    /// This is a retransmission (BTAH Retry).
    pub retry: bool,
    /// This is the last packet of its message (TPOpcode b7).
    pub last: bool,
    /// The acknowledgement that the packet carries, if both sides agreed on that at set-up.
    pub carried: Option<CarriedAck>,
    /// The order of execution that the transaction requires; [`Order::NONE`] in responses and in
    /// [`Operation::Continuation`].
    pub order: Order,
    /// The operation that the packet requests or answers.
    pub operation: Operation,
}

/// The side that orders transactions which require an order (UB §7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ServiceMode {
    /// Reliable, ordered by the initiator, which withholds transactions that have to wait.
    Roi = 0,
    /// Reliable, ordered by the target, which defers the execution of transactions that have to
    /// wait.
    Rot = 1,
    /// Reliable, ordered by the lower layer: the transport's acknowledgement is the transaction's.
    #[default]
    Rol = 2,
    /// Unreliable and unordered.
    Uno = 3,
}

/// The order of execution that a transaction requires (UB §7.3, ODR\[1:0\]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tag {
    /// No order: the transaction waits for none, and none waits for it.
    #[default]
    No = 0,
    /// Relaxed order: the transaction waits for none, but later strict ones wait for it.
    Ro = 1,
    /// Strict order: the transaction waits for every earlier relaxed or strict one of its Jetty.
    So = 2,
    /// Memory order: the payload may arrive at any time, but the target's memory changes as if the
    /// transaction was executed after every earlier ordered one of its Jetty, and before every
    /// later one of memory order. A READ returns the bytes of that moment. (Fairway's own: UB
    /// leaves the value free.)
    Mo = 3,
}

/// The ordering fields of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The side that orders the transaction; never [`ServiceMode::Uno`] in a data packet.
    pub mode: ServiceMode,
    /// The order of execution that the transaction requires.
    pub tag: Tag,
    /// True if the transaction completes at the target after all earlier transactions with this
    /// flag (ODR\[2\]).
    pub in_order: bool,
    /// Counts the ordered transactions of the Jetty to this node, modulo 2^16. 0 if `tag` is
    /// [`Tag::No`].
    pub sequence: u16,
    /// Counts the transactions of the Jetty to this node that have `in_order`. 0 if `in_order` is
    /// false.
    pub receive_sequence: u16,
    /// Slot under which the initiator waits for the response, if the mode is ROI or ROT and the
    /// operation has no response of its own; otherwise 0.
    pub request_slot: u8,
}

impl Order {
    /// No order (mode ROL, tag NO).
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
    /// The number of the Jetty or Jetty group.
    pub jetty: JettyId,
    /// The token value of the Jetty or group.
    pub token_value: u32,
    /// For a group that dispatches by hint: the member is the hint modulo the number of members.
    pub hint: u8,
}

/// The operation that a data packet requests or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Write the payload into remote memory.
    Write {
        /// The memory of the whole message.
        access: Access,
    },
    /// Write the payload into remote memory, then complete a receive request of `target` with
    /// `immediate`.
    WriteImmediate {
        /// The memory of the whole message.
        access: Access,
        /// The Jetty whose receive request is completed.
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
    /// The same as `Send`, with immediate data.
    SendImmediate {
        /// The receiving Jetty.
        target: Target,
        /// Length of the whole message in bytes.
        length: u32,
        /// Application data for the completion.
        immediate: u64,
    },
    /// Continuation packet of a WRITE, SEND or PUT whose start the receiver has acknowledged as
    /// recorded: it carries neither address nor token (ORNIC §3.2).
    Continuation,
    /// Request bytes of remote memory.
    Read {
        /// The memory to read.
        access: Access,
    },
    /// As `Write`, for a part of an operation that goes by several channels: it is refused unless
    /// the memory of the whole operation may be written.
    WritePart(Part),
    /// As `Read`, for a part of an operation that goes by several channels: it is refused unless
    /// the memory of the whole operation may be read.
    ReadPart(Part),
    /// Bytes of memory that a READ or GET requested; `slot`, `transaction` and `jetty` are the
    /// request's.
    ReadResponse,
    /// Change a word of remote memory atomically and return its old value; one packet without
    /// payload.
    Atomic {
        /// The word: `length` is 4 or 8.
        access: Access,
        /// How the word changes.
        operator: AtomicOperator,
        /// The operand; the new value of a compare-and-swap. 0 for a load.
        operand: u64,
        /// The value with which a compare-and-swap compares; otherwise 0.
        compare: u64,
    },
    /// The old value of a word; `slot`, `transaction` and `jetty` are the request's.
    AtomicResponse {
        /// The word before the change.
        value: u64,
    },
    /// The transaction has been executed or refused (TAACK), for modes ROI and ROT; `slot` is the
    /// request's `request_slot`, `transaction` and `jetty` are the request's.
    Done {
        /// The reason if the transaction was refused; `None` if it was executed.
        refusal: Option<Refusal>,
        /// For [`Refusal::ReceiverNotReady`]: do not retry before this many microseconds.
        retry_after_us: u16,
        /// Further transactions that have been executed; none if this one was refused.
        others: Executed,
    },
    /// Put the payload into the current buffer of a mailbox (RVMA).
    Put(Put),
    /// Request bytes of a mailbox's current buffer, which a `ReadResponse` returns.
    Get(Get),
    /// The initiator gave up a transaction after it had taken its place in an order: the target no
    /// longer waits for the numbers in `order`. One packet without payload.
    Abandon,
    /// All puts of this Jetty to this mailbox up to `sequence` have ended or been given up.
    AbandonPut {
        /// The mailbox's address.
        mailbox: u64,
        /// The sequence number of the last put that is over.
        sequence: u32,
    },
}

/// How an atomic changes its word. Values are those of UB's TAOpcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AtomicOperator {
    /// The word becomes the operand if it equals `compare`.
    CompareSwap = 0x07,
    /// The word becomes the operand; the old value is returned.
    Swap = 0x08,
    /// The word becomes the operand.
    Store = 0x09,
    /// The word stays as it is.
    Load = 0x0A,
    /// The word plus the operand, wrapping.
    Add = 0x0B,
    /// The word minus the operand, wrapping.
    Subtract = 0x0C,
    /// The bitwise and of word and operand.
    And = 0x0D,
    /// The bitwise or of word and operand.
    Or = 0x0E,
    /// The bitwise exclusive or of word and operand.
    Xor = 0x0F,
}

impl AtomicOperator {
    /// All operators, in the order of their opcodes.
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

    /// The new value of a word that holds `old`. For 4-byte words the caller truncates.
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
    /// Offset of the message in the buffer, in bytes; 0 for a mailbox in stream mode.
    pub offset: u64,
    /// Counts the puts of this Jetty to this mailbox, modulo 2^32.
    pub sequence: u32,
    /// Bytes of all earlier puts of this Jetty to this mailbox, modulo 2^32.
    pub before: u32,
    /// Length of the whole message in bytes.
    pub length: u32,
    /// The mailbox's key.
    pub key: u32,
    /// The epoch for which the put is meant, modulo 2^32; valid only if `named`.
    pub epoch: u32,
    /// True if the put is meant for `epoch` and for no other.
    pub named: bool,
    /// True if every earlier put of this Jetty to this mailbox is over, so that the target waits
    /// for none.
    pub oldest: bool,
    /// True if an earlier put may be waiting for other operations or for its epoch, so that the
    /// target reserves no room for it.
    pub follows: bool,
}

/// A request for bytes of a mailbox.
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
    /// The requested epoch, modulo 2^32, if `named`; otherwise the current epoch is requested.
    pub epoch: u32,
    /// True if the request is for `epoch`.
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
    /// The issuing Jetty's transaction number.
    pub transaction: u16,
    /// The operation that the datagram requests.
    pub operation: Operation,
}

/// A load or store that bypasses the transport, or its answer. The receiver executes a repeated
/// load or store again; the number distinguishes a late copy from a new store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// Counts the loads and stores of the initiator on this channel; a repeat keeps its number.
    pub number: u32,
    /// No load or store before this number will be repeated: copies of earlier ones are late.
    pub oldest: u32,
    /// The issuing Jetty.
    pub jetty: JettyId,
    /// The load, store or answer.
    pub operation: BypassOperation,
}

/// The kinds of [`Bypass`] packets (TAOpcodes 0x40 to 0x43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BypassOperation {
    /// Read up to 64 bytes.
    Load {
        /// The memory to read.
        access: Access,
    },
    /// Write the payload, up to 64 bytes.
    Store {
        /// The memory to write.
        access: Access,
    },
    /// The answer to a load; the payload is the requested bytes.
    LoadResponse {
        /// The reason if the load was refused; then there is no payload.
        refusal: Option<Refusal>,
    },
    /// The answer to a store.
    StoreDone {
        /// The reason if the store was refused; `None` if it was executed.
        refusal: Option<Refusal>,
    },
}

/// The longest load or store, in bytes: a cache line.
pub const BYPASS_BYTES: u32 = 64;

/// The remote memory that a message accesses (MAETAH and TVETAH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Access {
    /// First byte, in the address space of the segment.
    pub address: u64,
    /// Length of the whole message in bytes.
    pub length: u32,
    /// The segment's number.
    pub token_id: TokenId,
    /// The secret that grants the access.
    pub token_value: u32,
}

/// Bits in a selective acknowledgement's map.
pub const SACK_BITS: u32 = 256;

/// The unit of [`Ack::echo_delay`], in nanoseconds.
pub const ECHO_DELAY_UNIT_NS: u64 = 64;

/// An acknowledgement. Every field is a total or a state and never a difference, so that a later
/// acknowledgement replaces earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Every packet up to and including this PSN has arrived and has been placed.
    pub cumulative: Psn,
    /// If [`AckFlags::ECHO`]: the data packet that arrived last before this acknowledgement was
    /// sent.
    pub echo: Psn,
    /// If [`AckFlags::START_KNOWN`]: the newest message whose start the receiver has recorded.
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
    /// The worst CCI of the data packets since the last acknowledgement (CETPH C, I, Hint).
    pub cci: Cci,
    /// Which optional parts are valid.
    pub flags: AckFlags,
    /// If [`AckFlags::SELECTIVE`]: the packets that have arrived beyond `cumulative`.
    pub sack: Sack,
    /// What has arrived since the last acknowledgement, path by path. It is the only part that an
    /// acknowledgement does not repeat: if it is lost, so are its reports.
    pub paths: PathReports,
}

/// The selective part of an acknowledgement (SAETPH).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    /// The PSN of bit 0.
    pub base: Psn,
    /// PSN below which the gaps of the map have not arrived; above it, a clear bit has no meaning.
    /// It is the highest PSN that has arrived, or lower while an earlier payload is being placed.
    pub highest: Psn,
    /// Bit `i` (word `i / 32`, bit `i % 32`) is set if PSN `base + i` has arrived.
    pub bitmap: [u32; (SACK_BITS / 32) as usize],
}

/// A refusal of one message. It answers the refused packet and each repeat of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nak {
    /// The refused packet.
    pub psn: Psn,
    /// The message it belongs to.
    pub message: Msn,
    /// The reason of the refusal.
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
    /// The receiver does not support this operation (RSPST 3).
    Operation,
    /// A transaction that has to be executed first is still missing: retry when that has completed
    /// (RSPST 1).
    OutOfOrder,
    /// The address of an atomic is no multiple of its length (RSPST 3).
    Misaligned,
    /// The receiver has no free record to track the requested order (RSPST 3).
    Resources,
    /// The mailbox does not exist or is closed, or the key is wrong (RSPST 3).
    NoMailbox,
    /// The named epoch is over (RSPST 3).
    Epoch,
    /// Refuses one packet and not a message: a switch has trimmed its payload and only the header
    /// arrived. The sender retransmits it (RSPST 1). Only in a [`Nak`].
    Trimmed {
        /// True if the trimmed packet was a retransmission.
        retry: bool,
    },
}

/// Stands in for a data packet that will never come, so that the PSN space has no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Void {
    /// The sequence number that this packet fills.
    pub psn: Psn,
    /// The message that was given up.
    pub message: Msn,
    /// The sender requests an acknowledgement soon.
    pub ack_request: bool,
}

/// The sender has closed the channel and sends nothing more on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The sequence number after the last one that the sender has used. The receiver ignores a
    /// close whose number lies outside its window.
    pub next: Psn,
    /// True in the answer to a `Close`.
    pub answer: bool,
}

/// The sender has ended its side of another channel of the group, which is dead: it drops every
/// packet of that channel from now on, and places no payload of it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retire {
    /// The receiver's number of the channel that is dead.
    pub channel: Tpn,
    /// True in the answer to a `Retire`.
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

const _: () = assert!(size_of::<Packet>() <= 88);
const _: () = assert!(size_of::<Route>() <= 20);
