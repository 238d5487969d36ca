//! Atomics on a few words, each with an operand that distinguishes it from all others.

use super::{Draft, WORDS, Workload};
use crate::application::Role;
use crate::operation::{Operation, Statuses};
use crate::oracles::Model;
use crate::order_oracle::operand_of;
use crate::world::World;
use fairway_ub::wire::AtomicOperator;
use fairway_ub::{LocalRange, RemoteRange, Status, Work, WorkRequest};

impl Workload {
    /// Draws the rest of an atomic; `None` if there is no word to change.
    pub(super) fn compose_atomic(
        &mut self,
        world: &World,
        model: &Model,
        draft: Draft,
        mut operation: Operation,
        wrong: bool,
    ) -> Option<(Operation, WorkRequest)> {
        let far = self.segment(draft.peer, Role::Words)?;
        let width = u64::from(draft.length);
        let random = &mut self.random;
        let at = random.below(8 * WORDS / width) * width;
        operation.remote = Some((far.key, at as usize));
        let mut remote = RemoteRange {
            token_id: far.id.token_id(),
            token_value: far.token,
            address: far.address + at,
        };
        if wrong {
            if random.chance(500) && at + width < 8 * WORDS {
                remote.address += 1 + random.below(width - 1);
                operation.allowed = Statuses::of(&[Status::RemoteMisaligned]);
            } else {
                remote.token_value ^= 1;
                operation.allowed = Statuses::of(&[Status::RemoteAccess]);
            }
        }
        let id = model.operation_id();
        let operator = random.pick(&AtomicOperator::ALL);
        operation.counted = operator != AtomicOperator::Load;
        let mut old = [0; 8];
        let place = at as usize..at as usize + draft.length as usize;
        old[..draft.length as usize].copy_from_slice(&world.memory.pieces[far.key].bytes[place]);
        let compare = match operator {
            AtomicOperator::CompareSwap => u64::from_le_bytes(old),
            _ => 0,
        };
        let operand = if operation.counted { operand_of(id) } else { 0 };
        let width = draft.length as u8;
        let work = Work::Atomic { remote, width, operator, operand, compare };
        let (channel, signaled, order) = (draft.channel, draft.signaled, draft.order);
        let local = LocalRange::default();
        Some((operation, WorkRequest { id, channel, work, local, signaled, order }))
    }
}
