//! Creation, states and removal of Jetties and of Jetty groups.

use super::{UbDevice, channel_of};
use crate::api::{Event, Grant, GroupConfig, JettyConfig, JettyState, SegmentId, SetupError};
use crate::injected_bug::InjectedBug;
use fairway_policy::Share;
use fairway_wire::JettyId;

impl UbDevice {
    /// Creates a Jetty.
    ///
    /// # Errors
    /// `Missing` if a queue does not exist, `Number` if the number is taken or out of range,
    /// `Limit` if all are taken.
    pub fn create_jetty(&mut self, config: &JettyConfig) -> Result<JettyId, SetupError> {
        for queue in [config.send_queue, config.receive_queue] {
            if !self.shared.queues.exists(queue) {
                return Err(SetupError::Missing);
            }
        }
        let id = self.shared.jetties.create(config)?;
        // An earlier Jetty of this number may have had another share and hint.
        self.shared.flows.set_share(id, Share::default());
        self.shared.flows.set_hint(id, 0);
        Ok(id)
    }

    /// Removes a Jetty; receives still posted to it are dropped without a completion. It is removed
    /// from its groups.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty; `Busy` while its operations, or arrivals for it, are
    /// unfinished.
    pub fn destroy_jetty(&mut self, id: JettyId) -> Result<(), SetupError> {
        let jetty = *self.shared.jetties.get(id).ok_or(SetupError::Missing)?;
        let arrivals = &self.shared.arrivals;
        let waiting = self.shared.trackers.has_unreported_of(id);
        let arriving = arrivals.ever_taken().any(|index| {
            let arrival = &arrivals[index];
            arrival.channel.is_some() && arrival.receive.is_some() && arrival.jetty == id
        });
        let lent = self.shared.jetties.lends_receives(id);
        if jetty.outstanding > 0 || arriving || waiting || lent {
            return Err(SetupError::Busy);
        }
        if let Some(guards) = self.shared.segments.guards_mut() {
            guards.set(id, Grant::Nothing);
        }
        self.shared.jetties.return_reserved_of(&mut self.shared.trackers, id);
        while let Some(receive) = self.shared.jetties.drain_receive(id) {
            self.shared.queues.of_jetty(jetty.receive_queue).unreserve();
            self.shared.release(receive.segment);
        }
        let lax = self.shared.is_injected(InjectedBug::ForgetBarring);
        self.shared.initiator.forget_jetty(id, lax);
        self.shared.puts.release_jetty(id);
        self.shared.jetties.destroy(id);
        Ok(())
    }

    /// Makes a Jetty take the receives that are posted to `source`, as others may: a shared receive
    /// queue. They complete in the Jetty's own queue, which has to be that of `source`, because
    /// that is where entries were reserved. `source` can't be removed before the Jetties that share
    /// it.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty; `Parameter` if the queues differ, or `source` itself
    /// takes another's; `Busy` if receives were posted to the Jetty.
    pub fn share_receives(&mut self, id: JettyId, source: JettyId) -> Result<(), SetupError> {
        self.shared.jetties.share_receives(id, source)
    }

    /// Takes back the next of the receives that are posted to this Jetty, not to one that it
    /// shares. It has no completion. Returns the identifier of the receive; `None` if no receive is
    /// posted, or messages have taken all.
    pub fn withdraw_receive(&mut self, id: JettyId) -> Option<u64> {
        let queue = self.shared.jetties.get(id)?.receive_queue;
        let receive = self.shared.jetties.drain_receive(id)?;
        self.shared.queues.of_jetty(queue).unreserve();
        self.shared.release(receive.segment);
        Some(receive.id)
    }

    /// Completes a receive with [`Status::RemoteLength`] from now on if an unreliable message (mode
    /// UNO) is too long for it. Otherwise the receive stays posted.
    ///
    /// [`Status::RemoteLength`]: crate::Status::RemoteLength
    pub fn fail_short_receives(&mut self) {
        self.shared.jetties.fail_short_receives();
    }

    /// The state of a Jetty, or of a group.
    pub fn jetty_state(&self, id: JettyId) -> JettyState {
        self.shared.jetties.state(id)
    }

    /// Number of operations of a Jetty that have not completed.
    pub fn outstanding(&self, id: JettyId) -> u32 {
        self.shared.jetties.outstanding(id)
    }

    /// True if a receive into this segment is posted to a Jetty: one into which no message arrives
    /// yet.
    pub fn has_receive_in(&self, id: JettyId, segment: SegmentId) -> bool {
        let is_jetty = self.shared.jetties.get(id).is_some();
        is_jetty && self.shared.jetties.has_receive_in(id, segment.number())
    }

    /// Changes a Jetty's state: from ready to suspended and back; from either to the error state,
    /// where what was not yet sent is flushed and what was sent runs to its end; and from the error
    /// state, once the Jetty is drained, back to ready. [`Event::JettyDrained`] reports when no
    /// operation of a suspended or failed Jetty is in progress any more.
    ///
    /// # Errors
    /// `Missing` if there is no such Jetty; `Busy` if it is not drained; `Parameter` if there is no
    /// such transition.
    pub fn set_jetty_state(&mut self, id: JettyId, to: JettyState) -> Result<(), SetupError> {
        self.shared.jetties.set_state(id, to)?;
        match to {
            JettyState::Suspended if self.outstanding(id) == 0 => {
                self.shared.events.push_back(Event::JettyDrained { jetty: id });
            }
            JettyState::Error => self.fail_jetties(),
            _ => {}
        }
        Ok(())
    }

    /// Creates a Jetty group: a name under which its members receive.
    ///
    /// # Errors
    /// `Number` if the number is taken or out of range, `Limit` if all are taken.
    pub fn create_group(&mut self, config: &GroupConfig) -> Result<JettyId, SetupError> {
        self.shared.jetties.create_group(config)
    }

    /// Adds a Jetty to the receivers of what is sent to a group.
    ///
    /// # Errors
    /// `Missing` if the group or the Jetty does not exist, `Number` if the Jetty is a member,
    /// `Limit` if the group is full.
    pub fn join_group(&mut self, group: JettyId, member: JettyId) -> Result<(), SetupError> {
        self.shared.jetties.join_group(group, member)
    }

    /// Removes a Jetty from a group. What was dispatched to it still arrives there.
    ///
    /// # Errors
    /// `Missing` if the group does not exist or the Jetty is no member.
    pub fn leave_group(&mut self, group: JettyId, member: JettyId) -> Result<(), SetupError> {
        let stays = self.shared.is_injected(InjectedBug::StayMember);
        self.shared.jetties.leave_group(group, member, stays)
    }

    /// Removes a group; its members stay.
    ///
    /// # Errors
    /// `Missing` if there is no such group.
    pub fn destroy_group(&mut self, id: JettyId) -> Result<(), SetupError> {
        self.shared.jetties.destroy_group(id)
    }

    /// Flushes what was not yet sent of Jetties that have gone to the error state.
    pub(crate) fn fail_jetties(&mut self) {
        while let Some(id) = self.shared.jetties.last_failing() {
            // Flushing changes the list, so it is read first.
            let head = self.shared.initiator.incomplete[id.value() as usize].head();
            let all = self.with_unsent_parts(head);
            for index in all {
                let channel = self.shared.messages[index].channel;
                if let Some(channel) = channel_of(&mut self.entries, channel) {
                    channel.cancel_unsent(&mut self.shared, index);
                }
            }
            self.shared.jetties.pop_failing();
            self.shared.flush_receives(id);
            self.shared.note_drained(id);
        }
    }
}
