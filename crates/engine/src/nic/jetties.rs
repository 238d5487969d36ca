//! The life of Jetties and of Jetty groups.

use super::{Nic, channel_of};
use crate::api::{Event, Grant, GroupConfig, JettyConfig, JettyState, SetupError};
use crate::arrival::Parked;
use crate::canary::Canary;
use crate::group::Group;
use crate::jetty::{Jetty, ReceiveSource};
use crate::pool::Index;
use alloc::vec::Vec;
use fairway_policy::Share;
use fairway_wire::JettyId;

/// Numbers below this one are well-known: only a caller that asks for one gets it (UB §8.2.2).
pub(crate) const PUBLIC_JETTIES: u32 = 32;

impl Nic {
    /// Makes a Jetty.
    ///
    /// # Errors
    /// `Missing` if a queue does not exist, `Number` if the number is taken or out of range,
    /// `Limit` if all are taken.
    pub fn create_jetty(&mut self, config: &JettyConfig) -> Result<JettyId, SetupError> {
        for queue in [config.send_queue, config.receive_queue] {
            if self.shared.queues.get(queue.index()).is_none_or(Option::is_none) {
                return Err(SetupError::Missing);
            }
        }
        let index = self.free_number(config.number)?;
        self.shared.jetties[index] = Jetty {
            send_queue: config.send_queue.index() as u16,
            receive_queue: config.receive_queue.index() as u16,
            token_value: config.token_value,
            exception: config.exception,
            state: JettyState::Ready,
            ..Jetty::FREE
        };
        self.shared.taken[index] = 0;
        self.shared.patience[index] = None;
        let id = JettyId::new(index as u32);
        self.shared.sources[index] = ReceiveSource::Jetty(id);
        self.shared.sequencing.set(id, config.in_sequence);
        // An earlier Jetty of this number may have had others.
        self.shared.flows.set_share(id, Share::default());
        self.shared.flows.set_hint(id, 0);
        Ok(id)
    }

    fn free_number(&self, wanted: Option<u32>) -> Result<usize, SetupError> {
        let jetties = &self.shared.jetties;
        let is_free = |jetty: &Jetty| jetty.state == JettyState::Reset;
        let Some(number) = wanted else {
            let found = jetties.iter().rposition(is_free).ok_or(SetupError::Limit("jetties"))?;
            let public = jetties.len() > PUBLIC_JETTIES as usize && found < PUBLIC_JETTIES as usize;
            return if public { Err(SetupError::Limit("jetties")) } else { Ok(found) };
        };
        let number = number as usize;
        match jetties.get(number) {
            Some(jetty) if is_free(jetty) => Ok(number),
            _ => Err(SetupError::Number),
        }
    }

    /// Removes a Jetty; receives still posted to it are dropped without a completion. It leaves
    /// the groups it is in.
    ///
    /// # Errors
    /// `Missing`; `Busy` while operations of it, or arrivals for it, are under way.
    pub fn destroy_jetty(&mut self, id: JettyId) -> Result<(), SetupError> {
        let jetty = *self.shared.jetty(id).ok_or(SetupError::Missing)?;
        let arrivals = &self.shared.arrivals;
        let parked = &self.shared.parked;
        let waiting = self.shared.trackers.any(|tracker| {
            Parked::list(parked, tracker.parked).any(|parked| parked.completion.jetty == id)
        });
        let arriving = arrivals.ever_taken().any(|index| {
            let arrival = &arrivals[index];
            arrival.channel.is_some() && arrival.receive.is_some() && arrival.jetty == id
        });
        let number = id.value();
        let mut sources = self.shared.sources.iter().zip(0..);
        let own = ReceiveSource::Jetty(id);
        let lent = sources.any(|(&source, other)| source == own && other != number);
        if jetty.outstanding > 0 || arriving || waiting || lent {
            return Err(SetupError::Busy);
        }
        if let Some(guards) = self.shared.segments.guards_mut() {
            guards.set(id, Grant::Nothing);
        }
        self.shared.return_reserved_of(id);
        while !self.shared.shares_receives(id)
            && let Some(receive) = self.shared.take_receive(id)
        {
            let segment = self.shared.receives[receive].segment;
            self.shared.receives.remove(receive);
            self.shared.queue(jetty.receive_queue).unreserve();
            self.shared.let_go(segment);
        }
        for group in self.shared.groups.ever_taken() {
            self.shared.groups[group].leave(id);
        }
        let lax = self.shared.is_planted(Canary::ForgetBarring);
        self.shared.initiator.forget_jetty(id, lax);
        // The next Jetty of this number has not failed.
        self.shared.failing.retain(|&other| other != id);
        self.shared.jetties[number as usize] = Jetty::FREE;
        self.shared.sources[number as usize] = own;
        Ok(())
    }

    /// From now on a Jetty takes the receives that are posted to `source`, as others may: a shared
    /// receive queue. They complete in its own queue, which has to be that of `source`, because
    /// that is where room was set aside. `source` can't be removed before those that share it.
    ///
    /// # Errors
    /// `Missing`; `Parameter` if the queues differ, or `source` itself takes another's; `Busy` if
    /// receives were posted to the Jetty.
    pub fn share_receives(&mut self, id: JettyId, source: JettyId) -> Result<(), SetupError> {
        let jetty = *self.shared.jetty(id).ok_or(SetupError::Missing)?;
        let queue = self.shared.jetty(source).ok_or(SetupError::Missing)?.receive_queue;
        if queue != jetty.receive_queue || self.shared.shares_receives(source) || id == source {
            return Err(SetupError::Parameter("source"));
        }
        if jetty.last_receive.is_some() {
            return Err(SetupError::Busy);
        }
        self.shared.sources[id.value() as usize] = ReceiveSource::Jetty(source);
        Ok(())
    }

    /// What a Jetty, or a group, is now.
    pub fn jetty_state(&self, id: JettyId) -> JettyState {
        let jetty = self.shared.jetties.get(id.value() as usize);
        jetty.map_or(JettyState::Reset, |jetty| jetty.state)
    }

    /// Operations of a Jetty that have not completed.
    pub fn outstanding(&self, id: JettyId) -> u32 {
        self.shared.jetties.get(id.value() as usize).map_or(0, |jetty| jetty.outstanding)
    }

    /// Takes a Jetty to another state: from ready to suspended and back; from either to the error
    /// state, where what was not yet sent is flushed and what was sent runs to its end; and from
    /// the error state, once it is drained, back to ready. [`Event::JettyDrained`] says when
    /// nothing of a suspended or failed one is under way any more.
    ///
    /// # Errors
    /// `Missing`; `Busy` if it is not drained; `Parameter` if there is no such transition.
    pub fn set_jetty_state(&mut self, id: JettyId, to: JettyState) -> Result<(), SetupError> {
        let flushed = !self.shared.failing.contains(&id);
        let jetty = self.shared.jetty(id).ok_or(SetupError::Missing)?;
        let (from, outstanding) = (jetty.state, jetty.outstanding);
        match (from, to) {
            (JettyState::Ready, JettyState::Suspended) => {
                jetty.state = to;
                if outstanding == 0 {
                    self.shared.events.push_back(Event::JettyDrained { jetty: id });
                }
            }
            (JettyState::Suspended, JettyState::Ready) => jetty.state = to,
            (JettyState::Ready | JettyState::Suspended, JettyState::Error) => {
                self.shared.fail(id);
                self.fail_jetties();
            }
            (JettyState::Error, JettyState::Ready) if outstanding == 0 && flushed => {
                jetty.state = to;
            }
            (JettyState::Error, JettyState::Ready) => return Err(SetupError::Busy),
            _ => return Err(SetupError::Parameter("state")),
        }
        Ok(())
    }

    /// Makes a Jetty group: a name under which its members receive.
    ///
    /// # Errors
    /// `Number` if the number is taken or out of range, `Limit` if all are taken.
    pub fn create_group(&mut self, config: &GroupConfig) -> Result<JettyId, SetupError> {
        let index = self.free_number(config.number)?;
        let group = Group::new(config.dispatch);
        let record = self.shared.groups.add(group).ok_or(SetupError::Limit("groups"))?;
        self.shared.jetties[index] =
            Jetty { token_value: config.token_value, state: JettyState::Group, ..Jetty::FREE };
        self.shared.sources[index] = ReceiveSource::Group(record);
        Ok(JettyId::new(index as u32))
    }

    /// Lets a Jetty take part in what is sent to a group.
    ///
    /// # Errors
    /// `Missing` if one of them does not exist, `Number` if it is a member, `Limit` if the group is
    /// full.
    pub fn join_group(&mut self, group: JettyId, member: JettyId) -> Result<(), SetupError> {
        self.shared.jetty(member).ok_or(SetupError::Missing)?;
        self.group(group)?.join(member)
    }

    /// Takes a Jetty out of a group. What was dispatched to it still arrives there.
    ///
    /// # Errors
    /// `Missing` if the group does not exist or it is no member.
    pub fn leave_group(&mut self, group: JettyId, member: JettyId) -> Result<(), SetupError> {
        let stays = self.shared.is_planted(Canary::StayMember);
        let group = self.group(group)?;
        let mut copy = *group;
        if if stays { &mut copy } else { group }.leave(member) {
            Ok(())
        } else {
            Err(SetupError::Missing)
        }
    }

    /// Removes a group; its members stay.
    ///
    /// # Errors
    /// `Missing` if there is no such group.
    pub fn destroy_group(&mut self, id: JettyId) -> Result<(), SetupError> {
        let record = self.group_record(id)?;
        self.shared.groups[record] = Group::new(Default::default());
        self.shared.groups.remove(record);
        self.shared.sources[id.value() as usize] = ReceiveSource::Jetty(id);
        self.shared.jetties[id.value() as usize] = Jetty::FREE;
        Ok(())
    }

    fn group(&mut self, id: JettyId) -> Result<&mut Group, SetupError> {
        let record = self.group_record(id)?;
        Ok(&mut self.shared.groups[record])
    }

    fn group_record(&self, id: JettyId) -> Result<Index<Group>, SetupError> {
        match self.shared.sources.get(id.value() as usize) {
            Some(&ReceiveSource::Group(record)) => Ok(record),
            _ => Err(SetupError::Missing),
        }
    }

    /// Flushes what was not yet sent of Jetties that have gone to the error state.
    pub(crate) fn fail_jetties(&mut self) {
        while let Some(&id) = self.shared.failing.last() {
            // Flushing changes the list, so it is read first.
            let mut all = Vec::new();
            let mut next = self.shared.initiator.incomplete[id.value() as usize].head();
            while let Some(at) = next {
                all.push(at);
                next = self.shared.messages[at].order.next_incomplete();
            }
            for index in all {
                let channel = self.shared.messages[index].channel;
                if let Some(channel) = channel_of(&mut self.entries, channel) {
                    channel.cancel_unsent(&mut self.shared, index);
                }
            }
            self.shared.failing.pop();
            self.shared.flush_receives(id);
            self.shared.note_drained(id);
        }
    }
}
