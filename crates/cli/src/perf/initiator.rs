//! The initiator: connects, runs one session per row, and reports.

use std::time::{Duration, Instant};

use fairway::{
    Builder, Completion, Context, Error, Jetty, JettyOptions, Order, Peer, PortCounters, Rights,
    SegmentKey, Status,
};

use super::contexts::{Place, Server, Together};
use super::message::{MESSAGE_BYTES, Message, Packets, Run, SLOTS_MAX};
use super::operation::Operation;
use super::report::Row;
use super::slots::{NAMED_BYTES, Pattern, Payload, Slots, Tally};
use super::{bandwidth, latency, packets};
use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::mailbox::Mailbox;
use crate::net::{self, PERF};
use crate::outcome::Reason;
use crate::paths::{DeadPaths, Progress, STANDSTILL, Watch, crossed};
use crate::printable::printable_reason;
use crate::process;
use crate::quantity::show_size;
use crate::trace::{AtSignal, Tracer};

/// Default number of operations in flight.
const DEPTH: u64 = 128;
/// Limit of the bytes of all operations in flight by default.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
/// Number of slots in a latency measurement.
const LATENCY_SLOTS: u32 = 8;
/// Longest time that a server may take to allocate, or compare, the memory of a session.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to a server.
pub(super) struct Link {
    pub(super) context: Context,
    pub(super) peer: Peer,
    mailbox: Mailbox,
    tracer: Option<Tracer>,
}

/// The initiator's side of one row of a measurement.
pub(super) struct Session<'a> {
    pub(super) link: &'a Link,
    pub(super) run: Run,
    /// Order requested for every operation.
    pub(super) order: Order,
    pub(super) slots: Slots,
    pub(super) jetty: Jetty,
    /// Key of the target's memory, and number of its Jetty.
    pub(super) key: SegmentKey,
    pub(super) target: u32,
    /// Number of uses of each slot.
    pub(super) uses: Vec<u32>,
    /// Results of comparisons on this side, and of the target's during the run.
    pub(super) tally: Tally,
    /// Number of READs compared so far.
    reads: u64,
    /// Used to diagnose a run in which nothing completes.
    watch: Watch,
    pub(super) progress: Progress,
}

/// Results of a session.
pub(super) struct Measured {
    pub(super) iterations: u64,
    pub(super) seconds: f64,
    pub(super) latency: Option<super::report::Summary>,
}

/// Measures every row that `options` request, at the place of one context, and passes each to
/// `out`.
pub(super) fn measure(
    options: &PerfOptions,
    operation: Operation,
    place: &Place<'_>,
    mut out: impl FnMut(Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let sizes = sizes(options, operation)?;
    let link = Link::open(options, place.server, place.own_port)?;
    let result = sizes.into_iter().try_for_each(|size| {
        let row = row(options, operation, &link, size, place.together)?;
        out(row)
    });
    let closed = link.close();
    result.and(closed)
}

impl Link {
    /// Connects to a server.
    pub(super) fn open(
        options: &PerfOptions,
        server: &Server,
        own_port: u16,
    ) -> Result<Link, Failure> {
        let threads = options.flows.control_threads;
        let port = net::port_behind(options.net.first_port(0), own_port)?;
        let with = |builder: Builder| builder.control_threads(threads).port(port);
        let Server { host, port_offset } = server;
        let connection = &options.connection;
        let service =
            if options.contexts > 1 { PERF.with_contexts(options.contexts) } else { PERF };
        let (context, peer) =
            options.net.connect_with(host, *port_offset, &service, connection, with)?;
        let mailbox = Mailbox::new(&context, None, MESSAGE_BYTES)?;
        let tracer = {
            let policy = options.net.policy_text();
            Tracer::start(&context, &options.trace, &policy, AtSignal::End)?
        };
        Ok(Link { context, peer, mailbox, tracer })
    }

    /// Finishes the trace, and closes the connection.
    pub(super) fn close(self) -> Result<(), Failure> {
        let traced = self.tracer.map_or(Ok(()), Tracer::finish);
        // The farewell notifies the server; whether it arrives does not affect the results.
        let _ = self.context.shutdown(Duration::from_secs(1));
        traced
    }
}

/// The smallest and largest size of the rows.
fn sizes(options: &PerfOptions, operation: Operation) -> Result<Vec<u64>, Failure> {
    let order = options.order.of(operation, options.ping_pong)?;
    let usual = operation.usual_size(options.latency || order.is_unreliable());
    let (first, last) = match (options.size, options.sizes) {
        (Some(size), _) => (size, size),
        (None, Some(sizes)) => sizes,
        (None, None) => (usual, usual),
    };
    for size in [first, last] {
        operation.check_size(size).map_err(|sizes| {
            let name = operation.name();
            Failure::usage(format!("{size} bytes can't be measured with {name}: choose {sizes}"))
        })?;
    }
    let doubling = std::iter::successors(Some(first), |size| size.checked_mul(2));
    let sizes: Vec<u64> = doubling.take_while(|size| *size <= last).collect();
    sizes.iter().try_for_each(|size| check_buffer(options, *size))?;
    Ok(sizes)
}

/// Checks that the memory of `--buffer`, if it is given, holds the messages of this size.
fn check_buffer(options: &PerfOptions, size: u64) -> Result<(), Failure> {
    let (_, least) = depth_and_slots(options, size);
    let bytes = least * Slots::stride(size);
    match options.buffer {
        Some(buffer) if buffer < bytes => Err(Failure::usage(format!(
            "--buffer {}: a run with messages of {size} bytes uses {least} of them in turn, which \
             take {bytes} bytes: give that or more, or leave --buffer out",
            show_size(buffer)
        ))),
        _ => Ok(()),
    }
}

/// Number of operations of `size` bytes in flight, and the least number of messages in memory.
fn depth_and_slots(options: &PerfOptions, size: u64) -> (u64, u64) {
    let depth = match (options.latency, options.depth) {
        (true, _) => 1,
        (false, Some(depth)) => u64::from(depth),
        (false, None) => DEPTH.min(IN_FLIGHT_BYTES / size).max(1),
    };
    (depth, if options.latency { u64::from(LATENCY_SLOTS) } else { depth })
}

/// Measures one row.
fn row(
    options: &PerfOptions,
    operation: Operation,
    link: &Link,
    size: u64,
    together: &Together,
) -> Result<Row, Failure> {
    let run = plan(options, operation, link, size)?;
    let mut session = Session::open(link, run, options.corrupt_for_test)?;
    together.meet()?;
    let before = packets(&link.context);
    let ports_before = link.context.counters().port;
    let measured = if options.latency {
        latency::run(&mut session, options)?
    } else {
        bandwidth::run(&mut session, options)?
    };
    let own = packets(&link.context).since(before);
    let (theirs, messages) = session.finish()?;
    let lost = lost(&session, messages, &theirs);
    if measured.iterations == 0 {
        return Err(nothing_completed(options.duration));
    }
    let tally = session.tally;
    let row = Row {
        operation,
        size,
        measured: measured.arrived(lost, session.posted()),
        mode: mode(options),
        order: run.order,
        lost,
        paths: link.peer.paths(),
        port_pairs: link.peer.port_pairs(),
        channels: link.peer.stats().channels,
        contexts: 1,
        mtu: link.peer.mtu(),
        depth: run.depth,
        buffer_bytes: Slots::stride(size) * u64::from(run.slots),
        packets: own.with(theirs),
        verified: tally.verified,
        datapath: datapath(&ports_before, &link.context.counters().port),
        dead_paths: DeadPaths::of(&link.peer),
    };
    if let Some(text) = row.dead_paths.text(&link.peer) {
        process::say(&format!("fairway perf: {text}"));
    }
    judge(&session, messages, lost).map(|()| row)
}

/// The failure of a measurement that was too short for its operations.
pub(super) fn nothing_completed(time: Duration) -> Failure {
    Failure::failed(format!(
        "no operation completed within --duration {time:?}, so there is nothing to report: measure \
         for longer, as --duration 1s, or a number of operations, as --iters 1000"
    ))
}

/// Returns the way that the packets between two readings of the counters have taken.
fn datapath(before: &PortCounters, after: &PortCounters) -> &'static str {
    let in_memory = after.packets_sent_in_memory - before.packets_sent_in_memory;
    let as_frames = after.packets_sent_as_frames - before.packets_sent_as_frames;
    let introductions = after.introductions_sent - before.introductions_sent;
    let all = after.packets_sent - before.packets_sent - introductions;
    let by_rnic = after.packets_sent_by_rnic - before.packets_sent_by_rnic;
    let is_connected = after.packets_sent_connected > before.packets_sent_connected;
    match (by_rnic, is_connected) {
        (0, _) => {}
        (by_rnic, false) if by_rnic == all => return "rdma",
        (_, false) => return "rdma and udp",
        (by_rnic, true) if by_rnic == all => return "rdma-uc",
        (_, true) => return "rdma-uc and udp",
    }
    match (all, in_memory, as_frames) {
        (_, 0, 0) => "udp",
        (all, in_memory, 0) if all == in_memory => "shm",
        (_, _, 0) => "shm and udp",
        (all, _, as_frames) if all == as_frames => "xdp",
        _ => "xdp and udp",
    }
}

/// Number of operations that have not arrived; 0 if they are reliable.
fn lost(session: &Session<'_>, messages: u64, theirs: &Packets) -> u64 {
    if !session.run.order.is_unreliable() {
        return 0;
    }
    let counted = session.run.operation.is_counted();
    let arrived = if counted { messages } else { theirs.datagrams };
    session.posted().saturating_sub(arrived)
}

impl Measured {
    /// Scales the number of operations to those that have arrived, if `lost` of `posted` have not.
    /// The measured ones are nearly all that were posted.
    fn arrived(self, lost: u64, posted: u64) -> Self {
        let share = (posted - lost) as f64 / posted.max(1) as f64;
        if lost == 0 {
            return self;
        }
        Measured { iterations: (self.iterations as f64 * share) as u64, ..self }
    }
}

/// The session request for the target, from the user's options.
pub(super) fn plan(
    options: &PerfOptions,
    operation: Operation,
    link: &Link,
    size: u64,
) -> Result<Run, Failure> {
    let order = options.order.of(operation, options.ping_pong)?;
    if order.is_unreliable() && size > u64::from(link.peer.mtu()) {
        return Err(Failure::usage(format!(
            "--order UNO: {size} bytes are more than a packet: choose at most {}, or ROI, ROT or \
             ROL",
            link.peer.mtu()
        )));
    }
    let (depth, least) = depth_and_slots(options, size);
    let slots = match options.buffer {
        Some(buffer) => (buffer / Slots::stride(size)).max(least).min(u64::from(SLOTS_MAX)),
        None => least,
    };
    Ok(Run {
        session: 0,
        operation,
        size,
        slots: slots as u32,
        depth: depth as u32,
        seed: options.net.seed ^ size << 32,
        block: Pattern::block_for(link.peer.mtu()) as u32,
        verify: !options.no_verify,
        ping_pong: options.ping_pong,
        order,
    })
}

fn mode(options: &PerfOptions) -> &'static str {
    match (options.latency, options.ping_pong) {
        (false, _) => "bandwidth",
        (true, false) => "completion",
        (true, true) => "ping-pong",
    }
}

/// Fails if anything was lost, misplaced or damaged.
pub(super) fn judge(session: &Session<'_>, messages: u64, lost: u64) -> Result<(), Failure> {
    let Session { run, tally, .. } = session;
    let operation = run.operation.name();
    if let Some(first) = tally.first {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: {} of {} bytes compared are wrong; {first}. \
             The memory or the transport of one side is broken: report it, with the command line",
            run.size, tally.mismatches, tally.verified
        )));
    }
    let posted = session.posted();
    let counted = run.operation.is_counted() && !run.order.is_unreliable();
    if !tally.is_clean() || (counted && messages != posted) {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: {posted} messages were sent, {messages} \
             arrived, and {} of them again or out of their turn: report it, with the command line",
            run.size, tally.misplaced
        )));
    }
    let comparable = !run.order.is_unreliable() || (run.size >= NAMED_BYTES && lost < posted);
    if run.verify && tally.verified == 0 && posted > 0 && comparable {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: nothing was compared: report it",
            run.size
        )));
    }
    Ok(())
}

impl<'a> Session<'a> {
    pub(super) fn open(link: &'a Link, run: Run, damaged: bool) -> Result<Self, Failure> {
        let pattern =
            Pattern { seed: run.seed, size: run.size, block: u64::from(run.block), damaged };
        let slots = Slots::new(&link.context, pattern, run.slots, Rights::NONE)?;
        if !run.operation.fetches() && !run.operation.is_atomic() {
            for slot in 0..run.slots {
                slots.fill(slot, Payload { slot, generation: 0 })?;
            }
        }
        let depth = 2 * run.depth + 64;
        let jetty = link.context.create_jetty(JettyOptions::default().depth(depth))?;
        let reply = request(link, &Message::Run(run), "answer to the request to measure")?;
        let Message::Ready { key, jetty: target } = reply else {
            return Err(unexpected(&reply));
        };
        let uses = vec![0; run.slots as usize];
        Ok(Session {
            link,
            run,
            order: run.order.order(),
            slots,
            jetty,
            key,
            target,
            uses,
            tally: Tally::default(),
            reads: 0,
            watch: Watch::new(&link.peer),
            progress: Progress::new(Instant::now()),
        })
    }

    /// Prepares a slot for its next operation, and returns the payload that it will carry.
    pub(super) fn prepare(&mut self, slot: u32) -> Result<Payload, Failure> {
        let uses = &mut self.uses[slot as usize];
        let payload = Payload { slot, generation: *uses };
        *uses = uses.wrapping_add(1);
        if !self.run.verify {
            return Ok(payload);
        }
        match self.run.operation {
            operation if operation.is_atomic() => {}
            operation if operation.fetches() => self.slots.spoil(slot, self.expected(slot))?,
            // These messages are too short to identify themselves, so all are the same.
            operation if operation.is_message() && self.run.size < NAMED_BYTES => {
                if payload.generation == 0 {
                    self.slots.fill(slot, Payload { slot: 0, generation: 0 })?;
                }
            }
            _ => self.slots.stamp(slot, payload)?,
        }
        Ok(payload)
    }

    /// Number of posted operations.
    fn posted(&self) -> u64 {
        self.uses.iter().map(|&uses| u64::from(uses)).sum()
    }

    /// Compares the bytes that an operation on a slot has fetched, if any.
    pub(super) fn compare(&mut self, slot: u32, completion: &Completion) -> Result<(), Failure> {
        let operation = self.run.operation;
        if !self.run.verify {
            return Ok(());
        }
        if operation.is_atomic() {
            let generation = self.uses[slot as usize].wrapping_sub(1);
            let (payload, found) = (Payload { slot, generation }, completion.value);
            self.slots.pattern.check_word(operation, payload, found, &mut self.tally);
        }
        if !operation.fetches() {
            return Ok(());
        }
        let payload = self.expected(slot);
        self.reads += 1;
        self.slots.check_stamps(slot, payload, false, &mut self.tally)?;
        Ok(self.slots.check_block(slot, payload, self.reads, &mut self.tally)?)
    }

    /// The payload of a slot at the target, which READs never change.
    fn expected(&self, slot: u32) -> Payload {
        Payload { slot, generation: 0 }
    }

    /// Fails unless the operation succeeded.
    pub(super) fn succeeded(&self, completion: &Completion) -> Result<(), Failure> {
        if completion.status == Status::Success {
            return Ok(());
        }
        Err(self.lost(completion.status))
    }

    /// Explains an operation that has failed.
    fn lost(&self, status: Status) -> Failure {
        let Link { context, peer, .. } = self.link;
        let (name, size, server) = (self.run.operation.name(), self.run.size, peer.address());
        let what = format!("a {name} of {size} bytes to {server}");
        Reason::of(context, peer, status).failure(&what)
    }

    /// Explains why an operation could not be posted.
    pub(super) fn not_posted(&self, error: Error) -> Failure {
        match error {
            Error::PeerGone { .. } => self.lost(Status::PeerClosed),
            other => other.into(),
        }
    }

    /// Fails if nothing has crossed the connection for too long.
    pub(super) fn check_progress(&mut self, now: Instant) -> Result<(), Failure> {
        let Link { context, peer, .. } = self.link;
        if self.progress.standstill(now, || crossed(context, peer)) < STANDSTILL {
            return Ok(());
        }
        let counters = context.counters();
        let (nic, port) = (counters.nic, counters.port);
        Err(Failure::failed(format!(
            "nothing has arrived at {}, or from there, for {STANDSTILL:?}: look what became of the \
             server (here: {} polls, {} packets sent, {} received, last error {:?})",
            peer.address(),
            nic.polls,
            port.packets_sent,
            port.packets_received,
            counters.last_error
        )))
    }

    /// Fails if nothing has completed because the network drops long packets.
    pub(super) fn check_network(&self, waited: Duration) -> Result<(), Failure> {
        self.watch.black_hole(&self.link.peer, self.run.size, waited).map_or(Ok(()), Err)
    }

    /// Whether the target can be requested to compare slots during the run.
    pub(super) fn has_checks(&self) -> bool {
        let Run { operation, verify, order, .. } = &self.run;
        *verify && operation.changes_slots() && !order.is_unreliable()
    }

    /// Requests that the target compares an idle slot.
    pub(super) fn request_check(&self, slot: u32) -> Result<(), Failure> {
        let uses = self.uses[slot as usize];
        // An atomic's word counts the operations, including the last; a payload's generation counts
        // those before it.
        let generation = if self.run.operation.is_atomic() { uses } else { uses.wrapping_sub(1) };
        send_message(self.link, &Message::Check(self.run.session, Payload { slot, generation }))
    }

    /// The answer to [`Session::request_check`], if it has arrived: the time the target took.
    pub(super) fn poll_check(&mut self) -> Result<Option<Duration>, Failure> {
        let Some(mail) = self.link.mailbox.poll()? else { return Ok(None) };
        match Message::decode(&mail.bytes)? {
            Message::Checked { tally, spent_ns } => {
                self.tally.add(&tally);
                Ok(Some(Duration::from_nanos(spent_ns)))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the session at the target, and returns the target's counters and the number of messages
    /// it received.
    pub(super) fn finish(&mut self) -> Result<(Packets, u64), Failure> {
        if self.run.operation.fetches() && self.run.verify {
            for slot in 0..self.run.slots {
                if self.uses[slot as usize] > 0 {
                    self.slots.check(slot, self.expected(slot), &mut self.tally)?;
                }
            }
        }
        let reply =
            request(self.link, &Message::Finish(self.run.session, self.uses.clone()), "result")?;
        let Message::Verdict { tally, messages, packets } = reply else {
            return Err(unexpected(&reply));
        };
        self.tally.add(&tally);
        Ok((packets, messages))
    }
}

fn send_message(link: &Link, message: &Message) -> Result<(), Failure> {
    link.mailbox.send(&link.peer, super::message::JETTY, &message.encode())
}

fn request(link: &Link, message: &Message, awaited: &str) -> Result<Message, Failure> {
    send_message(link, message)?;
    let bytes = link.mailbox.answer(&link.peer, awaited, TIMEOUT)?;
    Ok(Message::decode(&bytes)?)
}

fn unexpected(message: &Message) -> Failure {
    match message {
        Message::Refusal(reason) => {
            let reason = printable_reason(reason.as_ref());
            Failure::failed(format!("the server refuses: {reason}"))
        }
        _ => Failure::failed("the server sent an unexpected message: run the same release on both"),
    }
}
