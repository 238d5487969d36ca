//! Packets that wait to be executed, and the staging memory in which their payload waits.

use crate::api::{LocalRange, SegmentId};
use crate::arrival::Arrival;
use crate::deferred::{Cause, Deferred, DeferredPool, DeferredState, DueQueue};
use crate::names::ChannelIndex;
use crate::pool::Index;
use crate::tpg::ChannelGroups;
use alloc::vec::Vec;

/// The records of packets that wait to be executed, and the order of their execution.
pub(crate) struct DeferredPackets {
    pool: DeferredPool,
    /// Deferred packets that are now next in order.
    due: DueQueue,
    /// Groups whose channels waited until none of their packets was due any more, which is now so.
    drained: Vec<ChannelIndex>,
    /// The packet that is being received or placed, if it has a sequence number.
    cause: Option<Cause>,
    staging: Option<Staging>,
}

/// The memory in which the payload of deferred packets waits, with one place for each.
#[derive(Clone, Copy)]
struct Staging {
    segment: SegmentId,
    packet_bytes: u32,
}

impl DeferredPackets {
    pub(crate) fn new(packets: u32, channels: u32) -> DeferredPackets {
        DeferredPackets {
            pool: DeferredPool::new(packets),
            due: DueQueue::default(),
            drained: Vec::with_capacity(channels as usize),
            cause: None,
            staging: None,
        }
    }

    pub(crate) fn get(&self, index: Index<Deferred>) -> Option<&Deferred> {
        self.pool.get(index)
    }

    pub(crate) fn ever_taken(&self) -> impl Iterator<Item = Index<Deferred>> + use<> {
        self.pool.ever_taken()
    }

    pub(crate) fn in_use(&self) -> u32 {
        self.pool.in_use()
    }

    // ---- the staging memory ----

    /// Sets the memory in which payload waits: `packet_bytes` for each packet.
    pub(crate) fn set_staging(&mut self, segment: SegmentId, packet_bytes: u32) {
        self.staging = Some(Staging { segment, packet_bytes });
    }

    /// Removes the staging memory, so that no packet can be held any more.
    ///
    /// # Panics
    /// If a packet is held.
    pub(crate) fn take_staging(&mut self) -> Option<SegmentId> {
        assert!(self.pool.in_use() == 0, "the staging memory is in use");
        self.staging.take().map(|staging| staging.segment)
    }

    /// True if a packet with `payload` bytes can be held.
    pub(crate) fn has_room_for(&self, payload: u32) -> bool {
        self.fits(payload) && !self.pool.is_exhausted()
    }

    fn fits(&self, payload: u32) -> bool {
        self.staging.is_some_and(|staging| payload <= staging.packet_bytes)
    }

    /// The place of the first `length` bytes of the payload of a deferred packet.
    pub(crate) fn place(&self, index: Index<Deferred>, length: u32) -> LocalRange {
        let (segment, packet_bytes) = match self.staging {
            Some(Staging { segment, packet_bytes }) => (segment, packet_bytes),
            None => (SegmentId::default(), 0),
        };
        let offset = u64::from(index.number()) * u64::from(packet_bytes);
        LocalRange { segment, offset, length }
    }

    // ---- the life of a deferred packet ----

    /// Holds a packet. `None` if its payload is too long, or all records are taken.
    pub(crate) fn add(&mut self, deferred: Deferred) -> Option<Index<Deferred>> {
        if self.fits(deferred.payload) { self.pool.add(deferred) } else { None }
    }

    /// Makes a deferred packet due, because it is now next in order.
    pub(crate) fn make_due(&mut self, index: Index<Deferred>) {
        self.pool[index].cause = self.cause;
        self.due.push(&mut self.pool, index);
    }

    /// Takes the packet that has been due longest.
    pub(crate) fn pop_due(&mut self) -> Option<Index<Deferred>> {
        self.due.pop(&self.pool)
    }

    /// Frees the record of a packet that has been executed or dropped.
    pub(crate) fn free(&mut self, index: Index<Deferred>, channels: &mut ChannelGroups) {
        let deferred = self.pool[index];
        if deferred.is_part
            && matches!(deferred.state, DeferredState::Due | DeferredState::Executing)
            && channels.get_mut(deferred.leader).end_draining()
        {
            self.drained.push(deferred.leader);
        }
        self.pool[index].channel = None;
        self.pool.remove(index);
    }

    /// Notes that the message of a packet that is being executed has ended, if it is not a part of
    /// one: what becomes of its execution does not matter.
    pub(crate) fn give_up_executing(&mut self, arrival: Index<Arrival>) {
        for index in self.pool.ever_taken() {
            let deferred = &mut self.pool[index];
            let is_it = deferred.channel.is_some()
                && deferred.state == DeferredState::Executing
                && deferred.arrival == Some(arrival);
            deferred.given_up |= is_it && !deferred.is_part;
        }
    }

    /// Removes a packet from those that are due, if it is one.
    pub(crate) fn revoke_due(&mut self, index: Index<Deferred>) {
        if self.pool[index].state == DeferredState::Due {
            self.due.remove(&mut self.pool, index);
        }
    }

    /// Removes a packet from the list that begins at `first`, if it is in the list.
    pub(crate) fn unlink(&mut self, first: &mut Option<Index<Deferred>>, index: Index<Deferred>) {
        let next = self.pool[index].next;
        let mut at = *first;
        if at == Some(index) {
            *first = next;
            return;
        }
        while let Some(before) = at {
            at = self.pool[before].next;
            if at == Some(index) {
                self.pool[before].next = next;
                return;
            }
        }
    }

    /// True if [`Self::pop_drained`] returns a group.
    #[inline]
    pub(crate) fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// Takes the leader of a group whose channels need not wait for deferred packets any more.
    #[inline]
    pub(crate) fn pop_drained(&mut self) -> Option<ChannelIndex> {
        self.drained.pop()
    }

    // ---- causes ----

    /// Sets the packet that is being received or placed; it is the cause of what becomes due.
    #[inline]
    pub(crate) fn set_cause(&mut self, cause: Option<Cause>) {
        self.cause = cause;
    }

    /// The packet that is being received or placed, if it has a sequence number.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }
}

impl core::ops::Index<Index<Deferred>> for DeferredPackets {
    type Output = Deferred;

    #[inline]
    fn index(&self, index: Index<Deferred>) -> &Deferred {
        &self.pool[index]
    }
}

impl core::ops::IndexMut<Index<Deferred>> for DeferredPackets {
    #[inline]
    fn index_mut(&mut self, index: Index<Deferred>) -> &mut Deferred {
        &mut self.pool[index]
    }
}
