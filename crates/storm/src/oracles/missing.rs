//! Operations whose memory was missing: the further ways in which they may end, and that they do
//! not succeed.

use super::Model;
use crate::finding::Finding;
use crate::operation::{Bar, Kind, Life, MessageName, Missed, Operation, Start, State};
use crate::world::{Effect, Miss, World};
use fairway_ub::Status;
use fairway_ub::wire::Tag;

impl Model {
    /// Records that an access failed because memory was missing.
    pub(crate) fn missed(&mut self, world: &mut World, miss: &Miss) -> Result<(), Finding> {
        let effect = Effect { place: miss.place, length: miss.length, atomic: None, store: None };
        match miss.missed {
            Missed::Request(start) => {
                let ids = self.started(&start, |operation| !operation.is_unreliable());
                for &id in &ids {
                    let operation = &self.operations[id];
                    if matches!(operation.kind, Kind::Send | Kind::SendImmediate) {
                        // The datagram may have consumed a receive and filled part of it.
                        self.half_sent.insert(operation.target_life.0);
                    }
                }
                self.trouble_all(world, &ids, Status::LocalMemory, Some(Bar::Ended))
            }
            Missed::Datagram(start) => {
                let ids = self.started(&start, Operation::is_unreliable);
                self.trouble_all(world, &ids, Status::LocalMemory, Some(Bar::Ended))
            }
            // A copy of the packet may have arrived, and the memory may be accessible at the next
            // try.
            Missed::Answer(reader, start) => {
                let ids = self.answered(reader, &start);
                self.trouble_all(world, &ids, Status::RemoteAccess, None)
            }
            Missed::Payload { name, is_from_staging } => {
                self.trouble_receive((miss.node, world.nodes[miss.node].incarnation), miss);
                let Some(start) = world.absence.start_of(&name) else { return Ok(()) };
                self.unplaced(world, (start, name), is_from_staging)
            }
            Missed::Brought => {
                let id = self.order.operation_of(&self.operations, &effect);
                let ids: Vec<usize> = id.into_iter().collect();
                self.trouble_all(world, &ids, Status::LocalMemory, Some(Bar::Ended))
            }
            Missed::Word(operand) => {
                let ids = self.atomics(operand, &effect);
                // Atomics that change nothing cannot be distinguished.
                let bar = Some(Bar::Ended).filter(|_| operand != 0);
                self.trouble_all(world, &ids, Status::RemoteAccess, bar)
            }
            Missed::Store(ink) => {
                let ids: Vec<usize> = self.bypass.store_of(&ink).into_iter().collect();
                self.trouble_all(world, &ids, Status::RemoteAccess, Some(Bar::Ended))
            }
        }
    }

    /// Records that a packet of a request could not be placed. In memory order, a message that lies
    /// entirely in staging memory may have been acknowledged. Operations in memory order complete
    /// in order, so they fail as well.
    fn unplaced(
        &mut self,
        world: &mut World,
        (start, name): (Start, MessageName),
        is_from_staging: bool,
    ) -> Result<(), Finding> {
        let ids = self.started(&start, |operation| !operation.is_unreliable());
        for &id in &ids {
            let operation = &mut self.operations[id];
            let in_memory_order = is_from_staging && operation.order.tag == Tag::Mo;
            operation.missed.was_set_aside |= in_memory_order;
            let status = match operation.kind {
                Kind::Send | Kind::SendImmediate => Status::RemoteOperation,
                _ => Status::RemoteAccess,
            };
            let is_barred = ids.len() == 1;
            self.trouble(world, id, status, is_barred.then_some(Bar::Refused(start, name)))?;
        }
        Ok(())
    }

    fn trouble_all(
        &mut self,
        world: &mut World,
        ids: &[usize],
        status: Status,
        bar: Option<Bar>,
    ) -> Result<(), Finding> {
        // Only one of several indistinguishable operations is affected.
        let bar = bar.filter(|_| ids.len() == 1);
        ids.iter().try_for_each(|&id| self.trouble(world, id, status, bar))
    }

    fn trouble(
        &mut self,
        world: &mut World,
        id: usize,
        status: Status,
        bar: Option<Bar>,
    ) -> Result<(), Finding> {
        let operation = &mut self.operations[id];
        operation.missed.allowed = operation.missed.allowed.with(status);
        operation.missed.bar = bar.or(operation.missed.bar);
        if operation.state == State::Done(Status::Success) && self.is_barred(world, id) {
            let operation = &self.operations[id];
            return Err(
                format!("{id} had succeeded before its memory was missing: {operation:?}").into()
            );
        }
        if self.operations[id].kind != Kind::Read {
            self.forget_on_board(world, id);
        }
        Ok(())
    }

    /// True if missing memory prevents the operation from succeeding.
    pub(super) fn is_barred(&self, world: &World, id: usize) -> bool {
        match self.operations[id].missed.bar {
            None => false,
            Some(Bar::Ended) => true,
            Some(Bar::Refused(start, name)) => world.absence.is_latest(&start, &name),
        }
    }

    /// Returns the operations to which a message may belong whose bytes begin at `start`: one,
    /// unless others send the same bytes.
    fn started(&self, start: &Start, is_such: impl Fn(&Operation) -> bool) -> Vec<usize> {
        let sends = |operation: &Operation| {
            let kind = operation.kind;
            matches!(kind, Kind::Write | Kind::WriteImmediate | Kind::Send | Kind::SendImmediate)
                && operation.length > 0
                && is_such(operation)
        };
        let (key, at) = start.place;
        self.matching(|operation| {
            (operation.life, operation.jetty, operation.local)
                == (start.life, start.jetty, (key, at - start.before))
                && sends(operation)
        })
    }

    /// Returns the READs whose response, or the response to one of whose parts, begins at `start`.
    fn answered(&self, reader: Life, start: &Start) -> Vec<usize> {
        let (key, at) = start.place;
        self.matching(|operation| {
            let begins = operation.remote.is_some_and(|(from, first)| {
                let parts = if operation.order.tag == Tag::No { operation.length } else { 1 };
                from == key && (first..first + parts as usize).contains(&at)
            });
            begins
                && (operation.life, operation.jetty) == (reader, start.jetty)
                && operation.kind == Kind::Read
                && operation.length > 0
        })
    }

    /// Returns the atomics with this operand and place; a nonzero operand belongs to one atomic
    /// only.
    fn atomics(&self, operand: u64, effect: &Effect) -> Vec<usize> {
        self.matching(|operation| {
            operation.kind == Kind::Atomic
                && operation.remote == Some(effect.place)
                && operation.length == effect.length
                && (operand == 0) != operation.counted
        })
        .into_iter()
        .filter(|&id| operand == 0 || self.order.is_atomic(operand, id))
        .collect()
    }

    /// Returns the matching operations that are pending, together with those that have failed,
    /// whose packets may still arrive; or if there are none, those that have ended.
    fn matching(&self, is_it: impl Fn(&Operation) -> bool) -> Vec<usize> {
        let all = self.operations.iter().enumerate().filter(|(_, operation)| is_it(operation));
        let (open, over): (Vec<_>, Vec<_>) = all.partition(|(_, operation)| {
            !matches!(operation.state, State::Done(Status::Success) | State::Lost)
        });
        let found = if open.is_empty() { over } else { open };
        found.into_iter().map(|(id, _)| id).collect()
    }

    /// Marks a receive that a payload which could not be placed may have consumed.
    fn trouble_receive(&mut self, life: Life, miss: &Miss) {
        let (key, at) = miss.place;
        let holds = |buffer: (usize, usize), length: u32| {
            buffer.0 == key && (buffer.1..buffer.1 + length as usize).contains(&at)
        };
        for receive in &mut self.receives {
            let is_open = receive.life == life && receive.state == State::Pending;
            receive.missed |= is_open && holds(receive.buffer, receive.length);
        }
    }

    /// Records that an acknowledged operation in memory order has succeeded although part of it
    /// could not be placed.
    pub(super) fn dropped(&mut self, world: &mut World, id: usize) {
        let operation = &self.operations[id];
        if let (Some((key, at)), Kind::Write | Kind::WriteImmediate) =
            (operation.remote, operation.kind)
        {
            world.memory.unsettle(key, at, operation.length as usize);
        }
    }
}
