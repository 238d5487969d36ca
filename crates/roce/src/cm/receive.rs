//! Handles the datagrams that a manager receives.

use super::admission::is_of;
use super::api::{DropReason, Event, ListenerId, Sender, State};
use super::manager::{Manager, no_service};
use super::record::{self, Record};
use super::refuse::{refuse, rejection};
use fairway_device::pool::Index;
use fairway_wire::Instant;
use fairway_wire::roce::cm::{
    self, Acknowledgement, CommunicationId, Datagram, Disconnect, Disconnected, Message, Names,
    ReadyToUse, Reason, Refused, Reject, Reply, Request, Service, ServiceReply, ServiceRequest,
    ServiceStatus,
};

/// `Err` means that the datagram is ignored, for this reason.
type Handled = Result<(), DropReason>;

/// The sender of a datagram, and the exchange to which it belongs.
#[derive(Clone, Copy)]
struct Origin {
    from: Sender,
    transaction: u64,
}

impl Manager {
    /// Handles a management datagram from `from`. Returns the reason if it was ignored.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: &Sender,
        bytes: &[u8],
    ) -> Option<DropReason> {
        self.counters.received += 1;
        let handled = self.handle(now, from, bytes);
        if let Err(reason) = handled {
            self.counters.dropped[reason as usize] += 1;
            let answerable = matches!(reason, DropReason::NoConnection | DropReason::NoListener);
            if let Some(answer) = refuse(bytes).filter(|_| answerable) {
                self.transmit(from.number, answer);
            }
        }
        handled.err()
    }

    fn handle(&mut self, now: Instant, from: &Sender, bytes: &[u8]) -> Handled {
        let Datagram { transaction, message } =
            cm::parse(bytes).map_err(|_| DropReason::Malformed)?;
        let origin = Origin { from: *from, transaction };
        let from = from.number;
        match &message {
            Message::Request(request) => self.handle_request(origin, request),
            Message::Acknowledgement(message) => self.handle_acknowledgement(now, from, message),
            Message::Reject(reject) => self.handle_reject(now, from, reject),
            Message::Reply(reply) => self.handle_reply(from, reply),
            Message::ReadyToUse(ready) => self.handle_ready(now, from, ready),
            Message::Disconnect(disconnect) => self.handle_disconnect(now, origin, disconnect),
            Message::Disconnected(message) => self.handle_disconnected(now, from, message),
            Message::ServiceRequest(request) => self.handle_query(origin, request),
            Message::ServiceReply(reply) => self.handle_answer(from, reply),
            Message::Path(_) => Err(DropReason::Unsupported),
        }
    }

    // ---- REQ, and the answers to it ----

    fn handle_request(&mut self, origin: Origin, request: &Request) -> Handled {
        let from = origin.from.number;
        let known = self.search(|record| {
            record.listener.is_some()
                && !record.is_query
                && (record.peer, record.remote) == (from, request.local)
                && record.queue_pair == request.queue_pair
        });
        if let Some(index) = known {
            return self.repeated_request(index);
        }
        if !is_of(request.service, &request.private, &origin.from) {
            self.refuse_request(origin, request, Reason::INVALID_GID);
            return Err(DropReason::Address);
        }
        let listener = match self.listener(origin, request.service) {
            Ok(listener) => listener,
            Err(reason) => {
                if matches!(reason, DropReason::NoRoom | DropReason::Share) {
                    self.refuse_request(origin, request, Reason::NO_RESOURCES);
                }
                return Err(reason);
            }
        };
        if !matches!(request.transport, Service::Rc | Service::Uc) {
            self.refuse_request(origin, request, Reason::INVALID_TRANSPORT);
            return Err(DropReason::Unsupported);
        }
        let from = &origin.from;
        let mut record = Record::of_peer(from, State::Requested, origin.transaction, listener);
        record.remote = request.local;
        record.queue_pair = request.queue_pair;
        record.repeats_max = request.cm_retries;
        record.wait = record::wait(&self.profile, request.primary.ack_timeout);
        let Ok(index) = self.open(record) else {
            self.refuse_request(origin, request, Reason::NO_RESOURCES);
            return Err(DropReason::NoRoom);
        };
        let connection = self.records[index].id;
        let (from, request) = (from.number, *request);
        self.push_event(index, Event::Requested { listener, connection, from, request });
        Ok(())
    }

    /// Handles a repeated REQ: the answer was lost or is not decided yet (12.9.8.3.2).
    fn repeated_request(&mut self, index: Index<Record>) -> Handled {
        self.records[index].credit += 1;
        match self.records[index].state {
            State::Requested => self.ask_for_time(index, Refused::Request),
            // The last message sent is REP or REJ.
            State::Accepting => self.send_last(index),
            State::Waiting if !self.records[index].was_connected => self.send_last(index),
            State::Ended if self.records[index].gave_up => self.send_last(index),
            _ => return Err(DropReason::State),
        }
        Ok(())
    }

    /// Notes that the peer of a connection has proven that it receives at its address, and ends the
    /// connections that this makes stale.
    ///
    /// A queue pair can be in one connection only, so a peer that has been given a connection for a
    /// queue pair has lost the older ones of that queue pair: its program was killed and started
    /// again. A request alone proves nothing, because its address may be forged.
    ///
    /// The specification (12.9.8.3.1) refuses such a request as stale, so that the peer has to
    /// retry. Here the retry would be up to the program that was started again, which cannot detect
    /// that an earlier one had the same numbers.
    pub(super) fn prove(&mut self, now: Instant, index: Index<Record>) {
        let record = &mut self.records[index];
        if core::mem::replace(&mut record.is_proven, true) || record.queue_pair.value() == 0 {
            return;
        }
        let (peer, queue_pair, opened) = (record.peer, record.queue_pair, record.opened);
        while let Some(stale) = self.search(|record| {
            record.is_connected()
                && record.opened < opened
                && (record.peer, record.queue_pair) == (peer, queue_pair)
        }) {
            self.over(now, stale);
        }
    }

    /// Ends an accepted or established connection without a message to the peer.
    fn over(&mut self, now: Instant, index: Index<Record>) {
        let established = self.records[index].state != State::Accepting;
        match established {
            true => self.disconnected(now, index),
            false => {
                let connection = self.records[index].id;
                self.push_event(index, Event::TimedOut { connection });
                self.wait(now, index);
            }
        }
    }

    fn handle_acknowledgement(
        &mut self,
        now: Instant,
        from: u64,
        message: &Acknowledgement,
    ) -> Handled {
        let index = self.find(message.names.remote).ok_or(DropReason::NoConnection)?;
        let (min, max) = (self.profile.retry_interval_min, self.profile.extension_max);
        let record = &mut self.records[index];
        let expected = match record.state {
            State::Requesting => Refused::Request,
            State::Accepting => Refused::Reply,
            _ => return Err(DropReason::State),
        };
        // One extension for each repetition, so that no message extends the wait for ever.
        if record.peer != from || message.received != expected || record.extended_until.is_some() {
            return Err(DropReason::State);
        }
        let extension = record::timeout(message.service_timeout, min, max);
        let until = now + extension + record.retry_interval;
        record.extended_until = Some(until);
        let at = until.min(now + record.retry_interval);
        let is_proof = message.names.local == record.remote;
        self.wake(index, at);
        if is_proof {
            self.prove(now, index);
        }
        Ok(())
    }

    fn handle_reject(&mut self, now: Instant, from: u64, reject: &Reject) -> Handled {
        let names = reject.names;
        let index = match names.remote {
            // The message is from a peer that never received a message of this end. A peer that
            // has confirmed the connection knows its id.
            CommunicationId(0) => self.search(|record| {
                (record.peer, record.remote) == (from, names.local)
                    && matches!(record.state, State::Requested | State::Accepting)
            }),
            id => self.find(id),
        };
        let index = index.ok_or(DropReason::NoConnection)?;
        let record = &self.records[index];
        // A peer that keeps no state answers a REQ with such a REJ. It is late, and means nothing,
        // once a REP has answered another copy of that REQ.
        let is_unnamed = record.remote.0 == 0;
        if record.peer != from || record.is_query || !(is_unnamed || record.remote == names.local) {
            return Err(DropReason::NoConnection);
        }
        let connection = record.id;
        match record.state {
            State::Requesting | State::Replied | State::Requested | State::Accepting => {
                self.push_event(index, Event::Rejected { connection, reject: *reject });
                self.ended(index);
            }
            State::Established | State::Disconnecting => self.disconnected(now, index),
            State::Waiting | State::Ended | State::Querying | State::Queried => {
                return Err(DropReason::State);
            }
        }
        Ok(())
    }

    fn handle_reply(&mut self, from: u64, reply: &Reply) -> Handled {
        let index = self.find(reply.names.remote).ok_or(DropReason::NoConnection)?;
        let record = &mut self.records[index];
        let is_known = record.is_meant(from, reply.names);
        match record.state {
            State::Requesting if record.peer == from => {
                record.remote = reply.names.local;
                record.queue_pair = reply.queue_pair;
                record.state = State::Replied;
                record.deadline = None;
                let connection = record.id;
                self.push_event(index, Event::Replied { connection, reply: *reply });
            }
            State::Replied if is_known => self.ask_for_time(index, Refused::Reply),
            // The RTU or REJ was lost.
            State::Established if is_known && record.listener.is_none() => self.send_last(index),
            State::Waiting if is_known && !record.was_connected => self.send_last(index),
            _ => return Err(DropReason::State),
        }
        Ok(())
    }

    fn handle_ready(&mut self, now: Instant, from: u64, ready: &ReadyToUse) -> Handled {
        let index = self.meant(from, ready.names)?;
        self.prove(now, index);
        match self.records[index].state {
            State::Accepting => self.established(index, ready.private),
            // DREQ may not have been sent to a peer that had not proven its address.
            State::Disconnecting => self.send_last(index),
            _ => return Err(DropReason::State),
        }
        Ok(())
    }

    // ---- disconnection ----

    fn handle_disconnect(
        &mut self,
        now: Instant,
        origin: Origin,
        disconnect: &Disconnect,
    ) -> Handled {
        let from = origin.from.number;
        self.end_unreplied(from, disconnect.names);
        let index = self.meant(from, disconnect.names)?;
        self.prove(now, index);
        let names = self.records[index].names();
        let private = [0; Disconnected::PRIVATE_LEN];
        let message = Message::Disconnected(Disconnected { names, private });
        match self.records[index].state {
            // A peer that sends DREQ was connected, even if its RTU was lost.
            state @ (State::Replied
            | State::Accepting
            | State::Established
            | State::Disconnecting) => {
                if state == State::Accepting {
                    self.established(index, [0; ReadyToUse::PRIVATE_LEN]);
                }
                self.send(index, origin.transaction, message);
                self.disconnected(now, index);
            }
            State::Waiting | State::Ended => {
                let answer = Datagram { transaction: origin.transaction, message };
                self.transmit(from, cm::emit(&answer));
            }
            State::Requesting | State::Requested | State::Querying | State::Queried => {
                return Err(DropReason::State);
            }
        }
        Ok(())
    }

    /// Handles a DREQ that overtook the REP of the same peer: the REP must find no record.
    fn end_unreplied(&mut self, from: u64, names: Names) {
        let Some(index) = self.find(names.remote) else { return };
        let record = &self.records[index];
        if record.state != State::Requesting || record.peer != from {
            return;
        }
        let connection = record.id;
        if let Message::Reject(reject) = rejection(names, Refused::Request, Reason::CONSUMER) {
            self.push_event(index, Event::Rejected { connection, reject });
        }
        self.ended(index);
    }

    fn handle_disconnected(&mut self, now: Instant, from: u64, message: &Disconnected) -> Handled {
        let index = self.meant(from, message.names)?;
        if self.records[index].state != State::Disconnecting {
            return Err(DropReason::State);
        }
        self.disconnected(now, index);
        Ok(())
    }

    // ---- datagram services ----

    fn handle_query(&mut self, origin: Origin, request: &ServiceRequest) -> Handled {
        let from = origin.from.number;
        let known = self.search(|record| {
            record.listener.is_some()
                && record.is_query
                && (record.peer, record.remote) == (from, request.id)
        });
        if let Some(index) = known {
            self.records[index].credit += 1;
            return match self.records[index].state {
                State::Waiting => {
                    self.send_last(index);
                    Ok(())
                }
                _ => Err(DropReason::State),
            };
        }
        if !is_of(request.service, &request.private, &origin.from) {
            let reply = ServiceReply { id: request.id, ..no_service(ServiceStatus::REJECTED) };
            self.answer_with(origin, Message::ServiceReply(reply));
            return Err(DropReason::Address);
        }
        let listener = self.listener(origin, request.service)?;
        let from = &origin.from;
        let mut record = Record::of_peer(from, State::Queried, origin.transaction, listener);
        record.is_query = true;
        record.remote = request.id;
        // If there is no room, the query is not answered, and the peer retries.
        let index = self.open(record).map_err(|_| DropReason::NoRoom)?;
        let connection = self.records[index].id;
        let (from, request) = (from.number, *request);
        self.push_event(index, Event::Queried { listener, connection, from, request });
        Ok(())
    }

    fn handle_answer(&mut self, from: u64, reply: &ServiceReply) -> Handled {
        let index = self.find(reply.id).ok_or(DropReason::NoConnection)?;
        let record = &self.records[index];
        if record.state != State::Querying || record.peer != from {
            return Err(DropReason::State);
        }
        let connection = record.id;
        self.push_event(index, Event::Answered { connection, reply: *reply });
        self.ended(index);
        Ok(())
    }

    // ---- helpers ----

    fn search(&self, mut is_it: impl FnMut(&Record) -> bool) -> Option<Index<Record>> {
        self.records.ever_taken().find(|&index| {
            let record = &self.records[index];
            record.id.0 != 0 && is_it(record)
        })
    }

    fn meant(&self, from: u64, names: Names) -> Result<Index<Record>, DropReason> {
        self.find(names.remote)
            .filter(|&index| self.records[index].is_meant(from, names))
            .ok_or(DropReason::NoConnection)
    }

    /// The listener for a service, if it has room for one more request of this source.
    fn listener(&self, origin: Origin, service: u64) -> Result<ListenerId, DropReason> {
        let listener = self.listeners.iter().find(|listener| listener.service == service);
        let listener = *listener.ok_or(DropReason::NoListener)?;
        self.admit(&origin.from, &listener).map(|()| listener.id)
    }

    /// Sends MRA: the application has not decided yet (12.9.8.6).
    fn ask_for_time(&mut self, index: Index<Record>, received: Refused) {
        if !self.records[index].spend() {
            return;
        }
        let Record { peer, transaction, .. } = self.records[index];
        let service_timeout = match received {
            Refused::Reply => self.profile.reply_timeout,
            _ => self.profile.request_timeout,
        };
        let message = Message::Acknowledgement(Acknowledgement {
            names: self.records[index].names(),
            received,
            service_timeout,
            private: [0; Acknowledgement::PRIVATE_LEN],
        });
        self.transmit(peer, cm::emit(&Datagram { transaction, message }));
    }

    /// Sends REJ for a request of which no record is kept.
    fn refuse_request(&mut self, origin: Origin, request: &Request, reason: Reason) {
        let names = Names { local: CommunicationId(0), remote: request.local };
        self.answer_with(origin, rejection(names, Refused::Request, reason));
    }

    fn answer_with(&mut self, origin: Origin, message: Message) {
        let datagram = Datagram { transaction: origin.transaction, message };
        self.transmit(origin.from.number, cm::emit(&datagram));
    }
}
