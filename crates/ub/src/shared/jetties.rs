//! The Jetties and Jetty groups of a device, and the receives that are posted to them.

mod receive_matching;
mod receives;

pub(crate) use receive_matching::MatchedReceive;
use receive_matching::ReceiveMatching;

use crate::api::{
    ExceptionMode, GroupConfig, JettyConfig, JettyState, PostError, SetupError, Status,
};
use crate::group::Group;
use crate::jetty::{Jetty, Receive, ReceiveSource};
use crate::limits::Limits;
use crate::pool::{Index, Pool};
use alloc::vec::Vec;
use core::ops::Range;
use fairway_wire::{JettyId, Refusal, Target};

/// Numbers below this one are well-known: only a caller that requests one gets it (UB §8.2.2).
const PUBLIC_JETTIES: u32 = 32;

/// All Jetties and Jetty groups, by number, and the receives that are posted to them.
pub(crate) struct Jetties {
    jetties: Vec<Jetty>,
    /// The number that was assigned last, or the number of Jetties. The next one is below it, so
    /// that a number is not assigned again at once: a message that still waits for a Jetty that has
    /// been removed would reach the new one.
    assigned: usize,
    /// By Jetty: number of times an operation that finds no receive is tried again; `None` means
    /// that the profile decides.
    not_ready_retries: Vec<Option<u16>>,
    /// Jetties that have gone to the error state and are to be flushed.
    failing: Vec<JettyId>,
    /// The Jetty whose operations are being aborted: their failures do not change its state.
    aborting: Option<JettyId>,
    groups: Pool<Group>,
    receives: Pool<Receive>,
    /// By Jetty: number of receives that were taken by messages and have not been replaced.
    taken: Vec<u32>,
    /// By Jetty: the source of its receives.
    sources: Vec<ReceiveSource>,
    /// State of receives that are matched in order.
    matching: ReceiveMatching,
    /// True if unreliable messages that are too long fail their receives.
    fails_short_receives: bool,
}

impl Jetties {
    pub(crate) fn new(limits: &Limits) -> Jetties {
        let count = limits.jetties as usize;
        Jetties {
            jetties: alloc::vec![Jetty::FREE; count],
            assigned: count,
            not_ready_retries: alloc::vec![None; count],
            failing: Vec::with_capacity(count),
            aborting: None,
            groups: Pool::new(limits.groups),
            receives: Pool::new(limits.receives),
            taken: alloc::vec![0; count],
            sources: ReceiveSource::own(limits.jetties),
            matching: ReceiveMatching::new(limits.jetties),
            fails_short_receives: false,
        }
    }

    /// Creates a Jetty.
    pub(crate) fn create(&mut self, config: &JettyConfig) -> Result<JettyId, SetupError> {
        let index = self.free_number(config.number)?;
        self.jetties[index] = Jetty {
            send_queue: config.send_queue.index() as u16,
            receive_queue: config.receive_queue.index() as u16,
            token_value: config.token_value,
            exception: config.exception,
            state: JettyState::Ready,
            // Answers to an earlier Jetty of this number may still be under way.
            transaction: self.jetties[index].transaction,
            ..Jetty::FREE
        };
        self.taken[index] = 0;
        self.not_ready_retries[index] = None;
        let id = JettyId::new(index as u32);
        self.sources[index] = ReceiveSource::Jetty(id);
        self.matching.set(id, config.in_sequence);
        Ok(id)
    }

    fn free_number(&mut self, wanted: Option<u32>) -> Result<usize, SetupError> {
        let jetties = &self.jetties;
        let is_free = |jetty: &Jetty| jetty.state == JettyState::Reset;
        let Some(number) = wanted else {
            let public = PUBLIC_JETTIES as usize;
            let least = if jetties.len() > public { public } else { 0 };
            let free = |range: Range<usize>| {
                jetties[range.clone()].iter().rposition(is_free).map(|found| range.start + found)
            };
            let found = free(least..self.assigned).or_else(|| free(self.assigned..jetties.len()));
            self.assigned = found.ok_or(SetupError::Limit("jetties"))?;
            return Ok(self.assigned);
        };
        let number = number as usize;
        match jetties.get(number) {
            Some(jetty) if is_free(jetty) => Ok(number),
            _ => Err(SetupError::Number),
        }
    }

    /// Removes a Jetty that has no receives, also from the groups of which it is a member.
    pub(crate) fn destroy(&mut self, id: JettyId) {
        for group in self.groups.ever_taken() {
            self.groups[group].leave(id);
        }
        // The failure must not apply to the next Jetty of this number.
        self.failing.retain(|&other| other != id);
        let jetty = &mut self.jetties[id.value() as usize];
        *jetty = Jetty { transaction: jetty.transaction, ..Jetty::FREE };
        self.sources[id.value() as usize] = ReceiveSource::Jetty(id);
    }

    /// The Jetty with this number, in any state, if it exists. A group does not count.
    #[inline]
    pub(crate) fn get(&self, id: JettyId) -> Option<&Jetty> {
        let is_one = |jetty: &&Jetty| !matches!(jetty.state, JettyState::Reset | JettyState::Group);
        self.jetties.get(id.value() as usize).filter(is_one)
    }

    fn get_mut(&mut self, id: JettyId) -> Option<&mut Jetty> {
        let is_one =
            |jetty: &&mut Jetty| !matches!(jetty.state, JettyState::Reset | JettyState::Group);
        self.jetties.get_mut(id.value() as usize).filter(is_one)
    }

    /// The Jetty, if an operation may be posted to it.
    #[inline]
    pub(crate) fn posting(&self, id: JettyId) -> Result<&Jetty, PostError> {
        let jetty = self.get(id).ok_or(PostError::NoJetty)?;
        if jetty.state == JettyState::Ready { Ok(jetty) } else { Err(PostError::NotReady) }
    }

    /// The Jetty, if a receive may be posted to it.
    pub(crate) fn receiving(&self, id: JettyId) -> Result<&Jetty, PostError> {
        let jetty = self.get(id).ok_or(PostError::NoJetty)?;
        if jetty.state == JettyState::Error { Err(PostError::NotReady) } else { Ok(jetty) }
    }

    /// The Jetty, or group, to which a message is addressed, if it accepts messages and the message
    /// has its secret.
    pub(crate) fn addressed(&self, target: &Target) -> Result<&Jetty, Refusal> {
        let jetty = self.jetties.get(target.jetty.value() as usize).ok_or(Refusal::NoJetty)?;
        // A suspended Jetty may be about to agree on another secret.
        if jetty.state != JettyState::Suspended && jetty.token_value != target.token_value {
            return Err(Refusal::NoJetty);
        }
        match jetty.state {
            JettyState::Reset | JettyState::Error => Err(Refusal::NoJetty),
            JettyState::Suspended => Err(Refusal::ReceiverNotReady),
            JettyState::Ready | JettyState::Group => Ok(jetty),
        }
    }

    /// True if the Jetty or group that a message names exists, and has another secret.
    pub(crate) fn has_other_token(&self, target: &Target) -> bool {
        let jetty = self.jetties.get(target.jetty.value() as usize);
        jetty.is_some_and(|jetty| {
            matches!(jetty.state, JettyState::Ready | JettyState::Group)
                && jetty.token_value != target.token_value
        })
    }

    /// The state of a Jetty or group.
    pub(crate) fn state(&self, id: JettyId) -> JettyState {
        let jetty = self.jetties.get(id.value() as usize);
        jetty.map_or(JettyState::Reset, |jetty| jetty.state)
    }

    /// Number of operations of a Jetty that have not completed.
    pub(crate) fn outstanding(&self, id: JettyId) -> u32 {
        self.jetties.get(id.value() as usize).map_or(0, |jetty| jetty.outstanding)
    }

    /// Number of Jetties and groups that exist.
    pub(crate) fn in_use(&self) -> u32 {
        let used = |jetty: &&Jetty| jetty.state != JettyState::Reset;
        self.jetties.iter().filter(used).count() as u32
    }

    /// True if a Jetty reports its operations or receives in a completion queue.
    pub(crate) fn uses_queue(&self, queue: u16) -> bool {
        self.jetties.iter().any(|jetty| {
            !matches!(jetty.state, JettyState::Reset | JettyState::Group)
                && (jetty.send_queue == queue || jetty.receive_queue == queue)
        })
    }

    /// The completion queue of a Jetty's receives.
    pub(crate) fn receive_queue(&self, id: JettyId) -> u16 {
        self.jetties[id.value() as usize].receive_queue
    }

    /// Changes the secret that a message to a Jetty must contain.
    pub(crate) fn set_token(&mut self, id: JettyId, token_value: u32) -> Result<(), SetupError> {
        self.get_mut(id).ok_or(SetupError::Missing)?.token_value = token_value;
        Ok(())
    }

    /// Sets the number of times an operation of a Jetty that finds no receive is tried again;
    /// `None` means that the profile decides.
    pub(crate) fn set_not_ready_retries(
        &mut self,
        id: JettyId,
        retries: Option<u16>,
    ) -> Result<(), SetupError> {
        self.get(id).ok_or(SetupError::Missing)?;
        self.not_ready_retries[id.value() as usize] = retries;
        Ok(())
    }

    /// Number of times an operation of a Jetty that finds no receive is tried again, if set.
    pub(crate) fn not_ready_retries(&self, id: JettyId) -> Option<u16> {
        self.not_ready_retries.get(id.value() as usize).copied().flatten()
    }

    /// Counts an operation that is posted to a Jetty.
    #[inline]
    pub(crate) fn begin_operation(&mut self, id: JettyId) {
        let _ = self.take_transaction(id);
        self.jetties[id.value() as usize].outstanding += 1;
    }

    /// Returns a Jetty's next transaction number, which it does not use again soon.
    pub(crate) fn take_transaction(&mut self, id: JettyId) -> u16 {
        let next = &mut self.jetties[id.value() as usize].transaction;
        core::mem::replace(next, next.wrapping_add(1))
    }

    /// Counts an operation of a Jetty that has completed. Returns the queue that reports it.
    #[inline]
    pub(crate) fn end_operation(&mut self, id: JettyId) -> u16 {
        let jetty = &mut self.jetties[id.value() as usize];
        jetty.outstanding -= 1;
        jetty.send_queue
    }

    // ---- states ----

    /// Changes the state of a Jetty; see
    /// [`UbDevice::set_jetty_state`](crate::UbDevice::set_jetty_state).
    pub(crate) fn set_state(&mut self, id: JettyId, to: JettyState) -> Result<(), SetupError> {
        let flushed = !self.failing.contains(&id);
        let jetty = self.get_mut(id).ok_or(SetupError::Missing)?;
        match (jetty.state, to) {
            (JettyState::Ready, JettyState::Suspended)
            | (JettyState::Suspended, JettyState::Ready) => jetty.state = to,
            (JettyState::Ready | JettyState::Suspended, JettyState::Error) => self.fail(id),
            (JettyState::Error, JettyState::Ready) if jetty.outstanding == 0 && flushed => {
                jetty.state = to;
            }
            (JettyState::Error, JettyState::Ready) => return Err(SetupError::Busy),
            _ => return Err(SetupError::Parameter("state")),
        }
        Ok(())
    }

    /// Moves a Jetty to the error state.
    fn fail(&mut self, id: JettyId) {
        self.jetties[id.value() as usize].state = JettyState::Error;
        if !self.failing.contains(&id) {
            self.failing.push(id);
        }
    }

    pub(crate) fn has_failed(&self, id: JettyId) -> bool {
        self.jetties.get(id.value() as usize).is_some_and(|jetty| jetty.state == JettyState::Error)
    }

    /// The last Jetty that has gone to the error state and is to be flushed.
    #[inline]
    pub(crate) fn last_failing(&self) -> Option<JettyId> {
        self.failing.last().copied()
    }

    /// Removes the Jetty that [`Self::last_failing`] returned, which has been flushed.
    pub(crate) fn pop_failing(&mut self) {
        self.failing.pop();
    }

    /// Names the Jetty whose operations are being aborted, if there is one.
    pub(crate) fn set_aborting(&mut self, id: Option<JettyId>) {
        self.aborting = id;
    }

    /// Handles a failed operation of a Jetty. Returns the Jetty's new state, if its exception mode
    /// changes the state.
    pub(crate) fn take_fault(&mut self, id: JettyId, status: Status) -> Option<JettyState> {
        let gone = matches!(status, Status::PeerDead | Status::PeerClosed | Status::Flushed);
        let jetty = &mut self.jetties[id.value() as usize];
        if gone || jetty.state != JettyState::Ready || self.aborting == Some(id) {
            return None;
        }
        match jetty.exception {
            ExceptionMode::Continue => None,
            ExceptionMode::Suspend => {
                jetty.state = JettyState::Suspended;
                Some(JettyState::Suspended)
            }
            ExceptionMode::Error => {
                self.fail(id);
                Some(JettyState::Error)
            }
        }
    }

    /// True if nothing of a Jetty that accepts no more operations is under way. `is_early` injects
    /// a bug: operations that are under way do not count.
    #[inline]
    pub(crate) fn is_drained(&self, id: JettyId, is_early: bool) -> bool {
        let jetty = &self.jetties[id.value() as usize];
        let stopped = matches!(jetty.state, JettyState::Suspended | JettyState::Error);
        stopped && (jetty.outstanding == 0 || is_early) && !self.failing.contains(&id)
    }

    // ---- groups ----

    /// Creates a Jetty group.
    pub(crate) fn create_group(&mut self, config: &GroupConfig) -> Result<JettyId, SetupError> {
        let index = self.free_number(config.number)?;
        let group = Group::new(config.dispatch);
        let record = self.groups.add(group).ok_or(SetupError::Limit("groups"))?;
        self.jetties[index] =
            Jetty { token_value: config.token_value, state: JettyState::Group, ..Jetty::FREE };
        self.sources[index] = ReceiveSource::Group(record);
        Ok(JettyId::new(index as u32))
    }

    /// Removes a group; its members remain.
    pub(crate) fn destroy_group(&mut self, id: JettyId) -> Result<(), SetupError> {
        let record = self.group_record(id)?;
        self.groups[record] = Group::new(Default::default());
        self.groups.remove(record);
        self.sources[id.value() as usize] = ReceiveSource::Jetty(id);
        self.jetties[id.value() as usize] = Jetty::FREE;
        Ok(())
    }

    /// Adds a Jetty to a group.
    pub(crate) fn join_group(&mut self, group: JettyId, member: JettyId) -> Result<(), SetupError> {
        self.get(member).ok_or(SetupError::Missing)?;
        let record = self.group_record(group)?;
        self.groups[record].join(member)
    }

    /// Removes a Jetty from a group. `stays` injects a bug: it remains a member.
    pub(crate) fn leave_group(
        &mut self,
        group: JettyId,
        member: JettyId,
        stays: bool,
    ) -> Result<(), SetupError> {
        let record = self.group_record(group)?;
        let group = &mut self.groups[record];
        let mut copy = *group;
        if if stays { &mut copy } else { group }.leave(member) {
            Ok(())
        } else {
            Err(SetupError::Missing)
        }
    }

    fn group_record(&self, id: JettyId) -> Result<Index<Group>, SetupError> {
        match self.sources.get(id.value() as usize) {
            Some(&ReceiveSource::Group(record)) => Ok(record),
            _ => Err(SetupError::Missing),
        }
    }

    /// Number of groups that exist.
    pub(crate) fn groups_in_use(&self) -> u32 {
        self.groups.in_use()
    }
}
