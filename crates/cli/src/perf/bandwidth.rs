//! Bandwidth: many operations in flight.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fairway::{Completion, CompletionKind, NotifyTarget, Post};

use super::initiator::{Measured, Session};
use super::operation::Operation;
use super::slots::Payload;
use crate::args::PerfOptions;
use crate::failure::Failure;
use crate::paths::LOOK_EVERY;

/// Fraction of the duration that precedes the measurement (1 / 10).
pub(super) const WARM_UP_PART: u32 = 10;
/// Longest time before the measurement.
pub(super) const WARM_UP_MAX: Duration = Duration::from_millis(300);
/// Least time between two of the target's checks, as a multiple of their duration.
const CHECK_SHARE: u32 = 50;
/// Least time between two of the target's checks.
const CHECK_PAUSE: Duration = Duration::from_millis(2);
/// Longest wait for the target's last check.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Progress of a run.
pub(super) struct Flow {
    /// Idle slots, the longest idle first.
    free: VecDeque<u32>,
    /// Payloads that are prepared but not yet posted.
    ready: VecDeque<Payload>,
    pub(super) in_flight: u32,
    posted: u64,
    pub(super) done: u64,
    /// Time of the last post of each slot, if latencies are measured.
    pub(super) posted_at: Vec<Instant>,
    /// Time from which the target's next check may be requested; `None` while one is pending.
    check_at: Option<Instant>,
    /// The slot that stays idle for the pending check.
    checked: Option<u32>,
}

/// Runs the operations of a session.
pub(super) fn run(session: &mut Session<'_>, options: &PerfOptions) -> Result<Measured, Failure> {
    let start = Instant::now();
    let warm_up = match options.iters {
        Some(_) => Duration::ZERO,
        None => (options.duration / WARM_UP_PART).min(WARM_UP_MAX),
    };
    let mut flow = Flow::new(session, checks(session).then_some(start));
    let mut measured_from = (start, 0);
    let mut completions = Vec::new();
    let mut warm = warm_up.is_zero();
    let mut look_at = start + LOOK_EVERY;
    loop {
        let now = Instant::now();
        if !warm && now - start >= warm_up {
            (warm, measured_from) = (true, (now, flow.done));
        }
        let over = match options.iters {
            Some(iters) => flow.posted >= iters,
            None => now - start >= warm_up + options.duration,
        };
        if !over {
            let room = options.iters.map_or(u64::MAX, |iters| iters - flow.posted);
            flow.post(session, room)?;
        } else if flow.in_flight == 0 {
            break;
        }
        if session.jetty.poll(&mut completions) > 0 {
            session.progress.note(now);
            for completion in completions.drain(..) {
                session.succeeded(&completion)?;
                if completion.kind != CompletionKind::Receive {
                    flow.completed(session, &completion, now)?;
                }
            }
        } else if flow.done == 0 && now > look_at {
            look_at = now + LOOK_EVERY;
            session.check_network(now - start)?;
        } else {
            session.check_progress(now)?;
        }
        flow.poll_check(session)?;
    }
    // If everything completed before the measurement began, the whole run is measured.
    let (from, before) = if flow.done == measured_from.1 { (start, 0) } else { measured_from };
    let seconds = from.elapsed().as_secs_f64();
    flow.settle(session)?;
    Ok(Measured { iterations: flow.done - before, seconds, latency: None })
}

/// Whether the target can be requested to compare slots during the run.
fn checks(session: &Session<'_>) -> bool {
    // A single slot can't stay idle for a check.
    session.has_checks() && session.run.slots > 1
}

impl Flow {
    /// A new run; `check_at` is the time of the first request to check.
    pub(super) fn new(session: &Session<'_>, check_at: Option<Instant>) -> Flow {
        Flow {
            free: (0..session.run.slots).collect(),
            ready: VecDeque::new(),
            in_flight: 0,
            posted: 0,
            done: 0,
            posted_at: Vec::new(),
            check_at,
            checked: None,
        }
    }

    /// Records the times at which slots are posted.
    pub(super) fn timed(mut self) -> Flow {
        self.posted_at = vec![Instant::now(); self.free.len()];
        self
    }

    /// Posts as many operations as there is room for, in one batch.
    pub(super) fn post(&mut self, session: &mut Session<'_>, room: u64) -> Result<(), Failure> {
        let room = room.min(u64::from(session.run.depth - self.in_flight)) as usize;
        while self.ready.len() < room {
            let Some(slot) = self.free.pop_front() else { break };
            self.ready.push_back(session.prepare(slot)?);
        }
        let count = self.ready.len().min(room);
        if count == 0 {
            return Ok(());
        }
        let before = if self.posted_at.is_empty() { None } else { Some(Instant::now()) };
        let posted = post(session, self.ready.iter().take(count))?;
        if let Some(now) = before {
            for payload in self.ready.iter().take(posted) {
                self.posted_at[payload.slot as usize] = now;
            }
        }
        self.ready.drain(..posted);
        self.in_flight += posted as u32;
        self.posted += posted as u64;
        Ok(())
    }

    pub(super) fn completed(
        &mut self,
        session: &mut Session<'_>,
        completion: &Completion,
        now: Instant,
    ) -> Result<(), Failure> {
        let slot = completion.id.value() as u32;
        self.done += 1;
        self.in_flight -= 1;
        session.compare(slot, completion)?;
        if self.check_at.is_some_and(|due| now >= due) {
            session.request_check(slot)?;
            (self.check_at, self.checked) = (None, Some(slot));
        } else {
            self.free.push_back(slot);
        }
        Ok(())
    }

    /// Makes the slot available again once the target has compared it.
    fn poll_check(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        if self.checked.is_none() {
            return Ok(());
        }
        if let Some(spent) = session.poll_check()? {
            self.free.extend(self.checked.take());
            self.check_at = Some(Instant::now() + CHECK_PAUSE.max(spent * CHECK_SHARE));
        }
        Ok(())
    }

    /// Called after the run: waits for the pending check, and uncounts payloads that were not
    /// posted.
    pub(super) fn settle(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let deadline = Instant::now() + TIMEOUT;
        while self.checked.is_some() {
            self.poll_check(session)?;
            if Instant::now() > deadline {
                return Err(Failure::failed("the target did not answer: look what became of it"));
            }
        }
        for payload in self.ready.drain(..) {
            session.uses[payload.slot as usize] -= 1;
        }
        Ok(())
    }
}

/// Posts operations, and returns how many were accepted.
fn post<'p>(
    session: &Session<'_>,
    payloads: impl Iterator<Item = &'p Payload>,
) -> Result<usize, Failure> {
    let Session { link, run, slots, jetty, key, target, order, .. } = session;
    let peer = &link.peer;
    let posted = jetty.batch(|batch| {
        let batch = batch.ordered(*order);
        for payload in payloads {
            let local = slots.slice(payload.slot);
            let remote = key.at(slots.offset(payload.slot));
            let id = u64::from(payload.slot);
            match run.operation {
                Operation::Write => batch.write(peer, local, remote, id)?,
                Operation::WriteImm => {
                    let immediate = id << 32 | u64::from(payload.generation);
                    let notify = NotifyTarget::new(*target, immediate);
                    batch.write_immediate(peer, local, remote, notify, id)?;
                }
                Operation::Read => batch.read(peer, local, remote, id)?,
                Operation::Send => batch.send(peer, *target, local, id)?,
                Operation::AtomicCas | Operation::AtomicFadd => {
                    let word = if run.size == 8 { remote.word64() } else { remote.word32() };
                    let atomic = slots.pattern.atomic(run.operation, *payload);
                    batch.atomic(peer, word, atomic, id)?;
                }
                Operation::Load => batch.load(peer, local, remote, id)?,
                Operation::Store => batch.store(peer, local, remote, id)?,
                Operation::Put => batch.put(peer, local, run.mail_to(), id)?,
            }
        }
        Ok(())
    });
    posted.map_err(|error| session.not_posted(error))
}

/// Posts one operation.
pub(super) fn post_one(session: &Session<'_>, payload: Payload) -> Result<(), Failure> {
    match post(session, std::iter::once(&payload))? {
        1 => Ok(()),
        _ => Err(Failure::failed("an operation was not taken: report it")),
    }
}
