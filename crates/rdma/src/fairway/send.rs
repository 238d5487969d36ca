//! Sends: posted, begun in their turn, completed in the order of posting.
//!
//! The protocol may complete operations in any order; this module restores the order of
//! completions.

use fairway::embed::Core;
use fairway_roce::{
    Completion, CompletionKind, Peer, PostError, QueuePairState, ScatterList, Status, Transport,
    Work, WorkRequest,
};
use fairway_runtime::{Burst, Gone, SMALL, SmallPosts, clock};
use fairway_ub::wire::roce::Tail;
use fairway_ub::wire::{Instant, JettyId, Qpn};
use fairway_ub::{LocalRange, PostError as Refused, SegmentId};

use self::parts::{part, status_of};
use self::ranges::Ranges;
use super::link::CONNECT_TIMEOUT;
use super::queue_pair::QueuePair;
use super::tables::{Verbs, pair_of};
use crate::slot_of;

mod parts;
mod plain;
mod ranges;

/// Length of the longest message, in bytes.
const LENGTH_MAX: u64 = 1 << 31;

/// One posted send.
pub(super) struct Send {
    id: u64,
    work: Work,
    signaled: bool,
    solicited: bool,
    fence: bool,
    local: Ranges,
    length: u32,
    /// A bounce buffer with its bytes, if they were several ranges or had to be copied.
    bounce_buffer: Option<LocalRange>,
    /// The link that it waits for, or has waited for, put aside (module `parked`).
    pub(super) parked: Option<u32>,
    /// Number of engine operations that were posted for it; `open` counts those not completed.
    posted: u8,
    open: u8,
    /// True once all were posted.
    pub(super) is_begun: bool,
    /// The status of its completion.
    status: Status,
    value: u64,
}

/// The result of an attempt to begin a send.
#[derive(PartialEq, Eq)]
pub(super) enum Begun {
    Yes,
    /// An event must happen first; the attempt is repeated then.
    Later,
}

impl Send {
    /// True if its success is reported to the program, too.
    pub(super) fn is_signaled(&self) -> bool {
        self.signaled
    }

    /// True if its bytes are, or will be, in this segment. Bytes that were copied are not.
    pub(super) fn uses(&self, segment: SegmentId) -> bool {
        let mut ranges = self.local.as_slice().iter();
        self.bounce_buffer.is_none() && ranges.any(|range| range.segment == segment)
    }

    /// Marks a send that has not begun as failed, in its turn, if it uses memory that is gone.
    pub(super) fn lose(&mut self, segment: SegmentId) {
        if self.uses(segment) && self.status == Status::Success {
            self.status = Status::LocalProtection;
        }
    }

    /// Assigns the copy of its bytes.
    pub(super) fn copied_to(&mut self, bounce_buffer: LocalRange) {
        self.bounce_buffer = Some(bounce_buffer);
    }

    /// Ends the send with this status, without having begun it.
    pub(super) fn finish(&mut self, status: Status) {
        (self.status, self.is_begun) = (status, true);
    }

    /// Returns its bytes if it must be one message, has so many ranges at least, and they have not
    /// been copied.
    pub(super) fn uncopied(&self, ranges: usize) -> Option<(ScatterList, u32)> {
        let whole = matches!(
            self.work,
            Work::Send { .. } | Work::Datagram { .. } | Work::Write { immediate: Some(_), .. }
        );
        let many = self.local.as_slice().len() >= ranges && self.bounce_buffer.is_none();
        (whole && many).then(|| (self.local.list(), self.length))
    }

    /// True if it stores bytes of the peer in the program's memory.
    fn has_answer(&self) -> bool {
        matches!(self.work, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. })
    }

    /// True if it takes a receive of the peer.
    pub(super) fn takes_receive(&self) -> bool {
        matches!(self.work, Work::Send { .. } | Work::Write { immediate: Some(_), .. })
    }

    fn is_done(&self) -> bool {
        self.is_begun && self.open == 0
    }

    /// True if it is short, and the peer acknowledges it.
    fn is_small(&self) -> bool {
        self.length <= SMALL && !matches!(self.work, Work::Datagram { .. })
    }

    fn is_atomic(&self) -> bool {
        matches!(self.work, Work::CompareSwap { .. } | Work::FetchAdd { .. })
    }

    fn kind(&self) -> CompletionKind {
        match self.work {
            Work::Send { .. } | Work::Datagram { .. } => CompletionKind::Send,
            Work::Write { .. } => CompletionKind::Write,
            Work::Read { .. } => CompletionKind::Read,
            Work::CompareSwap { .. } => CompletionKind::CompareSwap,
            Work::FetchAdd { .. } => CompletionKind::FetchAdd,
        }
    }
}

impl Verbs {
    /// Posts requests. Returns how many were accepted, and the error of the first that was refused;
    /// and true if they wait for others, and nothing is to be done.
    pub(super) fn post_send(
        &mut self,
        core: &mut Core,
        (number, requests): (Qpn, &[WorkRequest]),
        burst: Option<&mut Burst>,
        now: Instant,
    ) -> ((usize, Option<PostError>), bool) {
        core.delayed_ack.posted(now);
        let has_calls = self.has_calls();
        let Verbs { pairs, regions, mtu, .. } = self;
        let Some(pair) = pair_of(pairs, number) else {
            return ((0, (!requests.is_empty()).then_some(PostError::Missing)), false);
        };
        let (local, mut posted, mut may_wait) = (pair.local, (0, None), !has_calls);
        for request in requests {
            let mut send = match check(pair, request, *mtu) {
                Ok(send) => send,
                Err(error) => {
                    (posted.1, may_wait) = (Some(error), false);
                    break;
                }
            };
            if !regions.holds(pair.config.domain, &request.local) {
                send.status = Status::LocalProtection;
            }
            may_wait &= send.is_small();
            pair.sends.push_back(send);
            posted.0 += 1;
        }
        may_wait &= pair.state == QueuePairState::ReadyToSend && posted.0 > 0;
        let small = SmallPosts { began: now, count: posted.0 as u32, under_way: pair.posted };
        let waits = may_wait && burst.is_some_and(|burst| core.posts_wait(burst, small));
        match waits {
            true => _ = self.wait(local),
            false => self.advance_at(core, local, now),
        }
        (posted, waits)
    }

    /// Checks that all requests would be accepted.
    pub(super) fn check_sends(
        &mut self,
        number: Qpn,
        requests: &[WorkRequest],
    ) -> Result<(), PostError> {
        let mtu = self.mtu;
        let pair = self.pair(number).ok_or(PostError::Missing)?;
        if pair.sends.len() + requests.len() > pair.config.send_depth as usize {
            return Err(PostError::Full);
        }
        requests.iter().try_for_each(|request| check(pair, request, mtu).map(drop))
    }

    /// Begins the sends that may begin, and completes those that have ended.
    pub(super) fn advance(&mut self, core: &mut Core, local: u32) {
        self.advance_at(core, local, clock::now());
    }

    fn advance_at(&mut self, core: &mut Core, local: u32, now: Instant) {
        loop {
            let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
            if pair.state == QueuePairState::Error {
                return self.flush_sends(core, local);
            }
            if std::mem::take(&mut pair.unparks) && self.unpark(core, local) == Begun::Later {
                break;
            }
            self.begin_plain(core, local, now);
            let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
            if !pair.may_begin() {
                break;
            }
            let next = pair.begun() as usize;
            if self.begin(core, (local, next), now) == Begun::Later {
                break;
            }
            self.set(local, |pair| pair.next = pair.next.wrapping_add(1));
        }
        self.watch(local, now);
        self.complete_ready(core, local);
    }

    /// Posts a send to the protocol, or puts it aside: the next one, or one that was put aside.
    pub(super) fn begin(&mut self, core: &mut Core, at: (u32, usize), now: Instant) -> Begun {
        let (local, index) = at;
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return Begun::Later };
        let send = &mut pair.sends[index];
        if send.status != Status::Success {
            send.is_begun = true;
            pair.is_failing = true;
            return Begun::Yes;
        }
        if pair.is_fenced(index) {
            // The end of each of them repeats the attempt.
            return Begun::Later;
        }
        let channel = match self.channel_for(core, local, index) {
            Ok(channel) => channel,
            Err(begun) => return begun,
        };
        match self.gather(core, local, index, 2) {
            Ok(()) => self.post_parts(core, at, channel, now),
            Err(begun) => begun,
        }
    }

    /// Returns the channel for an operation. If there is none, a link is being made, or the
    /// operation has been lost.
    fn channel_for(
        &mut self,
        core: &mut Core,
        local: u32,
        index: usize,
    ) -> Result<fairway_ub::ChannelId, Begun> {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else {
            return Err(Begun::Later);
        };
        let link = match pair.sends[index].work {
            Work::Datagram { to, .. } => match self.addresses.address(to.address) {
                Some(ip) => self.link_to(ip, slot_of(to.queue_pair)),
                None => {
                    pair.sends[index].finish(Status::Success);
                    return Err(Begun::Yes);
                }
            },
            _ => {
                if let Some(channel) = pair.usable_channel() {
                    return Ok(channel);
                }
                let Some(link) = pair.link else { return Err(Begun::Later) };
                link
            }
        };
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else {
            return Err(Begun::Later);
        };
        if let Some(channel) = self.links[link as usize].channel().cloned() {
            let id = channel.channel;
            if let Some(since) = pair.unheard_since {
                if !core.nic.last_received(id).is_some_and(|at| at.is_at_or_after(since)) {
                    self.hail(core, local, id);
                    return Err(self.wait(local));
                }
                pair.unheard_since = None;
            }
            (pair.channel, pair.waits_for) = (Some(channel), None);
            return Ok(id);
        }
        if pair.config.transport == Transport::Ud {
            return Err(self.park(core, local, index, link));
        }
        self.wait_for_link(local, link);
        self.connect(core, link, CONNECT_TIMEOUT);
        Err(Begun::Later)
    }

    /// Makes a queue pair wait until it can go on.
    pub(super) fn wait(&mut self, local: u32) -> Begun {
        if let Some(pair) = self.pairs[local as usize].as_deref_mut()
            && !std::mem::replace(&mut pair.is_waiting, true)
        {
            self.waiting.push_back(local);
        }
        Begun::Later
    }

    fn post_parts(
        &mut self,
        core: &mut Core,
        (local, index): (u32, usize),
        channel: fairway_ub::ChannelId,
        now: Instant,
    ) -> Begun {
        let nothing = self.nothing;
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return Begun::Later };
        let jetty = pair.jetty();
        let id = u64::from(pair.life) << 32 | u64::from(pair.first.wrapping_add(index as u32));
        let others = pair.begun() > 0;
        while let Some(mut part) = part(pair, index, nothing) {
            (part.id, part.channel) = (id, channel);
            let posted = core.nic.post(now, jetty, &part);
            let send = &mut pair.sends[index];
            match posted {
                Ok(()) => {
                    core.note_post(now, &part);
                    send.posted += 1;
                    send.open += 1;
                    pair.posted += 1;
                }
                Err(Refused::NoSegment | Refused::OutOfBounds) => {
                    send.status = Status::LocalProtection;
                    pair.is_failing = true;
                    break;
                }
                // The channel has ended, and the operations begun on it will end.
                Err(Refused::NoChannel) if send.posted > 0 || others => {
                    return self.wait(local);
                }
                Err(Refused::NoChannel) => {
                    pair.channel = None;
                    return self.wait(local);
                }
                Err(
                    Refused::CompletionQueueFull
                    | Refused::TooManyMessages
                    | Refused::TooManyOrders
                    | Refused::TooManyPuts,
                ) => return self.wait(local),
                Err(_) => {
                    send.status = Status::LocalProtection;
                    pair.is_failing = true;
                    break;
                }
            }
        }
        pair.sends[index].is_begun = true;
        Begun::Yes
    }

    /// Records that an operation of the protocol has ended.
    pub(super) fn finish(
        &mut self,
        core: &mut Core,
        jetty: JettyId,
        ended: &fairway_ub::Completion,
    ) {
        let local = jetty.value();
        let Some(pair) = self.pairs.get_mut(local as usize).and_then(Option::as_deref_mut) else {
            return;
        };
        if pair.life != (ended.id >> 32) as u32 {
            return;
        }
        let index = (ended.id as u32).wrapping_sub(pair.first);
        let Some(send) = pair.sends.get_mut(index as usize) else { return };
        send.open -= 1;
        send.value = ended.value;
        let status = match pair.config.transport {
            Transport::Rc => status_of(ended.status),
            Transport::Uc | Transport::Ud => match ended.status {
                fairway_ub::Status::LocalMemory => Status::LocalProtection,
                // What happened to it in the network is not reported.
                _ => Status::Success,
            },
        };
        if status != Status::Success && send.status == Status::Success {
            pair.is_failing = true;
            send.status = status;
        }
        if index == 0 {
            self.complete_ready(core, local);
        }
        self.wait(local);
    }

    /// Completes the sends that have ended, in order.
    pub(super) fn complete_ready(&mut self, core: &mut Core, local: u32) {
        loop {
            let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
            if pair.state == QueuePairState::SendError {
                pair.flush_in_turn();
            }
            if pair.begun() == 0 || !pair.sends.front().is_some_and(Send::is_done) {
                break;
            }
            let Some(mut send) = pair.sends.pop_front() else { break };
            pair.first = pair.first.wrapping_add(1);
            pair.posted -= u32::from(send.posted);
            if send.status == Status::Success && store_value(core, &send).is_err() {
                send.status = Status::LocalProtection;
            }
            let (status, is_send) = (send.status, matches!(send.work, Work::Send { .. }));
            self.complete(core, local, send);
            if !matches!(status, Status::Success | Status::Flushed) {
                self.tell_refusal(core, local, (status, is_send));
                self.fail_sends(core, local, status);
            }
        }
        self.note_drained(local);
    }

    /// Ends the oldest send with this status, although it might have succeeded.
    pub(super) fn fail_oldest(&mut self, core: &mut Core, local: u32, status: Status) {
        let pair = self.pairs[local as usize].as_deref_mut();
        if let Some(pair) = pair
            && let Some(mut send) = pair.sends.pop_front()
        {
            pair.first = pair.first.wrapping_add(1);
            pair.posted -= u32::from(send.posted);
            send.status = status;
            // The protocol's remaining work for it is aborted first.
            self.abort(core, local);
            self.complete(core, local, send);
        }
        self.fail(core, local, status);
    }

    /// Completes all posted sends as flushed.
    pub(super) fn flush_sends(&mut self, core: &mut Core, local: u32) {
        while let Some(pair) = self.pairs[local as usize].as_deref_mut()
            && let Some(mut send) = pair.sends.pop_front()
        {
            pair.first = pair.first.wrapping_add(1);
            send.status = Status::Flushed;
            self.complete(core, local, send);
        }
        self.set(local, |pair| {
            (pair.next, pair.posted) = (pair.first, 0);
            pair.is_failing = false;
        });
    }

    /// Drops all posted sends.
    pub(super) fn forget_sends(&mut self, core: &mut Core, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        (pair.next, pair.posted) = (pair.first, 0);
        pair.is_failing = false;
        for send in std::mem::take(&mut pair.sends) {
            if let Some(bounce_buffer) = send.bounce_buffer {
                self.regions.take_back(core, &bounce_buffer);
            }
        }
    }

    fn complete(&mut self, core: &mut Core, local: u32, send: Send) {
        if let Some(bounce_buffer) = &send.bounce_buffer {
            self.regions.take_back(core, bounce_buffer);
        }
        let Some(pair) = self.pairs[local as usize].as_deref() else { return };
        let success = send.status == Status::Success;
        if success && !send.signaled {
            return;
        }
        let completion = Completion {
            id: send.id,
            queue_pair: pair.number,
            status: send.status,
            kind: send.kind(),
            bytes: if success { send.length } else { 0 },
            tail: Tail::Nothing,
            value: if success { send.value } else { 0 },
            from: Peer::default(),
            solicited: false,
        };
        let queue = pair.config.send_queue;
        self.report(core, queue, completion);
    }
}

impl QueuePair {
    /// Makes all posted sends complete as flushed, those under way when they end: the protocol
    /// still uses their memory, and aborting them would abort the receives, too.
    fn flush_in_turn(&mut self) {
        self.sends.iter_mut().for_each(|send| send.finish(Status::Flushed));
        self.next = self.first.wrapping_add(self.sends.len() as u32);
    }

    /// True if a send has a fence and was posted behind a READ or an atomic that has not completed.
    /// The protocol's own fence does not suffice: the program's memory gets the result of an atomic
    /// after the protocol has ended the operation, and the bytes of several ranges are copied
    /// before the protocol gets the operation.
    fn is_fenced(&self, index: usize) -> bool {
        self.sends[index].fence && self.sends.iter().take(index).any(Send::has_answer)
    }
}

/// Checks a request, and returns the send for it.
fn check(pair: &QueuePair, request: &WorkRequest, mtu: u32) -> Result<Send, PostError> {
    if !pair.state.takes_sends() {
        return Err(PostError::State);
    }
    let offered = match (pair.config.transport, &request.work) {
        (Transport::Rc, Work::Datagram { .. }) => false,
        (Transport::Rc, Work::Read { .. } | Work::CompareSwap { .. } | Work::FetchAdd { .. }) => {
            pair.may_have_answers()
        }
        (Transport::Rc, _) => true,
        (Transport::Uc, Work::Send { tail }) => !matches!(tail, Tail::Invalidate(_)),
        (Transport::Uc, Work::Write { .. }) | (Transport::Ud, Work::Datagram { .. }) => true,
        (Transport::Uc | Transport::Ud, _) => false,
    };
    if !offered {
        return Err(PostError::Operation);
    }
    let length: u64 = request.local.ranges().iter().map(|range| u64::from(range.length)).sum();
    let atomic = matches!(request.work, Work::CompareSwap { .. } | Work::FetchAdd { .. });
    let fits = match pair.config.transport {
        Transport::Ud => length <= u64::from(mtu),
        _ if atomic => matches!(length, 0 | 8),
        _ => length <= LENGTH_MAX,
    };
    if !fits {
        return Err(PostError::Length);
    }
    if pair.sends.len() >= pair.config.send_depth as usize {
        return Err(PostError::Full);
    }
    let WorkRequest { id, work, signaled, solicited, fence, .. } = *request;
    Ok(Send {
        id,
        work,
        signaled,
        solicited,
        fence,
        local: Ranges::of(&request.local).ok_or(PostError::Length)?,
        length: if atomic { 8 } else { length as u32 },
        bounce_buffer: None,
        parked: None,
        posted: 0,
        open: 0,
        is_begun: false,
        status: Status::Success,
        value: 0,
    })
}

/// Stores the previous value of a word that an atomic changed.
fn store_value(core: &Core, send: &Send) -> Result<(), Gone> {
    if !send.is_atomic() {
        return Ok(());
    }
    let bytes = send.value.to_ne_bytes();
    let mut at = 0;
    for range in send.local.as_slice() {
        let next = at + range.length as usize;
        if let Some(target) = core.memories.target(range) {
            target.write(&bytes[at..next])?;
        }
        at = next;
    }
    Ok(())
}
