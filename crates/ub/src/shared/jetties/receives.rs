//! Posted receives: a ring for each Jetty, and the choice of the receive for a message.

use super::Jetties;
use crate::api::{JettyState, SetupError};
use crate::jetty::{Receive, ReceiveSource};
use crate::pool::Index;
use fairway_wire::{JettyId, Refusal, Target};

impl Jetties {
    /// A receive that is posted, or that a message has taken.
    pub(crate) fn receive(&self, index: Index<Receive>) -> &Receive {
        &self.receives[index]
    }

    /// Number of receives that are posted, or that messages have taken.
    pub(crate) fn receives_in_use(&self) -> u32 {
        self.receives.in_use()
    }

    /// True if no more receives may be posted.
    pub(crate) fn is_out_of_receives(&self) -> bool {
        self.receives.is_exhausted()
    }

    /// Makes a Jetty take the receives that are posted to `source`; see
    /// [`UbDevice::share_receives`](crate::UbDevice::share_receives).
    pub(crate) fn share_receives(
        &mut self,
        id: JettyId,
        source: JettyId,
    ) -> Result<(), SetupError> {
        let jetty = *self.get(id).ok_or(SetupError::Missing)?;
        let queue = self.get(source).ok_or(SetupError::Missing)?.receive_queue;
        if queue != jetty.receive_queue || self.shares_receives(source) || id == source {
            return Err(SetupError::Parameter("source"));
        }
        if jetty.last_receive.is_some() {
            return Err(SetupError::Busy);
        }
        self.sources[id.value() as usize] = ReceiveSource::Jetty(source);
        Ok(())
    }

    /// True if a Jetty takes receives that are posted to another.
    pub(crate) fn shares_receives(&self, id: JettyId) -> bool {
        self.sources[id.value() as usize] != ReceiveSource::Jetty(id)
    }

    /// True if other Jetties take the receives that are posted to this one.
    pub(crate) fn lends_receives(&self, id: JettyId) -> bool {
        let number = id.value();
        let mut sources = self.sources.iter().zip(0..);
        let own = ReceiveSource::Jetty(id);
        sources.any(|(&source, other)| source == own && other != number)
    }

    /// The next posted receive of a Jetty.
    pub(crate) fn next_receive(&self, id: JettyId) -> Option<Index<Receive>> {
        self.receives[self.last_receive(id)?].next
    }

    /// True if a receive into this segment is posted to a Jetty.
    pub(crate) fn has_receive_in(&self, id: JettyId, segment: u32) -> bool {
        let Some(last) = self.last_receive(id) else { return false };
        let mut at = last;
        loop {
            let receive = &self.receives[at];
            if receive.segment == segment {
                return true;
            }
            match receive.next {
                Some(next) if next != last => at = next,
                _ => return false,
            }
        }
    }

    /// The receive posted last of those that a Jetty takes, which form a ring.
    fn last_receive(&self, id: JettyId) -> Option<Index<Receive>> {
        self.jetties[self.receive_source(id)?].last_receive
    }

    fn set_last_receive(&mut self, id: JettyId, receive: Option<Index<Receive>>) {
        if let Some(source) = self.receive_source(id) {
            self.jetties[source].last_receive = receive;
        }
    }

    /// The number of the Jetty whose receives a Jetty takes. A group has no receives.
    fn receive_source(&self, id: JettyId) -> Option<usize> {
        match self.sources[id.value() as usize] {
            ReceiveSource::Jetty(source) => Some(source.value() as usize),
            ReceiveSource::Group(_) => None,
        }
    }

    /// Appends a receive to those of a Jetty. False if there is no record for it.
    pub(crate) fn add_receive(&mut self, id: JettyId, receive: Receive) -> bool {
        let Some(index) = self.receives.add(receive) else { return false };
        self.return_receive(id, index);
        self.set_last_receive(id, Some(index));
        true
    }

    /// Takes the next posted receive of a Jetty.
    pub(crate) fn take_receive(&mut self, id: JettyId) -> Option<Index<Receive>> {
        let last = self.last_receive(id)?;
        let receive = self.receives[last].next?;
        if receive == last {
            self.set_last_receive(id, None);
        } else {
            self.receives[last].next = self.receives[receive].next;
        }
        self.taken[id.value() as usize] += 1;
        Some(receive)
    }

    /// Makes unreliable messages that are too long fail their receives.
    pub(crate) fn fail_short_receives(&mut self) {
        self.fails_short_receives = true;
    }

    /// Takes the next posted receive of a Jetty, for which an unreliable message was too long, if
    /// it is to fail.
    pub(crate) fn take_short_receive(&mut self, id: JettyId) -> Option<Index<Receive>> {
        // A group does not tell which member would have taken the message.
        self.get(id).filter(|_| self.fails_short_receives)?;
        self.take_receive(id)
    }

    /// Returns a receive that was taken but not used to the front.
    pub(crate) fn return_receive(&mut self, id: JettyId, receive: Index<Receive>) {
        let taken = &mut self.taken[id.value() as usize];
        *taken = taken.saturating_sub(1);
        match self.last_receive(id) {
            None => {
                self.set_last_receive(id, Some(receive));
                self.receives[receive].next = Some(receive);
            }
            Some(last) => {
                self.receives[receive].next = self.receives[last].next.replace(receive);
            }
        }
    }

    /// Frees the record of a receive that was taken.
    pub(crate) fn remove_receive(&mut self, index: Index<Receive>) -> Receive {
        let receive = self.receives[index];
        self.receives.remove(index);
        receive
    }

    /// Takes the next receive that is posted to this Jetty, not to one that it shares, and frees
    /// its record.
    pub(crate) fn drain_receive(&mut self, id: JettyId) -> Option<Receive> {
        if self.shares_receives(id) {
            return None;
        }
        let index = self.take_receive(id)?;
        Some(self.remove_receive(index))
    }

    /// The Jetty that is to take a message for `target`, and its next receive. A message whose
    /// receive would have to wait for an earlier one may not have the last receive, which the
    /// earlier one needs.
    pub(crate) fn receiver(
        &mut self,
        target: &Target,
        early: bool,
    ) -> Result<(JettyId, Index<Receive>), Refusal> {
        self.addressed(target)?;
        let member = match self.sources[target.jetty.value() as usize] {
            ReceiveSource::Group(record) => {
                let mut group = self.groups[record];
                let depth = |member: JettyId| {
                    let number = member.value() as usize;
                    let ready = self.jetties[number].state == JettyState::Ready;
                    let can = ready && self.receive_for(member, early).is_some();
                    can.then_some(self.taken[number])
                };
                let matched = group.dispatch(target.hint, depth);
                self.groups[record] = group;
                matched.ok_or(Refusal::ReceiverNotReady)?
            }
            ReceiveSource::Jetty(_) => target.jetty,
        };
        let receive = self.receive_for(member, early).ok_or(Refusal::ReceiverNotReady)?;
        Ok((member, receive))
    }

    /// The next receive of a Jetty. An early message may not have the last one.
    pub(super) fn receive_for(&self, jetty: JettyId, early: bool) -> Option<Index<Receive>> {
        let last = self.last_receive(jetty)?;
        let receive = self.receives[last].next?;
        (!early || receive != last).then_some(receive)
    }
}
