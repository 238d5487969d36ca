//! Methods that create, change and remove a device's objects: memory regions, queues, queue pairs.

use super::RoceDevice;
use crate::api::{
    Attributes, Change, ChangeError, MemoryRegion, MemoryRequest, QueuePairConfig, ReceiveQueueId,
    Reliability,
};
use crate::completions::{Awaited, Completions};
use crate::keys::KEY_TAG_BITS;
use crate::limits::Limits;
use crate::queue_pair::QueuePair;
use crate::shuffle::shuffled;
use crate::work::ReceiveQueue;
use alloc::boxed::Box;
use fairway_device::list::List;
use fairway_device::pool::Index;
use fairway_device::{CompletionQueueId, Rights, SegmentId, SegmentRequest, SetupError};
use fairway_policy::DcqcnRate;
use fairway_wire::Qpn;

impl RoceDevice {
    /// Registers memory under an R_Key with a random tag, which differs from that of the last
    /// registration with the same segment number.
    pub fn register(&mut self, request: &MemoryRequest) -> Result<MemoryRegion, SetupError> {
        let segment = self.shared.segments.register(&SegmentRequest {
            address: request.address,
            length: request.length,
            rights: request.rights,
            // The tag depends on the number, which is chosen here.
            token_value: u32::MAX,
        })?;
        let tag = self.tags.draw(segment.index());
        self.shared.segments.set_token(segment.number(), tag);
        self.shared.domains[segment.index()] = request.domain;
        self.shared.places[segment.index()] = request.address;
        Ok(MemoryRegion { segment, r_key: segment.number() << KEY_TAG_BITS | tag })
    }

    /// Sets the address at which the bytes of a region begin: in the owner's memory, or in any
    /// other numbering in which equal numbers mean the same byte in all regions. It is used to find
    /// regions that share bytes. By default it is the address that peers use.
    pub fn set_place(&mut self, segment: SegmentId, place: u64) {
        if let Some(known) = self.shared.places.get_mut(segment.index()) {
            *known = place;
        }
    }

    /// Refuses accesses from now on. Returns true if no posted operation refers to the memory;
    /// otherwise `Event::SegmentReleased` reports when none does any more. Until then, posted
    /// operations that use the memory fail when they are executed, and nothing of them is sent or
    /// placed. The memory may therefore be freed at once, if the caller drops deferred placements.
    pub fn deregister(&mut self, segment: SegmentId) -> Result<bool, SetupError> {
        self.shared.segments.deregister(segment)
    }

    /// Changes the protection domain of memory, and the operations that peers may perform. The key
    /// stays. Operations that are no longer allowed are refused, even in the middle of a message.
    ///
    /// # Errors
    /// `Missing` if it is not registered.
    pub fn change_region(
        &mut self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), SetupError> {
        let known = self.shared.domains.get(segment.index()).copied();
        let moved = known.ok_or(SetupError::Missing)? != domain;
        self.shared.segments.set_rights(segment, rights, moved)?;
        self.shared.domains[segment.index()] = domain;
        Ok(())
    }

    /// Creates a completion queue for `depth` completions. More unpolled ones are an overrun
    /// (`Event::Overrun`).
    pub fn create_completion_queue(&mut self, depth: u32) -> Result<CompletionQueueId, SetupError> {
        let queues = &mut self.shared.queues;
        let used: u64 = queues.iter().flatten().map(|queue| u64::from(queue.depth())).sum();
        if used + u64::from(depth) > u64::from(self.limits.completions) {
            return Err(SetupError::Limit("completions"));
        }
        let free = queues.iter().position(Option::is_none);
        let index = free.ok_or(SetupError::Limit("completion_queues"))?;
        queues[index] = Some(Completions::new(depth));
        Ok(CompletionQueueId::new(index as u32))
    }

    /// Changes the depth of a completion queue. It may not be less than the number of completions
    /// in the queue.
    pub fn resize_completion_queue(
        &mut self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), SetupError> {
        let queues = &mut self.shared.queues;
        let used: u64 = queues.iter().flatten().map(|queue| u64::from(queue.depth())).sum();
        let record = queues.get_mut(queue.index()).and_then(Option::as_mut);
        let record = record.ok_or(SetupError::Missing)?;
        let others = used - u64::from(record.depth());
        if others + u64::from(depth) > u64::from(self.limits.completions) {
            return Err(SetupError::Limit("completions"));
        }
        if !record.resize(depth) {
            return Err(SetupError::Parameter("depth"));
        }
        Ok(())
    }

    /// Arms a completion queue: [`Self::poll_notification`] returns it once, when the next
    /// completion arrives, or at once if one that arrived after the last notification is waiting.
    /// With `solicited_only` only solicited completions and errors count.
    pub fn arm(
        &mut self,
        queue: CompletionQueueId,
        solicited_only: bool,
    ) -> Result<(), SetupError> {
        let record = self.shared.queues.get_mut(queue.index()).and_then(Option::as_mut);
        let awaited = if solicited_only { Awaited::Solicited } else { Awaited::Any };
        let record = record.ok_or(SetupError::Missing)?;
        let was_armed = record.is_armed();
        let waits = record.arm(awaited);
        self.shared.armed -= u32::from(was_armed);
        self.shared.armed += u32::from(!waits);
        if waits && !self.shared.notifications.contains(&queue) {
            self.shared.notifications.push_back(queue);
        }
        Ok(())
    }

    /// Removes a completion queue that no queue pair uses. Completions in it are lost.
    pub fn destroy_completion_queue(&mut self, queue: CompletionQueueId) -> Result<(), SetupError> {
        let used = |pair: &QueuePair| {
            pair.send_queue == queue.number() || pair.receive_queue == queue.number()
        };
        if self.pairs.iter().flatten().any(|pair| used(pair)) {
            return Err(SetupError::Busy);
        }
        let slot = self.shared.queues.get_mut(queue.index()).ok_or(SetupError::Missing)?;
        let removed = slot.take().ok_or(SetupError::Missing)?;
        self.shared.armed -= u32::from(removed.is_armed());
        self.shared.notifications.retain(|other| *other != queue);
        Ok(())
    }

    /// Creates a shared receive queue.
    pub fn create_receive_queue(
        &mut self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, SetupError> {
        let queue = self.new_receive_queue(domain, depth, false)?;
        Ok(ReceiveQueueId(queue.number()))
    }

    /// Requests one `Event::ReceiveLimit` when fewer than `limit` receives are left in a shared
    /// queue.
    pub fn limit_receive_queue(
        &mut self,
        queue: ReceiveQueueId,
        limit: u32,
    ) -> Result<(), SetupError> {
        self.receive_queue(queue).ok_or(SetupError::Missing)?;
        let queue = Index::of(queue.0);
        self.shared.receive_queues[queue].limit = limit;
        self.shared.note_limit(queue);
        Ok(())
    }

    /// Removes a shared receive queue that no queue pair uses. Its receives are discarded.
    pub fn destroy_receive_queue(&mut self, queue: ReceiveQueueId) -> Result<(), SetupError> {
        let record = self.receive_queue(queue).ok_or(SetupError::Missing)?;
        if record.users > 0 {
            return Err(SetupError::Busy);
        }
        self.free_receive_queue(Index::of(queue.0));
        Ok(())
    }

    /// Creates a queue pair, in the state Reset.
    pub fn create_queue_pair(&mut self, config: &QueuePairConfig) -> Result<Qpn, SetupError> {
        for queue in [config.send_queue, config.receive_queue] {
            let exists = self.shared.queues.get(queue.index()).is_some_and(Option::is_some);
            if !exists {
                return Err(SetupError::Missing);
            }
        }
        if self.vacant.is_empty() && self.pairs.len() == self.limits.queue_pairs as usize {
            return Err(SetupError::Limit("queue_pairs"));
        }
        let receives = match config.shared_receives {
            Some(queue) => {
                let record = self.receive_queue(queue).ok_or(SetupError::Missing)?;
                if record.domain != config.domain {
                    return Err(SetupError::Parameter("domain"));
                }
                Index::of(queue.0)
            }
            None => self.new_receive_queue(config.domain, config.receive_depth, true)?,
        };
        self.shared.receive_queues[receives].users += 1;
        let (index, number) = self.next_number();
        let window = self.shared.profile.out_of_order.map_or(0, |option| option.window);
        let mut pair = QueuePair::new(number, index, config, receives, window);
        pair.requester.limit_windows(self.shared.profile.window_packets);
        pair.requester.rate = self.shared.profile.dcqcn.as_ref().map(DcqcnRate::new);
        self.pairs[index as usize] = Some(Box::new(pair));
        Ok(number)
    }

    /// Lets the numbers of queue pairs follow each other in an order that cannot be predicted
    /// without `seed`. (By default the first numbers are the lowest.) This takes memory for all
    /// places of queue pairs at once. To be called before a queue pair is created.
    ///
    /// # Panics
    ///
    /// If a queue pair was created before.
    pub fn shuffle_numbers(&mut self, seed: u64) {
        assert!(self.pairs.is_empty(), "queue pairs have numbers already");
        let Limits { queue_pairs, number_bits, .. } = self.limits;
        self.pairs.resize_with(queue_pairs as usize, || None);
        self.vacant = shuffled(0, queue_pairs, seed).into();
        // The first number of each place has any of the possible upper bits.
        let lives = 1 << (number_bits - self.index_bits);
        self.uses = shuffled(0, queue_pairs, !seed).into_iter().map(|draw| draw % lives).collect();
    }

    /// A free place, which must exist, and the number of the queue pair that gets it. The place
    /// that has been free longest is used, so that a number recurs as late as possible.
    fn next_number(&mut self) -> (u32, Qpn) {
        let index = match self.pairs.len() < self.limits.queue_pairs as usize {
            true => {
                self.pairs.push(None);
                self.uses.push(0);
                self.pairs.len() as u32 - 1
            }
            false => self.vacant.pop_front().expect("a vacant place"),
        };
        let Limits { number_bits, number_base, .. } = self.limits;
        loop {
            let uses = &mut self.uses[index as usize];
            let number = number_base | *uses << self.index_bits | index;
            *uses = (*uses + 1) % (1 << (number_bits - self.index_bits));
            // Numbers 0 and 1 are reserved for management.
            if number > 1 {
                return (index, Qpn::new(number));
            }
        }
    }

    /// Removes a queue pair. Posted operations are discarded, without completions.
    pub fn destroy_queue_pair(&mut self, number: Qpn) -> Result<(), SetupError> {
        let (shared, pair) = self.pair(number).ok_or(SetupError::Missing)?;
        pair.reset(shared);
        let (index, receives, own) = (pair.index, pair.receives, !pair.shares_receives);
        shared.receive_queues[receives].users -= 1;
        shared.ready.purge(index);
        self.pairs[index as usize] = None;
        self.vacant.push_back(index);
        if self.turn == Some(index) {
            self.turn = None;
        }
        if own {
            self.free_receive_queue(receives);
        }
        Ok(())
    }

    /// Changes the state of a queue pair.
    pub fn modify(&mut self, number: Qpn, change: &Change) -> Result<(), ChangeError> {
        let depth_max = self.limits.read_depth;
        let (shared, pair) = self.pair(number).ok_or(ChangeError::Missing)?;
        let state = pair.state.after(pair.transport, change)?;
        match change {
            Change::ReadyToReceive { mtu, read_depth, .. } => {
                if !matches!(mtu, 256 | 512 | 1024 | 2048 | 4096) {
                    return Err(ChangeError::Parameter("mtu"));
                }
                if *read_depth > depth_max {
                    return Err(ChangeError::Parameter("read_depth"));
                }
            }
            Change::ReadyToSend { reliability, .. } => check(reliability, depth_max)?,
            Change::Adjust(Attributes { reliability, .. }) => {
                check(reliability, depth_max)?;
                // A READ that is posted could not be sent any more.
                if reliability.read_depth == 0 && pair.requester.reliability.read_depth > 0 {
                    return Err(ChangeError::Parameter("read_depth"));
                }
            }
            Change::Reset
            | Change::Init { .. }
            | Change::Drain
            | Change::Resume
            | Change::Error => {}
        }
        pair.enter(shared, state, change);
        self.settle_overruns();
        Ok(())
    }

    fn new_receive_queue(
        &mut self,
        domain: u32,
        depth: u32,
        owned: bool,
    ) -> Result<Index<ReceiveQueue>, SetupError> {
        let list = List::default();
        let (posted, users, limit, live) = (0, 0, 0, true);
        let queue = ReceiveQueue { list, posted, depth, owned, users, domain, limit, live };
        self.shared.receive_queues.add(queue).ok_or(SetupError::Limit("receive_queues"))
    }

    fn free_receive_queue(&mut self, queue: Index<ReceiveQueue>) {
        let shared = &mut self.shared;
        let mut list = shared.receive_queues[queue].list;
        while let Some(index) = list.pop_front(&mut shared.receives) {
            shared.forget_receive(index);
        }
        shared.receive_queues[queue].list = list;
        shared.receive_queues[queue].live = false;
        shared.receive_queues.remove(queue);
    }
}

/// Checks that time-outs and retries are within their ranges.
fn check(reliability: &Reliability, depth_max: u8) -> Result<(), ChangeError> {
    if reliability.read_depth > depth_max {
        return Err(ChangeError::Parameter("read_depth"));
    }
    if reliability.retries > 7 || reliability.rnr_retries > 7 {
        return Err(ChangeError::Parameter("retries"));
    }
    Ok(())
}
