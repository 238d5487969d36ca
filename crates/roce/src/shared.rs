//! State that all queue pairs of a device share: pools, queues, memory, and the order in which they
//! send.

use super::api::{
    Completion, CompletionKind, Counters, DropReason, Event, Peer, ReceiveQueueId, RemoteAddress,
    Status, Verdict,
};
use super::completions::{Completions, Pushed};
use super::injected_bug::InjectedBug;
use super::keys::KEY_TAG_BITS;
use super::limits::{Limits, Profile};
use super::work::{Pending, Receive, ReceiveQueue, Send};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_device::deadlines::Deadlines;
use fairway_device::flow::Schedule;
use fairway_device::list::Ring;
use fairway_device::pool::{Index, Pool};
use fairway_device::segment::{Admission, Segments};
use fairway_device::{CompletionQueueId, LocalRange, Rights, ScatterList, SegmentId};
use fairway_wire::roce::{NakCode, Tail};
use fairway_wire::{Access, Instant, Qpn, TokenId};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) segments: Segments,
    /// The protection domain of each segment.
    pub(crate) domains: Vec<u32>,
    /// The address at which the bytes of each segment begin: segments may share bytes.
    pub(crate) places: Vec<u64>,
    pub(crate) queues: Vec<Option<Completions>>,
    /// Queues that were armed and received an awaited completion.
    pub(crate) notifications: VecDeque<CompletionQueueId>,
    /// Number of armed queues.
    pub(crate) armed: u32,
    /// Queues that lost a completion, and whose queue pairs have yet to enter the error state.
    pub(crate) overruns: Vec<u32>,
    pub(crate) sends: Pool<Send>,
    pub(crate) receives: Pool<Receive>,
    pub(crate) receive_queues: Pool<ReceiveQueue>,
    pub(crate) pending: Pool<Pending>,
    /// Places in which the caller keeps packets.
    pub(crate) buffered: Pool<()>,
    pub(crate) deadlines: Deadlines,
    /// The scheduler's view of the queue pairs, each of which is a flow with its own place as its
    /// number.
    pub(crate) schedule: Schedule,
    /// When the scheduler last ran.
    pub(crate) scheduled_at: Instant,
    /// Queue pairs that may have something to send.
    pub(crate) ready: Ring<u32>,
    /// Queue pairs that have an atomic to be executed.
    pub(crate) executing: Ring<u32>,
    /// Queue pairs whose next packet in sequence is kept by the caller.
    pub(crate) recalling: Ring<u32>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) profile: Profile,
    /// The queue pair of the unreliable packet that was polled last.
    pub(crate) leaving: Option<u32>,
    pub(crate) bug: Option<InjectedBug>,
}

/// A range of a segment that a peer may use, as long as the registration lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// The segment's number; `None` for an access of no bytes, which is to no segment.
    pub(crate) segment: Option<u32>,
    pub(crate) admission: Admission,
    pub(crate) offset: u64,
}

impl Granted {
    /// The empty range, for an access of no bytes.
    pub(crate) const NOTHING: Granted =
        Granted { segment: None, admission: Admission::NOWHERE, offset: 0 };
}

impl Shared {
    pub(crate) fn new(limits: &Limits, profile: &Profile) -> Shared {
        let mut queues = Vec::new();
        queues.resize_with(limits.completion_queues as usize, || None);
        Shared {
            segments: Segments::new(limits.segments),
            domains: alloc::vec![0; limits.segments as usize],
            places: alloc::vec![0; limits.segments as usize],
            queues,
            armed: 0,
            notifications: VecDeque::with_capacity(limits.completion_queues as usize),
            overruns: Vec::with_capacity(limits.completion_queues as usize),
            sends: Pool::new(limits.sends),
            receives: Pool::new(limits.receives),
            receive_queues: Pool::new(limits.receive_queues),
            pending: Pool::new(limits.pending),
            buffered: Pool::new(limits.buffered),
            deadlines: Deadlines::new(limits.queue_pairs),
            schedule: Schedule::new(limits.queue_pairs, profile.pacing_burst),
            scheduled_at: Instant::ZERO,
            ready: Ring::new(limits.queue_pairs),
            executing: Ring::new(limits.queue_pairs),
            recalling: Ring::new(limits.queue_pairs),
            events: VecDeque::with_capacity((limits.segments + 5 * limits.queue_pairs) as usize),
            counters: Counters::default(),
            profile: *profile,
            leaving: None,
            bug: None,
        }
    }

    pub(crate) fn is_injected(&self, bug: InjectedBug) -> bool {
        cfg!(feature = "injected-bugs") && self.bug == Some(bug)
    }

    pub(crate) fn drop(&mut self, reason: DropReason) -> Verdict {
        self.counters.drops[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// True if a record may be used for a packet that waits for earlier ones. Half of the records
    /// are reserved for packets that are next in sequence, so that an unfinished message of one
    /// peer does not block others.
    pub(crate) fn has_room_for_early(&self) -> bool {
        self.pending.in_use() < self.pending.capacity() / 2
    }

    /// Adds a completion to a queue, which exists because no queue is destroyed before its queue
    /// pairs.
    fn push(&mut self, index: u32, completion: Completion) {
        let queue = self.queues[index as usize].as_mut();
        let queue = queue.expect("a queue pair's completion queue exists");
        let id = CompletionQueueId::new(index);
        match queue.push(completion) {
            Pushed::Quietly | Pushed::Lost => {}
            Pushed::Awaited => {
                self.armed -= 1;
                self.notifications.push_back(id);
            }
            Pushed::Overrun => {
                self.events.push_back(Event::Overrun { queue: id });
                self.overruns.push(index);
            }
        }
    }

    /// True if an operation of this domain may use these local bytes.
    pub(crate) fn holds(&self, domain: u32, list: &ScatterList) -> bool {
        list.ranges().iter().all(|range| {
            self.segments.holds(range.segment.number(), range.offset, range.length) == Some(true)
                && self.domains[range.segment.index()] == domain
        })
    }

    /// True if some of the memory of these bytes, which were valid when they were posted, has been
    /// deregistered or belongs to another domain now.
    pub(crate) fn is_revoked(&self, domain: u32, list: &ScatterList) -> bool {
        !list.ranges().iter().all(|range| {
            self.segments.is_registered(range.segment.number())
                && self.domains[range.segment.index()] == domain
        })
    }

    pub(crate) fn hold(&mut self, list: &ScatterList) {
        for range in list.ranges() {
            self.segments.hold(range.segment.number());
        }
    }

    fn release(&mut self, list: &ScatterList) {
        for range in list.ranges() {
            let segment = range.segment.number();
            if self.segments.release(segment) {
                self.events.push_back(Event::SegmentReleased { segment: SegmentId::new(segment) });
            }
        }
    }

    /// Checks an access of a peer. An access of no bytes requires no key (9.7.4.1.5).
    pub(crate) fn check(
        &self,
        domain: u32,
        remote: &RemoteAddress,
        length: u32,
        rights: Rights,
    ) -> Result<Granted, NakCode> {
        if length == 0 {
            return Ok(Granted::NOTHING);
        }
        let token_id = remote.r_key >> KEY_TAG_BITS;
        let access = Access {
            address: remote.address,
            length,
            token_id: TokenId::new(token_id),
            token_value: remote.r_key & ((1 << KEY_TAG_BITS) - 1),
        };
        let (admission, target) =
            self.segments.check(&access, rights).map_err(|_| NakCode::RemoteAccess)?;
        match self.domains.get(token_id as usize) {
            Some(&of) if of == domain => {
                Ok(Granted { segment: Some(token_id), admission, offset: target.offset })
            }
            _ => Err(NakCode::RemoteAccess),
        }
    }

    /// True if changes of a segment's memory may become visible in any order.
    pub(crate) fn is_relaxed(&self, segment: SegmentId) -> bool {
        let segment = self.segments.get(segment.number());
        segment.is_some_and(|segment| segment.rights().contains(Rights::RELAXED))
    }

    /// True if two ranges share bytes.
    pub(crate) fn overlap(&self, one: &LocalRange, other: &LocalRange) -> bool {
        let ends = |range: &LocalRange| {
            let start = self.places[range.segment.index()].saturating_add(range.offset);
            (start, start.saturating_add(u64::from(range.length)))
        };
        let ((from, to), (start, end)) = (ends(one), ends(other));
        from < end && start < to
    }

    pub(crate) fn is_current(&self, granted: &Granted) -> bool {
        let is_current = |segment| self.segments.is_current(segment, &granted.admission);
        granted.segment.is_none_or(is_current)
    }

    /// Completes a send that has been removed from all lists, and frees its record.
    pub(crate) fn complete_send(
        &mut self,
        queue_pair: Qpn,
        queue: u32,
        index: Index<Send>,
        status: Status,
    ) {
        let send = self.sends[index];
        self.sends.remove(index);
        if !send.faulty {
            self.release(&send.local);
        }
        if !send.signaled && status == Status::Success {
            return;
        }
        let bytes = if status == Status::Success { send.length } else { 0 };
        let completion = Completion {
            id: send.id,
            queue_pair,
            status,
            kind: send.kind(),
            bytes,
            tail: Tail::Nothing,
            value: send.value,
            from: Peer::default(),
            solicited: false,
        };
        self.push(queue, completion);
    }

    /// Discards the unpolled completions of a queue pair that is reset or removed, as adapters do:
    /// they must not be taken for completions of its next life.
    pub(crate) fn forget_completions(&mut self, queue_pair: Qpn, queue: u32) {
        if let Some(queue) = &mut self.queues[queue as usize] {
            queue.forget(queue_pair);
        }
    }

    /// Takes the next receive of a queue.
    pub(crate) fn take_receive(&mut self, receives: Index<ReceiveQueue>) -> Option<Index<Receive>> {
        let queue = &mut self.receive_queues[receives];
        let index = queue.list.pop_front(&mut self.receives)?;
        queue.posted -= 1;
        self.note_limit(receives);
        Some(index)
    }

    /// Reports that few receives are left, if the program has set a limit.
    pub(crate) fn note_limit(&mut self, receives: Index<ReceiveQueue>) {
        let queue = &mut self.receive_queues[receives];
        if queue.posted < queue.limit {
            queue.limit = 0;
            self.events.push_back(Event::ReceiveLimit { queue: ReceiveQueueId(receives.number()) });
        }
    }

    /// Completes a receive that was taken, and frees its record.
    pub(crate) fn complete_receive(
        &mut self,
        queue: u32,
        index: Index<Receive>,
        completion: Completion,
    ) {
        let receive = self.receives[index];
        self.receives.remove(index);
        if !receive.faulty {
            self.release(&receive.local);
        }
        self.push(queue, Completion { id: receive.id, ..completion });
    }

    /// Discards a receive that was taken, or is in no queue any more.
    pub(crate) fn forget_receive(&mut self, index: Index<Receive>) {
        let receive = self.receives[index];
        self.receives.remove(index);
        if !receive.faulty {
            self.release(&receive.local);
        }
    }

    /// Discards a send that is in no list any more.
    pub(crate) fn forget_send(&mut self, index: Index<Send>) {
        let send = self.sends[index];
        self.sends.remove(index);
        if !send.faulty {
            self.release(&send.local);
        }
    }

    /// The completion of a receive of `queue_pair` that ended with `status` while it was empty.
    pub(crate) fn empty_receive(queue_pair: Qpn, status: Status) -> Completion {
        Completion {
            id: 0,
            queue_pair,
            status,
            kind: CompletionKind::Receive,
            bytes: 0,
            tail: Tail::Nothing,
            value: 0,
            from: Peer::default(),
            solicited: false,
        }
    }
}
