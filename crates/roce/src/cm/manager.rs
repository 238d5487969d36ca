//! The connection manager and its commands.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::api::{CommandError, ConnectionId, Counters, Event, ListenerId, State, Transmit};
use super::limits::{Limits, Profile};
use super::names::Names as NewNames;
use super::record::{self, Record};
use super::refuse::rejection;
use fairway_device::deadlines::Deadlines;
use fairway_device::pool::{Index, Pool};
use fairway_wire::roce::cm::{
    self, CommunicationId, Datagram, Disconnect, Message, ReadyToUse, Reason, Refused, Reject,
    Reply, Request, ServiceReply, ServiceRequest, ServiceStatus,
};
use fairway_wire::{Instant, Qpn};

/// The connection manager of one process at one device.
pub struct Manager {
    pub(super) limits: Limits,
    pub(super) profile: Profile,
    slot: u8,
    names: NewNames,
    pub(super) records: Pool<Record>,
    /// Number of records that were ever opened.
    opened: u64,
    /// The record of each connection id in use.
    by_name: BTreeMap<ConnectionId, Index<Record>>,
    pub(super) listeners: Vec<Listener>,
    listener_next: u32,
    deadlines: Deadlines,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    pub(super) counters: Counters,
}

#[derive(Clone, Copy)]
pub(super) struct Listener {
    pub id: ListenerId,
    pub service: u64,
    pub backlog: u32,
}

impl Manager {
    /// Creates the manager of the process in this slot. The ids of its connections can be computed
    /// from `seed`, which therefore has to be secret.
    ///
    /// # Panics
    ///
    /// If `limits.connections` is more than 4096.
    pub fn new(limits: &Limits, profile: &Profile, slot: u8, seed: u64) -> Manager {
        assert!(limits.connections <= 4096, "at most 4096 connections");
        Manager {
            limits: *limits,
            profile: *profile,
            slot,
            names: NewNames::new(slot, seed),
            records: Pool::new(limits.connections),
            opened: 0,
            by_name: BTreeMap::new(),
            listeners: Vec::with_capacity(limits.listeners as usize),
            listener_next: 0,
            deadlines: Deadlines::new(limits.connections),
            transmits: VecDeque::with_capacity(limits.transmits as usize),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    // ---- commands ----

    /// Reports requests for this service from now on. Up to `backlog` requests of one source may
    /// wait until they are [delivered](Self::deliver) or answered; some more of other sources may
    /// wait in addition.
    pub fn listen(
        &mut self,
        _now: Instant,
        service: u64,
        backlog: u32,
    ) -> Result<ListenerId, CommandError> {
        if self.listeners.iter().any(|listener| listener.service == service) {
            return Err(CommandError::ServiceTaken);
        }
        if self.listeners.len() as u32 == self.limits.listeners {
            return Err(CommandError::Limit("listeners"));
        }
        self.listener_next = self.listener_next.wrapping_add(1);
        let id = ListenerId(self.listener_next);
        self.listeners.push(Listener { id, service, backlog });
        Ok(id)
    }

    /// Removes a listener. Requests that [`Self::poll_event`] has not returned are refused; the
    /// others may still be answered, and accepted connections stay.
    pub fn unlisten(&mut self, now: Instant, id: ListenerId) -> Result<(), CommandError> {
        let at = self.listeners.iter().position(|listener| listener.id == id);
        self.listeners.swap_remove(at.ok_or(CommandError::Missing)?);
        for index in self.records.ever_taken() {
            let record = &self.records[index];
            let waits = matches!(record.state, State::Requested | State::Queried);
            let connection = record.id;
            if connection.0 != 0 && record.listener == Some(id) && waits {
                let before = self.events.len();
                self.events.retain(|event| event.connection() != connection);
                if self.events.len() < before {
                    self.close(now, connection)?;
                }
            }
        }
        Ok(())
    }

    /// Notes that the program has received a peer's request, which therefore leaves its place in
    /// the backlog to another one. Has no effect if the request has ended meanwhile.
    pub fn deliver(&mut self, _now: Instant, id: ConnectionId) {
        if let Some(index) = self.find(id) {
            self.records[index].is_delivered = true;
        }
    }

    /// Requests a connection to a peer. The manager replaces the connection id in `request`.
    pub fn connect(
        &mut self,
        now: Instant,
        to: u64,
        request: &Request,
    ) -> Result<ConnectionId, CommandError> {
        let index = self.open(Record::new(to, State::Requesting, 0))?;
        let transaction = self.transaction(index);
        let wait = record::wait(&self.profile, request.primary.ack_timeout);
        let record = &mut self.records[index];
        record.transaction = transaction;
        record.ca_guid = request.ca_guid;
        record.repeats_max = request.cm_retries;
        record.wait = wait;
        let id = record.id;
        let message = Message::Request(Request { local: id, ..*request });
        self.send_until_answered(now, index, transaction, message);
        Ok(id)
    }

    /// Accepts a peer's request. The manager fills in the connection ids in `reply`.
    pub fn accept(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reply: &Reply,
    ) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Requested])?;
        let record = &mut self.records[index];
        record.state = State::Accepting;
        record.was_connected = true;
        record.ca_guid = reply.ca_guid;
        let (names, transaction) = (record.names(), record.transaction);
        let message = Message::Reply(Reply { names, ..*reply });
        self.send_until_answered(now, index, transaction, message);
        Ok(())
    }

    /// Refuses a request or a reply, which ends the connection.
    pub fn reject(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reason: Reason,
        private: &[u8; Reject::PRIVATE_LEN],
    ) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Requested, State::Replied])?;
        let record = &self.records[index];
        let refused = match record.state {
            State::Replied => Refused::Reply,
            _ => Refused::Request,
        };
        let mut message = rejection(record.names(), refused, reason);
        if let Message::Reject(reject) = &mut message {
            reject.private = *private;
        }
        let (is_asked, transaction) = (record.listener.is_some(), record.transaction);
        self.send(index, transaction, message);
        // The record is kept for a while, because the REJ may be lost and REQ repeated. REP is not
        // repeated.
        self.wait(now, index);
        if !is_asked {
            let retry_interval = self.profile.retry_interval_min;
            let record = &mut self.records[index];
            record.repeats = record.repeats_max.min(self.profile.ready_repeats);
            record.retry_interval = retry_interval;
            self.wake(index, now + retry_interval);
        }
        Ok(())
    }

    /// Confirms a reply: both ends are connected now.
    pub fn confirm(
        &mut self,
        now: Instant,
        id: ConnectionId,
        private: &[u8; ReadyToUse::PRIVATE_LEN],
    ) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Replied])?;
        let record = &mut self.records[index];
        record.state = State::Established;
        record.was_connected = true;
        let (names, transaction) = (record.names(), record.transaction);
        let message = Message::ReadyToUse(ReadyToUse { names, private: *private });
        self.send_until_answered(now, index, transaction, message);
        let record = &mut self.records[index];
        record.repeats = record.repeats_max.min(self.profile.ready_repeats);
        Ok(())
    }

    /// Handles the peer's first packet if it comes before the RTU, which it can replace (12.9.7.2:
    /// communication established).
    pub fn establish(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Accepting])?;
        self.prove(now, index);
        self.established(index, [0; ReadyToUse::PRIVATE_LEN]);
        Ok(())
    }

    /// Ends a connection. [`Event::Disconnected`] reports that the peer agreed or did not answer.
    pub fn disconnect(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Established, State::Accepting])?;
        self.begin_end(now, index);
        Ok(())
    }

    /// Asks a peer for the queue pair that receives datagrams for a service. The manager replaces
    /// the id in `request`. The request is repeated up to `repeats` times.
    pub fn query(
        &mut self,
        now: Instant,
        to: u64,
        repeats: u8,
        request: &ServiceRequest,
    ) -> Result<ConnectionId, CommandError> {
        let mut record = Record::new(to, State::Querying, 0);
        record.is_query = true;
        record.repeats_max = repeats;
        let index = self.open(record)?;
        let transaction = self.transaction(index);
        let id = self.records[index].id;
        self.records[index].transaction = transaction;
        let message = Message::ServiceRequest(ServiceRequest { id, ..*request });
        self.send_until_answered(now, index, transaction, message);
        Ok(id)
    }

    /// Answers a query, which thereby ends. The manager fills in the id in `reply`.
    pub fn answer(
        &mut self,
        now: Instant,
        id: ConnectionId,
        reply: &ServiceReply,
    ) -> Result<(), CommandError> {
        let index = self.find_in(id, &[State::Queried])?;
        let record = &self.records[index];
        let transaction = record.transaction;
        let message = Message::ServiceReply(ServiceReply { id: record.remote, ..*reply });
        self.send(index, transaction, message);
        self.wait(now, index);
        Ok(())
    }

    /// Ends a connection without further events: a request is withdrawn or refused, and an open
    /// connection is disconnected.
    pub fn close(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        let index = self.find(id).ok_or(CommandError::Missing)?;
        self.records[index].is_orphan = true;
        match self.records[index].state {
            State::Requesting => {
                self.give_up(index, Refused::Request);
                self.release(index);
            }
            State::Requested | State::Replied => {
                self.reject(now, id, Reason::CONSUMER, &[0; Reject::PRIVATE_LEN])?;
            }
            State::Accepting | State::Established => self.begin_end(now, index),
            State::Queried => self.answer(now, id, &no_service(ServiceStatus::REJECTED))?,
            State::Disconnecting | State::Waiting => {}
            State::Ended | State::Querying => self.release(index),
        }
        Ok(())
    }

    // ---- inputs ----

    /// Repeats or ends everything whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.deadlines.pop_due(now).map(Index::of) {
            let record = &mut self.records[index];
            let Some(deadline) = record.deadline.filter(|_| record.id.0 != 0) else { continue };
            if now.is_before(deadline) {
                self.deadlines.wake_by(index.number(), deadline);
                continue;
            }
            record.deadline = None;
            match record.state {
                State::Requesting | State::Accepting | State::Disconnecting | State::Querying => {
                    self.repeat(now, index)
                }
                State::Waiting => self.waited(now, index),
                State::Established => self.repeat_ready(now, index),
                State::Replied | State::Requested | State::Ended | State::Queried => {}
            }
        }
    }

    // ---- outputs ----

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The latest time for the next call of [`Self::handle_timeout`]; an earlier call is allowed.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.earliest()
    }

    // ---- getters ----

    /// Counts since the manager was created.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The state of a connection.
    pub fn state(&self, id: ConnectionId) -> Option<State> {
        self.find(id).map(|index| self.records[index].state)
    }

    /// Number of connections and attempts, including ended ones that are still remembered.
    pub fn in_use(&self) -> u32 {
        self.records.in_use()
    }

    /// The slot of this process.
    pub fn slot(&self) -> u8 {
        self.slot
    }

    // ---- within ----

    pub(super) fn find(&self, id: ConnectionId) -> Option<Index<Record>> {
        self.by_name.get(&id).copied()
    }

    fn find_in(&self, id: ConnectionId, states: &[State]) -> Result<Index<Record>, CommandError> {
        let index = self.find(id).ok_or(CommandError::Missing)?;
        let state = self.records[index].state;
        if states.contains(&state) { Ok(index) } else { Err(CommandError::State(state)) }
    }

    /// Adds a record with a new id. If the table is full, it replaces an ended one that is only
    /// remembered.
    pub(super) fn open(&mut self, record: Record) -> Result<Index<Record>, CommandError> {
        if self.records.is_exhausted() {
            let spare = self.records.ever_taken().find(|&index| self.records[index].is_spare());
            self.release(spare.ok_or(CommandError::Limit("connections"))?);
        }
        let index = self.records.add(record).ok_or(CommandError::Limit("connections"))?;
        let id = self.names.draw(|id| self.by_name.contains_key(&id));
        self.opened += 1;
        self.records[index].opened = self.opened;
        self.records[index].id = id;
        self.by_name.insert(id, index);
        Ok(index)
    }

    pub(super) fn release(&mut self, index: Index<Record>) {
        self.by_name.remove(&self.records[index].id);
        self.records[index].id = CommunicationId(0);
        self.records[index].deadline = None;
        self.deadlines.remove(index.number());
        self.records.remove(index);
    }

    pub(super) fn push_event(&mut self, index: Index<Record>, event: Event) {
        if !self.records[index].is_orphan {
            self.events.push_back(event);
        }
    }

    pub(super) fn transmit(&mut self, to: u64, bytes: [u8; cm::MAD_LEN]) {
        if self.transmits.len() as u32 >= self.limits.transmits {
            self.counters.overflowed += 1;
            return;
        }
        self.counters.sent += 1;
        self.transmits.push_back(Transmit { to, bytes });
    }

    /// Sends a message that is repeated only when the peer repeats its own.
    pub(super) fn send(&mut self, index: Index<Record>, transaction: u64, message: Message) {
        let record = &mut self.records[index];
        record.last = cm::emit(&Datagram { transaction, message });
        record.deadline = None;
        self.send_last(index);
    }

    /// Sends the last message. An address that has not proven that it receives is sent no more
    /// datagrams than came from it.
    pub(super) fn send_last(&mut self, index: Index<Record>) {
        let record = &mut self.records[index];
        if record.spend() {
            let (peer, last) = (record.peer, record.last);
            self.transmit(peer, last);
        } else {
            self.counters.withheld += 1;
        }
    }

    /// Sends a message that is repeated until it is answered.
    fn send_until_answered(
        &mut self,
        now: Instant,
        index: Index<Record>,
        transaction: u64,
        message: Message,
    ) {
        self.send(index, transaction, message);
        let retry_interval = self.profile.retry_interval_min;
        let record = &mut self.records[index];
        record.repeats = record.repeats_max;
        record.retry_interval = retry_interval;
        record.extended_until = None;
        self.wake(index, now + retry_interval);
    }

    pub(super) fn wake(&mut self, index: Index<Record>, at: Instant) {
        self.records[index].deadline = Some(at);
        self.deadlines.wake_by(index.number(), at);
    }

    /// The number of a new exchange.
    fn transaction(&mut self, index: Index<Record>) -> u64 {
        let id = self.records[index].id.0;
        self.names.number() << 32 | u64::from(id)
    }

    fn repeat(&mut self, now: Instant, index: Index<Record>) {
        let retry_interval_max = self.profile.retry_interval_max;
        let record = &mut self.records[index];
        if let Some(until) = record.extended_until.filter(|until| now.is_before(*until)) {
            record.retry_interval = record.retry_interval.times(2).min(retry_interval_max);
            let at = until.min(now + record.retry_interval);
            self.counters.repeated += 1;
            self.send_last(index);
            return self.wake(index, at);
        }
        if record.repeats == 0 {
            return self.unanswered(now, index);
        }
        record.repeats -= 1;
        record.extended_until = None;
        record.retry_interval = record.retry_interval.times(2).min(self.profile.retry_interval_max);
        let at = now + record.retry_interval;
        // REP is repeated only with REQ: a peer that has proven nothing is sent no more than it
        // sends.
        if record.state != State::Accepting {
            self.counters.repeated += 1;
            self.send_last(index);
        }
        self.wake(index, at);
    }

    /// Repeats RTU, as long as it may have been lost.
    fn repeat_ready(&mut self, now: Instant, index: Index<Record>) {
        if self.records[index].listener.is_none() && self.records[index].repeats > 0 {
            self.repeat(now, index);
        }
    }

    /// Handles the end of all repetitions without an answer.
    fn unanswered(&mut self, now: Instant, index: Index<Record>) {
        let connection = self.records[index].id;
        match self.records[index].state {
            State::Disconnecting => return self.disconnected(now, index),
            // 12.9.8.5: the side that gives up sends a REJ, since the peer may be alive after all.
            State::Requesting => self.give_up(index, Refused::Request),
            State::Accepting => self.give_up(index, Refused::Reply),
            _ => {}
        }
        self.push_event(index, Event::TimedOut { connection });
        self.ended(index);
    }

    /// Sends a REJ for a time-out. Its additional information is the sender's adapter, since the
    /// peer may have no id for the connection (12.6.7.2).
    fn give_up(&mut self, index: Index<Record>, refused: Refused) {
        let record = &mut self.records[index];
        record.gave_up = true;
        let mut message = rejection(record.names(), refused, Reason::TIMEOUT);
        if let Message::Reject(reject) = &mut message {
            reject.information[..8].copy_from_slice(&record.ca_guid.to_be_bytes());
            reject.information_len = 8;
        }
        let transaction = record.transaction;
        self.send(index, transaction, message);
    }

    fn begin_end(&mut self, now: Instant, index: Index<Record>) {
        let transaction = self.transaction(index);
        let record = &mut self.records[index];
        record.state = State::Disconnecting;
        let (names, queue_pair) = (record.names(), record.queue_pair);
        let private = [0; Disconnect::PRIVATE_LEN];
        let message = Message::Disconnect(Disconnect { names, queue_pair, private });
        self.send_until_answered(now, index, transaction, message);
    }

    /// Reports the end of an established connection.
    pub(super) fn disconnected(&mut self, now: Instant, index: Index<Record>) {
        let connection = self.records[index].id;
        self.push_event(index, Event::Disconnected { connection });
        self.wait(now, index);
    }

    pub(super) fn established(
        &mut self,
        index: Index<Record>,
        private: [u8; ReadyToUse::PRIVATE_LEN],
    ) {
        let record = &mut self.records[index];
        record.state = State::Established;
        record.deadline = None;
        let connection = record.id;
        self.push_event(index, Event::Established { connection, private });
    }

    /// Ends a connection, whose record is kept for a while.
    pub(super) fn wait(&mut self, now: Instant, index: Index<Record>) {
        let wait_min = self.profile.wait_min;
        let record = &mut self.records[index];
        record.state = State::Waiting;
        record.repeats = 0;
        record.over_at = now + record.wait.max(wait_min);
        let at = record.over_at;
        self.wake(index, at);
    }

    /// Ends the time for which an ended connection is remembered, or repeats REJ.
    fn waited(&mut self, now: Instant, index: Index<Record>) {
        let record = &mut self.records[index];
        if now.is_before(record.over_at) {
            record.retry_interval = record.retry_interval.times(2);
            let next =
                if record.repeats > 1 { now + record.retry_interval } else { record.over_at };
            let at = next.min(record.over_at);
            record.repeats = record.repeats.saturating_sub(1);
            self.counters.repeated += 1;
            self.send_last(index);
            return self.wake(index, at);
        }
        if record.was_connected {
            let connection = record.id;
            self.push_event(index, Event::Released { connection });
        }
        self.ended(index);
    }

    /// Ends a connection of which nothing has to be remembered.
    pub(super) fn ended(&mut self, index: Index<Record>) {
        let record = &mut self.records[index];
        record.state = State::Ended;
        record.deadline = None;
        if record.is_orphan {
            self.release(index);
        }
    }
}

/// A SIDR_REP without a queue pair.
pub(super) fn no_service(status: ServiceStatus) -> ServiceReply {
    ServiceReply {
        id: CommunicationId(0),
        status,
        queue_pair: Qpn::new(0),
        service: 0,
        q_key: 0,
        information_len: 0,
        information: [0; ServiceReply::INFORMATION_LEN],
        private: [0; ServiceReply::PRIVATE_LEN],
    }
}
