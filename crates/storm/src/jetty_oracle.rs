//! Checks the guarantees of Jetty states and of group membership.
//!
//! No operation of a failing Jetty is lost: each one still completes, and a flushed one must never
//! have had an effect. A message for a group goes to one Jetty that was a member at some time
//! between the message's posting and its arrival; if the sender chooses the member, it goes to that
//! member.

use crate::application::Group;
use crate::finding::Finding;
use crate::operation::{Kind, Life, Operation, State};
use crate::oracles::Model;
use fairway_ub::wire::JettyId;
use fairway_ub::{Dispatch, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The members of a group from some time on, and the index of the next operation posted then.
#[derive(Clone, Debug)]
struct Snapshot {
    since: usize,
    members: Vec<JettyId>,
    dispatch: Dispatch,
}

/// State of the checks of Jetties and groups.
#[derive(Debug, Default)]
pub(crate) struct JettyOracle {
    /// Jetties in the error state.
    failed: BTreeSet<(Life, JettyId)>,
    /// All memberships of a group, in order.
    groups: BTreeMap<(Life, JettyId), Vec<Snapshot>>,
}

impl JettyOracle {
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// True if the target Jetty of a message without an individual number is known, because there
    /// are no groups.
    pub(crate) fn are_targets_known(&self) -> bool {
        self.groups.is_empty()
    }
}

impl Model {
    /// Records that a Jetty has entered the error state. Its unsent operations are flushed, and
    /// peers may receive refusals that name no such Jetty.
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

    /// Records that a Jetty is ready again.
    pub(crate) fn recovers(&mut self, life: Life, jetty: JettyId) {
        self.jetties.failed.remove(&(life, jetty));
    }

    pub(crate) fn has_failed(&self, life: Life, jetty: JettyId) -> bool {
        self.jetties.failed.contains(&(life, jetty))
    }

    /// Returns an operation of a Jetty that has not completed and is going to.
    pub(crate) fn under_way(&self, life: Life, jetty: JettyId) -> Option<&Operation> {
        self.operations.iter().find(|operation| {
            let own = operation.life == life && operation.jetty == jetty;
            own && operation.signaled && operation.state == State::Pending
        })
    }

    /// Records a new membership of a group.
    pub(crate) fn regrouped(&mut self, life: Life, group: &Group) {
        if !group.alive {
            self.refuses(life.0, group.id);
        }
        let (since, dispatch) = (self.operations.len(), group.dispatch);
        let snapshot = Snapshot { since, members: group.members.clone(), dispatch };
        self.jetties.groups.entry((life, group.id)).or_default().push(snapshot);
    }

    /// True if the message of an operation may have been delivered to this Jetty.
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
            // A membership that ended before the operation was posted does not count.
            end > id && chosen
        })
    }

    /// Checks an effect on memory: an operation that has succeeded or was flushed may have none.
    pub(crate) fn check_not_over(&self, id: usize) -> Result<(), Finding> {
        let operation = &self.operations[id];
        let over = match operation.state {
            State::Done(Status::Success) => !operation.is_unreliable(),
            State::Done(Status::Flushed) => {
                let may_arrive = operation.aborted && operation.kind != Kind::Read;
                !may_arrive && !self.has_ended_at_all(operation.life, operation.channel)
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
