//! The protocol's operations for a send, and what their status means to the program.

use fairway_roce::{Status, Transport, Work};
use fairway_ub::wire::{AtomicOperator, JettyId, ServiceMode, Tag, Target};
use fairway_ub::{
    LocalRange, OrderRequest, RemoteRange, Work as EngineWork, WorkRequest as EngineRequest,
};

use crate::fairway::immediate_tag::ImmediateTag;
use crate::fairway::memory::remote;
use crate::fairway::queue_pair::QueuePair;
use crate::fairway::tables::PAIRS_MAX;

/// Returns the next engine operation for a send, if there is one.
pub(super) fn part(pair: &QueuePair, index: usize, nothing: LocalRange) -> Option<EngineRequest> {
    let send = &pair.sends[index];
    let number = usize::from(send.posted);
    let ranges = send.local.as_slice();
    let whole = send.bounce_buffer.or(ranges.first().copied()).unwrap_or(nothing);
    let solicited = send.solicited;
    let target = Target {
        jetty: JettyId::new(pair.peer.queue_pair.value() & (PAIRS_MAX - 1)),
        token_value: pair.token,
        hint: 0,
    };
    let (sends, writes) = match pair.config.transport {
        Transport::Rc => (SENDS, WRITES),
        Transport::Uc | Transport::Ud => (LOST_SENDS, LOST_WRITES),
    };
    let message = |tag: ImmediateTag| {
        let work = EngineWork::SendImmediate { target, immediate: tag.encode(solicited) };
        (number == 0).then_some((work, whole, sends))
    };
    // For no bytes, one operation checks that the peer's queue pair exists and grants the access.
    let range = match send.length {
        0 => (number == 0).then_some(nothing),
        _ => ranges.get(number).copied(),
    };
    let before: u32 = ranges.iter().take(number).map(|range| range.length).sum();
    let there = |to: &fairway_roce::RemoteAddress| -> RemoteRange {
        remote(to.r_key, to.address.wrapping_add(u64::from(before)), target.jetty)
    };
    let atomic = |to: &fairway_roce::RemoteAddress, operator, operand, compare| {
        let work = EngineWork::Atomic { remote: there(to), width: 8, operator, operand, compare };
        (number == 0).then_some((work, nothing, ANSWERS))
    };
    let (work, local, (mode, tag)) = match &send.work {
        Work::Send { tail } => message(ImmediateTag::of(tail))?,
        Work::Write { immediate: Some(immediate), .. } if send.length == 0 => {
            message(ImmediateTag::Write(*immediate))?
        }
        Work::Write { remote: to, immediate: Some(immediate) } => {
            let immediate = ImmediateTag::Write(*immediate).encode(solicited);
            let work = EngineWork::WriteImmediate { remote: there(to), target, immediate };
            (number == 0).then_some((work, whole, sends))?
        }
        Work::Write { remote: to, immediate: None } => {
            (EngineWork::Write { remote: there(to) }, range?, writes)
        }
        Work::Read { remote: to } => (EngineWork::Read { remote: there(to) }, range?, ANSWERS),
        Work::CompareSwap { remote: to, compare, swap } => {
            atomic(to, AtomicOperator::CompareSwap, *swap, *compare)?
        }
        Work::FetchAdd { remote: to, add } => atomic(to, AtomicOperator::Add, *add, 0)?,
        Work::Datagram { to, q_key, immediate } => {
            let jetty = JettyId::new(to.queue_pair.value() & (PAIRS_MAX - 1));
            let target = Target { jetty, token_value: *q_key, hint: 0 };
            let tag =
                immediate.map_or(ImmediateTag::Send, ImmediateTag::Immediate).encode(solicited);
            let work = EngineWork::SendImmediate { target, immediate: tag };
            (number == 0).then_some((work, whole, (ServiceMode::Uno, Tag::No)))?
        }
    };
    let receive_in_order = (mode, tag) == SENDS
        && matches!(work, EngineWork::SendImmediate { .. } | EngineWork::WriteImmediate { .. });
    // The peer may refuse a message that overtook others until those have been reported.
    let complete_in_order = (mode, tag) == WRITES;
    // A send with a fence begins when nothing is left that it has to wait for.
    let fence = false;
    let order = OrderRequest { mode, tag, fence, receive_in_order, complete_in_order };
    let channel = pair.channel.as_ref()?.channel;
    Some(EngineRequest { id: 0, channel, work, local, signaled: true, order })
}

/// Service modes and tags of the protocol's operations: see the module.
pub(super) const WRITES: (ServiceMode, Tag) = (ServiceMode::Rol, Tag::Mo);
pub(super) const SENDS: (ServiceMode, Tag) = (ServiceMode::Rol, Tag::Mo);
pub(super) const LOST_WRITES: (ServiceMode, Tag) = (ServiceMode::Rol, Tag::Ro);
/// Not in memory order, in which a lost message would leave a gap.
pub(super) const LOST_SENDS: (ServiceMode, Tag) = (ServiceMode::Rol, Tag::So);
const ANSWERS: (ServiceMode, Tag) = (ServiceMode::Rot, Tag::Mo);

/// Converts the status of an engine operation to that of verbs.
pub(super) fn status_of(status: fairway_ub::Status) -> Status {
    use fairway_ub::Status as S;
    match status {
        S::Success => Status::Success,
        S::RemoteAccess => Status::RemoteAccess,
        // The queue pair lacks the right; a region that lacks it is one that cannot be accessed.
        S::RemoteRights | S::RemoteLength | S::RemoteMisaligned => Status::RemoteInvalidRequest,
        S::ReceiverNotReady => Status::RnrRetryExceeded,
        // A queue pair that does not exist does not answer.
        S::RemoteNoJetty | S::TimedOut | S::PeerDead | S::PeerClosed => Status::RetryExceeded,
        S::RemoteOperation | S::RemoteResources | S::RemoteNoMailbox | S::RemoteEpoch => {
            Status::RemoteOperation
        }
        S::Flushed => Status::Flushed,
        S::LocalMemory => Status::LocalProtection,
    }
}
