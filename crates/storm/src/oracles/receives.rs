//! Checks that a receive completes with a message that was sent to it, whole and once.

use super::{Model, RECEIVE, SendKey, compare, content_hash};
use crate::finding::Finding;
use crate::node::Output;
use crate::operation::{Kind, Life, Operation, Place, Receive, State};
use crate::world::World;
use fairway_ub::wire::JettyId;
use fairway_ub::{Completion, CompletionKind, Status};

impl Model {
    /// Handles the destruction of a Jetty and its receives. Returns their buffers, and the number
    /// of receives whose completion the application has not read yet.
    pub(crate) fn destroys(
        &mut self,
        world: &mut World,
        node: usize,
        jetty: JettyId,
    ) -> (Vec<Place>, u32) {
        self.refuses(node, jetty);
        let (mut buffers, mut unread) = (Vec::new(), 0);
        let completed: Vec<u64> = world.nodes[node]
            .outputs
            .iter()
            .filter_map(|output| match output {
                Output::Completion(completion) => Some(completion.id),
                _ => None,
            })
            .collect();
        let is_half_filled = self.may_be_half_filled(node);
        for (id, receive) in self.receives.iter_mut().enumerate() {
            let here = receive.life.0 == node && receive.jetty == jetty;
            if here && receive.state == State::Pending && completed.contains(&(id as u64 | RECEIVE))
            {
                unread += 1;
            } else if here && receive.state == State::Pending {
                receive.state = State::Lost;
                buffers.push(receive.buffer);
                if is_half_filled {
                    let (key, at) = receive.buffer;
                    world.memory.unsettle(key, at, receive.length as usize);
                }
            }
        }
        (buffers, unread)
    }

    /// True if receives of the node may have been consumed by sends that were never finished.
    fn may_be_half_filled(&self, node: usize) -> bool {
        self.flushed.contains_key(&node) || self.half_sent.contains(&node)
    }

    /// Marks the buffers of posted receives as undefined if a channel of their node has ended,
    /// because sends that were never finished may have consumed them.
    pub(crate) fn unsettle_receives(&self, world: &mut World) {
        for receive in &self.receives {
            if receive.state == State::Pending && self.may_be_half_filled(receive.life.0) {
                let (key, at) = receive.buffer;
                world.memory.unsettle(key, at, receive.length as usize);
            }
        }
    }

    pub(super) fn received(
        &mut self,
        world: &mut World,
        node: usize,
        done: &Completion,
    ) -> Result<(), Finding> {
        let life = (node, world.nodes[node].incarnation);
        let id = (done.id & !RECEIVE) as usize;
        let Some(receive) = self.receives.get(id).copied() else {
            return Err("completion of a receive that was never posted".into());
        };
        if receive.state != State::Pending {
            return Err(format!("a second completion of {receive:?}").into());
        }
        let may_flush = receive.aborted || self.has_failed(life, receive.jetty);
        let flushed = done.status == Status::Flushed && may_flush;
        let missed = done.status == Status::LocalMemory && receive.missed;
        let fine = flushed || missed || done.status == Status::Success;
        if (receive.life, receive.jetty, true) != (life, done.jetty, fine) {
            return Err(format!("the completion does not fit {receive:?}").into());
        }
        if self.in_sequence && done.status == Status::Success {
            self.check_sequence(world, id)?;
        }
        self.receives[id].state = State::Done(done.status);
        let whole = (receive.buffer, receive.length as usize);
        if missed {
            // Any part of the buffer may have been written, and nothing more will be.
            world.memory.accept(whole.0.0, whole.0.1, whole.1);
            return Ok(());
        }
        if flushed {
            // No message has arrived.
        } else if done.kind == CompletionKind::ReceiveWrite {
            self.noticed(world, life, done)?;
        } else {
            self.delivered(world, life, done, &receive)?;
        }
        if self.may_be_half_filled(node) {
            // A send that was never finished may have consumed the receive.
            world.memory.unsettle(whole.0.0, whole.0.1, whole.1);
            return Ok(());
        }
        compare(world, whole.0, whole.1, "the receive buffer")
    }

    /// Checks the completion of a receive of a Jetty with ordered receive matching: it must be the
    /// oldest one, provided that one Jetty sent all messages, in order and successfully.
    fn check_sequence(&self, world: &World, id: usize) -> Result<(), Finding> {
        let this = self.receives[id];
        let same = |receive: &&Receive| receive.life == this.life && receive.jetty == this.jetty;
        let pending = |receive: &&Receive| receive.state == State::Pending;
        let oldest = self.receives[..id].iter().filter(same).find(pending);
        let Some(oldest) = oldest else { return Ok(()) };
        let sent = self.operations.iter().filter(|operation| {
            let receives =
                matches!(operation.kind, Kind::WriteImmediate | Kind::Send | Kind::SendImmediate);
            receives && operation.target_life == this.life && operation.target_jetty == this.jetty
        });
        let mut sources =
            sent.clone().map(|operation| (operation.life, operation.jetty, operation.channel));
        let first = sources.next();
        let elsewhere = |operation: &Operation| {
            let same = first
                .is_some_and(|(life, jetty, _)| operation.life == life && operation.jetty == jetty);
            same && operation.order.receive_in_order && operation.target_jetty != this.jetty
        };
        // An operation refused for that reason has ended at the target before its sender is
        // notified.
        let is_withdrawn = |operation: &Operation| {
            operation.remote.is_some_and(|(key, _)| {
                world.memory.pieces[key].deregistered || world.memory.pieces[key].released
            })
        };
        let is_usual = |operation: &Operation| {
            !is_withdrawn(operation)
                && matches!(operation.state, State::Pending | State::Done(Status::Success))
                && operation.order.receive_in_order
                && !operation.missed.is_any()
                && operation.allowed.has(Status::Success)
        };
        let disturbed = sources.any(|other| Some(other) != first)
            || !sent.clone().all(is_usual)
            || self.operations.iter().any(elsewhere)
            || first.is_some_and(|(life, jetty, _)| self.has_failed(life, jetty))
            || self.jetties.has_groups()
            || self.flushed.contains_key(&this.life.0)
            || self.destroyed.contains_key(&(this.life.0, this.jetty));
        match disturbed {
            true => Ok(()),
            false => Err(format!("{this:?} completes before {oldest:?}").into()),
        }
    }

    fn noticed(&mut self, world: &mut World, life: Life, done: &Completion) -> Result<(), Finding> {
        let id = done.immediate.unwrap_or(u64::MAX) as usize;
        let Some(&operation) = self.operations.get(id) else {
            return Err("immediate data that was not sent".into());
        };
        let fits = operation.kind == Kind::WriteImmediate
            && !operation.is_unreliable()
            && operation.target_life == life
            && self.may_come_to(id, done.jetty)
            && operation.jetty == done.remote_jetty
            && operation.length == done.bytes;
        if !fits || operation.noticed {
            return Err(format!("a notice that is not due: {operation:?}").into());
        }
        self.operations[id].noticed = true;
        self.check_receive_order(id);
        let Some(remote) = operation.remote else {
            return Err("a notice of a write into nothing".into());
        };
        let length = operation.length as usize;
        world.memory.expect_copy(operation.local, remote, length);
        compare(world, remote, length, "what a notified write wrote")
    }

    fn delivered(
        &mut self,
        world: &mut World,
        life: Life,
        done: &Completion,
        receive: &Receive,
    ) -> Result<(), Finding> {
        let (key, at) = receive.buffer;
        let length = done.bytes as usize;
        let piece = &mut world.memory.pieces[key];
        let content = content_hash(&piece.bytes[at..at + length]);
        // The hash shows that the content was sent; the mirror is updated from the memory.
        let (bytes, mirror) = (&piece.bytes, &mut piece.mirror);
        mirror[at..at + length].copy_from_slice(&bytes[at..at + length]);
        let note = world.nodes[life.0].channels[done.channel.index()].as_ref();
        let Some(note) = note.filter(|note| note.id == done.channel) else {
            return Err("delivered by a channel that was never opened".into());
        };
        // A message that does not match its number was not sent by any operation either.
        let id = done.immediate.map_or(usize::MAX, |id| id as usize);
        let target_jetty = match self.operations.get(id) {
            Some(operation) if self.may_come_to(id, done.jetty) => operation.target_jetty,
            _ => done.jetty,
        };
        let key = SendKey {
            target: life,
            target_jetty: self.known_target(done.immediate, target_jetty),
            source: (note.peer, note.peer_incarnation),
            source_jetty: done.remote_jetty.value(),
            length: done.bytes,
            immediate: done.immediate,
            content,
        };
        match self.sends.get_mut(&key) {
            Some(sends) if sends.delivered + sends.refused < sends.posted => {
                sends.delivered += 1;
                if let Some(id) = done.immediate {
                    self.operations[id as usize].noticed = true;
                    self.check_receive_order(id as usize);
                }
                Ok(())
            }
            sends => {
                Err(format!("delivered what was never sent, or more than once: {sends:?}").into())
            }
        }
    }
}
