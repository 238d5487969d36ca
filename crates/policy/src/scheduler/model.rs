//! Test model of a NIC: flows with demands and dequeue rates that share a line.
//!
//! In each tick every flow may send its waiting bytes, within its rate. If they exceed the capacity
//! of the line, the line is divided by the flows' `greed`, as the default NIC does by message size.
//! The bytes that a flow sent become a transmit event.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use fairway_wire::{Duration, Instant};

use super::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};

const TICK: Duration = Duration::from_us(4);
const TICKS_PER_SECOND: u64 = 250_000;
/// A demand without limit.
pub(super) const HUNGRY: u64 = u64::MAX;
/// Most ticks of waiting bytes of a flow with a limited demand: its window.
const WINDOW_TICKS: u64 = 250;

#[derive(Clone, Copy, Debug)]
struct Source {
    /// Bytes per second that the flow generates.
    demand: u64,
    greed: u64,
    waiting: u64,
    /// Bytes that it may send by its rate, in `TICKS_PER_SECOND`ths, at most a tick's worth ahead.
    tokens: u64,
    started: bool,
    sent: u64,
}

pub(super) struct Model {
    pub(super) scheduler: Box<dyn Scheduler>,
    pub(super) rates: RateRegisters,
    pub(super) now: Instant,
    pub(super) line: u64,
    sources: Vec<Source>,
}

impl Model {
    /// Creates a model in which no flow sends yet. `line` is in bytes per second.
    pub(super) fn new(scheduler: Box<dyn Scheduler>, line: u64, flows: u32) -> Model {
        let source = Source { demand: 0, greed: 1, waiting: 0, tokens: 0, started: false, sent: 0 };
        Model {
            scheduler,
            rates: RateRegisters::new(flows),
            now: Instant::ZERO,
            line,
            sources: vec![source; flows as usize],
        }
    }

    pub(super) fn start(&mut self, flow: u32, demand: u64, share: Share) {
        self.sources[flow as usize].started = true;
        self.demand(flow, demand);
        self.scheduler.flow_started(self.now, FlowId(flow), share, &self.rates);
    }

    pub(super) fn demand(&mut self, flow: u32, demand: u64) {
        let source = &mut self.sources[flow as usize];
        (source.demand, source.waiting) = (demand, 0);
    }

    /// Sets the weight by which a full line is divided among flows.
    pub(super) fn greed(&mut self, flow: u32, greed: u64) {
        self.sources[flow as usize].greed = greed;
    }

    pub(super) fn end(&mut self, flow: u32) {
        self.sources[flow as usize].started = false;
        self.scheduler.flow_ended(self.now, FlowId(flow), &self.rates);
    }

    pub(super) fn tick(&mut self) {
        self.now = self.now + TICK;
        let may: Vec<u64> = (0..self.sources.len()).map(|flow| self.may_send(flow)).collect();
        let greed: Vec<u64> = self.sources.iter().map(|source| source.greed).collect();
        let sent = divide(&may, &greed, self.line / TICKS_PER_SECOND);
        for (flow, sent) in sent.iter().enumerate().filter(|(_, sent)| **sent > 0) {
            let source = &mut self.sources[flow];
            source.sent += sent;
            source.tokens = source.tokens.saturating_sub(sent * TICKS_PER_SECOND);
            source.waiting -= sent;
            let backlogged = source.waiting > 0;
            // The line let it send all that its rate permits.
            let paced = backlogged && *sent == may[flow];
            let (now, bytes) = (self.now, *sent);
            let sample = TransmitSample { now, bytes, events: 1, backlogged, paced };
            self.scheduler.on_transmit(FlowId(flow as u32), &sample, &self.rates);
        }
    }

    pub(super) fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    /// Bytes per second of each flow over the next `ticks` ticks.
    pub(super) fn measure(&mut self, ticks: u64) -> Vec<u64> {
        let before: Vec<u64> = self.sources.iter().map(|source| source.sent).collect();
        self.run(ticks);
        let all = self.sources.iter().zip(before);
        all.map(|(source, before)| (source.sent - before) * TICKS_PER_SECOND / ticks).collect()
    }

    fn may_send(&mut self, flow: usize) -> u64 {
        let rate = self.rates.get(FlowId(flow as u32));
        let source = &mut self.sources[flow];
        if !source.started {
            return 0;
        }
        let wanted = source.demand / TICKS_PER_SECOND;
        source.waiting = match source.demand {
            HUNGRY => HUNGRY / 2,
            _ => (source.waiting + wanted).min(wanted * WINDOW_TICKS),
        };
        // Fractions of a byte per tick must not be lost.
        let most = rate.saturating_add(TICKS_PER_SECOND * 2048);
        source.tokens = source.tokens.saturating_add(rate).min(most);
        source.waiting.min(source.tokens / TICKS_PER_SECOND)
    }
}

/// Divides `line` among flows that may send `may` bytes, in rounds by weight among those that can
/// send more.
fn divide(may: &[u64], weights: &[u64], line: u64) -> Vec<u64> {
    let mut sent = vec![0; may.len()];
    let mut left = line;
    loop {
        let wanting = |sent: &[u64]| {
            let all = (0..may.len()).filter(|flow| sent[*flow] < may[*flow]);
            all.collect::<Vec<usize>>()
        };
        let flows = wanting(&sent);
        let weight: u64 = flows.iter().map(|flow| weights[*flow]).sum();
        if weight == 0 || left < weight {
            return sent;
        }
        let round = left;
        for flow in flows {
            let part = (u128::from(round) * u128::from(weights[flow]) / u128::from(weight)) as u64;
            let part = part.min(may[flow] - sent[flow]);
            sent[flow] += part;
            left -= part;
        }
    }
}

/// The shares of `line` under weighted max-min fairness.
pub(super) fn max_min(demands: &[u64], weights: &[u64], line: u64) -> Vec<u64> {
    divide(demands, weights, line)
}

/// Jain's fairness index in thousandths: 1000 if all are equal, 1000 / n if one has everything.
pub(super) fn jain(rates: &[u64]) -> u64 {
    let sum: u128 = rates.iter().map(|rate| u128::from(*rate)).sum();
    let squares: u128 = rates.iter().map(|rate| u128::from(*rate) * u128::from(*rate)).sum();
    (1000 * sum * sum / (rates.len() as u128 * squares)) as u64
}
