//! Transactions that arrived before something that they must follow.

use crate::api::ChannelId;
use crate::arrival::Arrival;
use crate::message::Message;
use crate::names::ChannelIndex;
use crate::pool::{Index, Pool};
use fairway_wire::{Data, Operation, Packet, Psn, ServiceMode};

/// The received packet being processed, as the reason why deferred packets become due. It only
/// counts if its message ends at its initiator by the packet's acknowledgement, and not by an
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The index of the channel on which the packet came.
    pub(crate) channel: ChannelIndex,
    pub(crate) psn: Psn,
}

impl Cause {
    /// The cause that `packet` is, if it counts. `any` injects a bug: answered messages count as
    /// well.
    #[inline(always)]
    pub(crate) fn of_packet(channel: ChannelId, packet: &Packet, any: bool) -> Option<Cause> {
        let psn = match packet {
            Packet::Void(void) => void.psn,
            Packet::Data(data) => {
                let is_fetch = matches!(
                    data.operation,
                    Operation::Read { .. }
                        | Operation::ReadPart(_)
                        | Operation::Atomic { .. }
                        | Operation::Get(_)
                );
                let is_answered = matches!(data.order.mode, ServiceMode::Roi | ServiceMode::Rot);
                (any || !is_fetch && !is_answered).then_some(data.psn)?
            }
            _ => return None,
        };
        Some(Cause { channel: channel.record(), psn })
    }
}

/// A packet that waits to be executed; its payload is in the staging memory, at the place with the
/// record's index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deferred {
    pub(crate) data: Data,
    pub(crate) payload: u32,
    /// The packet's channel; `None` once the record is free.
    pub(crate) channel: Option<ChannelIndex>,
    /// The leader of the packet's channel.
    pub(crate) leader: ChannelIndex,
    /// The answer record that was reserved for the packet.
    pub(crate) response: Option<Index<Message>>,
    /// While the packet is executed: its arrival, if it has one. For a part of a message: always.
    pub(crate) arrival: Option<Index<Arrival>>,
    /// True if this is a packet of a message that was admitted, and waits for the message's turn.
    pub(crate) is_part: bool,
    /// The next packet of the same tracker, or the next one that is due.
    pub(crate) next: Option<Index<Deferred>>,
    /// True if the packet must not be executed, because its initiator has given it up; or, while it
    /// is executed, if its message has ended.
    pub(crate) given_up: bool,
    /// Once the packet is due: the received packet because of which its turn has come.
    pub(crate) cause: Option<Cause>,
    pub(crate) state: DeferredState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeferredState {
    /// The payload is being copied into the staging memory.
    Arriving,
    /// The packet waits for its turn.
    Waiting,
    /// The packet's turn has come.
    Due,
    /// The caller executes the packet.
    Executing,
}

impl Deferred {
    /// The answer record that was reserved for the packet. Parts of messages have none.
    pub(crate) fn answer(&self) -> Index<Message> {
        self.response.expect("an answer is set aside for a packet that is held whole")
    }
}

pub(crate) type DeferredPool = Pool<Deferred>;

/// Deferred packets whose turn has come, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct DueQueue {
    first: Option<Index<Deferred>>,
    last: Option<Index<Deferred>>,
}

impl DueQueue {
    pub(crate) fn push(&mut self, pool: &mut DeferredPool, index: Index<Deferred>) {
        pool[index].state = DeferredState::Due;
        pool[index].next = None;
        match self.last {
            None => self.first = Some(index),
            Some(last) => pool[last].next = Some(index),
        }
        self.last = Some(index);
    }

    pub(crate) fn pop(&mut self, pool: &DeferredPool) -> Option<Index<Deferred>> {
        let first = self.first?;
        self.first = pool[first].next;
        if self.first.is_none() {
            self.last = None;
        }
        Some(first)
    }

    /// Removes a packet from any position.
    pub(crate) fn remove(&mut self, pool: &mut DeferredPool, index: Index<Deferred>) {
        let mut others = core::mem::take(self).first;
        while let Some(other) = others {
            others = pool[other].next;
            if other != index {
                self.push(pool, other);
            }
        }
    }
}
