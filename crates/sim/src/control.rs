//! A processor that runs a host's scheduler apart from the data path, and takes its time.
//!
//! The engine's [`Processor`] deals with one event, then is busy for so long; meanwhile the data
//! path goes on, and what it tells of comes together in the slots. A pool of threads is as many
//! events in that time: but no more at once than the host has streams, as a stream's events go to
//! one thread.

use fairway_engine::control::{Processor, ProcessorStats};
use fairway_engine::policy::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_engine::wire::Instant;

/// What controllers run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSpec {
    /// Threads.
    pub threads: u32,
    /// Of a thread, for each event, in picoseconds.
    pub event_ps: u64,
    /// Events that the controller says are too small to look at wait until they are worth it
    /// (software coalescing, SCR §4.3.2); without, each is dealt with when a thread is free.
    pub until_threshold: bool,
}

/// What a control processor has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlResult {
    /// Events, of packets and others, that it was told of and has dealt with.
    pub collected: u64,
    /// Events that the controller was run for.
    pub handled: u64,
    /// Events that were too small.
    pub early: u64,
    /// Bytes of transmit events that the controller was run for, and their number.
    pub bytes: u64,
    /// See [`Self::bytes`].
    pub transmits: u64,
    /// Thread time, in picoseconds.
    pub busy_ps: u64,
}

impl ControlResult {
    /// Of a processor that takes no time.
    pub(crate) fn of(stats: &ProcessorStats) -> ControlResult {
        let ProcessorStats { collected, handled, early, bytes, transmits, .. } = *stats;
        ControlResult { collected, handled, early, bytes, transmits, busy_ps: 0 }
    }
}

/// A processor of a host, and when it is free.
pub(crate) struct Control {
    processor: Processor,
    /// From one event to the next, in picoseconds, if there are enough.
    each_ps: u64,
    event_ps: u64,
    free_at: u64,
    /// There may be more that the processor has fetched already.
    more: bool,
    busy_ps: u64,
    /// When measuring begins, and what had been done by then.
    measure_ps: u64,
    before: ControlResult,
}

impl Control {
    /// For a host with so many streams; what it does from `measure_ps` on counts.
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

    /// When it goes on, if there is anything to do.
    pub(crate) fn next_due(&self, now: u64) -> Option<u64> {
        let work = self.more || !self.processor.queue().ready().is_empty();
        work.then_some(self.free_at.max(now))
    }

    /// Deals with an event, if it is free; false if it did nothing.
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

    /// What it has done since measuring began.
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

/// A controller that is run for every event, however little has come together.
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
