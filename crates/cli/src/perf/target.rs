//! The target: it waits for clients, owns the memory that is written or read, and receives
//! messages.

use std::time::{Duration, Instant};

use fairway::{Completion, CompletionKind, Context, Jetty, JettyOptions, Peer, Post, Status};

use super::contexts::port_offset;
use super::inbox::{Arrival, PutBox};
use super::message::{JETTY, MESSAGE_BYTES, Message, Packets, Run, SLOTS_MAX};
use super::operation::Operation;
use super::packets;
use super::slots::{NAMED_BYTES, Pattern, Payload, Slots, Tally};
use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::mailbox::{Mail, Mailbox};
use crate::net::{self, PERF};
use crate::paths::DeadPaths;
use crate::process;
use crate::quantity::show_size;
use crate::trace::{AtSignal, Tracer};

/// Largest number of sessions at a time: one for each flow of a client.
const SESSIONS_MAX: usize = 1024;
/// Largest number of bytes of memory for all sessions together.
const MEMORY_MAX: u64 = 8 << 30;
/// Largest number of bytes for receives beyond those that the initiator can have in flight.
const SPARE_BYTES: u64 = 64 << 20;
/// Number of polls of the mailbox between two checks of everything else.
const LOOKS: u32 = 1024;
/// Interval at which an idle server checks whether it is to end.
const IDLE_STEP: Duration = Duration::from_millis(100);
/// Number of polls between two checks of the mailbox while messages arrive.
const MAIL_EVERY: u32 = 64;
/// Time for outstanding packets at the end of an unreliable run.
const UNRELIABLE_LAST: Duration = Duration::from_millis(20);
/// Bit by which completions of this side's answers differ from those of receives.
const ANSWER: u64 = 1 << 32;

/// Serves clients, one session after the other, with context `index` of this side, until a signal
/// (which the caller has to catch) requests the end of the process.
pub(super) fn serve(options: &PerfOptions, index: u32) -> Result<(), Failure> {
    let port = net::port_behind(options.net.first_port(PERF.port), port_offset(index))?;
    let builder = options.net.builder(PERF.port, None).port(port);
    let context = net::open(builder.control_threads(options.flows.control_threads))?;
    let tracer = {
        let policy = options.net.policy_text();
        Tracer::start(&context, &options.trace, &policy, AtSignal::Continue)?
    };
    let mailbox = Mailbox::new(&context, Some(JETTY), MESSAGE_BYTES)?;
    let addresses = context.local_addrs();
    let first = addresses.first().map_or_else(String::new, ToString::to_string);
    process::print(&format!("fairway perf: {} sockets, listening on {first}\n", addresses.len()))?;
    let mut sessions: Vec<Session<'_>> = Vec::new();
    while !process::stopping() {
        let _ = context.poll_events();
        sessions.retain(|session| session.peer.is_alive());
        // During a session this side polls its NIC, like an application that polls.
        let mail = if sessions.is_empty() { mailbox.wait(IDLE_STEP)? } else { poll(&mailbox)? };
        if let Some(mail) = mail {
            take(&context, &mailbox, &mut sessions, mail);
        }
    }
    let traced = tracer.map_or(Ok(()), Tracer::finish);
    // Peers that are still connected are notified; their answers are not needed.
    let _ = context.shutdown(Duration::from_millis(200));
    traced
}

/// The next message, if one arrives within [`LOOKS`] polls.
fn poll(mailbox: &Mailbox) -> Result<Option<Mail>, Failure> {
    for _ in 0..LOOKS {
        if let Some(mail) = mailbox.poll()? {
            return Ok(Some(mail));
        }
    }
    Ok(None)
}

/// Handles a message.
fn take<'a>(
    context: &'a Context,
    mailbox: &'a Mailbox,
    sessions: &mut Vec<Session<'a>>,
    mail: Mail,
) {
    let Some(peer) = mail.peer.clone() else { return };
    let refuse = |reason: String| {
        let refusal = Message::Refusal(reason).encode();
        // A client that disappears during its session does not end the server.
        let _ = mailbox.send(&peer, mail.sender, &refusal);
    };
    let message = match Message::decode(&mail.bytes) {
        Ok(message) => message,
        Err(error) => return refuse(error.to_string()),
    };
    if sessions.iter().any(|session| session.peer != peer) {
        return refuse("a measurement with another client is going on".into());
    }
    let failed = |failure: Failure| {
        process::say(&format!("fairway perf: {}: {}", peer.address(), failure.shown()));
        refuse(failure.to_string());
    };
    match message {
        Message::Run(run) => {
            let open: Vec<Run> = sessions.iter().map(|session| session.run).collect();
            if let Err(failure) = admit(&open, &run) {
                return failed(failure);
            }
            match Session::open(context, mailbox, peer.clone(), mail.sender, run) {
                // Such a session only answers requests.
                Ok(session) if session.held.is_empty() => sessions.push(session),
                Ok(session) => session.run().unwrap_or_else(failed),
                Err(failure) => failed(failure),
            }
        }
        Message::Check(number, _) | Message::Finish(number, _) => {
            let found = sessions.iter().position(|session| session.run.session == number);
            let Some(found) = found else {
                return refuse("no measurement is going on".into());
            };
            match sessions[found].handle(&mail) {
                Ok(false) => {}
                Ok(true) => drop(sessions.swap_remove(found)),
                Err(failure) => {
                    drop(sessions.swap_remove(found));
                    failed(failure);
                }
            }
        }
        _ => refuse("no measurement is going on".into()),
    }
}

/// One row of a measurement, or one flow.
struct Session<'a> {
    context: &'a Context,
    mailbox: &'a Mailbox,
    peer: Peer,
    /// The client's Jetty for the server's messages.
    reply_to: u32,
    run: Run,
    slots: Slots,
    jetty: Jetty,
    /// Mailbox that receives puts.
    puts: Option<PutBox>,
    /// For each slot of the initiator, the generation of the next message.
    next: Vec<u32>,
    /// The last payload of each receive buffer.
    held: Vec<Option<Payload>>,
    messages: u64,
    tally: Tally,
    /// Counters at the start of the session.
    before: Packets,
    scratch: (Vec<Completion>, Vec<Arrival>),
}

impl<'a> Session<'a> {
    fn open(
        context: &'a Context,
        mailbox: &'a Mailbox,
        peer: Peer,
        reply_to: u32,
        run: Run,
    ) -> Result<Self, Failure> {
        let places = check(&run)?;
        let pattern =
            Pattern { seed: run.seed, size: run.size, block: u64::from(run.block), damaged: false };
        let slots = Slots::new(context, pattern, places, run.operation.rights())?;
        let receives = receives(&run, places);
        let jetty = context.create_jetty(JettyOptions::default().depth(2 * receives.max(64)))?;
        for payload in (0..places).map(|slot| Payload { slot, generation: 0 }) {
            if run.operation.fetches() {
                slots.fill(payload.slot, payload)?;
            } else if run.operation.is_atomic() {
                slots.set_word(run.operation, payload)?;
            }
        }
        let puts = match run.operation {
            Operation::Put => Some(PutBox::new(context, &run, places)?),
            _ => None,
        };
        let session = Session {
            next: vec![0; run.slots as usize],
            held: vec![None; receives as usize],
            before: packets(context),
            scratch: Default::default(),
            messages: 0,
            tally: Tally::default(),
            context,
            mailbox,
            peer,
            reply_to,
            run,
            slots,
            jetty,
            puts,
        };
        for number in 0..receives {
            session.offer(number)?;
        }
        let ready =
            Message::Ready { key: session.slots.segment.key(), jetty: session.jetty.number() };
        session.answer(&ready)?;
        Ok(session)
    }

    /// Serves the session until the client has finished.
    fn run(mut self) -> Result<(), Failure> {
        let mut turn: u32 = 0;
        loop {
            self.poll()?;
            turn = turn.wrapping_add(1);
            if !turn.is_multiple_of(MAIL_EVERY) {
                continue;
            }
            if let Some(mail) = self.mailbox.poll()?
                && self.handle(&mail)?
            {
                return Ok(());
            }
            if turn.is_multiple_of(4096) && (!self.peer.is_alive() || process::stopping()) {
                return Err(Failure::failed("the client has gone before the end"));
            }
        }
    }

    /// Handles completions and puts that have arrived; true if there were any.
    fn poll(&mut self) -> Result<bool, Failure> {
        let (mut completions, mut arrivals) = std::mem::take(&mut self.scratch);
        if let Some(puts) = &mut self.puts {
            puts.poll(&mut arrivals);
        }
        self.jetty.poll(&mut completions);
        let any = !arrivals.is_empty() || !completions.is_empty();
        for arrival in arrivals.drain(..) {
            self.arrived(arrival)?;
        }
        for completion in completions.drain(..) {
            self.completed(&completion)?;
        }
        self.scratch = (completions, arrivals);
        Ok(any)
    }

    /// Handles a message of any client; true if the session has ended.
    fn handle(&mut self, mail: &Mail) -> Result<bool, Failure> {
        if mail.peer.as_ref() != Some(&self.peer) {
            let busy = Message::Refusal("a measurement with another client is going on".into());
            // A failure to send this does not affect the session.
            if let Some(peer) = &mail.peer {
                let _ = self.mailbox.send(peer, mail.sender, &busy.encode());
            }
            return Ok(false);
        }
        match Message::decode(&mail.bytes)? {
            Message::Check(_, payload) => {
                let start = Instant::now();
                let mut tally = Tally::default();
                if payload.slot < self.slots.count && self.run.operation.changes_slots() {
                    self.check_slot(payload, &mut tally)?;
                }
                let spent_ns = start.elapsed().as_nanos() as u64;
                self.answer(&Message::Checked { tally, spent_ns })?;
                Ok(false)
            }
            Message::Finish(_, generations) => {
                self.finish(&generations)?;
                if let Some(text) = DeadPaths::of(&self.peer).text(&self.peer) {
                    process::say(&format!("fairway perf: {text}"));
                }
                Ok(true)
            }
            _ => Err(Failure::failed("the client sent an unexpected message")),
        }
    }

    /// Handles the completion of a received message, or of a sent answer.
    fn completed(&mut self, completion: &Completion) -> Result<(), Failure> {
        if completion.status != Status::Success {
            return Err(Failure::failed(format!(
                "a {:?} ended with {:?}",
                completion.kind, completion.status
            )));
        }
        match completion.kind {
            CompletionKind::Send | CompletionKind::Put => {
                self.offer((completion.id.value() & !ANSWER) as u32)
            }
            _ => self.arrived(Arrival::of(completion)),
        }
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<(), Failure> {
        let buffer = arrival.buffer;
        if self.run.ping_pong {
            let id = u64::from(buffer) | ANSWER;
            let (local, jetty) =
                (self.slots.slice(buffer), self.jetty.ordered(self.run.order.order()));
            match self.puts {
                Some(_) => jetty.put(&self.peer, local, self.run.mail_to(), id)?,
                None => jetty.send(&self.peer, arrival.sender, local, id)?,
            }
        }
        self.messages += 1;
        if self.run.verify {
            self.verify(arrival)?;
        }
        if self.run.ping_pong { Ok(()) } else { self.offer(buffer) }
    }

    fn verify(&mut self, arrival: Arrival) -> Result<(), Failure> {
        let buffer = arrival.buffer;
        let anonymous = Payload { slot: 0, generation: 0 };
        let (place, payload) = match self.run.operation {
            Operation::WriteImm => {
                let immediate = arrival.immediate;
                let payload =
                    Payload { slot: (immediate >> 32) as u32, generation: immediate as u32 };
                (payload.slot, payload)
            }
            _ if self.run.size < NAMED_BYTES => (buffer, anonymous),
            _ => (buffer, self.slots.named(buffer)?),
        };
        let named = self.run.operation == Operation::WriteImm || self.run.size >= NAMED_BYTES;
        if named && !self.has_its_turn(payload) {
            self.tally.misplaced += 1;
            return Ok(());
        }
        if arrival.bytes != self.run.size {
            self.tally.misplaced += 1;
        }
        let tally = &mut self.tally;
        if self.run.operation == Operation::WriteImm {
            // The initiator may write the slot's next generation meanwhile; the body stays the
            // same.
            if !self.run.order.is_unreliable() {
                self.slots.check_stamps(place, payload, true, tally)?;
            }
            self.slots.check_body(place, payload, self.messages, tally)?;
            return Ok(());
        }
        self.slots.check_stamps(place, payload, false, tally)?;
        self.slots.check_block(place, payload, self.messages, tally)?;
        self.held[buffer as usize] = Some(payload);
        Ok(())
    }

    /// Whether a message is in order. Messages of one slot arrive in sequence, each once;
    /// unreliable ones may arrive in any order.
    fn has_its_turn(&mut self, payload: Payload) -> bool {
        let unreliable = self.run.order.is_unreliable();
        match self.next.get_mut(payload.slot as usize) {
            Some(_) if unreliable => true,
            Some(next) if *next == payload.generation => {
                *next = next.wrapping_add(1);
                true
            }
            _ => false,
        }
    }

    /// Compares an idle slot.
    fn check_slot(&self, payload: Payload, tally: &mut Tally) -> Result<(), Failure> {
        if self.run.operation.is_atomic() {
            return Ok(self.slots.compare_word(self.run.operation, payload, tally)?);
        }
        Ok(self.slots.check(payload.slot, payload, tally)?)
    }

    /// Ends the session: compares all memory, and sends the results.
    fn finish(&mut self, generations: &[u32]) -> Result<(), Failure> {
        while self.poll()? {}
        if self.run.order.is_unreliable() {
            // Unreliable messages may still be in flight, so the target polls a little longer.
            let end = Instant::now() + UNRELIABLE_LAST;
            while Instant::now() < end {
                self.poll()?;
            }
        }
        if self.run.verify {
            self.compare_all(generations)?;
        }
        let packets = packets(self.context).since(self.before);
        self.answer(&Message::Verdict { tally: self.tally, messages: self.messages, packets })
    }

    fn compare_all(&mut self, generations: &[u32]) -> Result<(), Failure> {
        if generations.len() != self.run.slots as usize {
            return Err(Failure::failed("the client counts other slots than it requested"));
        }
        let (operation, unreliable) = (self.run.operation, self.run.order.is_unreliable());
        let mut tally = self.tally;
        for (slot, &uses) in (0..).zip(generations).filter(|(_, uses)| **uses > 0) {
            let last = if operation.is_atomic() { uses } else { uses - 1 };
            if operation.changes_slots() && unreliable {
                self.slots.check_unreliable(slot, uses, &mut tally)?;
            } else if operation.changes_slots() {
                self.check_slot(Payload { slot, generation: last }, &mut tally)?;
            }
            let named = operation == Operation::WriteImm || self.run.size >= NAMED_BYTES;
            if operation.is_counted() && named && !unreliable {
                tally.misplaced += u64::from(self.next[slot as usize] != uses);
            }
        }
        self.tally = tally;
        if operation.is_message() {
            for (buffer, payload) in (0..).zip(&self.held) {
                if let Some(payload) = payload {
                    self.slots.check(buffer, *payload, &mut self.tally)?;
                }
            }
        }
        Ok(())
    }

    fn offer(&self, number: u32) -> Result<(), Failure> {
        if let Some(puts) = &self.puts {
            return puts.offer(self.slots.slice(number), number);
        }
        let local = match self.run.operation {
            Operation::Send => self.slots.slice(number),
            _ => self.slots.segment.slice(0..0),
        };
        Ok(self.jetty.post_receive(local, u64::from(number))?)
    }

    fn answer(&self, message: &Message) -> Result<(), Failure> {
        self.mailbox.send(&self.peer, self.reply_to, &message.encode())
    }
}

/// Refuses impossible parameters. Returns the number of places in the target's memory.
fn check(run: &Run) -> Result<u32, Failure> {
    let wrong = |what: String| Err(Failure::failed(what));
    if run.size == 0 || run.slots == 0 || run.depth == 0 || run.depth > run.slots {
        return wrong("the client requests no operations: give it a size and a depth".into());
    }
    if let Err(sizes) = run.operation.check_size(run.size) {
        return wrong(format!("the client requests {} bytes: choose {sizes}", run.size));
    }
    if run.slots > SLOTS_MAX || run.block < 8 || run.block > 4096 || !run.block.is_multiple_of(8) {
        return wrong(format!("the client requests {} slots: use fewer", run.slots));
    }
    // All messages of a burst may arrive before the application has handled the first.
    let places = match run.operation {
        operation if operation.is_message() && !run.ping_pong => {
            let spare = SPARE_BYTES / Slots::stride(run.size).max(1);
            run.depth + spare.clamp(16, 4096).min(4 * u64::from(run.depth) + 16) as u32
        }
        operation if operation.is_message() => 64,
        _ => run.slots,
    };
    match Slots::stride(run.size).checked_mul(u64::from(places)) {
        Some(bytes) if bytes <= MEMORY_MAX => Ok(places),
        _ => wrong(format!(
            "{} slots of {} are more than the {} a session may have: use less depth or size",
            places,
            show_size(run.size),
            show_size(MEMORY_MAX)
        )),
    }
}

/// Refuses a session that can't run beside those that are open, all of which only answer requests.
fn admit(open: &[Run], run: &Run) -> Result<(), Failure> {
    let places = check(run)?;
    let wrong = |what: String| Err(Failure::failed(what));
    if open.len() >= SESSIONS_MAX {
        return wrong(format!(
            "there are {SESSIONS_MAX} sessions already: measure fewer flows at once"
        ));
    }
    if open.iter().any(|other| other.session == run.session) {
        let number = run.session;
        return wrong(format!("session {number} is open already: give each a number of its own"));
    }
    if !open.is_empty() && receives(run, places) > 0 {
        return wrong(format!(
            "{} keeps the server busy, and other sessions are open: measure it alone",
            run.operation.name()
        ));
    }
    let places_of = |run: &Run| check(run).map_or(0, |places| bytes(run, places));
    let taken: u64 = open.iter().map(places_of).sum();
    if taken.saturating_add(bytes(run, places)) > MEMORY_MAX {
        return wrong(format!(
            "{} more would be more than the {} that sessions may have together: use less depth, \
             size or flows",
            show_size(bytes(run, places)),
            show_size(MEMORY_MAX)
        ));
    }
    Ok(())
}

/// Bytes of a session's memory.
fn bytes(run: &Run, places: u32) -> u64 {
    Slots::stride(run.size).saturating_mul(u64::from(places))
}

/// Number of posted receives.
fn receives(run: &Run, places: u32) -> u32 {
    match run.operation {
        Operation::WriteImm => (5 * run.depth).clamp(64, 16_384),
        operation if operation.is_message() => places,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::order::OrderRequest;
    use super::*;

    fn run(session: u32, operation: Operation, size: u64, slots: u32) -> Run {
        Run {
            session,
            operation,
            size,
            slots,
            depth: slots,
            seed: 1,
            block: 4096,
            verify: true,
            ping_pong: false,
            order: OrderRequest::from_byte(0).expect("no order"),
        }
    }

    #[test]
    fn sessions_are_admitted_while_there_is_room_for_them() {
        let write = |session| run(session, Operation::Write, 1 << 20, 4);
        let says = |open: &[Run], new: &Run, words: &str| {
            let failure = admit(open, new).expect_err("refused").to_string();
            assert!(failure.contains(words), "{failure}");
        };
        assert!(admit(&[], &write(0)).is_ok() && admit(&[write(0)], &write(1)).is_ok());
        says(&[write(0), write(7)], &write(7), "session 7");
        // A session that keeps the server busy must be the only one.
        let send = run(9, Operation::Send, 64, 8);
        assert!(admit(&[], &send).is_ok());
        says(&[write(0)], &send, "measure it alone");
        let full: Vec<Run> = (0..SESSIONS_MAX as u32).map(write).collect();
        says(&full, &write(5000), "1024 sessions");
        // Each session would fit, but not all together.
        let large = |session| run(session, Operation::Write, 1 << 20, 2048);
        let open: Vec<Run> = (0..4).map(large).collect();
        assert!(admit(&open[..2], &large(4)).is_ok());
        says(&open, &large(4), "together");
    }
}
