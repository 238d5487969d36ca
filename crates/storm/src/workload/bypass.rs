//! Loads and stores. All stores of a node's peers go to the same few cells, and loads read them, so
//! that late copies of stores meet newer ones. A store's source range is used by no other
//! operation, so its bytes identify it.

use super::{Draft, GAP_MAX, Workload};
use crate::application::{Role, Segment};
use crate::operation::{Kind, Operation, Statuses};
use crate::oracles::Model;
use crate::world::World;
use fairway_ub::{LocalRange, RemoteRange, Status, Work, WorkRequest};

impl Workload {
    /// Draws the rest of a load or store; `None` if there is no room for it.
    pub(super) fn compose_bypass(
        &mut self,
        world: &mut World,
        model: &Model,
        draft: Draft,
        mut operation: Operation,
        wrong: bool,
    ) -> Option<(Operation, WorkRequest)> {
        let length = u64::from(draft.length);
        let is_load = draft.kind == Kind::Load;
        let near = self.segment(draft.life.0, if is_load { Role::Landing } else { Role::Ink })?;
        let gap = self.random.below(GAP_MAX) as usize;
        let at = world.memory.reserve(near.key, draft.length as usize, gap)?;
        operation.local = (near.key, at);
        let far = self.segment(draft.peer, Role::Cells)?;
        let start = self.random.below(far.length - length + 1);
        operation.remote = Some((far.key, start as usize));
        let mut remote = start_of(&far, start);
        if wrong {
            let status = self.make_wrong(draft, &far, &mut operation, &mut remote)?;
            operation.allowed = Statuses::of(&[status]);
        }
        operation.allowed = operation.allowed.with(Status::TimedOut);
        let work = if is_load { Work::Load { remote } } else { Work::Store { remote } };
        let local = LocalRange { segment: near.id, offset: at as u64, length: draft.length };
        let (id, channel, signaled) = (model.operation_id(), draft.channel, draft.signaled);
        Some((operation, WorkRequest { id, channel, work, local, signaled, order: draft.order }))
    }

    /// Makes the operation name something that the peer has to refuse. Returns the status that
    /// results.
    fn make_wrong(
        &mut self,
        draft: Draft,
        far: &Segment,
        operation: &mut Operation,
        remote: &mut RemoteRange,
    ) -> Option<Status> {
        match self.random.below(3) {
            0 => remote.token_value ^= 1 << self.random.below(32),
            1 => remote.address = far.address + far.length - u64::from(draft.length) + 1,
            _ => {
                let role = if draft.kind == Kind::Load { Role::Target } else { Role::Source };
                let closed = self.segment(draft.peer, role)?;
                *remote = start_of(&closed, 0);
                operation.remote = Some((closed.key, 0));
                return Some(Status::RemoteRights);
            }
        }
        Some(Status::RemoteAccess)
    }
}

/// Returns a remote range that begins at `at`.
fn start_of(segment: &Segment, at: u64) -> RemoteRange {
    RemoteRange {
        token_id: segment.id.token_id(),
        token_value: segment.token,
        address: segment.address + at,
    }
}
