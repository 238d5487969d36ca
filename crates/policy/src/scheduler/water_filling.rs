//! Water-filling: rates grow step by step until the line is full; then the highest level gives way.
//!
//! **Control law.** Every flow has a *level*, the rate that it has been given. Its bandwidth is
//! measured from its transmit events as bytes by time since the last decision, at least an interval
//! of 4 us, and smoothed by `bw += (sample − bw) / 4`. A flow with more to send is *saturated* if
//! its dequeue rate alone has held it back (then `bw` is at least what it sent since the last
//! decision), or if `bw ≥ 3/4 level`. At each decision
//!
//! ```text
//! saturated:                       level += step · w · n, from what is free
//!                 nothing free:    the same, from the flow with the most
//! more waits, bw < 1/2 level:      level −= (level − bw) / 2, which is free again
//! nothing waits, bw < 15/16 level: the same
//! nothing waits, bw > level:       level = bw, from what is free or from the flow with the most
//! ```
//!
//! and otherwise nothing. `n` is the time for which the flow has used its level since the last
//! decision, in intervals and at least 1: its bytes divided by its level, at most the time that has
//! passed. Levels therefore rise by the clock, although the packets of a slow flow, and with them
//! its decisions, are far apart. At most as much moves between two flows as makes their levels,
//! divided by their weights, equal, and it moves between tenants before it moves within one. So
//! levels converge to the weighted max-min share, and their sum never exceeds the rate `C` of the
//! line. A step is at most an eighth of the flow's fair share, `C · w / Σ w`, and all steps of a
//! decision together at most the fair share. When flows join and leave:
//!
//! ```text
//! join=scale   level_i ·= 1 − w / Σ w for the others         (n − 1) / n, if all weigh the same
//! join=halve   level_i /= 2 for the others
//! join=reset   level_i = start for all
//! start=fair   the new level is the fair share, C / n; or a rate, at most that
//! leave=reclaim   the level is free, for the others to grow into;  leave=scale   they grow at once
//! ```
//!
//! The dequeue rate is the level, or `floor` thousandths of the fair share if that is more.
//!
//! **Source:** SCR §5.1 and §A.4; steps of 0.02, 0.05 and 0.10 GB/s are from Table 5, `join=scale`
//! with `start=fair` is Fig. 9c, with `start=0bps` 9b, `join=halve:start=0bps` 9a, and
//! `join=reset:start=500Mbps` Fig. 16. Max-min fairness: Bertsekas and Gallager, *Data Networks*,
//! §6.5.
//!
//! **Where this differs:**
//! * In the paper flows grow only while there is room, so that a flow whose demand rises late, or
//!   that starts late from zero, would not get its share. Here the flow with the highest level
//!   gives way.
//! * A transmit event states whether the flow has more to send; the paper infers it from the
//!   bandwidth.
//! * The paper slows a flow that uses little to what it uses. Its next burst then waits, although
//!   no other flow gains: the line is full only when all flows use their fair shares. By default no
//!   dequeue rate is therefore below the fair share (`floor=1000`); `floor=0` is the paper's
//!   behaviour.
//! * The paper's minimum rate is 1 Gb/s at 100 Gb/s, because its NIC is inaccurate at small rates;
//!   here it is 1 Mb/s.
//! * The paper finds flows by a Bloom filter and keeps them in a hash map, because their numbers
//!   have 24 bits; here numbers are dense, and an array holds the flows.

use alloc::boxed::Box;
use alloc::vec;
use fairway_wire::{Duration, Instant};

use super::line_rate::{LineRate, News};
use super::shares::Shares;
use super::{FlowId, Hints, RateRegisters, Scheduler, Share, TransmitSample, per_second, quotient};
use crate::compact::ewma;

/// A new sample has a weight of a quarter.
const GAIN_SHIFT: u32 = 2;
/// A step is at most this part of a flow's fair share.
const STEP_PART: u64 = 8;
/// Amounts below this part of a flow's fair share do not move between flows.
const WORTH_PART: u64 = 256;
/// A flow that could have sent this much since its last event, and sent nothing, is silent.
const SILENT_BYTES: u64 = 256 * 1024;
/// Number of intervals that must also have passed before a flow is silent.
const SILENT_INTERVALS: u64 = 16;
/// Bytes up to which transmit events are added up once levels have settled. Less than
/// [`SILENT_BYTES`], so that a flow whose events are delayed does not count as silent.
const CALM_EVENT_BYTES: u32 = 64 * 1024;
/// Consecutive decisions without a change, per flow, after which levels have settled.
const CALM_ROUNDS: u32 = 8;

/// What happens to the levels of the other flows when a flow joins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// The others give up the new flow's fair share, each in proportion to its level.
    #[default]
    Scale,
    /// The others keep half of their levels.
    Halve,
    /// All flows start again.
    Reset,
}

/// What happens to the level of a flow that leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    /// The level becomes free for the others to grow into.
    #[default]
    Reclaim,
    /// The others get the level at once, each in proportion to its own.
    Scale,
}

/// The level at which a flow starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The fair share of the flow.
    #[default]
    Fair,
    /// A rate in bits per second, at most the fair share; zero for the minimum.
    Rate(u64),
}

/// Parameters of [`WaterFilling`]. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterFillingParameters {
    /// The rate of the line; zero to measure it.
    pub line_bits: u64,
    /// Growth of a level at a decision.
    pub step_bits: u64,
    /// The minimum level, unless the fair share is less.
    pub min_bits: u64,
    /// The level of a new flow.
    pub start: Start,
    /// What happens to the other flows when a flow joins.
    pub join: Join,
    /// What happens to its level when a flow leaves.
    pub leave: Leave,
    /// Time between two decisions about a flow.
    pub interval: Duration,
    /// The minimum dequeue rate, in thousandths of the fair share.
    pub floor_permille: u64,
    /// How hints are treated; [`PolicySpec::build_scheduler`](crate::PolicySpec::build_scheduler)
    /// implements it.
    pub hints: Hints,
}

impl Default for WaterFillingParameters {
    fn default() -> Self {
        WaterFillingParameters {
            line_bits: 0,
            step_bits: 400_000_000,
            min_bits: 1_000_000,
            start: Start::Fair,
            join: Join::Scale,
            leave: Leave::Reclaim,
            interval: Duration::from_us(4),
            floor_permille: 1000,
            hints: Hints::Ignore,
        }
    }
}

/// The state of a flow. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    level: u64,
    /// Its fair share of the line, as of the last change of either.
    due: u64,
    /// Smoothed bandwidth.
    bandwidth: u64,
    /// Time of the last decision.
    since: Instant,
    /// Bytes sent since the last decision.
    bytes: u64,
    /// True if its dequeue rate, and nothing else, has held it back since the last decision.
    paced: bool,
    /// True if nothing has been sent since the flow started.
    fresh: bool,
}

/// The flows of a group, which are those of a tenant.
#[derive(Clone, Copy, Debug, Default)]
struct Pool {
    /// Sum of the flows' levels.
    level: u64,
    /// The flow with the highest level for its weight, according to events so far.
    fullest: Option<FlowId>,
}

/// The water-filling scheduler.
#[derive(Debug)]
pub struct WaterFilling {
    parameters: WaterFillingParameters,
    shares: Shares,
    line: LineRate,
    flows: Box<[Flow]>,
    pools: Box<[Pool]>,
    /// Sum of all levels.
    given: u64,
    /// The pool with the highest level for its weight, according to events so far.
    fullest: usize,
    /// Position of the active flow that is checked next, whether it sends or not.
    cursor: usize,
    /// Consecutive decisions without a change.
    calm: u32,
}

impl WaterFilling {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "water-filling";

    /// Creates the scheduler for `flows` flows.
    pub fn new(parameters: WaterFillingParameters, flows: u32) -> WaterFilling {
        WaterFilling {
            parameters: WaterFillingParameters {
                step_bits: parameters.step_bits.max(8),
                min_bits: parameters.min_bits.max(8),
                floor_permille: parameters.floor_permille.min(1000),
                // No bandwidth can be computed without a time span.
                interval: parameters.interval.max(Duration::from_ns(1)),
                ..parameters
            },
            shares: Shares::new(flows),
            line: LineRate::new(parameters.line_bits, flows),
            flows: vec![Flow::default(); flows as usize].into_boxed_slice(),
            pools: vec![Pool::default(); flows as usize].into_boxed_slice(),
            given: 0,
            fullest: 0,
            cursor: 0,
            calm: 0,
        }
    }

    /// Bytes of state per flow.
    pub const FLOW_BYTES: usize = core::mem::size_of::<Flow>() + core::mem::size_of::<Pool>();

    /// The level of a flow in bytes per second.
    pub fn level(&self, flow: FlowId) -> u64 {
        self.flows.get(flow.index()).map_or(0, |flow| flow.level)
    }

    /// The smoothed bandwidth of a flow in bytes per second.
    pub fn bandwidth(&self, flow: FlowId) -> u64 {
        self.flows.get(flow.index()).map_or(0, |flow| flow.bandwidth)
    }

    fn due(&self, flow: FlowId) -> u64 {
        self.flows[flow.index()].due
    }

    /// Computes the fair share of every flow again, after a flow has started, ended or changed its
    /// share, or after the line's rate was measured anew.
    fn divide(&mut self) {
        for flow in self.shares.active() {
            self.flows[flow.index()].due = self.shares.due(*flow, self.line.bytes_per_second());
        }
    }

    fn least(&self, flow: FlowId) -> u64 {
        (self.parameters.min_bits / 8).min(self.due(flow))
    }

    fn start(&self, flow: FlowId) -> u64 {
        match self.parameters.start {
            Start::Fair => self.due(flow),
            Start::Rate(bits) => (bits / 8).clamp(self.least(flow), self.due(flow)),
        }
    }

    /// Sets the level of a flow, and updates the sums.
    fn set_level(&mut self, flow: FlowId, level: u64) {
        let before = core::mem::replace(&mut self.flows[flow.index()].level, level);
        let pool = &mut self.pools[self.shares.group(flow)];
        pool.level = pool.level - before + level;
        self.given = self.given - before + level;
        self.calm = 0;
    }

    /// Sets the levels of all flows but one to `part / whole` of their values.
    fn scale_others(&mut self, except: FlowId, part: u64, whole: u64) {
        for index in 0..self.shares.active().len() {
            let flow = self.shares.active()[index];
            if flow != except && whole > 0 {
                let level = u128::from(self.flows[flow.index()].level) * u128::from(part);
                let level = ((level / u128::from(whole)) as u64).max(self.least(flow));
                self.set_level(flow, level);
            }
        }
    }

    fn restart(&mut self, level: fn(&Self, FlowId) -> u64) {
        for index in 0..self.shares.active().len() {
            let flow = self.shares.active()[index];
            let level = level(self, flow);
            self.set_level(flow, level);
            self.flows[flow.index()].bandwidth = level;
        }
    }

    /// Adapts the levels to a changed rate of the line.
    fn fit_line(&mut self) {
        let line = self.line.bytes_per_second();
        if self.given == 0 {
            self.restart(Self::due);
        } else if self.given > line {
            let none = FlowId(u32::MAX);
            self.scale_others(none, line, self.given);
        }
    }

    fn publish(&self, flow: FlowId, rates: &RateRegisters) {
        let floor = u128::from(self.due(flow)) * u128::from(self.parameters.floor_permille);
        let floor = quotient(floor, 1000);
        let rate = match self.line.is_lifted() {
            true => RateRegisters::UNLIMITED,
            false => self.flows[flow.index()].level.max(floor as u64),
        };
        rates.set(flow, rate);
    }

    fn publish_all(&self, rates: &RateRegisters) {
        for flow in self.shares.active() {
            self.publish(*flow, rates);
        }
    }

    /// Adds the bytes sent since the last decision to the smoothed bandwidth. Returns the time for
    /// which the flow has used its level since then.
    fn measure(&mut self, flow: FlowId, now: Instant) -> Duration {
        let flow = &mut self.flows[flow.index()];
        let elapsed = now.elapsed_since(flow.since);
        let sample = per_second(flow.bytes, elapsed);
        flow.bandwidth = ewma(flow.bandwidth, sample, GAIN_SHIFT);
        if flow.paced {
            flow.bandwidth = flow.bandwidth.max(sample.min(flow.level));
        }
        flow.since = now;
        flow.bytes = 0;
        if sample >= flow.level { elapsed } else { part(elapsed, sample, flow.level) }
    }

    /// Decides about a flow that has used its level for a time, `used`.
    fn decide(&mut self, flow: FlowId, backlogged: bool, used: Duration, rates: &RateRegisters) {
        let Flow { level, bandwidth, .. } = self.flows[flow.index()];
        self.note(flow);
        self.calm = self.calm.saturating_add(1);
        let paced = core::mem::take(&mut self.flows[flow.index()].paced);
        let saturated = backlogged && (paced || bandwidth >= level / 4 * 3);
        // A flow that has more to send and does not use its rate may be waiting for its turn for a
        // moment.
        let enough = if backlogged { level / 2 } else { level / 16 * 15 };
        if saturated {
            let wanted = self.steps(flow, used);
            self.grow(flow, wanted, rates);
        } else if bandwidth > level {
            self.grow(flow, bandwidth - level, rates);
        } else if bandwidth < enough {
            let level = (level - (level - bandwidth) / 2).max(self.least(flow));
            if level < self.flows[flow.index()].level {
                self.set_level(flow, level);
                self.publish(flow, rates);
            }
        }
    }

    /// What a saturated flow is to get, if it has used its level for a time, `used`.
    fn steps(&self, flow: FlowId, used: Duration) -> u64 {
        let Flow { level, bandwidth, due, .. } = self.flows[flow.index()];
        let step = (self.parameters.step_bits / 8).saturating_mul(self.shares.weight(flow));
        let step = step.min(due / STEP_PART);
        let interval = self.parameters.interval;
        let steps = if used <= interval {
            step
        } else {
            let steps = u128::from(step) * u128::from(used.as_ps());
            let steps = quotient(steps, u128::from(interval.as_ps()));
            u64::try_from(steps).unwrap_or(u64::MAX).min(due)
        };
        // A flow gets the part of its fair share that it already uses at once, without steps.
        steps.max(bandwidth.min(due).saturating_sub(level))
    }

    fn grow(&mut self, flow: FlowId, wanted: u64, rates: &RateRegisters) {
        let level = self.level(flow);
        let free = self.line.bytes_per_second().saturating_sub(self.given);
        let taken = wanted.min(free);
        if taken > 0 {
            self.set_level(flow, level + taken);
        }
        let given = self.take_from_fullest(flow, wanted - taken, rates);
        if taken > 0 || given {
            self.publish(flow, rates);
        }
    }

    /// Moves up to `wanted` to `flow` from the flow with the highest level in the pool with the
    /// highest level, or in the flow's own pool. Returns false if no flow has enough more.
    fn take_from_fullest(&mut self, flow: FlowId, wanted: u64, rates: &RateRegisters) -> bool {
        let worth = self.due(flow) / WORTH_PART;
        let own = self.shares.group(flow);
        let apart = self.pools[self.fullest].level;
        let weights = [self.shares.group_weight(self.fullest), self.shares.group_weight(own)];
        let between =
            if self.fullest == own { 0 } else { balance([apart, self.pools[own].level], weights) };
        let (giver, most) = if between > worth {
            (self.pools[self.fullest].fullest, between)
        } else {
            let Some(giver) = self.pools[own].fullest else { return false };
            let levels = [giver, flow].map(|flow| self.flows[flow.index()].level);
            (Some(giver), balance(levels, [giver, flow].map(|flow| self.shares.weight(flow))))
        };
        let Some(giver) = giver.filter(|giver| *giver != flow) else { return false };
        let spare = self.flows[giver.index()].level.saturating_sub(self.least(giver));
        let moved = wanted.min(most).min(spare);
        if moved == 0 || most <= worth {
            return false;
        }
        self.set_level(giver, self.flows[giver.index()].level - moved);
        self.set_level(flow, self.flows[flow.index()].level + moved);
        self.publish(giver, rates);
        true
    }

    /// Updates the flow and the pool with the highest level.
    fn note(&mut self, flow: FlowId) {
        let group = self.shares.group(flow);
        let fullest = match self.pools[group].fullest {
            Some(other) => {
                let levels = [flow, other].map(|flow| self.flows[flow.index()].level);
                is_fuller(levels, [flow, other].map(|flow| self.shares.weight(flow)))
            }
            None => true,
        };
        if fullest {
            self.pools[group].fullest = Some(flow);
        }
        let levels = [group, self.fullest].map(|group| self.pools[group].level);
        let weights = [group, self.fullest].map(|group| self.shares.group_weight(group));
        if weights[1] == 0 || is_fuller(levels, weights) {
            self.fullest = group;
        }
    }

    /// Checks one more flow, because a silent one causes no events by which to notice it.
    fn look_round(&mut self, now: Instant, rates: &RateRegisters) {
        self.cursor =
            if self.cursor + 1 < self.shares.active().len() { self.cursor + 1 } else { 0 };
        let Some(flow) = self.shares.active().get(self.cursor).copied() else { return };
        self.note(flow);
        let Flow { level, since, .. } = self.flows[flow.index()];
        let elapsed = now.elapsed_since(since);
        let intervals = self.parameters.interval.times(SILENT_INTERVALS);
        let missed = u128::from(level) * u128::from(elapsed.as_ps());
        let is_silent = missed >= u128::from(SILENT_BYTES) * 1_000_000_000_000;
        if elapsed >= intervals && is_silent {
            let used = self.measure(flow, now);
            self.decide(flow, false, used, rates);
        }
    }

    fn join(&mut self, flow: FlowId) {
        let line = self.line.bytes_per_second();
        match self.parameters.join {
            Join::Scale => self.scale_others(flow, line.saturating_sub(self.due(flow)), line),
            Join::Halve => self.scale_others(flow, 1, 2),
            Join::Reset => self.restart(Self::start),
        }
        self.set_level(flow, self.start(flow));
    }
}

/// `time · part / whole`.
fn part(time: Duration, part: u64, whole: u64) -> Duration {
    let ps = u128::from(time.as_ps()) * u128::from(part);
    Duration::from_ps(quotient(ps, u128::from(whole)) as u64)
}

/// True if the first has a higher level for its weight than the second.
fn is_fuller([one, other]: [u64; 2], [one_weight, other_weight]: [u64; 2]) -> bool {
    u128::from(one) * u128::from(other_weight) > u128::from(other) * u128::from(one_weight)
}

/// Amount to move from a first level to a second so that they are in the ratio of their weights;
/// zero if the first has no more than its part.
fn balance([from, to]: [u64; 2], [from_weight, to_weight]: [u64; 2]) -> u64 {
    let more = u128::from(from) * u128::from(to_weight);
    let less = u128::from(to) * u128::from(from_weight);
    let weights = u128::from(from_weight) + u128::from(to_weight);
    quotient(more.saturating_sub(less), weights) as u64
}

impl Scheduler for WaterFilling {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if !self.shares.start(flow, share) {
            self.share_changed(now, flow, share, rates);
            return;
        }
        self.flows[flow.index()] = Flow { since: now, fresh: true, ..Flow::default() };
        self.divide();
        if self.line.bytes_per_second() > 0 {
            self.join(flow);
            self.flows[flow.index()].bandwidth = self.level(flow);
        }
        self.publish_all(rates);
    }

    fn flow_ended(&mut self, _now: Instant, flow: FlowId, rates: &RateRegisters) {
        if !self.shares.is_active(flow) {
            return;
        }
        let level = self.level(flow);
        self.set_level(flow, 0);
        let pool = &mut self.pools[self.shares.group(flow)];
        pool.fullest = pool.fullest.filter(|fullest| *fullest != flow);
        self.shares.end(flow);
        self.line.ended(flow);
        self.divide();
        rates.set(flow, RateRegisters::UNLIMITED);
        if self.parameters.leave == Leave::Scale && self.given > 0 {
            let all = self.given;
            self.scale_others(flow, all + level, all);
        }
        self.publish_all(rates);
    }

    fn share_changed(&mut self, _now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if !self.shares.is_active(flow) {
            return;
        }
        // Its level moves with the flow from pool to pool.
        let level = self.level(flow);
        self.set_level(flow, 0);
        let pool = &mut self.pools[self.shares.group(flow)];
        pool.fullest = pool.fullest.filter(|fullest| *fullest != flow);
        self.shares.change(flow, share);
        self.divide();
        self.set_level(flow, level);
        self.publish_all(rates);
    }

    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        if !self.shares.is_active(flow) {
            return;
        }
        match self.line.observe(flow, sample) {
            News::None => {}
            News::Lift => self.publish_all(rates),
            News::Set => {
                self.divide();
                self.fit_line();
                self.publish_all(rates);
            }
        }
        let state = &mut self.flows[flow.index()];
        state.bytes += sample.bytes;
        state.paced |= sample.paced;
        let fresh = core::mem::take(&mut state.fresh);
        if self.line.is_lifted() {
            // Bytes sent without limits give no information about the level.
            (state.since, state.bytes, state.paced) = (sample.now, 0, false);
            return;
        }
        let used = if fresh {
            (state.since, state.bytes) = (sample.now, 0);
            Duration::ZERO
        } else if sample.now.elapsed_since(state.since) < self.parameters.interval {
            return;
        } else {
            self.measure(flow, sample.now)
        };
        self.decide(flow, sample.backlogged, used, rates);
        self.look_round(sample.now, rates);
    }

    fn event_bytes(&self) -> u32 {
        let rounds = CALM_ROUNDS.saturating_mul(self.shares.active().len() as u32);
        if self.line.is_given() && self.calm >= rounds { CALM_EVENT_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests;
