//! RoCEv2 packet values. What the specification forbids cannot be written down here.

use super::DEFAULT_P_KEY;
use super::syndrome::Aeth;
use crate::{Psn, Qpn};

/// A RoCEv2 packet without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What every packet says.
    pub bth: Bth,
    /// What this one is.
    pub operation: Operation,
}

/// The base transport header (IBTA vol 1, 9.2), less the opcode and the pad count, which follow
/// from the operation and the payload's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bth {
    /// The queue pair it is for.
    pub destination: Qpn,
    /// Its sequence number.
    pub psn: Psn,
    /// The partition it belongs to; the top bit is full membership.
    pub p_key: u16,
    /// SE: the receiver's completion is to raise an event.
    pub solicited: bool,
    /// M: the migration state (MigReq).
    pub migrated: bool,
    /// FECN: a switch on its way was congested.
    pub fecn: bool,
    /// BECN: the other direction is congested.
    pub becn: bool,
    /// A: an acknowledgement is wanted.
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

/// What a packet is: its opcode and extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Part of a SEND.
    Send {
        /// RC or UC.
        service: Service,
        /// Which part.
        fragment: SendFragment,
    },
    /// Part of an RDMA WRITE.
    Write {
        /// RC or UC.
        service: Service,
        /// Which part.
        fragment: WriteFragment,
    },
    /// An RDMA READ request (RC).
    ReadRequest(Reth),
    /// Part of the answer to it (RC).
    ReadResponse(ReadFragment),
    /// An acknowledgement or negative acknowledgement (RC).
    Acknowledge(Aeth),
    /// The answer to an atomic (RC).
    AtomicAcknowledge {
        /// As in every acknowledgement.
        aeth: Aeth,
        /// The word before it was changed (AtomicAckETH).
        original: u64,
    },
    /// Compare and swap (RC).
    CompareSwap(AtomicEth),
    /// Fetch and add: `swap_or_add` is added, `compare` is not looked at (RC).
    FetchAdd(AtomicEth),
    /// A datagram (UD).
    Datagram {
        /// The queue pair that sent it, and the key that has to be the receiver's.
        deth: Deth,
        /// Immediate data.
        immediate: Option<u32>,
    },
    /// A congestion notification (Annex A17).
    Cnp,
}

/// Which part of a SEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFragment {
    /// The first of several packets.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets.
    Last(Tail),
    /// All of it.
    Only(Tail),
}

/// What the last packet of a SEND brings besides payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Nothing,
    /// Immediate data (ImmDt).
    Immediate(u32),
    /// The receiver's R_Key that is to be invalidated (IETH). RC only.
    Invalidate(u32),
}

/// Which part of an RDMA WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFragment {
    /// The first of several packets says where all of them go.
    First(Reth),
    /// Neither the first nor the last.
    Middle,
    /// The last of several packets, with immediate data if there is any.
    Last(Option<u32>),
    /// All of it.
    Only(Reth, Option<u32>),
}

/// Which part of a READ response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFragment {
    /// The first of several packets.
    First(Aeth),
    /// Neither the first nor the last: the only response without AETH.
    Middle,
    /// The last of several packets.
    Last(Aeth),
    /// All of it.
    Only(Aeth),
}

/// RDMA extended transport header: a range of remote memory (IBTA vol 1, 9.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address of its first byte.
    pub address: u64,
    /// The key that gives access to it.
    pub r_key: u32,
    /// Its length in bytes.
    pub length: u32,
}

/// Atomic extended transport header (IBTA vol 1, 9.3.5). The word has 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address of the word.
    pub address: u64,
    /// The key that gives access to it.
    pub r_key: u32,
    /// The new value, or what is added.
    pub swap_or_add: u64,
    /// What the word must be equal to in order to be swapped.
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
    /// True if payload may follow the headers.
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

    /// True for what a responder of a reliable connection sends: it answers a request and has the
    /// request's PSN.
    pub const fn is_response(&self) -> bool {
        matches!(
            self,
            Operation::ReadResponse(_)
                | Operation::Acknowledge(_)
                | Operation::AtomicAcknowledge { .. }
        )
    }
}
