//! Decides whether a request that is next in sequence may change memory yet.
//!
//! Memory changes as if the requests of a connection were executed one after the other. A READ is
//! executed when the packets of its answer are created, and an atomic when the caller executes it:
//! both after the request was accepted. Until then, later packets wait if they would change the
//! memory that the READ reads, or if they would be placed before the atomic is executed. Nothing
//! waits where any order is allowed ([`Rights::RELAXED`]).

use super::{Incoming, target};
use crate::api::{Received, RemoteAddress, Transmit, Transport};
use crate::injected_bug::InjectedBug;
use crate::queue_pair::QueuePair;
use crate::resources::{Resource, ResourceKind, Stage};
use crate::shared::Shared;
use fairway_device::{LocalRange, Rights, ScatterList};
use fairway_wire::roce::{Operation, Packet, WriteFragment};

impl QueuePair {
    /// The next packet of the answers that have to be created before a packet that has arrived may
    /// take effect.
    pub(crate) fn answer_before(
        &mut self,
        shared: &mut Shared,
        received: &Received,
    ) -> Option<Transmit> {
        let Received { packet, payload, .. } = received;
        let expected = self.transport == Transport::Rc
            && self.state.receives()
            && self.responder.fatal.is_none()
            && received.source == self.peer.address
            && packet.bth.psn == self.responder.expected;
        if !expected || !self.must_wait(shared, packet, *payload) {
            return None;
        }
        let now = shared.scheduled_at;
        self.next_answer(shared, now)
    }

    /// True if a packet, which is next in sequence, has to wait for earlier requests.
    pub(super) fn must_wait(&mut self, shared: &Shared, packet: &Packet, payload: u32) -> bool {
        if self.rights.contains(Rights::RELAXED) || self.responder.resources.are_answered() {
            return false;
        }
        match packet.operation {
            Operation::Send { .. } if payload > 0 => {
                let target = self.send_target(shared, payload);
                self.waits(shared, &target, false)
            }
            Operation::Write { fragment, .. } if payload > 0 => {
                let target = self.write_target(shared, &fragment, payload);
                self.waits(shared, &target, false)
            }
            Operation::CompareSwap(atomic) | Operation::FetchAdd(atomic) => {
                let remote = RemoteAddress { address: atomic.address, r_key: atomic.r_key };
                let granted = shared.check(self.domain, &remote, 8, Rights::ATOMIC);
                let target = granted.map_or(ScatterList::EMPTY, |granted| target(&granted, 8));
                self.waits(shared, &target, true)
            }
            _ => false,
        }
    }

    /// The memory for the payload of a SEND; empty if the SEND will be refused.
    fn send_target(&self, shared: &Shared, payload: u32) -> ScatterList {
        let (receive, bytes) = match self.responder.incoming {
            Incoming::Send { receive, bytes } => (Some(receive), bytes),
            _ => match self.responder.spare {
                Some(receive) => (Some(receive), 0),
                None => (shared.receive_queues[self.receives].list.head(), 0),
            },
        };
        receive.map_or(ScatterList::EMPTY, |receive| {
            shared.receives[receive].local.slice(bytes, payload)
        })
    }

    /// The memory for the payload of a WRITE; empty if the WRITE will be refused.
    fn write_target(&self, shared: &Shared, fragment: &WriteFragment, payload: u32) -> ScatterList {
        let granted = match (*fragment, self.responder.incoming) {
            (WriteFragment::First(reth) | WriteFragment::Only(reth, _), _) => {
                let remote = RemoteAddress { address: reth.address, r_key: reth.r_key };
                shared.check(self.domain, &remote, reth.length, Rights::WRITE).ok()
            }
            (_, Incoming::Write { granted, .. }) => Some(granted),
            _ => None,
        };
        // An access of no bytes has no segment; payload behind it will be refused.
        let somewhere = granted.filter(|granted| granted.segment.is_some());
        somewhere.map_or(ScatterList::EMPTY, |granted| target(&granted, payload))
    }

    /// True if bytes that are to be placed, or the word of an atomic, have to wait for an earlier
    /// READ or atomic. An atomic does not wait for other atomics, because they are executed in
    /// order.
    pub(super) fn waits(&self, shared: &Shared, bytes: &ScatterList, atomic: bool) -> bool {
        let mtu = self.mtu;
        let plain = |range: &&LocalRange| !shared.is_relaxed(range.segment);
        bytes.ranges().iter().filter(plain).any(|range| {
            self.responder.resources.unanswered().any(|resource| match resource.kind {
                ResourceKind::Atomic { .. } => {
                    let executed = matches!(resource.stage, Stage::Answering { .. });
                    !atomic && !executed && !shared.is_injected(InjectedBug::OvertakeAtomic)
                }
                ResourceKind::Read { .. } => {
                    unread(resource, mtu).is_some_and(|unread| shared.overlap(&unread, range))
                        && !shared.is_injected(InjectedBug::AnswerLate)
                }
            })
        })
    }
}

/// The memory that a READ has yet to read.
fn unread(resource: &Resource, mtu: u32) -> Option<LocalRange> {
    let ResourceKind::Read { granted, length, from } = resource.kind else { return None };
    let read = match resource.stage {
        Stage::Answering { next } => (next - from) * mtu,
        _ => 0,
    };
    let rest = target(&granted, length).slice(read, length);
    rest.ranges().first().copied()
}
