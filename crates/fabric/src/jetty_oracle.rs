//! What the states of Jetties and the membership of groups promise.
//!
//! Of a Jetty that fails nothing is lost: each of its operations still completes, those that were
//! flushed without ever having had an effect. A message for a group goes to one Jetty, which was a
//! member at some time between its posting and its arrival; where the sender chooses the member, to
//! that one.

use crate::application::Group;
use crate::finding::Finding;
use crate::operation::{Life, Operation, State};
use crate::oracles::Model;
use fairway_engine::wire::JettyId;
use fairway_engine::{Dispatch, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a group, and the index of the operation that was posted next.
#[derive(Clone, Debug)]
struct Snapshot {
    since: usize,
    members: Vec<JettyId>,
    dispatch: Dispatch,
}

/// What is remembered for it.
#[derive(Debug, Default)]
pub(crate) struct JettyOracle {
    /// Jetties in the error state.
    failed: BTreeSet<(Life, JettyId)>,
    /// All that a group has been, in order.
    groups: BTreeMap<(Life, JettyId), Vec<Snapshot>>,
}

impl JettyOracle {
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Is it known which Jetty a message without a number of its own was sent to?
    pub(crate) fn are_targets_known(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Model {
    /// A Jetty has gone to the error state: what it has not sent yet is flushed, and peers are told
    /// that there is no such Jetty.
    pub(crate) fn fails(&mut self, life: Life, jetty: JettyId) {
        self.jetties.failed.insert((life, jetty));
        self.refuses(life.0, jetty);
        let own = |operation: &&mut Operation| operation.life == life && operation.jetty == jetty;
        for operation in self.operations.iter_mut().filter(own) {
            if operation.state == State::Pending {
                operation.allowed = operation.allowed.with(Status::Flushed);
            }
        }
    }

    /// A Jetty is ready again.
    pub(crate) fn recovers(&mut self, life: Life, jetty: JettyId) {
        self.jetties.failed.remove(&(life, jetty));
    }

    pub(crate) fn has_failed(&self, life: Life, jetty: JettyId) -> bool {
        self.jetties.failed.contains(&(life, jetty))
    }

    /// An operation of a Jetty that has not completed, and will.
    pub(crate) fn under_way(&self, life: Life, jetty: JettyId) -> Option<&Operation> {
        self.operations.iter().find(|operation| {
            let own = operation.life == life && operation.jetty == jetty;
            own && operation.signaled && operation.state == State::Pending
        })
    }

    /// A group has other members than before.
    pub(crate) fn regrouped(&mut self, life: Life, group: &Group) {
        if !group.alive {
            self.refuses(life.0, group.id);
        }
        let (since, dispatch) = (self.operations.len(), group.dispatch);
        let snapshot = Snapshot { since, members: group.members.clone(), dispatch };
        self.jetties.groups.entry((life, group.id)).or_default().push(snapshot);
    }

    /// May an operation's message have come to this Jetty?
    pub(crate) fn may_come_to(&self, id: usize, jetty: JettyId) -> bool {
        let operation = &self.operations[id];
        if operation.target_jetty == jetty {
            return true;
        }
        let key = (operation.target_life, operation.target_jetty);
        let Some(snapshots) = self.jetties.groups.get(&key) else { return false };
        let ends = snapshots.iter().skip(1).map(|next| next.since).chain([usize::MAX]);
        snapshots.iter().zip(ends).any(|(then, end)| {
            let chosen = match then.dispatch {
                Dispatch::Hint if then.members.is_empty() => false,
                Dispatch::Hint => {
                    then.members[usize::from(operation.hint) % then.members.len()] == jetty
                }
                Dispatch::RoundRobin | Dispatch::LeastDepth => then.members.contains(&jetty),
            };
            // What was over when the operation was posted has not taken it.
            end > id && chosen
        })
    }

    /// Something was done to memory: nothing more may be, once the operation has succeeded or was
    /// flushed.
    pub(crate) fn check_not_over(&self, id: usize) -> Result<(), Finding> {
        let operation = &self.operations[id];
        let over = match operation.state {
            State::Done(Status::Success) => !operation.is_unreliable(),
            State::Done(Status::Flushed) => {
                !self.has_ended_at_all(operation.life, operation.channel)
            }
            _ => false,
        };
        if over {
            Err(format!("{id} has an effect after its end: {operation:?}").into())
        } else {
            Ok(())
        }
    }
}
