//! Checks the guarantees of order at every effect on memory and at every completion.
//!
//! The checker tracks what was posted and sees the effects on memory; it shares nothing with the
//! engine's trackers. The complete rules are in the executable specification; these are the ones
//! that can be checked during a storm.

use crate::finding::Finding;
use crate::operation::{Kind, Operation, State};
use crate::oracles::Model;
use crate::world::{Effect, World};
use fairway_ub::wire::{AtomicOperator, ServiceMode, Tag};
use std::collections::BTreeMap;

/// State of the order checks.
#[derive(Debug, Default)]
pub(crate) struct OrderOracle {
    /// Operations by the place in memory that belongs to them alone: at the peer, or for a READ at
    /// this node.
    by_place: BTreeMap<(usize, usize), usize>,
    /// Atomics by their operand, which belongs to them alone.
    by_operand: BTreeMap<u64, usize>,
    /// Operations that a later one overtook, which is wrong unless they turn out to have failed.
    overtaken: BTreeMap<usize, (usize, &'static str)>,
}

/// Returns an operand that distinguishes an atomic from all others.
pub(crate) fn operand_of(id: u64) -> u64 {
    0x5A5A_0000_0000 | (id + 1)
}

impl OrderOracle {
    pub(crate) fn posted(&mut self, id: usize, operation: &Operation) {
        match (operation.kind, operation.remote) {
            (Kind::Write | Kind::WriteImmediate, Some(place)) if operation.length > 0 => {
                self.by_place.insert(place, id);
            }
            // A READ or load has its own destination at this node.
            (Kind::Read | Kind::Load, _) if operation.length > 0 => {
                self.by_place.insert(operation.local, id);
            }
            (Kind::Atomic, _) => {
                self.by_operand.insert(operand_of(id as u64), id);
            }
            _ => {}
        }
    }

    /// True if `operand` belongs to this atomic.
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
    /// Checks an effect on memory.
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

    /// Returns the operations that the same Jetty posted before `id`, in the same incarnation.
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

    /// Checks that nothing has overtaken an operation that succeeded.
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

    /// Checks completion order: if `id` completes in order, everything before it has completed.
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

    /// Checks receive order: if `id` is received in order, everything before it has been received.
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
    /// True if the operation has had its whole effect or has ended otherwise, as far as can be
    /// observed.
    fn has_taken_effect(&self) -> bool {
        if self.state != State::Pending || self.order.mode == ServiceMode::Uno {
            return true;
        }
        match self.kind {
            // Its turn is when its response begins, which the initiator cannot observe. The board
            // oracle checks the returned bytes.
            Kind::Read if self.order.tag == Tag::Mo => true,
            Kind::Write | Kind::WriteImmediate | Kind::Read | Kind::Load | Kind::Store => {
                self.affected >= self.length
            }
            Kind::Atomic => self.old.is_some() || !self.counted,
            Kind::Send | Kind::SendImmediate => true,
        }
    }

    /// True if delivery is not guaranteed.
    pub(crate) fn is_unreliable(&self) -> bool {
        self.order.mode == ServiceMode::Uno
    }
}

/// Checks that the old value returned by an atomic equals the word when it was changed.
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
