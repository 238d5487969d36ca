//! Runs a scheduler: takes its events one at a time and runs each to completion.

use super::multiplexer::Multiplexer;
use super::queue::{EventQueue, Kind, TransmitState};
use super::slot::{Cursor, Gathered};
use super::steering::Steering;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use fairway_policy::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_wire::Instant;

/// Statistics of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorStats {
    /// Events that the data path and other producers have sent to the processor, packet-granular.
    pub collected: u64,
    /// Events for which the controller was run, each of which stands for one or more of
    /// `collected`.
    pub handled: u64,
    /// How often a controller was not run because too little had accumulated (early termination).
    pub early: u64,
    /// Bytes of transmit events; for congestion controls, bytes of acknowledgements. Divided by
    /// `transmits`: the coalescing granularity, in bytes per event (SCR §4.3.3).
    pub bytes: u64,
    /// Transmit events, or acknowledgements, for which the controller was run.
    pub transmits: u64,
}

impl ProcessorStats {
    /// Bytes per transmit event or acknowledgement; zero if there was none.
    pub fn bytes_per_event(&self) -> u64 {
        self.bytes / self.transmits.max(1)
    }
}

impl core::ops::AddAssign for ProcessorStats {
    fn add_assign(&mut self, other: Self) {
        self.collected += other.collected;
        self.handled += other.handled;
        self.early += other.early;
        self.bytes += other.bytes;
        self.transmits += other.transmits;
    }
}

/// A processor's state of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    alive: bool,
    cursors: [Cursor; Kind::COUNT],
}

/// A controller and its events. Shares nothing with the data path but slots and registers.
pub struct Processor {
    controller: Box<dyn Scheduler>,
    queue: Arc<EventQueue>,
    rates: Arc<RateRegisters>,
    /// One for each thread, with the events of the flows that are steered to it.
    multiplexers: Vec<Multiplexer<Kind>>,
    steering: Steering,
    known: Vec<Known>,
    stats: ProcessorStats,
}

impl core::fmt::Debug for Processor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Processor({}, {:?})", self.controller.name(), self.stats)
    }
}

impl Processor {
    /// Creates a processor that takes events from `queue` and publishes decisions in `rates`.
    pub fn new(
        controller: Box<dyn Scheduler>,
        queue: Arc<EventQueue>,
        rates: Arc<RateRegisters>,
    ) -> Self {
        let flows = queue.flows();
        let known = alloc::vec![Known::default(); flows as usize];
        Processor {
            controller,
            queue,
            rates,
            multiplexers: alloc::vec![Multiplexer::new(flows)],
            steering: Steering::default(),
            known,
            stats: ProcessorStats::default(),
        }
    }

    /// Keeps the events of flows apart by the thread to which `steering` assigns them, for a caller
    /// that accounts for the time of each thread ([`Self::collect`], [`Self::run_one`]). All
    /// threads share the one controller, so this is a model of threads and no way to run several.
    /// Call it before the first event.
    pub fn steer(&mut self, steering: Steering) {
        let flows = self.queue.flows();
        self.multiplexers = (0..steering.threads()).map(|_| Multiplexer::new(flows)).collect();
        self.steering = steering;
    }

    /// Takes all announced events from the queue, and reports the thread of each flow to which they
    /// belong.
    pub fn collect(&mut self, mut announce: impl FnMut(u32)) {
        while let Some((flow, kinds)) = self.queue.ready().pop() {
            let thread = self.steering.thread_of(flow.0);
            self.multiplexers[thread as usize].add(flow, kinds);
            announce(thread);
        }
    }

    /// True if events are pending that were collected for a thread.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn has_pending(&self, thread: u32) -> bool {
        !self.multiplexers[thread as usize].is_empty()
    }

    /// Processes one of the events that were collected for a thread; returns false if there is
    /// none.
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn run_one(&mut self, now: Instant, thread: u32) -> bool {
        let Some((flow, kind)) = self.multiplexers[thread as usize].select() else { return false };
        self.handle(now, flow, kind);
        self.queue.set_threshold(self.controller.event_bytes());
        true
    }

    /// Statistics of this processor.
    pub fn stats(&self) -> &ProcessorStats {
        &self.stats
    }

    /// The queue from which events are taken.
    pub fn queue(&self) -> &Arc<EventQueue> {
        &self.queue
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Scheduler {
        &*self.controller
    }

    /// Processes at most `budget` events; returns true if there may be more.
    pub fn run(&mut self, now: Instant, budget: u32) -> bool {
        (0..budget).all(|_| {
            self.collect(|_| {});
            (0..self.multiplexers.len() as u32).any(|thread| self.run_one(now, thread))
        })
    }

    fn handle(&mut self, now: Instant, flow: FlowId, kind: Kind) {
        let slot = self.queue.slot(flow, kind);
        let known = &mut self.known[flow.index()];
        let cursor = &mut known.cursors[kind as usize];
        let Some(seen) = slot.peek(cursor) else { return };
        // The event that a flow has nothing more to send is processed however few its bytes.
        let drained = seen.value == TransmitState::Drained as u64;
        let too_little = !drained && seen.sum < u64::from(self.controller.event_bytes());
        if kind == Kind::Transmit && known.alive && too_little {
            self.stats.early += 1;
            return;
        }
        slot.take(cursor, &seen);
        self.stats.collected += u64::from(seen.events);
        self.stats.handled += 1;
        self.queue.note_handled(flow);
        match kind {
            Kind::Life => self.life(now, flow, &seen),
            Kind::Share if known.alive => {
                self.controller.share_changed(now, flow, share_of(seen.value), &self.rates);
                self.publish_quanta(flow);
            }
            Kind::Transmit if known.alive => {
                let (bytes, events) = (seen.sum, seen.events);
                self.stats.bytes += bytes;
                self.stats.transmits += 1;
                let paced = seen.value == TransmitState::Paced as u64;
                let sample = TransmitSample { now, bytes, events, backlogged: !drained, paced };
                self.controller.on_transmit(flow, &sample, &self.rates);
            }
            Kind::Hint if known.alive => {
                self.controller.on_hint(now, flow, seen.value, &self.rates);
                self.publish_quanta(flow);
            }
            Kind::Share | Kind::Transmit | Kind::Hint => {}
        }
    }

    /// Processes that a flow has begun or ended, perhaps several times.
    fn life(&mut self, now: Instant, flow: FlowId, seen: &Gathered) {
        let known = &mut self.known[flow.index()];
        if core::mem::replace(&mut known.alive, false) {
            self.controller.flow_ended(now, flow, &self.rates);
            self.rates.set(flow, RateRegisters::UNLIMITED);
        }
        if seen.value % 2 == 1 {
            self.known[flow.index()].alive = true;
            let share = self.queue.slot(flow, Kind::Share).latest();
            self.controller.flow_started(now, flow, share_of(share), &self.rates);
        }
        self.publish_quanta(flow);
    }

    /// Publishes the quanta of all flows: turns are relative to each other, so with one flow's
    /// quantum all may change.
    fn publish_quanta(&self, flow: FlowId) {
        if self.controller.quantum_bytes(flow).is_none() {
            return;
        }
        for (known, flow) in self.known.iter().zip((0..).map(FlowId)) {
            if known.alive {
                self.rates.set_quantum(flow, self.controller.quantum_bytes(flow));
            }
        }
    }
}

/// Encodes a share as the value of a slot.
pub(crate) fn share_value(share: Share) -> u64 {
    u64::from(share.tenant) << 32 | u64::from(share.weight) << 16 | u64::from(share.tenant_weight)
}

fn share_of(value: u64) -> Share {
    Share {
        tenant: (value >> 32) as u16,
        weight: (value >> 16) as u16,
        tenant_weight: value as u16,
    }
}

#[cfg(test)]
mod tests;
