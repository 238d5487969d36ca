//! Checks mail: every put arrives whole, once, in the right epoch and in its sender's order, and
//! nothing is written to a buffer after its epoch has completed.

use crate::finding::Finding;
use crate::mail::{BLANK, GET, HEAD, LETTER, Mail, Mailbox, PutRecord, text_of};
use crate::node::Output;
use crate::operation::Life;
use crate::oracles::Model;
use crate::plan::Plan;
use crate::world::World;
use fairway_ub::{Completion, EpochDone, Status, Steering};
use std::collections::BTreeMap;

/// Puts found in a buffer, each with its offset and its number.
type Found = Vec<(usize, u64)>;

impl Mail {
    /// Reads the completed epochs that the application has not processed yet.
    pub(crate) fn read_epochs(&mut self, world: &mut World, node: usize) -> Result<(), Finding> {
        let outputs = std::mem::take(&mut world.nodes[node].outputs);
        for output in outputs {
            match output {
                Output::Own(done) => self.epoch_done(world, node, &done)?,
                other => world.nodes[node].outputs.push_back(other),
            }
        }
        Ok(())
    }

    /// Checks a completed epoch: its bytes show which puts it contains.
    pub(crate) fn epoch_done(
        &mut self,
        world: &mut World,
        node: usize,
        done: &EpochDone,
    ) -> Result<(), Finding> {
        world.trace.line(world.now, node, || format!("! {done:?}"));
        world.trace.stir(done.epoch ^ done.bytes << 20);
        let mailboxes = &self.states[node];
        let Some(at) = mailboxes.boxes.iter().position(|other| other.id == done.mailbox) else {
            return Err(format!("node {node}: an epoch of no mailbox: {done:?}").into());
        };
        let (mailbox, buffer_segment) = (&mailboxes.boxes[at], mailboxes.buffer_segment);
        let next = mailbox.epochs.iter().position(|posted| posted.done.is_none());
        if next != Some(done.epoch as usize) || done.id != done.epoch {
            return Err(format!("node {node}: epoch {next:?} is next, and not {done:?}").into());
        }
        let (posted, (key, _)) =
            (mailbox.epochs[done.id as usize], buffer_segment.expect("it has buffers"));
        let bytes = world.memory.pieces[key].bytes[posted.at..][..posted.length as usize].to_vec();
        let found = self.letters_in(mailbox, &bytes, done)?;
        for &(offset, number) in &found {
            self.deliver(world, node, at, done.epoch, (offset, number))?;
        }
        let whole = done.operations > 0 && done.cancelled == 0;
        if whole && !found.iter().any(|&(_, number)| self.is_to(number, done.address)) {
            return Err(format!("node {node}: no put is for this address: {done:?}").into());
        }
        self.states[node].boxes[at].epochs[done.id as usize].done = Some(*done);
        // Peers no longer write to the buffer.
        world.memory.accept(key, posted.at, posted.length as usize);
        Ok(())
    }

    fn is_to(&self, number: u64, address: u64) -> bool {
        self.puts[number as usize].address == address
    }

    /// True if these puts, with `total` bytes together, agree with the epoch's counters.
    fn is_accounted(&self, found: &Found, total: u64, done: &EpochDone) -> bool {
        let puts = found.len() as u64;
        if done.cancelled == 0 {
            return puts == done.operations && total == done.bytes;
        }
        let length = |&(_, number): &(usize, u64)| u64::from(self.puts[number as usize].length);
        let mut lengths: Vec<u64> = found.iter().map(length).collect();
        lengths.sort_unstable();
        let least: u64 = lengths.iter().take(done.operations as usize).sum();
        let most = done.operations + u64::from(done.cancelled);
        (done.operations..=most).contains(&puts) && least <= done.bytes
    }

    /// Returns the puts in a buffer. A put that was cut off because its sender is gone may be
    /// present in part, or as a whole: its last payload may be placed after the put was cancelled.
    fn letters_in(
        &self,
        mailbox: &Mailbox,
        bytes: &[u8],
        done: &EpochDone,
    ) -> Result<Found, Finding> {
        let mut found = Vec::new();
        let is_stream = mailbox.config.steering == Steering::Receiver;
        let step = if is_stream { 1 } else { self.plan.slot as usize };
        let (mut at, mut total) = (0, 0);
        while at + HEAD <= bytes.len() {
            match self.letter_at(bytes, at) {
                Some((number, length)) => {
                    found.push((at, number));
                    total += length as u64;
                    at += if is_stream { length } else { step };
                }
                None if done.cancelled == 0 && bytes[at] != BLANK => {
                    return Err(format!("no put is whole at {at}: {done:?}").into());
                }
                None => at += step,
            }
        }
        if !self.is_accounted(&found, total, done) {
            return Err(format!("{} puts of {total} bytes: {done:?}", found.len()).into());
        }
        if is_stream && done.cancelled == 0 {
            let end = found.last().map_or(0, |&(at, number)| {
                at as u64 + u64::from(self.puts[number as usize].length)
            });
            if end != u64::from(done.extent) {
                return Err(format!("the last put ends at {end}: {done:?}").into());
            }
        }
        Ok(found)
    }

    /// Returns the number and length of a put that is complete at this place.
    fn letter_at(&self, bytes: &[u8], at: usize) -> Option<(u64, usize)> {
        let number = u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?);
        let put = self.puts.get(usize::try_from(number).ok()?)?;
        let length = put.length as usize;
        let is_whole = bytes.get(at..at + length)? == text_of(number, put.length);
        is_whole.then_some((number, length))
    }

    fn deliver(
        &mut self,
        world: &World,
        node: usize,
        at: usize,
        epoch: u64,
        (offset, number): (usize, u64),
    ) -> Result<(), Finding> {
        let Mailbox { serial, ref config, .. } = self.states[node].boxes[at];
        let put = &mut self.puts[number as usize];
        let here = (node, world.nodes[node].incarnation);
        let addressed = config.address.is_none_or(|address| address == put.address);
        let steered = config.steering == Steering::Receiver || put.offset == offset as u64;
        let named = put.epoch.is_none_or(|named| u64::from(named) == epoch);
        if put.to != here || !addressed || !steered || !named || put.is_wrong {
            return Err(format!("not for epoch {epoch} of {config:?}: {put:?}").into());
        }
        if put.found.is_some() {
            return Err(format!("in two epochs, or twice in one: {epoch} {put:?}").into());
        }
        put.is_in_stream = config.steering == Steering::Receiver;
        put.found = Some((serial, epoch, offset));
        Ok(())
    }

    /// Checks that a rewind returns the same report as the epoch's completion did.
    pub(crate) fn check_rewound(
        &self,
        node: usize,
        at: usize,
        done: &EpochDone,
    ) -> Result<(), Finding> {
        let reported = self.states[node].boxes[at].epochs[done.epoch as usize].done;
        match reported {
            Some(reported) if reported != *done => {
                Err(format!("rewound to {done:?}, but {reported:?} was reported").into())
            }
            _ => Ok(()),
        }
    }

    /// Handles the end of an operation on a mailbox.
    pub(crate) fn completed(
        &mut self,
        world: &mut World,
        model: &Model,
        plan: &Plan,
        node: usize,
        done: &Completion,
    ) -> Result<(), Finding> {
        let (from, channel) = match done.id & GET {
            0 => {
                let put = self.puts[(done.id & !LETTER) as usize];
                (put.from, put.channel)
            }
            _ => {
                let get = self.gets[(done.id & !(LETTER | GET)) as usize];
                (get.from, get.channel)
            }
        };
        self.statuses[done.status as usize] += 1;
        let flushed = done.status == Status::Flushed && model.has_failed(from, done.jetty);
        let ended = flushed || model.has_ended(from, channel, done.status);
        let impatient = plan.profiles[node].not_ready_retries != 7;
        if from.0 != node || (done.status == Status::ReceiverNotReady && !impatient) {
            return Err(format!("must not end like this: {done:?}").into());
        }
        if done.id & GET != 0 { self.got(world, done, ended) } else { self.answered(done, ended) }
    }

    fn answered(&mut self, done: &Completion, ended: bool) -> Result<(), Finding> {
        let rough = self.plan.rough > 0;
        let put = &mut self.puts[(done.id & !LETTER) as usize];
        if put.status.is_some() || (!put.signaled && done.status == Status::Success) {
            return Err(format!("completed twice, or unasked: {done:?}").into());
        }
        let fine = match done.status {
            Status::Success | Status::RemoteResources | Status::RemoteNoMailbox => true,
            Status::ReceiverNotReady => true,
            Status::RemoteEpoch => put.epoch.is_some() || rough,
            Status::RemoteLength => put.is_wrong || rough,
            _ => ended,
        };
        if !fine {
            return Err(format!("must not end like this: {done:?} {put:?}").into());
        }
        put.status = Some(done.status);
        self.pending -= u64::from(put.signaled);
        Ok(())
    }

    fn got(&mut self, world: &mut World, done: &Completion, ended: bool) -> Result<(), Finding> {
        let get = &mut self.gets[(done.id & !(LETTER | GET)) as usize];
        if std::mem::replace(&mut get.is_done, true) {
            return Err(format!("completed twice: {done:?}").into());
        }
        self.pending -= 1;
        let (key, at) = get.local;
        let length = get.length as usize;
        match done.status {
            Status::Success => {
                let here = &world.memory.pieces[key].bytes[at..at + length];
                if let Some((far, start)) = get.source.filter(|_| self.plan.rough == 0)
                    && !world.memory.pieces[far].released
                    && world.memory.mirror(far, start, length) != here
                {
                    return Err(format!("brought something else: {get:?}").into());
                }
                world.memory.accept(key, at, length);
                Ok(())
            }
            Status::RemoteNoMailbox
            | Status::RemoteEpoch
            | Status::RemoteLength
            | Status::RemoteResources
            | Status::ReceiverNotReady => Ok(()),
            _ if ended => {
                world.memory.unsettle(key, at, length);
                Ok(())
            }
            _ => Err(format!("must not end like this: {done:?}").into()),
        }
    }

    /// Handles the crash of a node, which takes its pending puts and gets with it.
    pub(crate) fn crashes(&mut self, node: usize, incarnation: u32) {
        let gone = |life| life == (node, incarnation);
        let puts = self.puts.iter().filter(|put| gone(put.from));
        let unanswered = puts.filter(|put| put.signaled && put.status.is_none());
        let gets = self.gets.iter().filter(|get| gone(get.from) && !get.is_done);
        self.pending -= unanswered.count() as u64 + gets.count() as u64;
        // The node's mailboxes are not checked any more.
        self.states[node].boxes.clear();
    }

    /// Accepts the content of unfinished epochs, which cannot be predicted yet.
    pub(crate) fn accept_unfinished(&self, world: &mut World) {
        for mailboxes in &self.states {
            let Some((key, _)) = mailboxes.buffer_segment else { continue };
            let posted = mailboxes.boxes.iter().flat_map(|mailbox| &mailbox.epochs);
            for posted in posted.filter(|posted| posted.done.is_none()) {
                world.memory.accept(key, posted.at, posted.length as usize);
            }
        }
    }

    /// Checks all puts after every channel has ended: ends the unfinished epochs, and accounts for
    /// every put.
    pub(crate) fn finish(&mut self, world: &mut World, model: &Model) -> Result<(), Finding> {
        for node in 0..self.states.len() {
            self.empty(world, node)?;
        }
        for (number, put) in self.puts.iter().enumerate() {
            let there = |(node, incarnation): Life| world.nodes[node].incarnation == incarnation;
            if !there(put.from) || !there(put.to) {
                continue;
            }
            let lossy = self.states[put.to.0].is_lossy;
            let silent = !put.signaled && !model.has_ended_at_all(put.from, put.channel);
            match put.status {
                Some(Status::Success) if put.found.is_none() && !lossy => {
                    return Err(format!("put {number} was lost: {put:?}").into());
                }
                None if silent && put.found.is_none() && !lossy => {
                    return Err(format!("put {number} was lost without a word: {put:?}").into());
                }
                Some(
                    Status::RemoteEpoch
                    | Status::RemoteLength
                    | Status::RemoteNoMailbox
                    | Status::RemoteResources
                    | Status::ReceiverNotReady,
                ) if put.found.is_some() => {
                    return Err(format!("put {number} was refused, and arrived: {put:?}").into());
                }
                _ => {}
            }
        }
        self.check_order(world)
    }

    /// Ends every epoch of a node.
    fn empty(&mut self, world: &mut World, node: usize) -> Result<(), Finding> {
        for at in 0..self.states[node].boxes.len() {
            let Mailbox { id, is_closed, .. } = self.states[node].boxes[at];
            let left = self.states[node].boxes[at].epochs.len() + 1;
            for _ in 0..left {
                let ended = world.nic(node).map(|nic| nic.increment_epoch(id));
                if !matches!(ended, Some(Ok(_))) {
                    break;
                }
            }
            world.look(node);
            self.read_epochs(world, node)?;
            let mailbox = &self.states[node].boxes[at];
            let open = mailbox.epochs.iter().filter(|posted| posted.done.is_none()).count();
            if open > 0 && !is_closed {
                return Err(format!("node {node}: {open} epochs do not end: {mailbox:?}").into());
            }
        }
        Ok(())
    }

    /// Checks that the puts of one Jetty to one address over one channel lie in the order of
    /// posting.
    fn check_order(&self, world: &World) -> Result<(), Finding> {
        let mut last: BTreeMap<_, ((u64, usize), &PutRecord)> = BTreeMap::new();
        for put in &self.puts {
            let (node, incarnation) = put.to;
            let lossy = self.states[node].is_lossy || world.nodes[node].incarnation != incarnation;
            let unnamed = put.epoch.is_none() && !lossy;
            let Some((serial, epoch, offset)) = put.found.filter(|_| unnamed) else { continue };
            let offset = if put.is_in_stream { offset } else { 0 };
            let sender = (put.from, put.channel, put.jetty, put.address, serial);
            let place = (epoch, offset);
            if let Some(&(before, earlier)) = last.get(&sender)
                && before > place
            {
                return Err(format!("{put:?} overtook {earlier:?}").into());
            }
            last.insert(sender, (place, put));
        }
        Ok(())
    }

    /// Closes and releases every mailbox of a node, and deregisters their memory.
    pub(crate) fn strip(&mut self, world: &mut World, node: usize) -> Result<(), Finding> {
        let mailboxes = std::mem::take(&mut self.states[node]);
        for mailbox in &mailboxes.boxes {
            let Some(nic) = world.nic(node) else { return Ok(()) };
            let closed = nic.close_mailbox(mailbox.id, true);
            let released = closed.and_then(|()| nic.release_mailbox(mailbox.id));
            released.map_err(|error| format!("node {node}: {mailbox:?}: {error:?}"))?;
        }
        for (_, segment) in
            [mailboxes.source_segment, mailboxes.buffer_segment].into_iter().flatten()
        {
            if !world.deregister(node, segment)? {
                return Err(format!("node {node}: {segment:?} is still used at the end").into());
            }
        }
        Ok(())
    }
}
