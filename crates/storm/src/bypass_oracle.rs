//! Checks the guarantees of loads and stores at every effect on memory and at every completion.
//!
//! A load returns what was in memory at some time between its posting and its placement. A store
//! that succeeded was executed; none is executed twice; and one that was given up does not
//! overwrite, however late, one that was posted after that. Cells change only by stores: the mirror
//! follows each store when it is executed, so the memory's content is known even if the channel
//! fails.

use crate::finding::Finding;
use crate::operation::{Kind, Operation, Place, State};
use crate::oracles::Model;
use crate::world::{Effect, World};
use fairway_ub::Status;
use std::collections::BTreeMap;

/// State of the checks of loads and stores.
#[derive(Debug, Default)]
pub(crate) struct BypassOracle {
    /// Stores by the place of their source bytes, which belongs to one store only.
    by_ink: BTreeMap<Place, usize>,
    /// Executed stores in order of execution, and the sequence number of each one's acceptance.
    done: Vec<(usize, u64)>,
    /// All overwritten contents, in the order in which they were overwritten.
    past: Vec<(Place, Vec<u8>)>,
    /// By load: the length of `past` when the load was posted.
    since: BTreeMap<usize, usize>,
    /// By store that has ended: the index of the next operation posted after its end.
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

    /// Returns the store that sends the bytes at `ink`.
    pub(crate) fn store_of(&self, ink: &Place) -> Option<usize> {
        self.by_ink.get(ink).copied()
    }
}

impl Model {
    /// Checks a store that was executed.
    pub(crate) fn stored(
        &mut self,
        world: &mut World,
        effect: &Effect,
        ink: Place,
        accepted: u64,
    ) -> Result<(), Finding> {
        let Some(&id) = self.bypass.by_ink.get(&ink) else {
            return Err(format!("a store that was not posted: {effect:?}").into());
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
        // It may have been given up, or its node may have crashed, while it was in flight.
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

    /// Returns an overlapping store over the same channel that was posted after this one had ended.
    /// Of two stores, the one accepted first counts as older, because late placement of an accepted
    /// store is a property of the node's memory, not of the protocol.
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

    /// Checks the response to this node's load, which has been placed.
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

    /// Checks a successful load or store: it must have been executed.
    pub(crate) fn check_bypassed(&mut self, id: usize) -> Result<(), Finding> {
        self.bypass.ended_before.insert(id, self.operations.len());
        let operation = &self.operations[id];
        if operation.affected == operation.length {
            return Ok(());
        }
        Err("done without an effect".into())
    }

    /// Checks a failed load or store: a refused one was not executed, and a load never was.
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
