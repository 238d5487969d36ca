//! Checks what an aborted Jetty leaves behind.
//!
//! Its operations and receives end at once. What was sent of an operation may still arrive at its
//! target, and no memory of the Jetty's own node is written any more. A message on its way to an
//! aborted Jetty counts as arrived or is refused, and no receive reports it.

use super::Model;
use crate::operation::{Life, Operation, State};
use crate::world::World;
use fairway_ub::wire::JettyId;
use fairway_ub::{Completion, Status};

impl Model {
    /// Records that a Jetty was aborted.
    pub(crate) fn aborts(&mut self, world: &World, life: Life, jetty: JettyId) {
        self.aborted.insert((life, jetty));
        // Their senders are told that there is no such Jetty.
        self.refuses(life.0, jetty);
        let own = |operation: &&mut Operation| operation.life == life && operation.jetty == jetty;
        for operation in self.operations.iter_mut().filter(own) {
            if operation.state == State::Pending {
                operation.allowed = operation.allowed.with(Status::Flushed);
                operation.aborted = true;
            }
        }
        for receive in &mut self.receives {
            let is_its = receive.life == life && receive.jetty == jetty;
            receive.aborted |= is_its && receive.state == State::Pending;
        }
        // Messages that end before they are complete may have begun to fill receives, here and at
        // the peers.
        self.flushed.insert(life.0, ());
        for note in world.nodes[life.0].channels.iter().flatten() {
            self.flushed.insert(note.peer, ());
        }
    }

    /// True if an operation of a local Jetty ends because that was aborted: then its failure does
    /// not change the state of the Jetty.
    pub(crate) fn is_aborted(&self, done: &Completion) -> bool {
        self.operations.get(done.id as usize).is_some_and(|operation| operation.aborted)
    }

    /// True if the target of an operation was aborted at least once.
    pub(super) fn was_aborted(&self, operation: &Operation) -> bool {
        self.aborted.contains(&(operation.target_life, operation.target_jetty))
    }
}
