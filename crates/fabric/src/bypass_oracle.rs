//! What loads and stores promise, checked at every effect on memory and at every completion.
//!
//! A load brings what was there at some time between its posting and its placement. A store that
//! succeeded was done; none is done twice; and one that was given up does not, however late,
//! overwrite one that was posted after that. Cells change only here: the mirror follows each store
//! as it is done, so that the memory is known to the byte whatever becomes of the channel.

use crate::finding::Finding;
use crate::operation::{Kind, Operation, Place, State};
use crate::oracles::Model;
use crate::world::{Effect, World};
use fairway_engine::Status;
use std::collections::BTreeMap;

/// What is remembered for it.
#[derive(Debug, Default)]
pub(crate) struct BypassOracle {
    /// Stores by the place of their bytes, which is theirs alone.
    by_ink: BTreeMap<Place, usize>,
    /// Stores in the order in which they were done, and when each was accepted.
    done: Vec<(usize, u64)>,
    /// Everything that was overwritten, in the order in which it was.
    past: Vec<(Place, Vec<u8>)>,
    /// By load: the length of `past` when it was posted.
    since: BTreeMap<usize, usize>,
    /// By store that ended: the operation that was posted next.
    ended_before: BTreeMap<usize, usize>,
}

impl BypassOracle {
    pub(crate) fn posted(&mut self, id: usize, operation: &Operation) {
        match operation.kind {
            Kind::Store => {
                self.by_ink.insert(operation.local, id);
            }
            Kind::Load => {
                self.since.insert(id, self.past.len());
            }
            _ => {}
        }
    }

    /// The store that sends these bytes.
    pub(crate) fn store_of(&self, ink: &Place) -> Option<usize> {
        self.by_ink.get(ink).copied()
    }
}

impl Model {
    /// A store was done.
    pub(crate) fn stored(
        &mut self,
        world: &mut World,
        effect: &Effect,
        ink: Place,
        accepted: u64,
    ) -> Result<(), Finding> {
        let Some(&id) = self.bypass.by_ink.get(&ink) else {
            return Err(format!("a store of what nobody posted: {effect:?}").into());
        };
        let operation = self.operations[id];
        if (operation.remote, operation.length) != (Some(effect.place), effect.length) {
            return Err(
                format!("a store went to {effect:?} and not to where it was to: {id}").into()
            );
        }
        if operation.affected > 0 {
            return Err(format!("store {id} was done twice: {operation:?}").into());
        }
        // It may have been given up here, or its node be gone, while it was on its way.
        let refused = matches!(
            operation.state,
            State::Done(Status::Success | Status::RemoteAccess | Status::RemoteRights)
        );
        if refused || !operation.allowed.has(Status::Success) {
            return Err(format!("store {id} was done though it had ended: {operation:?}").into());
        }
        if let Some(other) = self.newer_than(id, accepted) {
            let other = self.operations[other];
            return Err(
                format!("store {id} overwrote a newer one: {operation:?}, {other:?}").into()
            );
        }
        self.bypass.done.push((id, accepted));
        let length = effect.length as usize;
        let (key, at) = effect.place;
        self.bypass.past.push(((key, at), world.memory.mirror(key, at, length).to_vec()));
        world.memory.expect_copy(operation.local, effect.place, length);
        self.operations[id].affected = operation.length;
        Ok(())
    }

    /// A store over the same channel that was posted after this one had ended, and overlaps it. The
    /// one that is accepted first is the older one: what is placed late has been accepted, and its
    /// being late is the doing of the node's memory.
    fn newer_than(&self, id: usize, accepted: u64) -> Option<usize> {
        let this = &self.operations[id];
        let ended = *self.bypass.ended_before.get(&id)?;
        let (key, at) = this.remote?;
        let meets = |other: &Operation| {
            let Some((other_key, other_at)) = other.remote else { return false };
            let apart =
                other_at >= at + this.length as usize || at >= other_at + other.length as usize;
            other_key == key && !apart
        };
        let newer = |&&(other, other_accepted): &&(usize, u64)| {
            let operation = &self.operations[other];
            let same = (operation.life, operation.channel) == (this.life, this.channel);
            other >= ended && other_accepted < accepted && same && meets(operation)
        };
        self.bypass.done.iter().find(newer).map(|&(other, _)| other)
    }

    /// The answer to a load of ours has been put in place.
    pub(crate) fn loaded(
        &mut self,
        world: &mut World,
        id: usize,
        effect: &Effect,
    ) -> Result<(), Finding> {
        let operation = self.operations[id];
        let fits = (operation.local, operation.length) == (effect.place, effect.length);
        let due = operation.state == State::Pending && operation.affected == 0;
        let Some((key, at)) = operation.remote.filter(|_| fits && due) else {
            return Err(format!("load {id} is not due as {effect:?}: {operation:?}").into());
        };
        let length = operation.length as usize;
        let mut then = world.memory.mirror(key, at, length).to_vec();
        let (near, start) = operation.local;
        let brought = world.memory.pieces[near].bytes[start..start + length].to_vec();
        let mut past = self.bypass.past[self.bypass.since[&id]..].iter().rev();
        while then != brought {
            let Some(((other, from), old)) = past.next() else {
                return Err(format!("load {id} brought {brought:?}, which never was there").into());
            };
            for (offset, byte) in old.iter().enumerate().filter(|_| *other == key) {
                if let Some(before) = (from + offset).checked_sub(at).filter(|&at| at < length) {
                    then[before] = *byte;
                }
            }
        }
        world.memory.pieces[near].mirror[start..start + length].copy_from_slice(&brought);
        self.operations[id].affected = operation.length;
        Ok(())
    }

    /// A load or store has succeeded: it was done.
    pub(crate) fn check_bypassed(&mut self, id: usize) -> Result<(), Finding> {
        self.bypass.ended_before.insert(id, self.operations.len());
        let operation = &self.operations[id];
        if operation.affected == operation.length {
            return Ok(());
        }
        Err("done without an effect".into())
    }

    /// A load or store has ended in error: what was refused was not done, and a load never.
    pub(crate) fn bypass_failed(&mut self, id: usize, status: Status) -> Result<(), Finding> {
        self.bypass.ended_before.insert(id, self.operations.len());
        let operation = &self.operations[id];
        let refused = matches!(status, Status::RemoteAccess | Status::RemoteRights);
        let timed_out = status == Status::TimedOut && operation.kind == Kind::Load;
        if operation.affected > 0 && (refused || timed_out) {
            return Err(format!("ended, and yet it was done: {operation:?}").into());
        }
        Ok(())
    }
}
