//! The side that drives: connects, runs one session per row, and reports.

use std::time::Duration;

use fairway_softnic::{
    Completion, Context, Jetty, JettyOptions, Order, Peer, Rights, SegmentKey, Status,
};

use super::message::{MESSAGE_BYTES, Message, Packets, Run, SLOTS_MAX};
use super::report::Row;
use super::slots::{NAMED_BYTES, Pattern, Payload, Slots, Tally};
use super::{bandwidth, latency, order, packets};
use crate::args::{Operation, OrderMode, PerfOptions};
use crate::failure::Failure;
use crate::mailbox::Mailbox;
use crate::net::PERF_PORT;
use crate::quantity::show_size;

/// Operations in flight if nobody says otherwise …
const DEPTH: u64 = 128;
/// … and how many bytes they may be together.
const IN_FLIGHT_BYTES: u64 = 64 << 20;
/// Slots of a measurement of latency.
const LATENCY_SLOTS: u32 = 8;
/// Payloads of one operation.
const SIZE_MAX: u64 = 1 << 30;
/// How long a server may take to make, or compare, the memory of a session.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a server.
pub(super) struct Link {
    pub(super) context: Context,
    pub(super) peer: Peer,
    mailbox: Mailbox,
}

/// One row of a measurement, on this side.
pub(super) struct Session<'a> {
    pub(super) link: &'a Link,
    pub(super) run: Run,
    pub(super) slots: Slots,
    pub(super) jetty: Jetty,
    /// The target's memory and Jetty.
    pub(super) key: SegmentKey,
    pub(super) target: u32,
    /// How often each slot was used.
    pub(super) uses: Vec<u32>,
    /// What was compared on this side, and told by the other during the run.
    pub(super) tally: Tally,
    /// Reads compared so far.
    reads: u64,
    /// What every operation asks of the order.
    pub(super) order: Order,
    /// Some may get lost.
    is_lossy: bool,
}

/// What a session measured.
pub(super) struct Measured {
    pub(super) iterations: u64,
    pub(super) seconds: f64,
    pub(super) latency: Option<super::report::Summary>,
}

/// Measures every row that `options` ask for, from the server at `server`, and hands each to `out`.
pub(super) fn measure(
    options: &PerfOptions,
    operation: Operation,
    server: &str,
    mut out: impl FnMut(&Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let sizes = sizes(options, operation)?;
    let (context, peer) = options.net.connect(server, PERF_PORT)?;
    let mailbox = Mailbox::new(&context, None, MESSAGE_BYTES)?;
    let link = Link { context, peer, mailbox };
    let result = sizes.into_iter().try_for_each(|size| {
        let row = row(options, operation, &link, size)?;
        out(&row)
    });
    // The server is told that we go; whether it hears does not matter to what was measured.
    let _ = link.context.shutdown(Duration::from_secs(1));
    result
}

/// The sizes of all rows.
fn sizes(options: &PerfOptions, operation: Operation) -> Result<Vec<u64>, Failure> {
    let usual = match operation {
        _ if operation.is_atomic() => 8,
        _ if operation.bypasses() || options.latency => 64,
        _ => 64 * 1024,
    };
    let (first, last) = match (options.size, options.sizes) {
        (Some(size), _) => (size, size),
        (None, Some(sizes)) => sizes,
        (None, None) => (usual, usual),
    };
    if first == 0 || last > SIZE_MAX {
        let size = if first == 0 { first } else { last };
        return Err(Failure::usage(format!(
            "{} bytes can't be measured: choose 1 to {}",
            size,
            show_size(SIZE_MAX)
        )));
    }
    if operation.is_atomic() && !(matches!(first, 4 | 8) && last <= 8) {
        return Err(Failure::usage(format!(
            "an {} is on a word of 4 or 8 bytes, and not of {first}: choose one of them",
            operation.name()
        )));
    }
    if operation.bypasses() && last > 64 {
        return Err(Failure::usage(format!(
            "a {} of {last} bytes is too long for one packet without transport: choose 64 at most, \
             or measure read or write",
            operation.name()
        )));
    }
    let doubling = std::iter::successors(Some(first), |size| size.checked_mul(2));
    Ok(doubling.take_while(|size| *size <= last).collect())
}

/// Measures one row.
fn row(
    options: &PerfOptions,
    operation: Operation,
    link: &Link,
    size: u64,
) -> Result<Row, Failure> {
    let run = plan(options, operation, link, size)?;
    let mut session = Session::open(link, run, options.corrupt_for_test)?;
    session.order = order(options);
    session.is_lossy = options.order == OrderMode::Uno;
    let before = packets(&link.context);
    let measured = if options.latency {
        latency::run(&mut session, options)?
    } else {
        bandwidth::run(&mut session, options)?
    };
    let after = packets(&link.context);
    let (theirs, messages) = session.finish()?;
    let tally = session.tally;
    let row = Row {
        operation,
        size,
        measured,
        mode: mode(options),
        paths: link.peer.paths(),
        mtu: link.peer.mtu(),
        depth: run.depth,
        buffer_bytes: Slots::stride(size) * u64::from(run.slots),
        packets: Packets {
            sent: after.sent - before.sent + theirs.sent,
            resent: after.resent - before.resent + theirs.resent,
            duplicate: after.duplicate - before.duplicate + theirs.duplicate,
            acks: after.acks - before.acks + theirs.acks,
            learned: after.learned - before.learned + theirs.learned,
            saved_bytes: after.saved_bytes - before.saved_bytes + theirs.saved_bytes,
        },
        verified: tally.verified,
        order: (options.order, options.tag, options.fence),
    };
    judge(&session, messages).map(|()| row)
}

/// What the target is told, from what the user asked for.
fn plan(
    options: &PerfOptions,
    operation: Operation,
    link: &Link,
    size: u64,
) -> Result<Run, Failure> {
    let depth = match (options.latency, options.depth) {
        (true, _) => 1,
        (false, Some(depth)) => u64::from(depth),
        (false, None) => DEPTH.min(IN_FLIGHT_BYTES / size).max(1),
    };
    let least = if options.latency { u64::from(LATENCY_SLOTS) } else { depth };
    let slots = match options.buffer {
        Some(buffer) => (buffer / Slots::stride(size)).max(least).min(u64::from(SLOTS_MAX)),
        None => least,
    };
    Ok(Run {
        operation,
        size,
        slots: slots as u32,
        depth: depth as u32,
        seed: options.net.seed ^ size << 32,
        block: Pattern::block_for(link.peer.mtu()) as u32,
        verify: !options.no_verify,
        ping_pong: options.ping_pong,
    })
}

fn mode(options: &PerfOptions) -> &'static str {
    match (options.latency, options.ping_pong) {
        (false, _) => "bandwidth",
        (true, false) => "completion",
        (true, true) => "ping-pong",
    }
}

/// Fails if anything was not as it should be.
fn judge(session: &Session<'_>, messages: u64) -> Result<(), Failure> {
    let Session { run, tally, uses, .. } = session;
    let operation = run.operation.name();
    if let Some(first) = tally.first {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: {} of {} bytes compared are wrong; {first}. \
             The memory or the transport of one side is broken: report it, with the command line",
            run.size, tally.mismatches, tally.verified
        )));
    }
    let posted: u64 = uses.iter().map(|&uses| u64::from(uses)).sum();
    let told = run.operation.is_message() || run.operation == Operation::WriteImm;
    let counted = told && !session.is_lossy;
    if !tally.is_clean() || (counted && messages != posted) {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: {posted} messages were sent, {messages} \
             arrived, and {} of them again or out of their turn: report it, with the command line",
            run.size, tally.misplaced
        )));
    }
    if run.verify && tally.verified == 0 && posted > 0 {
        return Err(Failure::failed(format!(
            "verification failed: {operation}, {} bytes: nothing was compared: report it",
            run.size
        )));
    }
    Ok(())
}

impl<'a> Session<'a> {
    fn open(link: &'a Link, run: Run, damaged: bool) -> Result<Self, Failure> {
        let pattern =
            Pattern { seed: run.seed, size: run.size, block: u64::from(run.block), damaged };
        let slots = Slots::new(&link.context, pattern, run.slots, Rights::NONE)?;
        if run.operation.is_write() || run.operation.is_message() {
            for slot in 0..run.slots {
                slots.fill(slot, Payload { slot, generation: 0 })?;
            }
        }
        let depth = 2 * run.depth + 64;
        let jetty = link.context.create_jetty(JettyOptions {
            number: None,
            depth,
            ..Default::default()
        })?;
        let reply = ask(link, &Message::Run(run), "answer to the request to measure")?;
        let Message::Ready { key, jetty: target } = reply else {
            return Err(unexpected(&reply));
        };
        let uses = vec![0; run.slots as usize];
        Ok(Session {
            link,
            run,
            slots,
            jetty,
            key,
            target,
            uses,
            tally: Tally::default(),
            reads: 0,
            order: Order::default(),
            is_lossy: false,
        })
    }

    /// Makes a slot ready for its next operation, and says what it will carry.
    pub(super) fn prepare(&mut self, slot: u32) -> Result<Payload, Failure> {
        let uses = &mut self.uses[slot as usize];
        let payload = Payload { slot, generation: *uses };
        *uses = uses.wrapping_add(1);
        if !self.run.verify {
            return Ok(payload);
        }
        let operation = self.run.operation;
        if operation.is_read() {
            self.slots.spoil(slot, self.expected(slot))?;
        } else if operation.is_message() && self.run.size < NAMED_BYTES {
            // Too short to say what they are: they all say the same.
            if payload.generation == 0 {
                self.slots.fill(slot, Payload { slot: 0, generation: 0 })?;
            }
        } else if !operation.is_atomic() {
            self.slots.stamp(slot, payload)?;
        }
        Ok(payload)
    }

    /// Compares what an operation brought.
    pub(super) fn compare(&mut self, slot: u32, completion: &Completion) -> Result<(), Failure> {
        if !self.run.verify {
            return Ok(());
        }
        if self.run.operation.is_read() {
            return self.compare_read(slot);
        }
        if self.run.operation.is_atomic() {
            // One at a time is under way for each word, and each adds one.
            let generation = self.uses[slot as usize].wrapping_sub(1);
            let payload = Payload { slot, generation };
            self.tally.word(payload, self.run.size, u64::from(generation), completion.value);
        }
        Ok(())
    }

    /// Compares what a READ brought.
    fn compare_read(&mut self, slot: u32) -> Result<(), Failure> {
        let payload = self.expected(slot);
        self.reads += 1;
        self.slots.check_stamps(slot, payload, false, &mut self.tally)?;
        Ok(self.slots.check_block(slot, payload, self.reads, &mut self.tally)?)
    }

    /// The target's memory never changes under READs.
    fn expected(&self, slot: u32) -> Payload {
        Payload { slot, generation: 0 }
    }

    /// Fails unless the operation succeeded.
    pub(super) fn succeeded(&self, completion: &Completion) -> Result<(), Failure> {
        if completion.status == Status::Success {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "a {} of {} bytes to {} ended with {:?}: look what became of the server",
            self.run.operation.name(),
            self.run.size,
            self.link.peer.address(),
            completion.status
        )))
    }

    /// Asks the target to compare a slot that is at rest.
    pub(super) fn ask_check(&self, slot: u32) -> Result<(), Failure> {
        let generation = self.uses[slot as usize].wrapping_sub(1);
        tell(self.link, &Message::Check(Payload { slot, generation }))
    }

    /// The answer to [`Session::ask_check`], if it is there: how long the target took.
    pub(super) fn poll_check(&mut self) -> Result<Option<Duration>, Failure> {
        let Some(mail) = self.link.mailbox.poll()? else { return Ok(None) };
        match Message::decode(&mail.bytes).map_err(Failure::failed)? {
            Message::Checked { tally, spent_ns } => {
                self.tally.add(&tally);
                Ok(Some(Duration::from_nanos(spent_ns)))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Tells the target that it is over: what it counted, and how many messages it took.
    fn finish(&mut self) -> Result<(Packets, u64), Failure> {
        if self.run.operation.is_read() && self.run.verify {
            for slot in 0..self.run.slots {
                if self.uses[slot as usize] > 0 {
                    self.slots.check(slot, self.expected(slot), &mut self.tally)?;
                }
            }
        }
        let reply = ask(self.link, &Message::Finish(self.uses.clone()), "result")?;
        let Message::Verdict { tally, messages, packets } = reply else {
            return Err(unexpected(&reply));
        };
        self.tally.add(&tally);
        Ok((packets, messages))
    }
}

fn tell(link: &Link, message: &Message) -> Result<(), Failure> {
    link.mailbox.send(&link.peer, super::message::JETTY, &message.encode())
}

fn ask(link: &Link, message: &Message, awaited: &str) -> Result<Message, Failure> {
    tell(link, message)?;
    let bytes = link.mailbox.answer(&link.peer, awaited, PATIENCE)?;
    Message::decode(&bytes).map_err(Failure::failed)
}

fn unexpected(message: &Message) -> Failure {
    match message {
        Message::Refusal(reason) => Failure::failed(format!("the server refuses: {reason}")),
        _ => {
            Failure::failed("the server sent what makes no sense now: run the same release on both")
        }
    }
}
