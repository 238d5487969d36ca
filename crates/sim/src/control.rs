//! A processor that runs a host's scheduler apart from the data path, and takes simulated time.
//!
//! Each flow is steered to one thread of a pool ([`Steering`]). A thread handles one event of its
//! flows and is then busy for the configured time. Meanwhile the data path and the other threads
//! continue, and the flow's events accumulate in the slots. The threads share one scheduler, which
//! divides one line among all flows, and calling it from several threads costs no extra time here.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fairway_ub::control::{Processor, ProcessorStats, Steering};
use fairway_ub::wire::Instant;

/// The processor that a host's scheduler runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSpec {
    /// Number of threads.
    pub threads: u32,
    /// Time that a thread spends on each event, in picoseconds.
    pub event_ps: u64,
    /// If true, events that the scheduler considers too small wait until they have accumulated
    /// enough (software coalescing, SCR §4.3.2). If false, each event is handled when a thread is
    /// free.
    pub until_threshold: bool,
}

/// Counts of a control processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlResult {
    /// Events, of packets and others, that the processor received and has handled.
    pub collected: u64,
    /// Events for which the scheduler was run.
    pub handled: u64,
    /// Events that were too small to be handled on their own.
    pub early: u64,
    /// Bytes of the transmit events for which the scheduler was run; their number is
    /// [`Self::transmits`].
    pub bytes: u64,
    /// Number of transmit events for which the scheduler was run.
    pub transmits: u64,
    /// Time that threads were busy, in picoseconds.
    pub busy_ps: u64,
}

impl ControlResult {
    /// Converts the counts of a processor that takes no time.
    pub(crate) fn of(stats: &ProcessorStats) -> ControlResult {
        let ProcessorStats { collected, handled, early, bytes, transmits, .. } = *stats;
        ControlResult { collected, handled, early, bytes, transmits, busy_ps: 0 }
    }
}

/// A thread of a control processor.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// Time at which the thread has finished its last event.
    free_at: u64,
    /// True if the thread is in [`Control::due`].
    is_due: bool,
}

/// A host's control processor, and the times at which its threads are free.
pub(crate) struct Control {
    processor: Processor,
    /// Time for which an event occupies its thread, in picoseconds.
    event_ps: u64,
    threads: Box<[Thread]>,
    /// Threads with pending events, each with the time at which it handles the next one.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    busy_ps: u64,
    /// Time at which measuring begins, and the counts at that time.
    measure_ps: u64,
    before: ControlResult,
}

impl Control {
    /// Makes the processor of a host. Counts begin at `measure_ps`.
    pub(crate) fn new(mut processor: Processor, spec: &ControlSpec, measure_ps: u64) -> Control {
        // More threads than flows have nothing to do.
        let steering = Steering::new(spec.threads.min(processor.queue().flows()));
        processor.steer(steering);
        let threads = steering.threads() as usize;
        Control {
            processor,
            event_ps: spec.event_ps,
            threads: vec![Thread::default(); threads].into_boxed_slice(),
            due: BinaryHeap::with_capacity(threads),
            busy_ps: 0,
            measure_ps,
            before: ControlResult::default(),
        }
    }

    /// Collects new events, and returns when the next one can be handled, or `None` if there is
    /// none.
    pub(crate) fn next_due(&mut self, now: u64) -> Option<u64> {
        self.collect(now);
        self.due.peek().map(|Reverse((at, _))| (*at).max(now))
    }

    fn collect(&mut self, now: u64) {
        let Control { processor, threads, due, .. } = self;
        processor.collect(|number| {
            let thread = &mut threads[number as usize];
            if !std::mem::replace(&mut thread.is_due, true) {
                due.push(Reverse((thread.free_at.max(now), number)));
            }
        });
    }

    /// Handles an event on each thread that is free and has one.
    pub(crate) fn run(&mut self, now: u64) {
        self.collect(now);
        if now >= self.measure_ps {
            self.measure_ps = u64::MAX;
            self.before = self.total();
        }
        while let Some(&Reverse((at, number))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let thread = &mut self.threads[number as usize];
            thread.is_due = false;
            if self.processor.run_one(Instant::from_ps(now), number) {
                thread.free_at = now + self.event_ps;
                self.busy_ps += self.event_ps;
            }
            if self.processor.has_pending(number) {
                thread.is_due = true;
                self.due.push(Reverse((thread.free_at.max(now + 1), number)));
            }
        }
    }

    /// Returns the counts since measuring began.
    pub(crate) fn result(&self) -> ControlResult {
        let (now, then) = (self.total(), &self.before);
        ControlResult {
            collected: now.collected - then.collected,
            handled: now.handled - then.handled,
            early: now.early - then.early,
            bytes: now.bytes - then.bytes,
            transmits: now.transmits - then.transmits,
            busy_ps: now.busy_ps - then.busy_ps,
        }
    }

    fn total(&self) -> ControlResult {
        ControlResult { busy_ps: self.busy_ps, ..ControlResult::of(self.processor.stats()) }
    }
}
