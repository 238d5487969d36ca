//! Jetties and groups of Jetties behind the lock.

use crate::options::{GroupOptions, JettyOptions};
use fairway_ub::wire::JettyId;
use fairway_ub::{Completion, CompletionQueueId, GroupConfig, JettyConfig, JettyState, SetupError};

use super::{Core, Notice};
use crate::error::Error;

/// The Jetties and groups of the application.
#[derive(Default)]
pub(super) struct Jetties {
    live: Vec<Option<JettyRecord>>,
    /// Jetties that were dropped while operations of theirs were under way.
    dying: Vec<JettyRecord>,
    groups: Vec<JettyId>,
}

struct JettyRecord {
    id: JettyId,
    queue: CompletionQueueId,
    /// A completion taken from the protocol by a check whether there is any.
    found: Option<Completion>,
}

impl Jetties {
    /// Adds a Jetty and returns its index, by which its handle finds it.
    fn insert(&mut self, record: JettyRecord) -> usize {
        let index = self.live.iter().position(Option::is_none).unwrap_or_else(|| {
            self.live.push(None);
            self.live.len() - 1
        });
        self.live[index] = Some(record);
        index
    }

    /// The Jetties of the application.
    pub(super) fn live(&self) -> impl Iterator<Item = JettyId> {
        self.live.iter().flatten().map(|record| record.id)
    }

    /// The Jetty at this index.
    pub(super) fn at(&self, index: usize) -> Option<JettyId> {
        Some(self.live.get(index)?.as_ref()?.id)
    }

    fn is_live(&self, id: JettyId) -> bool {
        self.live.iter().flatten().any(|record| record.id == id)
    }
}

impl Core {
    pub(crate) fn create_jetty(
        &mut self,
        options: &JettyOptions,
    ) -> Result<(usize, JettyId), Error> {
        self.check_running()?;
        self.reap_jetties();
        let queue = self
            .nic
            .create_completion_queue(options.depth)
            .map_err(|error| Error::setup(error, "completion queue", None))?;
        let config = JettyConfig {
            number: options.number,
            token_value: options.token,
            exception: options.exception,
            ..JettyConfig::new(queue, queue)
        };
        let id = match self.nic.create_jetty(&config) {
            Ok(id) => id,
            Err(error) => {
                // The queue is empty and unused, so it can be destroyed.
                let _ = self.nic.destroy_completion_queue(queue);
                return Err(Error::setup(error, "Jetty", options.number));
            }
        };
        Ok((self.jetties.insert(JettyRecord { id, queue, found: None }), id))
    }

    pub(crate) fn drop_jetty(&mut self, index: usize) {
        let Some(record) = self.jetties.live.get_mut(index).and_then(Option::take) else { return };
        self.hints.forget(record.id);
        // The groups dispatch nothing more to the Jetty while its last operations end.
        for group in &self.jetties.groups {
            let _ = self.nic.leave_group(*group, record.id);
        }
        self.jetties.dying.push(record);
        self.reap_jetties();
    }

    /// Ends everything that is under way at a Jetty. No system call may use memory meanwhile.
    pub(crate) fn abort_jetty(&mut self, index: usize) {
        let Some(Some(record)) = self.jetties.live.get(index) else { return };
        // It exists for as long as its record.
        let _ = self.nic.abort_jetty(record.id);
        self.note_end();
        self.note_abort();
    }

    /// Removes dropped Jetties whose operations have ended. Their receives release segments, so
    /// events are processed at once, before a segment's number can be used again.
    pub(crate) fn reap_jetties(&mut self) {
        let nic = &mut self.nic;
        self.jetties.dying.retain(|jetty| {
            while nic.poll_completion(jetty.queue).is_some() {}
            match nic.destroy_jetty(jetty.id) {
                Err(SetupError::Busy) => true,
                // The Jetty is gone; its queue is empty, and no other Jetty uses it.
                _ => {
                    while nic.poll_completion(jetty.queue).is_some() {}
                    nic.destroy_completion_queue(jetty.queue).is_err()
                }
            }
        });
        self.drain_events();
    }

    pub(crate) fn has_dying_jetties(&self) -> bool {
        !self.jetties.dying.is_empty()
    }

    pub(crate) fn take_completion(&mut self, index: usize) -> Option<Completion> {
        let jetty = self.jetties.live.get_mut(index)?.as_mut()?;
        jetty.found.take().or_else(|| self.nic.poll_completion(jetty.queue))
    }

    pub(crate) fn take_completions(
        &mut self,
        index: usize,
        out: &mut Vec<crate::completion::Completion>,
        max: usize,
    ) -> usize {
        for count in 0..max {
            match self.take_completion(index) {
                Some(completion) => out.push(completion.into()),
                None => return count,
            }
        }
        max
    }

    /// True if there is a completion. (The protocol can only be queried by taking it.)
    pub(crate) fn has_completion(&mut self, index: usize) -> bool {
        let Some(Some(jetty)) = self.jetties.live.get_mut(index) else { return false };
        if jetty.found.is_none() {
            jetty.found = self.nic.poll_completion(jetty.queue);
        }
        jetty.found.is_some()
    }

    // ---- states ----

    /// Moves a Jetty from one of the states `from` to another.
    pub(crate) fn set_jetty_state(
        &mut self,
        id: JettyId,
        from: &[JettyState],
        to: JettyState,
    ) -> Result<(), Error> {
        self.check_running()?;
        let state = self.nic.jetty_state(id);
        if !from.contains(&state) {
            return Err(Error::JettyState { from: state, to });
        }
        self.nic.set_jetty_state(id, to).map_err(|error| match error {
            SetupError::Busy => Error::JettyBusy { outstanding: self.nic.outstanding(id) },
            SetupError::Parameter(_) => Error::JettyState { from: state, to },
            other => Error::setup(other, "Jetty", Some(id.value())),
        })?;
        self.changes += 1;
        // Peers are notified of the operations that were given up.
        self.wants_send = true;
        self.drain_events();
        Ok(())
    }

    /// Reports a change of a Jetty's state to the application, if it still has the Jetty and the
    /// context.
    pub(crate) fn notice_jetty(&mut self, id: JettyId, notice: Notice) {
        if self.jetties.is_live(id) && !self.is_shut_down() {
            self.notice(notice);
        }
    }

    // ---- groups ----

    pub(crate) fn create_group(&mut self, options: &GroupOptions) -> Result<JettyId, Error> {
        self.check_running()?;
        let GroupOptions { number, dispatch, token } = *options;
        let config = GroupConfig { number, dispatch, token_value: token };
        let refused = |error| Error::setup(error, "Jetty group", number);
        let id = self.nic.create_group(&config).map_err(refused)?;
        self.jetties.groups.push(id);
        Ok(id)
    }

    pub(crate) fn drop_group(&mut self, id: JettyId) {
        self.jetties.groups.retain(|group| *group != id);
        // The group was created by `create_group` and is dropped once, so it exists.
        let _ = self.nic.destroy_group(id);
    }

    pub(crate) fn join_group(&mut self, group: JettyId, member: JettyId) -> Result<(), Error> {
        let refuse = |value: String, remedy| Error::Parameter { name: "group", value, remedy };
        self.nic.join_group(group, member).map_err(|error| match error {
            SetupError::Number => refuse(
                format!("one that Jetty {} is in already", member.value()),
                "let it join once",
            ),
            SetupError::Limit(_) => {
                refuse("of more members".into(), "let one leave, or make another group")
            }
            other => Error::setup(other, "Jetty group", Some(group.value())),
        })
    }

    pub(crate) fn leave_group(&mut self, group: JettyId, member: JettyId) -> Result<(), Error> {
        self.nic.leave_group(group, member).map_err(|_| Error::Parameter {
            name: "group",
            value: format!("one that Jetty {} is not in", member.value()),
            remedy: "let only members leave",
        })
    }
}
