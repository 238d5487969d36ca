//! What is posted, and what was accepted and is not finished: records in pools.

use super::api::{CompletionKind, Peer, Work};
use fairway_device::ScatterList;
use fairway_device::list::{Links, List, ListRecord};
use fairway_device::pool::Index;
use fairway_wire::roce::Tail;
use fairway_wire::{Duration, Instant, Psn};

/// A posted send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    pub(crate) id: u64,
    pub(crate) work: Work,
    pub(crate) local: ScatterList,
    pub(crate) links: Links<Index<Send>>,
    /// Bytes of the message; of an atomic 0.
    pub(crate) length: u32,
    /// PSNs it takes: of a READ those of its answer.
    pub(crate) packets: u32,
    /// Of those, acknowledged.
    pub(crate) acknowledged: u32,
    /// Parts of the answer that are not in place yet.
    pub(crate) placing: u32,
    /// Its number among the sends of the queue pair (SSN, 9.7.7.2).
    pub(crate) number: u32,
    /// The old value of the word, of an atomic.
    pub(crate) value: u64,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) fence: bool,
    /// Requests of a READ, or that of an atomic, that were sent and are not answered.
    pub(crate) in_flight: u32,
    /// Its local bytes may not be used: it fails when its turn comes, and holds no segment.
    pub(crate) faulty: bool,
}

impl Send {
    /// READ and atomics: they are answered by data, and their depth is limited.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.work, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
    }

    /// It consumes a receive of the peer.
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
    /// It is a queue pair's own, not shared.
    pub(crate) owned: bool,
    /// Queue pairs that use it.
    pub(crate) users: u32,
    pub(crate) domain: u32,
    /// An event is due when fewer are posted; 0: none is.
    pub(crate) limit: u32,
    pub(crate) live: bool,
}

/// A packet of a request that was accepted: those of a queue pair stand in PSN order, and only the
/// first may finish.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) links: Links<Index<Pending>>,
    /// The last PSN it takes.
    pub(crate) psn: Psn,
    /// It is in place.
    pub(crate) placed: bool,
    /// The memory for it is not there.
    pub(crate) missing: bool,
    pub(crate) ack_request: bool,
    /// It begins a message, and came too early.
    pub(crate) first: bool,
    /// It ends a message.
    pub(crate) last: bool,
    /// A receive that completes with it.
    pub(crate) receive: Option<Index<Receive>>,
    pub(crate) kind: CompletionKind,
    pub(crate) bytes: u32,
    pub(crate) tail: Tail,
    pub(crate) solicited: bool,
    pub(crate) from: Peer,
    /// A READ or atomic that is due with it: its place in the table of resources.
    pub(crate) resource: Option<u32>,
}

impl ListRecord for Pending {
    fn links(&mut self) -> &mut Links<Index<Self>> {
        &mut self.links
    }
}

/// `at` if there is a time limit.
pub(crate) fn after(now: Instant, span: Duration) -> Option<Instant> {
    (span != Duration::ZERO).then(|| now + span)
}
