//! Records of posted operations, and of accepted packets that are not finished. They are in pools.

use super::api::{CompletionKind, Peer, Status, Work};
use fairway_device::ScatterList;
use fairway_device::list::{Links, List, ListRecord};
use fairway_device::pool::Index;
use fairway_wire::roce::{Operation, SendFragment, Service, Tail};
use fairway_wire::{Duration, Instant, Psn};

/// A posted send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(crate) id: u64,
    pub(crate) work: Work,
    pub(crate) local: ScatterList,
    pub(crate) links: Links<Index<Send>>,
    /// Length of the message in bytes; 0 for an atomic.
    pub(crate) length: u32,
    /// Number of its PSNs; for a READ, those of the answer.
    pub(crate) packets: u32,
    /// Number of its PSNs that are acknowledged.
    pub(crate) acknowledged: u32,
    /// Packets of the answer that have not been placed yet.
    pub(crate) placing: u32,
    /// Its number among the sends of the queue pair (SSN, 9.7.7.2).
    pub(crate) number: u32,
    /// For an atomic, the old value of the word.
    pub(crate) value: u64,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) fence: bool,
    /// True for a WRITE that is sent as WRITEs of one packet each.
    pub(crate) split: bool,
    /// Requests of a READ or atomic that were sent and are not answered.
    pub(crate) in_flight: u32,
    /// True if its local bytes may not be used: it fails when it is executed, and holds no segment.
    pub(crate) faulty: bool,
}

impl Work {
    /// True for READs and atomics: data answers them, and their number in flight is limited.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
    }
}

impl Send {
    /// True for READs and atomics ([`Work::is_answered`]).
    pub(crate) fn is_answered(&self) -> bool {
        self.work.is_answered()
    }

    /// True if its packets have payload.
    pub(crate) fn has_payload(&self) -> bool {
        self.length > 0 && !self.is_answered()
    }

    /// True if the send consumes a receive of the peer.
    pub(crate) fn takes_receive(&self) -> bool {
        matches!(
            self.work,
            Work::Send { .. } | Work::Datagram { .. } | Work::Write { immediate: Some(_), .. }
        )
    }

    pub(crate) fn is_done(&self) -> bool {
        self.acknowledged == self.packets && self.placing == 0
    }

    pub(crate) fn kind(&self) -> CompletionKind {
        match self.work {
            Work::Send { .. } | Work::Datagram { .. } => CompletionKind::Send,
            Work::Write { .. } => CompletionKind::Write,
            Work::Read { .. } => CompletionKind::Read,
            Work::CompareSwap { .. } => CompletionKind::CompareSwap,
            Work::FetchAdd { .. } => CompletionKind::FetchAdd,
        }
    }
}

impl ListRecord for Send {
    fn links(&mut self) -> &mut Links<Index<Self>> {
        &mut self.links
    }
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) local: ScatterList,
    pub(crate) links: Links<Index<Receive>>,
    pub(crate) faulty: bool,
}

impl ListRecord for Receive {
    fn links(&mut self) -> &mut Links<Index<Self>> {
        &mut self.links
    }
}

/// A queue of posted receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceiveQueue {
    pub(crate) list: List<Index<Receive>>,
    pub(crate) posted: u32,
    pub(crate) depth: u32,
    /// True if the queue belongs to one queue pair, false if it is shared.
    pub(crate) owned: bool,
    /// Queue pairs that use it.
    pub(crate) users: u32,
    pub(crate) domain: u32,
    /// An event is reported when fewer receives are posted; 0 means none.
    pub(crate) limit: u32,
    pub(crate) live: bool,
}

/// An accepted packet of a request. The packets of a queue pair are in PSN order, and only the
/// first may finish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) links: Links<Index<Pending>>,
    /// The last PSN of the packet.
    pub(crate) psn: Psn,
    /// True if the payload has been placed.
    pub(crate) placed: bool,
    /// True if the memory for the payload is missing.
    pub(crate) missing: bool,
    pub(crate) ack_request: bool,
    /// True if the packet begins a message and was early.
    pub(crate) first: bool,
    /// True if the packet ends a message.
    pub(crate) last: bool,
    /// The receive that completes with the packet.
    pub(crate) receive: Option<Index<Receive>>,
    /// The status with which the receive completes.
    pub(crate) status: Status,
    pub(crate) kind: CompletionKind,
    pub(crate) bytes: u32,
    pub(crate) tail: Tail,
    pub(crate) solicited: bool,
    pub(crate) from: Peer,
    /// The READ or atomic that becomes due with the packet: its index in the table of resources.
    pub(crate) resource: Option<u32>,
}

impl ListRecord for Pending {
    fn links(&mut self) -> &mut Links<Index<Self>> {
        &mut self.links
    }
}

/// The time `span` after `now`; `None` if `span` is zero, which means no limit.
pub(crate) fn after(now: Instant, span: Duration) -> Option<Instant> {
    (span != Duration::ZERO).then(|| now + span)
}

/// The fragment of a SEND that its first, last or another packet carries.
pub(crate) fn send_operation(service: Service, first: bool, last: bool, tail: Tail) -> Operation {
    let fragment = match (first, last) {
        (true, true) => SendFragment::Only(tail),
        (true, false) => SendFragment::First,
        (false, false) => SendFragment::Middle,
        (false, true) => SendFragment::Last(tail),
    };
    Operation::Send { service, fragment }
}
