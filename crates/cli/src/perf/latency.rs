//! Latency: one operation at a time.

use std::time::{Duration, Instant};

use fairway::{Completion, CompletionKind, Rights};

use super::bandwidth::post_one;
use super::inbox::{Arrival, PutBox};
use super::initiator::{Measured, Session};
use super::operation::Operation;
use super::report::Summary;
use super::slots::{NAMED_BYTES, Pattern, Payload, Slots};
use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::paths::LOOK_EVERY;

/// Number of operations before the measurement.
const WARM_UP: u64 = 200;
/// Largest number of latencies kept, after which the measurement ends.
pub(super) const TIMES_MAX: u64 = 8_000_000;
/// Number of operations between two comparisons of a slot by the target.
const CHECK_EVERY: u64 = 1024;
/// Longest wait for the target to compare a slot.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs the operations of a session.
pub(super) fn run(session: &mut Session<'_>, options: &PerfOptions) -> Result<Measured, Failure> {
    let most = options.iters.unwrap_or(TIMES_MAX);
    if most > TIMES_MAX {
        return Err(Failure::usage(format!(
            "--iters {most} is too much with --latency: use at most {TIMES_MAX}, or --duration"
        )));
    }
    // The memory is touched in advance, so that no page fault occurs during the measurement.
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
    /// Buffers for the answers of a ping-pong.
    answers: Option<Answers>,
    number: u64,
    completions: Vec<Completion>,
    arrivals: Vec<Arrival>,
}

struct Answers {
    places: Slots,
    /// Mailbox for answers by put.
    mailbox: Option<PutBox>,
}

impl<'s, 'a> Pinger<'s, 'a> {
    fn new(session: &'s mut Session<'a>) -> Result<Self, Failure> {
        let answers = if session.run.ping_pong { Some(Answers::new(session)?) } else { None };
        Ok(Pinger { session, answers, number: 0, completions: Vec::new(), arrivals: Vec::new() })
    }

    /// Runs one operation, and returns its duration.
    fn once(&mut self) -> Result<Duration, Failure> {
        let slot = (self.number % u64::from(self.session.run.slots)) as u32;
        self.number += 1;
        let payload = self.session.prepare(slot)?;
        let start = Instant::now();
        post_one(self.session, payload)?;
        if self.session.run.ping_pong {
            Ok(self.await_answer(payload, start)? / 2)
        } else {
            self.await_completion(slot, start)
        }
    }

    fn await_completion(&mut self, slot: u32, start: Instant) -> Result<Duration, Failure> {
        loop {
            if self.session.jetty.poll(&mut self.completions) > 0 {
                let time = start.elapsed();
                self.session.progress.note(start + time);
                for completion in self.completions.drain(..) {
                    self.session.succeeded(&completion)?;
                    self.session.compare(slot, &completion)?;
                }
                return Ok(time);
            }
            self.late(start)?;
        }
    }

    /// Fails if an operation that began at `start` can't complete.
    fn late(&mut self, start: Instant) -> Result<(), Failure> {
        let now = Instant::now();
        if self.number == 1 && now - start > LOOK_EVERY {
            self.session.check_network(now - start)?;
        }
        self.session.check_progress(now)
    }

    /// Waits for the peer's message, and for the completion of this side's, in any order.
    fn await_answer(&mut self, sent: Payload, start: Instant) -> Result<Duration, Failure> {
        let (mut answered, mut completed) = (None, false);
        loop {
            if let Some(Answers { mailbox: Some(mailbox), .. }) = &mut self.answers {
                mailbox.poll(&mut self.arrivals);
            }
            // The answer to a put may be in memory before the completions have been polled.
            let now = start.elapsed();
            self.session.jetty.poll(&mut self.completions);
            for completion in self.completions.drain(..) {
                self.session.succeeded(&completion)?;
                if completion.kind == CompletionKind::Receive {
                    answered = Some((start.elapsed(), completion.id.value() as u32));
                } else {
                    completed = true;
                }
            }
            answered = self.arrivals.pop().map(|arrival| (now, arrival.buffer)).or(answered);
            if let (Some((time, place)), true) = (answered, completed) {
                self.session.progress.note(start + time);
                self.accept(sent, place)?;
                return Ok(time);
            }
            self.late(start)?;
        }
    }

    /// Compares an answer, invalidates its stamps, and posts its buffer again.
    fn accept(&mut self, sent: Payload, place: u32) -> Result<(), Failure> {
        let Pinger { session, answers: Some(answers), .. } = self else { return Ok(()) };
        if session.run.verify {
            let named = session.run.size >= NAMED_BYTES;
            let sent = if named { sent } else { Payload { slot: 0, generation: 0 } };
            answers.places.check(place, sent, &mut session.tally)?;
            answers.places.spoil(place, sent)?;
        }
        answers.offer(session, place)
    }

    /// Requests that the target compares the slot written last.
    fn check(&mut self) -> Result<(), Failure> {
        if !self.session.has_checks() {
            return Ok(());
        }
        let slot = ((self.number - 1) % u64::from(self.session.run.slots)) as u32;
        self.session.request_check(slot)?;
        let start = Instant::now();
        while self.session.poll_check()?.is_none() {
            if start.elapsed() > TIMEOUT {
                return Err(Failure::failed(format!(
                    "the target compared nothing within {TIMEOUT:?}: look what became of it"
                )));
            }
        }
        Ok(())
    }
}

impl Answers {
    fn new(session: &Session<'_>) -> Result<Self, Failure> {
        let pattern = Pattern { damaged: false, ..session.slots.pattern };
        let (context, run) = (&session.link.context, &session.run);
        let places = Slots::new(context, pattern, run.slots, Rights::NONE)?;
        let mailbox = match run.operation {
            Operation::Put => Some(PutBox::new(context, run, places.count)?),
            _ => None,
        };
        let answers = Answers { places, mailbox };
        for place in 0..answers.places.count {
            answers.offer(session, place)?;
        }
        Ok(answers)
    }

    fn offer(&self, session: &Session<'_>, place: u32) -> Result<(), Failure> {
        let local = self.places.slice(place);
        match &self.mailbox {
            Some(mailbox) => mailbox.offer(local, place),
            None => Ok(session.jetty.post_receive(local, u64::from(place))?),
        }
    }
}
