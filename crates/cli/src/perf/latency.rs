//! One operation at a time: how long each takes.

use std::time::{Duration, Instant};

use fairway_softnic::{Completion, CompletionKind, Mailbox, Rights};

use super::bandwidth::post_one;
use super::initiator::{Measured, Session};
use super::report::Summary;
use super::slots::{NAMED_BYTES, Pattern, Payload, Slots};
use super::target::mailbox_of;
use crate::args::{Operation, PerfOptions};
use crate::failure::Failure;

/// Operations before measuring.
const WARM_UP: u64 = 200;
/// Most times that are kept: the measurement ends there at the latest.
pub(super) const TIMES_MAX: u64 = 8_000_000;
/// The target compares one slot in so many operations, between two of them.
const CHECK_EVERY: u64 = 1024;
/// An operation that takes so long will not complete.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the operations of a session.
pub(super) fn run(session: &mut Session<'_>, options: &PerfOptions) -> Result<Measured, Failure> {
    let most = options.iters.unwrap_or(TIMES_MAX);
    if most > TIMES_MAX {
        return Err(Failure::usage(format!(
            "--iters {most} is too much with --latency: use at most {TIMES_MAX}, or --duration"
        )));
    }
    // Touched, so that no page is made while the clock runs.
    let mut times = vec![1_u32; if options.iters.is_some() { most as usize } else { 1 << 20 }];
    times.clear();
    let mut pinger = Pinger::new(session)?;
    for _ in 0..WARM_UP.min(most) {
        pinger.once()?;
    }
    let start = Instant::now();
    let mut spent_checking = Duration::ZERO;
    while (times.len() as u64) < most {
        let time = pinger.once()?;
        times.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
        if pinger.number % CHECK_EVERY == 0 {
            let check = Instant::now();
            pinger.check()?;
            spent_checking += check.elapsed();
        }
        if options.iters.is_none() && start.elapsed() >= options.duration {
            break;
        }
    }
    let seconds = start.elapsed().saturating_sub(spent_checking).as_secs_f64();
    let iterations = times.len() as u64;
    let latency = Some(Summary::of(&mut times));
    Ok(Measured { iterations, seconds, latency })
}

struct Pinger<'s, 'a> {
    session: &'s mut Session<'a>,
    /// Where the answers of a ping-pong go.
    answers: Option<Slots>,
    /// If they are puts.
    mailbox: Option<Mailbox>,
    number: u64,
    completions: Vec<Completion>,
}

impl<'s, 'a> Pinger<'s, 'a> {
    fn new(session: &'s mut Session<'a>) -> Result<Self, Failure> {
        let (mut answers, mut mailbox) = (None, None);
        if session.run.ping_pong {
            let pattern = Pattern { damaged: false, ..session.slots.pattern };
            let context = &session.link.context;
            let places = Slots::new(context, pattern, session.run.slots, Rights::NONE)?;
            if session.run.operation == Operation::Put {
                mailbox = Some(mailbox_of(context)?);
            }
            answers = Some(places);
        }
        let completions = Vec::new();
        let pinger = Pinger { session, answers, mailbox, number: 0, completions };
        for place in 0..pinger.answers.as_ref().map_or(0, |answers| answers.count) {
            pinger.offer(place)?;
        }
        Ok(pinger)
    }

    /// One operation; how long it took.
    fn once(&mut self) -> Result<Duration, Failure> {
        let slot = (self.number % u64::from(self.session.run.slots)) as u32;
        self.number += 1;
        let payload = self.session.prepare(slot)?;
        let start = Instant::now();
        post_one(self.session, payload)?;
        let time = if self.session.run.ping_pong {
            self.await_answer(payload, start)? / 2
        } else {
            self.await_completion(slot, start)?
        };
        Ok(time)
    }

    fn await_completion(&mut self, slot: u32, start: Instant) -> Result<Duration, Failure> {
        loop {
            if self.session.jetty.poll(&mut self.completions) > 0 {
                let time = start.elapsed();
                for completion in self.completions.drain(..) {
                    self.session.succeeded(&completion)?;
                    self.session.compare(slot, &completion)?;
                }
                return Ok(time);
            }
            late(start)?;
        }
    }

    /// Waits for the peer's message, and for the completion of ours, in whatever order.
    fn await_answer(&mut self, sent: Payload, start: Instant) -> Result<Duration, Failure> {
        let (mut answered, mut completed) = (None, false);
        let mut epochs = Vec::new();
        loop {
            if let Some(mailbox) = &self.mailbox
                && mailbox.poll(&mut epochs) > 0
            {
                let now = start.elapsed();
                answered = epochs.drain(..).map(|done| (now, done.id as u32)).next();
            }
            if self.session.jetty.poll(&mut self.completions) > 0 {
                let now = start.elapsed();
                for completion in self.completions.drain(..) {
                    self.session.succeeded(&completion)?;
                    if completion.kind == CompletionKind::Receive {
                        answered = Some((now, completion.id as u32));
                    } else {
                        completed = true;
                    }
                }
            }
            if let (Some((time, place)), true) = (answered, completed) {
                self.accept(sent, place)?;
                return Ok(time);
            }
            late(start)?;
        }
    }

    /// Compares an answer, spoils it, and offers its place again.
    fn accept(&mut self, sent: Payload, place: u32) -> Result<(), Failure> {
        let Pinger { session, answers: Some(answers), .. } = self else { return Ok(()) };
        if session.run.verify {
            let named = session.run.size >= NAMED_BYTES;
            let sent = if named { sent } else { Payload { slot: 0, generation: 0 } };
            answers.check(place, sent, &mut session.tally)?;
            answers.spoil(place, sent)?;
        }
        self.offer(place)
    }

    /// Lets an answer come to a place.
    fn offer(&self, place: u32) -> Result<(), Failure> {
        let Some(answers) = &self.answers else { return Ok(()) };
        let (local, id) = (answers.slice(place), u64::from(place));
        match &self.mailbox {
            Some(mailbox) => mailbox.post(local, id)?,
            None => self.session.jetty.post_receive(local, id)?,
        }
        Ok(())
    }

    /// Lets the target compare the slot written last.
    fn check(&mut self) -> Result<(), Failure> {
        let run = &self.session.run;
        if !run.verify || !run.operation.is_write() {
            return Ok(());
        }
        let slot = ((self.number - 1) % u64::from(run.slots)) as u32;
        self.session.ask_check(slot)?;
        let start = Instant::now();
        while self.session.poll_check()?.is_none() {
            late(start)?;
        }
        Ok(())
    }
}

fn late(start: Instant) -> Result<(), Failure> {
    if start.elapsed() < PATIENCE {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "an operation did not complete within {PATIENCE:?}: look what became of the server"
    )))
}
