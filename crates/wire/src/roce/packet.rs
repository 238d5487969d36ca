//! RoCEv2 packet values. The types cannot express a packet that the specification forbids.

use super::DEFAULT_P_KEY;
use super::syndrome::Aeth;
use crate::{Psn, Qpn};

/// A RoCEv2 packet without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The base header, which every packet has.
    pub bth: Bth,
    /// The opcode and extension headers.
    pub operation: Operation,
}

/// The base transport header (IBTA vol 1, 9.2), less the opcode and the pad count, which follow
/// from the operation and the payload's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The destination queue pair.
    pub destination: Qpn,
    /// The packet sequence number.
    pub psn: Psn,
    /// The key of the partition; the top bit is full membership.
    pub p_key: u16,
    /// SE: the receiver's completion should raise an event.
    pub solicited: bool,
    /// M: the migration state (MigReq).
    pub migrated: bool,
    /// FECN: a switch on the packet's way was congested.
    pub fecn: bool,
    /// BECN: the other direction is congested.
    pub becn: bool,
    /// A: the sender requests an acknowledgement.
    pub ack_request: bool,
}

impl Default for Bth {
    /// Queue pair 0, PSN 0, the default partition, no flag set.
    fn default() -> Self {
        Bth {
            destination: Qpn::new(0),
            psn: Psn::new(0),
            p_key: DEFAULT_P_KEY,
            solicited: false,
            migrated: false,
            fecn: false,
            becn: false,
            ack_request: false,
        }
    }
}

/// The two services whose queue pairs are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
}

/// The opcode and extension headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Part of a SEND.
    Send {
        /// RC or UC.
        service: Service,
        /// Position of the packet in its message.
        fragment: SendFragment,
    },
    /// Part of an RDMA WRITE.
    Write {
        /// RC or UC.
        service: Service,
        /// Position of the packet in its message.
        fragment: WriteFragment,
    },
    /// An RDMA READ request (RC).
    ReadRequest(Reth),
    /// Part of the response to an RDMA READ (RC).
    ReadResponse(ReadFragment),
    /// An acknowledgement or negative acknowledgement (RC).
    Acknowledge(Aeth),
    /// The response to an atomic operation (RC).
    AtomicAcknowledge {
        /// The header that every acknowledgement has.
        aeth: Aeth,
        /// The word before it was changed (AtomicAckETH).
        original: u64,
    },
    /// Compare and swap (RC).
    CompareSwap(AtomicEth),
    /// Fetch and add: `swap_or_add` is added, `compare` is ignored (RC).
    FetchAdd(AtomicEth),
    /// A datagram (UD).
    Datagram {
        /// The queue pair that sent the datagram, and the Q_Key, which must be the receiver's.
        deth: Deth,
        /// Immediate data.
        immediate: Option<u32>,
    },
    /// A congestion notification (Annex A17).
    Cnp,
}

/// Position of a packet in a SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFragment {
    /// The first of several packets.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets.
    Last(Tail),
    /// The only packet.
    Only(Tail),
}

/// The extra content of the last packet of a SEND, besides payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// No extra content.
    Nothing,
    /// Immediate data (ImmDt).
    Immediate(u32),
    /// The receiver's R_Key that the SEND invalidates (IETH). RC only.
    Invalidate(u32),
}

/// Position of a packet in an RDMA WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFragment {
    /// The first of several packets, with the memory of the whole WRITE.
    First(Reth),
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets, with immediate data if there is any.
    Last(Option<u32>),
    /// The only packet.
    Only(Reth, Option<u32>),
}

/// Position of a packet in a READ response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFragment {
    /// The first of several packets.
    First(Aeth),
    /// Neither the first nor the last: the only response without AETH.
    Middle,
    /// The last of several packets.
    Last(Aeth),
    /// The only packet.
    Only(Aeth),
}

/// RDMA extended transport header: a range of remote memory (IBTA vol 1, 9.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address of the range's first byte.
    pub address: u64,
    /// The key that gives access to the range.
    pub r_key: u32,
    /// Length of the range in bytes.
    pub length: u32,
}

/// Atomic extended transport header (IBTA vol 1, 9.3.5). The word has 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address of the word.
    pub address: u64,
    /// The key that gives access to the word.
    pub r_key: u32,
    /// The new value, or the number to add.
    pub swap_or_add: u64,
    /// The word is swapped only if it equals this value.
    pub compare: u64,
}

/// Datagram extended transport header (IBTA vol 1, 9.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// The receiver's Q_Key.
    pub q_key: u32,
    /// The sender's queue pair.
    pub source: Qpn,
}

const _: () = assert!(size_of::<Packet>() <= 64);

impl Operation {
    /// True if payload may follow the headers of this operation.
    pub const fn carries_payload(&self) -> bool {
        match self {
            Operation::Send { .. }
            | Operation::Write { .. }
            | Operation::ReadResponse(_)
            | Operation::Datagram { .. } => true,
            Operation::ReadRequest(_)
            | Operation::Acknowledge(_)
            | Operation::AtomicAcknowledge { .. }
            | Operation::CompareSwap(_)
            | Operation::FetchAdd(_)
            | Operation::Cnp => false,
        }
    }

    /// True for packets that the responder of a reliable connection sends: such a packet answers a
    /// request and has the request's PSN.
    pub const fn is_response(&self) -> bool {
        matches!(
            self,
            Operation::ReadResponse(_)
                | Operation::Acknowledge(_)
                | Operation::AtomicAcknowledge { .. }
        )
    }
}
