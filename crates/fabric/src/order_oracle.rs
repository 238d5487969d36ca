//! What order promises, checked at every effect on memory and at every completion.
//!
//! The checker knows what was posted, and sees what is done to memory; it shares nothing with the
//! engine's trackers. The complete rules are in the executable specification; here are those that
//! can be seen in the middle of a storm.

use crate::finding::Finding;
use crate::operation::{Kind, Operation, State};
use crate::oracles::Model;
use crate::world::{Effect, World};
use fairway_engine::wire::{AtomicOperator, ServiceMode, Tag};
use std::collections::BTreeMap;

/// What is remembered for it.
#[derive(Debug, Default)]
pub(crate) struct OrderOracle {
    /// Operations by the place in memory that is theirs alone: the peer's, or of a read ours.
    by_place: BTreeMap<(usize, usize), usize>,
    /// Atomics by their operand, which is theirs alone.
    by_operand: BTreeMap<u64, usize>,
    /// Operations that a later one overtook: wrong, unless they turn out to have failed.
    overtaken: BTreeMap<usize, (usize, &'static str)>,
}

/// The operand of an atomic that tells it from all others.
pub(crate) fn operand_of(id: u64) -> u64 {
    0x5A5A_0000_0000 | (id + 1)
}

impl OrderOracle {
    pub(crate) fn posted(&mut self, id: usize, operation: &Operation) {
        match (operation.kind, operation.remote) {
            (Kind::Write | Kind::WriteImmediate, Some(place)) if operation.length > 0 => {
                self.by_place.insert(place, id);
            }
            // What a read brings has a place here that is its own.
            (Kind::Read | Kind::Load, _) if operation.length > 0 => {
                self.by_place.insert(operation.local, id);
            }
            (Kind::Atomic, _) => {
                self.by_operand.insert(operand_of(id as u64), id);
            }
            _ => {}
        }
    }

    /// Is the operand that of this atomic?
    pub(crate) fn is_atomic(&self, operand: u64, id: usize) -> bool {
        self.by_operand.get(&operand) == Some(&id)
    }

    pub(crate) fn operation_of(&self, model: &[Operation], effect: &Effect) -> Option<usize> {
        if let Some((atomic, _)) = &effect.atomic {
            let known = atomic.operator != AtomicOperator::Load;
            return self.by_operand.get(&atomic.operand).copied().filter(|_| known);
        }
        let (&(key, at), &id) = self.by_place.range(..=effect.place).next_back()?;
        let end = at + model[id].length as usize;
        (key == effect.place.0 && effect.place.1 < end).then_some(id)
    }
}

impl Model {
    /// Something was done to memory.
    pub(crate) fn effect(&mut self, world: &mut World, effect: &Effect) -> Result<(), Finding> {
        if let Some((atomic, old)) = &effect.atomic {
            let new = atomic.operator.apply(*old, atomic.operand, atomic.compare);
            let (key, at) = effect.place;
            let length = effect.length as usize;
            world.memory.pieces[key].mirror[at..at + length]
                .copy_from_slice(&new.to_le_bytes()[..length]);
        }
        if let Some((ink, accepted)) = effect.store {
            return self.stored(world, effect, ink, accepted);
        }
        let Some(id) = self.order.operation_of(&self.operations, effect) else { return Ok(()) };
        if self.operations[id].kind == Kind::Load {
            return self.loaded(world, id, effect);
        }
        self.check_not_over(id)?;
        let first = self.operations[id].affected == 0;
        if first && self.operations[id].kind != Kind::Read {
            self.check_turn(id)?;
        }
        let operation = &mut self.operations[id];
        if let Some((_, old)) = effect.atomic {
            if operation.old.is_some() {
                return Err(format!("an atomic was executed twice: {operation:?}").into());
            }
            operation.old = Some(old);
        }
        operation.affected += effect.length;
        Ok(())
    }

    /// Operations that the same Jetty posted before `id`, in the same life.
    fn earlier(&self, id: usize) -> impl Iterator<Item = (usize, &Operation)> {
        let this = self.operations[id];
        self.operations[..id]
            .iter()
            .enumerate()
            .filter(move |(_, other)| other.life == this.life && other.jetty == this.jetty)
    }

    fn check_turn(&mut self, id: usize) -> Result<(), Finding> {
        let this = self.operations[id];
        if this.order.fence
            && let Some((other, _)) = self.earlier(id).find(|(_, other)| {
                let reads = matches!(other.kind, Kind::Read | Kind::Atomic);
                reads && other.signaled && other.state == State::Pending
            })
        {
            return Err(
                format!("{id} passed its fence before {other} had completed: {this:?}").into()
            );
        }
        if !matches!(this.order.tag, Tag::So | Tag::Mo) {
            return Ok(());
        }
        let late: Vec<usize> = self
            .earlier(id)
            .filter(|(_, other)| other.order.tag != Tag::No && !other.has_taken_effect())
            .map(|(other, _)| other)
            .collect();
        for other in late {
            self.order.overtaken.insert(other, (id, "executed"));
        }
        Ok(())
    }

    /// An operation has succeeded: nothing may have overtaken it.
    pub(crate) fn check_not_overtaken(&self, id: usize) -> Result<(), Finding> {
        match self.order.overtaken.get(&id) {
            None => Ok(()),
            Some((other, how)) => Err(format!(
                "{other} was {how} before {id}: {:?}, {:?}",
                self.operations[*other], self.operations[id]
            )
            .into()),
        }
    }

    /// An operation completes here: if in order, everything before it has.
    pub(crate) fn check_completion_order(&self, id: usize) -> Result<(), Finding> {
        if !self.operations[id].order.complete_in_order {
            return Ok(());
        }
        match self.earlier(id).find(|(_, other)| other.signaled && other.state == State::Pending) {
            None => Ok(()),
            Some((other, pending)) => {
                Err(format!("{id} completed before {other}: {pending:?}").into())
            }
        }
    }

    /// A receive completes: if in order, those of everything before it have.
    pub(crate) fn check_receive_order(&mut self, id: usize) {
        let this = self.operations[id];
        if !this.order.receive_in_order {
            return;
        }
        let late: Vec<usize> = self
            .earlier(id)
            .filter(|(_, other)| {
                let same = other.channel == this.channel && other.order.receive_in_order;
                let seen = matches!(other.kind, Kind::WriteImmediate | Kind::SendImmediate);
                same && seen && !other.noticed && !matches!(other.state, State::Done(_))
            })
            .map(|(other, _)| other)
            .collect();
        for other in late {
            self.order.overtaken.insert(other, (id, "received"));
        }
        let numbered = |operation: &Operation| {
            operation.order.tag != Tag::No
                && matches!(operation.order.mode, ServiceMode::Rot | ServiceMode::Rol)
        };
        if !self.in_sequence || !numbered(&this) || this.target_jetty != this.jetty {
            return;
        }
        let late: Vec<usize> = self
            .earlier(id)
            .filter(|(_, other)| {
                let same = other.channel == this.channel && numbered(other);
                same && !other.has_taken_effect()
            })
            .map(|(other, _)| other)
            .collect();
        for other in late {
            self.order.overtaken.insert(other, (id, "received before it was executed"));
        }
    }
}

impl Operation {
    /// Has it done all it was to do, or come to its end otherwise? What cannot be seen has.
    fn has_taken_effect(&self) -> bool {
        if self.state != State::Pending || self.order.mode == ServiceMode::Uno {
            return true;
        }
        match self.kind {
            // It has had its turn when its answer begins, which the initiator can't see. The board
            // oracle compares what it returns.
            Kind::Read if self.order.tag == Tag::Mo => true,
            Kind::Write | Kind::WriteImmediate | Kind::Read | Kind::Load | Kind::Store => {
                self.affected >= self.length
            }
            Kind::Atomic => self.old.is_some() || !self.counted,
            Kind::Send | Kind::SendImmediate => true,
        }
    }

    /// Is nothing promised but that it may happen?
    pub(crate) fn is_unreliable(&self) -> bool {
        self.order.mode == ServiceMode::Uno
    }
}

/// The old value that an atomic brought back must be what the word was when it was changed.
pub(crate) fn check_old_value(operation: &Operation, value: u64) -> Result<(), Finding> {
    if !operation.counted {
        return Ok(());
    }
    match operation.old {
        Some(old) if old == value => Ok(()),
        Some(old) => Err(format!("brought back {value:#x}, and the word was {old:#x}").into()),
        None => Err("done without having been executed".into()),
    }
}
