//! The main oracle, checked at every output of a NIC to its application.
//!
//! For every operation, the model records where its bytes come from, where they belong, and how it
//! may end. Each operation has its own target range, so the order in which operations arrive never
//! affects the memory.

use crate::board_oracle::BoardOracle;
use crate::bypass_oracle::BypassOracle;
use crate::finding::Finding;
use crate::jetty_oracle::JettyOracle;
use crate::operation::{Kind, Life, Operation, Place, Receive, STATUSES, State};
use crate::order_oracle::{OrderOracle, check_old_value};
use crate::retirement_oracle::{self, RetirementOracle};
use crate::world::World;
use fairway_ub::wire::{Instant, JettyId};
use fairway_ub::{ChannelId, Completion, CompletionKind, Event, OrderRequest, Profile, Status};
use std::collections::{BTreeMap, BTreeSet};

/// Identifies sends that the receiver cannot distinguish: same endpoints, same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SendKey {
    target: Life,
    target_jetty: u32,
    source_jetty: u32,
    length: u32,
    immediate: Option<u64>,
    content: u64,
    source: Life,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sends {
    posted: u32,
    /// Posted sends that must be received in order.
    in_turn: u32,
    delivered: u32,
    succeeded: u32,
    /// Sends that were refused permanently and must not be delivered.
    refused: u32,
}

/// Set in the id of a receive, and clear in that of an operation.
const RECEIVE: u64 = 1 << 63;

/// State of all oracles.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) operations: Vec<Operation>,
    pub(crate) receives: Vec<Receive>,
    sends: BTreeMap<SendKey, Sends>,
    /// Channels that have ended, and the status with which their operations end.
    ended: BTreeMap<(Life, ChannelId), Status>,
    /// Jetties and groups that were destroyed, or failed, at least once.
    destroyed: BTreeMap<(usize, JettyId), ()>,
    /// Nodes with a channel that has ended on either side: sends that were never finished may have
    /// consumed receives there.
    flushed: BTreeMap<usize, ()>,
    /// Nodes with such receives because a sender found its memory missing.
    half_sent: BTreeSet<usize>,
    pub(crate) order: OrderOracle,
    pub(crate) bypass: BypassOracle,
    pub(crate) boards: BoardOracle,
    pub(crate) jetties: JettyOracle,
    pub(crate) statuses: [u64; STATUSES.len()],
    pub(crate) pending: u64,
    /// True if Jetties match receives by sequence.
    pub(crate) in_sequence: bool,
    pub(crate) retirement: RetirementOracle,
    /// Jetties that were aborted at least once.
    aborted: BTreeSet<(Life, JettyId)>,
}

impl Model {
    /// `plain`: operations are WRITEs and READs without order.
    pub(crate) fn new(in_sequence: bool, plain: bool) -> Model {
        Model { in_sequence, retirement: RetirementOracle::new(plain), ..Model::default() }
    }

    pub(crate) fn operation_id(&self) -> u64 {
        self.operations.len() as u64
    }

    pub(crate) fn receive_id(&self) -> u64 {
        self.receives.len() as u64 | RECEIVE
    }

    /// Returns the receive that a completion ends, if it ends one.
    pub(crate) fn receive_of(&self, completion: &Completion) -> Option<Receive> {
        let is_receive = completion.id & RECEIVE != 0;
        is_receive.then(|| self.receives[(completion.id & !RECEIVE) as usize])
    }

    /// Records an operation that was posted under [`Self::operation_id`].
    pub(crate) fn posted(&mut self, world: &World, operation: Operation, immediate: u64) {
        if matches!(operation.kind, Kind::Send | Kind::SendImmediate) {
            let key = self.send_key(world, &operation, immediate);
            let sends = self.sends.entry(key).or_default();
            sends.posted += 1;
            sends.in_turn += u32::from(operation.order.receive_in_order);
        }
        self.pending += u64::from(operation.signaled);
        let on_board = operation.remote.is_some_and(|(key, _)| {
            world.memory.pieces[key].board.is_some() && operation.kind != Kind::Read
        });
        if !on_board {
            self.order.posted(self.operations.len(), &operation);
        }
        self.posted_to_board(world, self.operations.len(), &operation);
        self.bypass.posted(self.operations.len(), &operation);
        // The board oracle checks operations on a board by the board's content.
        let affected = if on_board { operation.length } else { operation.affected };
        self.operations.push(Operation { affected, ..operation });
    }

    /// True if the channel has ended and its operations end with `status`.
    pub(crate) fn has_ended(&self, life: Life, channel: ChannelId, status: Status) -> bool {
        self.ended.get(&(life, channel)) == Some(&status)
    }

    pub(crate) fn has_ended_at_all(&self, life: Life, channel: ChannelId) -> bool {
        self.ended.contains_key(&(life, channel))
    }

    /// Records that the application is about to close a channel, which flushes its pending
    /// operations.
    pub(crate) fn closes(&mut self, world: &World, life: Life, channel: ChannelId) {
        self.ended.insert((life, channel), Status::Flushed);
        self.flush(world, life.0, channel);
    }

    fn flush(&mut self, world: &World, node: usize, channel: ChannelId) {
        self.flushed.insert(node, ());
        if let Some(note) = &world.nodes[node].channels[channel.index()] {
            self.flushed.insert(note.peer, ());
        }
    }

    /// Records that a Jetty or group may not exist, so that peers' operations may be refused for
    /// that.
    pub(crate) fn refuses(&mut self, node: usize, jetty: JettyId) {
        self.destroyed.insert((node, jetty), ());
    }

    /// Handles the crash of a node.
    pub(crate) fn crashes(&mut self, world: &mut World, node: usize) {
        for note in world.nodes[node].channels.iter().flatten() {
            self.flushed.insert(note.peer, ());
        }
        for id in 0..self.operations.len() {
            let operation = &mut self.operations[id];
            if operation.life.0 != node || operation.state != State::Pending {
                continue;
            }
            operation.state = State::Lost;
            self.pending -= u64::from(operation.signaled);
            let writes =
                !matches!(operation.kind, Kind::Read | Kind::Atomic | Kind::Load | Kind::Store);
            if let (Some((key, at)), true) = (operation.remote, writes) {
                world.memory.unsettle(key, at, operation.length as usize);
            }
            self.forget_on_board(world, id);
        }
        for receive in &mut self.receives {
            if receive.life.0 == node && receive.state == State::Pending {
                receive.state = State::Lost;
            }
        }
    }

    /// Checks an event. Returns the channel if the event ended one.
    pub(crate) fn event(
        &mut self,
        world: &World,
        node: usize,
        event: &Event,
        profile: &Profile,
    ) -> Result<Option<ChannelId>, Finding> {
        let life = (node, world.nodes[node].incarnation);
        let (channel, status) = match event {
            Event::PeerDead { channel } => (*channel, Status::PeerDead),
            Event::PeerClosed { channel } => (*channel, Status::PeerClosed),
            Event::Closed { channel } => return Ok(Some(*channel)),
            Event::ChannelRetired { channel, retired } => {
                self.retirement.retired(world, node, (*channel, *retired), profile)?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let note = world.nodes[node].channels[channel.index()].as_ref();
        let Some(note) = note.filter(|note| note.id == channel) else {
            return Err(format!("{event:?} of a channel that was never opened").into());
        };
        if status == Status::PeerDead {
            self.retirement.check_death(world, node, note, profile)?;
        }
        let peer = (note.peer, note.peer_incarnation);
        if status == Status::PeerClosed && !self.has_ended_at_all(peer, note.peer_leader) {
            return Err(format!("node {node}: {event:?}, and its peer has not closed it").into());
        }
        if self.ended.insert((life, channel), status).is_some() {
            return Err(format!("node {node}: channel {channel:?} ended twice: {event:?}").into());
        }
        self.flush(world, node, channel);
        Ok(Some(channel))
    }

    /// Checks a completion.
    pub(crate) fn completion(
        &mut self,
        world: &mut World,
        node: usize,
        completion: &Completion,
    ) -> Result<(), Finding> {
        let outcome = if completion.id & RECEIVE != 0 {
            self.received(world, node, completion)
        } else {
            self.completed(world, node, completion)
        };
        outcome.map_err(|why| format!("node {node}: {why}: {completion:?}").into())
    }

    fn completed(
        &mut self,
        world: &mut World,
        node: usize,
        done: &Completion,
    ) -> Result<(), Finding> {
        let life = (node, world.nodes[node].incarnation);
        let Some(operation) = self.operations.get(done.id as usize).copied() else {
            return Err("completion of what was never posted".into());
        };
        if operation.state != State::Pending {
            return Err(format!("a second completion of {operation:?}").into());
        }
        let kind = match operation.kind {
            Kind::Write | Kind::WriteImmediate => CompletionKind::Write,
            Kind::Read => CompletionKind::Read,
            Kind::Send | Kind::SendImmediate => CompletionKind::Send,
            Kind::Atomic => CompletionKind::Atomic,
            Kind::Load => CompletionKind::Load,
            Kind::Store => CompletionKind::Store,
        };
        let bytes = if done.status == Status::Success { operation.length } else { 0 };
        let same = (operation.life, operation.jetty, operation.channel, kind, bytes, None);
        if same != (life, done.jetty, done.channel, done.kind, done.bytes, done.immediate) {
            return Err(format!("the completion does not fit {operation:?}").into());
        }
        if done.status == Status::Success && !operation.signaled {
            return Err("a completion of an unsignaled success".into());
        }
        self.statuses[done.status as usize] += 1;
        self.check_completion_order(done.id as usize)?;
        if operation.kind == Kind::Atomic && done.status == Status::Success {
            check_old_value(&operation, done.value)?;
        }
        self.operations[done.id as usize].state = State::Done(done.status);
        self.pending -= u64::from(operation.signaled);
        if done.status == Status::Success {
            return self.succeeded(world, done.id as usize);
        }
        self.failed(world, done.id as usize, done.status)
    }

    /// Checks that a successful operation had its effect.
    fn succeeded(&mut self, world: &mut World, id: usize) -> Result<(), Finding> {
        let operation = self.operations[id];
        if !operation.allowed.has(Status::Success) {
            return Err(format!("success of what had to fail: {operation:?}").into());
        }
        let half_placed = operation.missed.was_set_aside;
        if self.is_barred(world, id) {
            return Err(format!("success of what found its memory missing: {operation:?}").into());
        }
        // An aborted Jetty does not report what it has received, and goes on.
        if !half_placed && !self.was_aborted(&operation) {
            self.check_not_overtaken(id)?;
        }
        let length = operation.length as usize;
        if operation.is_unreliable() {
            if let Some((key, at)) = operation.remote {
                world.memory.unsettle(key, at, length);
            }
            return Ok(());
        }
        if self.ended_on_board(world, id, Status::Success)? {
            return Ok(());
        }
        if half_placed {
            self.dropped(world, id);
            return Ok(());
        }
        match (operation.kind, operation.remote) {
            (Kind::Atomic, Some(_)) => Ok(()),
            (Kind::Load | Kind::Store, Some(_)) => self.check_bypassed(id),
            (Kind::Read, Some(remote)) => {
                world.memory.expect_copy(remote, operation.local, length);
                compare(world, operation.local, length, "what was read")
            }
            (Kind::WriteImmediate, Some((key, at))) if self.was_aborted(&operation) => {
                // It may have been counted as arrived.
                world.memory.unsettle(key, at, length);
                Ok(())
            }
            (Kind::Write | Kind::WriteImmediate, Some(remote)) => {
                world.memory.expect_copy(operation.local, remote, length);
                // An operation that is received in order may have to wait at the target for earlier
                // ones.
                let at_once = !operation.order.receive_in_order;
                if operation.kind == Kind::WriteImmediate && !operation.noticed && at_once {
                    return Err("done before its receive completed".into());
                }
                compare(world, remote, length, "what was written")
            }
            (Kind::Send | Kind::SendImmediate, _) => {
                let key = self.send_key(world, &operation, id as u64);
                let sends = self.sends.entry(key).or_default();
                sends.succeeded += 1;
                // An operation that is received in order may have to wait at the target for earlier
                // ones.
                if sends.succeeded > sends.delivered + sends.in_turn {
                    let why = format!("done before it was delivered: {sends:?}");
                    return if self.was_aborted(&operation) { Ok(()) } else { Err(why.into()) };
                }
                Ok(())
            }
            (_, None) => Err("success of an operation on nothing".into()),
        }
    }

    fn failed(&mut self, world: &mut World, id: usize, status: Status) -> Result<(), Finding> {
        let operation = self.operations[id];
        let (life, target) = (operation.life, operation.target_life.0);
        let withdrawn = operation.remote.is_some_and(|(key, _)| {
            world.memory.pieces[key].deregistered || world.memory.pieces[key].released
        });
        let ended = self.ended.get(&(life, operation.channel)) == Some(&status);
        let destroyed = self.destroyed.contains_key(&(target, operation.target_jetty));
        let missed = operation.missed.allowed.has(status);
        let fine = operation.allowed.has(status)
            || ended
            || missed
            || (status == Status::RemoteAccess && withdrawn)
            || (status == Status::RemoteNoJetty && destroyed)
            || (status == Status::RemoteResources && operation.order != OrderRequest::default());
        if !fine {
            return Err(format!("must not end like this: {operation:?}").into());
        }
        if operation.kind == Kind::Load && missed {
            // Part of it may have been placed.
            let (key, at) = operation.local;
            world.memory.unsettle(key, at, operation.length as usize);
        }
        if matches!(operation.kind, Kind::Load | Kind::Store) {
            return self.bypass_failed(id, status);
        }
        if self.ended_on_board(world, id, status)? {
            return Ok(());
        }
        let touched = operation.affected > 0 || operation.old.is_some();
        let is_cut = ended || operation.aborted || operation.is_unreliable();
        if status == Status::Flushed && touched && !is_cut {
            return Err(format!("flushed, and yet it was done: {operation:?}").into());
        }
        let half_way = ended || withdrawn || missed || operation.aborted;
        // An operation that found no memory at its target was not delivered there.
        let refused = !half_way || status == Status::RemoteOperation;
        let length = operation.length as usize;
        match (operation.kind, operation.remote) {
            (Kind::Send | Kind::SendImmediate, _) if refused => {
                let key = self.send_key(world, &operation, id as u64);
                let sends = self.sends.entry(key).or_default();
                sends.refused += 1;
                if sends.delivered + sends.refused > sends.posted {
                    return Err(format!("refused, and yet delivered: {sends:?}").into());
                }
            }
            (Kind::Read, _) if half_way => {
                world.memory.unsettle(operation.local.0, operation.local.1, length);
            }
            (Kind::Write | Kind::WriteImmediate, Some((key, at)))
                if half_way || self.was_aborted(&operation) =>
            {
                world.memory.unsettle(key, at, length);
            }
            _ => {}
        }
        Ok(())
    }

    fn send_key(&self, world: &World, operation: &Operation, id: u64) -> SendKey {
        let (key, at) = operation.local;
        let content = world.memory.mirror(key, at, operation.length as usize);
        let immediate = (operation.kind == Kind::SendImmediate).then_some(id);
        SendKey {
            target: operation.target_life,
            target_jetty: self.known_target(immediate, operation.target_jetty),
            source: operation.life,
            source_jetty: operation.jetty.value(),
            length: operation.length,
            immediate,
            content: content_hash(content),
        }
    }

    /// Returns the Jetty or group that identifies a send. If there are groups, only a message's own
    /// number shows which Jetty or group it was sent to.
    fn known_target(&self, immediate: Option<u64>, target: JettyId) -> u32 {
        let known = immediate.is_some() || self.jetties.are_targets_known();
        if known { target.value() } else { u32::MAX }
    }

    /// Checks, when all is over, that every operation without a reported completion has succeeded.
    pub(crate) fn finish(&mut self, world: &mut World) -> Result<(), Finding> {
        for id in 0..self.operations.len() {
            let operation = self.operations[id];
            if operation.state != State::Pending {
                continue;
            }
            if operation.signaled {
                return Err(format!("operation {id} never completed: {operation:?}").into());
            }
            self.operations[id].state = State::Done(Status::Success);
            self.succeeded(world, id)
                .map_err(|why| format!("unsignaled operation {id}: {why}: {operation:?}"))?;
        }
        self.expect_boards(world);
        Ok(())
    }

    /// Checks that every open channel has received a packet recently, or was given up in time.
    pub(crate) fn check_silence(
        &self,
        world: &World,
        life: Life,
        channel: ChannelId,
        profile: &Profile,
        awake_since: Instant,
    ) -> Result<(), Finding> {
        let (node, _) = life;
        let notes = world.nodes[node].channels.iter().flatten();
        for note in notes.filter(|note| note.leader == channel) {
            if self.retirement.is_retired(life, note.id) {
                continue;
            }
            let most = retirement_oracle::silence_max(note, profile);
            // A channel at rest sends no keep-alives.
            let is_resting = world.nodes[node].nic().is_some_and(|nic| nic.is_resting(note.id));
            let awake_since = awake_since.max(note.awake_since);
            let silence = world.now.since(note.last_received_at.max(awake_since));
            let has_ended = self.ended.contains_key(&(life, channel));
            if !is_resting && !has_ended && silence > most {
                return Err(format!(
                    "node {node} has not given up {channel:?} after {} us of silence",
                    silence.as_us()
                )
                .into());
            }
        }
        Ok(())
    }

    /// True if an unfinished operation or receive uses the memory.
    pub(crate) fn uses(&self, key: usize) -> bool {
        let operation = |operation: &Operation| {
            let uses = operation.kind != Kind::Atomic && operation.local.0 == key;
            operation.state == State::Pending && operation.signaled && uses
        };
        let receive =
            |receive: &Receive| receive.state == State::Pending && receive.buffer.0 == key;
        self.operations.iter().any(operation) || self.receives.iter().any(receive)
    }
}

fn compare(world: &World, place: Place, length: usize, what: &str) -> Result<(), Finding> {
    match world.memory.difference(place.0, place.1, length) {
        None => Ok(()),
        Some(at) => Err(format!(
            "{what} is wrong from byte {} of {length} on (memory {}, {at}: {:#04x} for {:#04x})",
            at - place.1,
            place.0,
            world.memory.pieces[place.0].bytes[at],
            world.memory.pieces[place.0].mirror[at]
        )
        .into()),
    }
}

fn content_hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xCBF2_9CE4_8422_2325, |hash: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}

mod aborts;
mod missing;
mod receives;
