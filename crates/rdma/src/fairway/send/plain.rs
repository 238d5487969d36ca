//! The sends of most programs, in fewer steps: WRITEs and SENDs of one range on a connected queue
//! pair. Each is one operation of the protocol, nothing is to be done before it, and nothing but
//! its completion follows from its success. All other sends take the steps of the module above.

use std::sync::atomic::Ordering;

use fairway::embed::Core;
use fairway_roce::{QueuePairState, Status, Transport, Work};
use fairway_ub::wire::{Instant, JettyId, Target};
use fairway_ub::{
    ChannelId, Completion, CompletionKind, OrderRequest, Status as End, Work as EngineWork,
    WorkRequest as EngineRequest,
};

use super::Send;
use super::parts::{LOST_SENDS, LOST_WRITES, SENDS, WRITES};
use crate::fairway::immediate_tag::ImmediateTag;
use crate::fairway::memory::remote;
use crate::fairway::queue_pair::QueuePair;
use crate::fairway::tables::{PAIRS_MAX, Verbs};

impl Verbs {
    /// Posts the next sends of a connected queue pair to the protocol, as long as each is one
    /// operation and nothing is to be done before it: most sends of most programs. What remains is
    /// left to [`Verbs::begin`].
    pub(super) fn begin_plain(&mut self, core: &mut Core, local: u32, now: Instant) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        let jetty = pair.jetty();
        while pair.may_begin() {
            let Some(channel) = pair.usable_channel() else { return };
            let index = pair.begun() as usize;
            let id = u64::from(pair.life) << 32 | u64::from(pair.next);
            let Some(request) = plain_part(pair, &pair.sends[index], id, channel) else { return };
            debug_assert_eq!(
                super::part(pair, index, self.nothing),
                Some(EngineRequest { id: 0, ..request }),
                "in fewer steps, not another operation"
            );
            // If it is refused, that is found out once more.
            if core.nic.post(now, jetty, &request).is_err() {
                return;
            }
            core.note_post(now, &request);
            let send = &mut pair.sends[index];
            (send.posted, send.open, send.is_begun) = (1, 1, true);
            pair.posted += 1;
            pair.next = pair.next.wrapping_add(1);
        }
    }

    /// Completes the oldest send of a queue pair, if it is one operation that has succeeded, and
    /// nothing else is to be done for it: most sends of most programs. Returns false if it is not.
    pub(crate) fn succeeds_in_turn(&mut self, core: &mut Core, ended: &Completion) -> bool {
        let local = ended.jetty.value();
        let pair = self.pairs.get_mut(local as usize).and_then(Option::as_deref_mut);
        let Some(pair) = pair.filter(|pair| pair.succeeds_in_turn(ended)) else { return false };
        let Some(send) = pair.sends.pop_front() else { return false };
        pair.first = pair.first.wrapping_add(1);
        pair.posted -= u32::from(send.posted);
        let is_next_done = pair.sends.front().is_some_and(Send::is_done);
        if send.signaled || send.bounce_buffer.is_some() {
            self.complete(core, local, send);
        }
        if is_next_done {
            self.complete_ready(core, local);
        }
        self.wait(local);
        true
    }
}

impl QueuePair {
    /// The channel of the next send, if that needs no preparation. If the channel has ended, the
    /// operations begun on it will end too.
    pub(super) fn usable_channel(&self) -> Option<ChannelId> {
        let channel = self.channel.as_ref()?;
        let is_usable = self.begun() > 0 || channel.alive.load(Ordering::Acquire);
        is_usable.then_some(channel.channel)
    }

    /// True if this is the success of the oldest send, which nothing else follows from.
    fn succeeds_in_turn(&self, ended: &Completion) -> bool {
        let id = u64::from(self.life) << 32 | u64::from(self.first);
        let is_send = !matches!(ended.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite);
        let is_plain = |send: &Send| {
            let is_last_part = send.is_begun && send.open == 1;
            is_last_part && send.status == Status::Success && !send.is_atomic()
        };
        let succeeds = ended.status == End::Success && is_send && ended.id == id;
        succeeds
            && self.state == QueuePairState::ReadyToSend
            && !self.draining
            && self.sends.front().is_some_and(is_plain)
    }
}

/// Returns the engine operation for a WRITE or SEND of one range on a connected queue pair; `None`
/// for another send, and for one before which something is to be done.
fn plain_part(pair: &QueuePair, send: &Send, id: u64, channel: ChannelId) -> Option<EngineRequest> {
    let [local] = *send.local.as_slice() else { return None };
    let is_fresh = send.posted == 0 && send.status == Status::Success && send.parked.is_none();
    if !is_fresh || send.fence || send.bounce_buffer.is_some() {
        return None;
    }
    let (sends, writes) = match pair.config.transport {
        Transport::Rc => (SENDS, WRITES),
        Transport::Uc => (LOST_SENDS, LOST_WRITES),
        Transport::Ud => return None,
    };
    let jetty = JettyId::new(pair.peer.queue_pair.value() & (PAIRS_MAX - 1));
    let (work, (mode, tag)) = match &send.work {
        Work::Write { remote: to, immediate: None } => {
            (EngineWork::Write { remote: remote(to.r_key, to.address, jetty) }, writes)
        }
        Work::Send { tail } => {
            let target = Target { jetty, token_value: pair.token, hint: 0 };
            let immediate = ImmediateTag::of(tail).encode(send.solicited);
            (EngineWork::SendImmediate { target, immediate }, sends)
        }
        _ => return None,
    };
    let receive_in_order = (mode, tag) == SENDS && matches!(work, EngineWork::SendImmediate { .. });
    let complete_in_order = (mode, tag) == WRITES;
    let order = OrderRequest { mode, tag, fence: false, receive_in_order, complete_in_order };
    Some(EngineRequest { id, channel, work, local, signaled: true, order })
}
