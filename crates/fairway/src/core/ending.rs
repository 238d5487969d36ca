//! The end of a context: what was posted is given back, and waits end.

use fairway_ub::{JettyState, SegmentId};

use super::{Core, State};
use crate::completion::Completion;
use crate::epoch::Epoch;
use crate::error::{Error, PostedTo};

impl Core {
    /// Closes all connections, returns what is posted, and wakes every thread and task that sleeps.
    /// Nothing new is started from now on.
    pub(crate) fn close_all(&mut self) {
        if self.state == State::Running {
            self.state = State::ShutDown;
        }
        self.changes += 1;
        self.connecting.abandon_all(&mut self.nic);
        for state in self.peer_states() {
            // The peer is alive, so its channel can be closed.
            let _ = self.close_channel(state.channel);
        }
        self.fail_jetties();
        self.release_mailboxes();
        self.drain_events();
        self.interests.wake_all();
    }

    /// Ends the posted receives of all Jetties: they complete as flushed.
    fn fail_jetties(&mut self) {
        for jetty in self.jetties.live() {
            if self.nic.jetty_state(jetty) != JettyState::Error {
                // The Jetty exists, and every other state may become this one.
                let _ = self.nic.set_jetty_state(jetty, JettyState::Error);
            }
        }
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.state == State::ShutDown
    }

    /// Returns the next completion of the Jetty at this index, if there is one.
    ///
    /// # Errors
    /// [`Error::ShutDown`]: there is none, and none will follow.
    pub(crate) fn next_completion(&mut self, index: usize) -> Option<Result<Completion, Error>> {
        match self.take_completion(index) {
            Some(completion) => Some(Ok(completion.into())),
            None => self.has_ended(index).then_some(Err(Error::ShutDown)),
        }
    }

    /// True if the context was shut down and no operation of the Jetty at this index is under way.
    pub(crate) fn has_ended(&self, index: usize) -> bool {
        self.is_shut_down() && self.jetties.at(index).is_none_or(|id| self.nic.outstanding(id) == 0)
    }

    /// Returns the next epoch of a mailbox that has ended, if there is one.
    ///
    /// # Errors
    /// [`Error::ShutDown`]: there is none, and none will follow.
    pub(crate) fn next_epoch(
        &mut self,
        mailbox: fairway_ub::MailboxId,
    ) -> Option<Result<Epoch, Error>> {
        let epoch = self.take_epoch(mailbox).map(Ok);
        epoch.or_else(|| self.is_shut_down().then_some(Err(Error::ShutDown)))
    }

    /// Returns an object of the application to which memory of a segment is posted.
    pub(crate) fn posted_to(&self, segment: SegmentId) -> Option<PostedTo> {
        let mut jetties = self.jetties.live();
        let jetty = jetties.find(|id| self.nic.has_receive_in(*id, segment));
        let jetty = jetty.map(|id| PostedTo::Jetty { number: id.value() });
        jetty.or_else(|| self.mailbox_with_buffer_in(segment))
    }
}
