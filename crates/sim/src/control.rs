//! A processor that runs a host's scheduler apart from the data path, and takes simulated time.
//!
//! The protocol's [`Processor`] handles one event and is then busy for the configured time.
//! Meanwhile the data path continues, and its events accumulate in the slots. A pool of threads is
//! modelled as a processor that handles that many events in the same time, but no more threads than
//! the host has streams are used, because one thread handles all events of a stream.

use fairway_ub::control::{Processor, ProcessorStats};
use fairway_ub::policy::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};
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

/// A host's control processor, and the time at which it is free.
pub(crate) struct Control {
    processor: Processor,
    /// Time from one event to the next while events are pending, in picoseconds: `event_ps` divided
    /// among the threads.
    each_ps: u64,
    event_ps: u64,
    free_at: u64,
    /// True if the processor may have fetched further events already.
    more: bool,
    busy_ps: u64,
    /// Time at which measuring begins, and the counts at that time.
    measure_ps: u64,
    before: ControlResult,
}

impl Control {
    /// Makes the processor of a host with `streams` streams. Counts begin at `measure_ps`.
    pub(crate) fn new(
        processor: Processor,
        spec: &ControlSpec,
        streams: u32,
        measure_ps: u64,
    ) -> Control {
        let threads = u64::from(spec.threads.min(streams).max(1));
        Control {
            processor,
            each_ps: (spec.event_ps / threads).max(1),
            event_ps: spec.event_ps,
            free_at: 0,
            more: true,
            busy_ps: 0,
            measure_ps,
            before: ControlResult::default(),
        }
    }

    /// Returns when the next event can be handled, or `None` if there is none.
    pub(crate) fn next_due(&self, now: u64) -> Option<u64> {
        let work = self.more || !self.processor.queue().ready().is_empty();
        work.then_some(self.free_at.max(now))
    }

    /// Handles one event if the processor is free. Returns false if nothing was done.
    pub(crate) fn run(&mut self, now: u64) -> bool {
        if now < self.free_at {
            return false;
        }
        if now >= self.measure_ps {
            self.measure_ps = u64::MAX;
            self.before = self.total();
        }
        self.more = self.processor.run(Instant::from_ps(now), 1);
        if self.more {
            self.free_at = now + self.each_ps;
            self.busy_ps += self.event_ps;
        }
        self.more
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

/// A scheduler that is run for every event, however little has accumulated.
pub(crate) struct Eager(pub(crate) Box<dyn Scheduler>);

impl Scheduler for Eager {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.flow_started(now, flow, share, rates);
    }
    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters) {
        self.0.flow_ended(now, flow, rates);
    }
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.share_changed(now, flow, share, rates);
    }
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        self.0.on_transmit(flow, sample, rates);
    }
    fn on_hint(&mut self, now: Instant, flow: FlowId, hint: u64, rates: &RateRegisters) {
        self.0.on_hint(now, flow, hint, rates);
    }
    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        self.0.quantum_bytes(flow)
    }
}
