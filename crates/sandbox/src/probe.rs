//! Events for testing policies, and the cost of an event.
//!
//! A [`Sequence`] imitates the events of a channel: varying round trips, marks, losses, reordering.
//! The same seed gives the same events, so that two policies can be compared decision by decision.

use std::sync::Arc;
use std::time::Instant as Clock;

use fairway_policy::{
    AckSample, ChunkRequest, CongestionControl, Evidence, FlowId, LateArrival, LossDetector,
    LossSample, PathAck, PathChoice, PathView, RateRegisters, Scheduler, Share, TransmitSample,
};
use fairway_wire::{Cci, Duration, Instant};

use crate::Policies;
use crate::congestion::UserCongestion;
use crate::hook::Hook;
use crate::instance::Shared;
use crate::loss::UserLoss;
use crate::path::UserPath;
use crate::scheduler::UserScheduler;
use crate::slot::{Role, Site, Slot};

/// An event for a congestion control.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// [`CongestionControl::on_ack`].
    Ack(AckSample),
    /// [`CongestionControl::on_loss`].
    Loss(LossSample),
    /// [`CongestionControl::on_spurious`].
    Spurious(Instant, u32),
    /// [`CongestionControl::permit_retransmit`].
    Resend(Instant, u32),
    /// [`CongestionControl::on_data`].
    Data(Instant, u32, bool),
    /// [`CongestionControl::on_credit`].
    Credit(Instant, u32),
}

impl Event {
    /// Passes the event to a policy. Returns the decision if the event concerns a retransmission.
    pub fn deliver(&self, policy: &mut dyn CongestionControl) -> Option<bool> {
        match *self {
            Event::Ack(ref sample) => policy.on_ack(sample),
            Event::Loss(ref sample) => policy.on_loss(sample),
            Event::Spurious(now, packets) => policy.on_spurious(now, packets),
            Event::Resend(now, bytes) => return Some(policy.permit_retransmit(now, bytes)),
            Event::Data(now, bytes, again) => policy.on_data(now, bytes, again),
            Event::Credit(now, bytes) => policy.on_credit(now, bytes),
        }
        None
    }
}

/// An endless sequence of events.
#[derive(Clone, Debug)]
pub struct Sequence {
    random: u64,
    now_ps: u64,
    rtt_ns: u64,
    smoothed_ns: u64,
}

impl Sequence {
    /// Makes the sequence of a seed.
    pub fn new(seed: u64) -> Sequence {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Sequence { random, now_ps: 1_000_000_000, rtt_ns: 100_000, smoothed_ns: 0 }
    }

    /// Draws a number below `limit` (xorshift64*).
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % limit.max(1)
    }

    fn tick(&mut self) -> Instant {
        self.now_ps += 1000 * (1 + self.below(40_000));
        Instant::from_ps(self.now_ps)
    }

    /// Draws an acknowledgement.
    pub fn ack(&mut self) -> AckSample {
        let now = self.tick();
        // The round trip varies between 20 us and 2 ms, and is sometimes much longer.
        let step = self.below(30_000);
        let up = self.below(100) < 49;
        self.rtt_ns = if up { self.rtt_ns + step } else { self.rtt_ns.saturating_sub(step) };
        self.rtt_ns = self.rtt_ns.clamp(20_000, 2_000_000);
        let late = if self.below(200) == 0 { self.below(5_000_000) } else { 0 };
        let rtt_ns = self.rtt_ns + late;
        let is_measured = self.below(10) > 0;
        if is_measured {
            let before = if self.smoothed_ns == 0 { rtt_ns } else { self.smoothed_ns };
            self.smoothed_ns = (7 * before + rtt_ns) / 8;
        }
        let packets = self.below(17) as u32;
        let marked = if self.below(50) == 0 { self.below(u64::from(packets) + 1) } else { 0 };
        AckSample {
            now,
            acked_bytes: packets * 4096,
            acked_packets: packets,
            path: self.below(256) as u8,
            rtt: is_measured.then(|| Duration::from_ns(rtt_ns)),
            smoothed_rtt: Duration::from_ns(self.smoothed_ns),
            marked_packets: marked as u32,
            bytes_in_flight: self.below(1 << 22),
            cci: Cci::from_bits(self.below(256) as u16),
            pressure: self.below(100) == 0,
            window_limited: self.below(4) > 0,
            endpoint_delay: (self.below(3) == 0)
                .then(|| Duration::from_ns(rtt_ns / (1 + self.below(8)))),
            hops: self.below(6) as u8,
        }
    }

    /// Draws a loss.
    pub fn loss(&mut self) -> LossSample {
        let now = self.tick();
        LossSample {
            now,
            lost_bytes: 4096 * (1 + self.below(16) as u32),
            path: self.below(256) as u8,
            smoothed_rtt: Duration::from_ns(self.smoothed_ns),
            by_timeout: self.below(4) == 0,
            sent_at: now - Duration::from_ns(self.below(4 * self.smoothed_ns.max(1))),
        }
    }

    /// Draws an acknowledgement of a path.
    pub fn path_ack(&mut self) -> PathAck {
        let sample = self.ack();
        let gathered = Duration::from_ns(self.below(50_000));
        let is_known = self.below(4) > 0;
        PathAck {
            elapsed: sample.rtt.filter(|_| is_known).map(|rtt| rtt.saturating_add(gathered)),
            now: sample.now,
            acked_packets: sample.acked_packets,
            marked_packets: sample.marked_packets,
            rtt: sample.rtt,
        }
    }

    /// Draws the evidence about a packet.
    pub fn evidence(&mut self) -> Evidence {
        Evidence {
            path_distance: self.below(12) as u32,
            psn_distance: self.below(40) as u32,
            beyond_tolerance: self.below(4) == 0,
            age: Duration::from_ns(self.below(600_000)),
            overtaken_by: Duration::from_ns(self.below(200_000)),
            smoothed_rtt: Duration::from_ns(self.smoothed_ns),
        }
    }

    /// Draws a late arrival.
    pub fn late(&mut self) -> LateArrival {
        LateArrival {
            path_distance: self.below(8) as u32,
            psn_distance: self.below(20) as u32,
            was_declared_lost: self.below(3) == 0,
            overtaken_by: Duration::from_ns(self.below(200_000)),
            smoothed_rtt: Duration::from_ns(self.smoothed_ns),
        }
    }

    /// Draws what a flow has sent.
    pub fn transmit(&mut self) -> TransmitSample {
        let (now, bytes) = (self.tick(), self.below(1 << 16));
        let events = 1 + self.below(16) as u32;
        let state = self.below(8);
        TransmitSample { now, bytes, events, backlogged: state > 0, paced: state > 4 }
    }

    /// Draws a request for a path choice, and its paths.
    pub fn chunk(&mut self, paths: &mut [PathView]) -> ChunkRequest {
        for path in paths.iter_mut() {
            let rtt_ns = self.below(4) * 50_000;
            *path = PathView {
                smoothed_rtt: Duration::from_ns(rtt_ns),
                rtt_deviation: Duration::from_ns(self.below(50_000)),
                in_flight: self.below(8) as u32,
                sent: self.below(1 << 40),
                lost: self.below(1 << 20),
                marked: self.below(1 << 20),
                usable: self.below(8) > 0,
                ..PathView::default()
            };
        }
        let now = self.tick();
        ChunkRequest { now, bytes: self.below(65_536) as u32, random: self.below(1 << 32) as u32 }
    }
}

impl Iterator for Sequence {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        Some(match self.below(100) {
            0..=79 => Event::Ack(self.ack()),
            80..=86 => Event::Loss(self.loss()),
            87..=89 => Event::Spurious(self.tick(), 1 + self.below(8) as u32),
            90..=93 => Event::Resend(self.tick(), 4096),
            94..=97 => Event::Data(self.tick(), 4096, self.below(10) == 0),
            _ => Event::Credit(self.tick(), self.below(1 << 20) as u32),
        })
    }
}

/// Cost of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Name of the event; for a path choice, also the number of paths.
    pub what: String,
    /// Time of the module: the median of several rounds.
    pub module_ns: f64,
    /// Time of the built-in policy that it is compared with.
    pub built_in_ns: f64,
    /// Instructions (approximately), on average.
    pub fuel_mean: f64,
    /// Instructions (approximately), maximum; [`EVENT_FUEL`](crate::EVENT_FUEL) is the limit.
    pub fuel_max: u64,
}

const ROUNDS: usize = 9;
/// Events that are timed together.
const RUN_EVENTS: usize = 500;
const MTU: u32 = 4096;
/// Flows of a measured scheduler.
const FLOWS: u32 = 16;

/// Measures the modules of `policies` and the built-in policies, with `events` per round. A module
/// that faults is not measured, and its report names the reason.
pub fn costs(policies: &Policies, built_in: &Policies, events: usize) -> Vec<Cost> {
    let mut costs = Vec::new();
    for slot in policies.slots() {
        let before = costs.len();
        for role in slot.roles() {
            let subject = Subject { slot, built_in, events };
            match role {
                Role::Congestion => costs.push(subject.ack_cost()),
                Role::Path => costs.extend([16, 256].map(|count| subject.path_cost(count))),
                Role::Loss => costs.push(subject.loss_cost()),
                Role::Scheduler => costs.push(subject.transmit_cost()),
            }
        }
        if slot.report().faults > 0 {
            costs.truncate(before);
        }
    }
    costs.retain(|cost| cost.fuel_max > 0);
    costs
}

/// What is measured.
struct Subject<'a> {
    slot: &'a Arc<Slot>,
    built_in: &'a Policies,
    events: usize,
}

impl Subject<'_> {
    fn shared(&self) -> Shared {
        let site = match self.slot.has(Role::Scheduler) {
            true => Site { mtu_bytes: 0, flows: FLOWS },
            false => Site { mtu_bytes: MTU, flows: 0 },
        };
        Shared::start(Arc::clone(self.slot), site)
    }

    fn ack_cost(&self) -> Cost {
        let built_in = || self.built_in.build(MTU).congestion;
        let module = || UserCongestion::new(self.shared(), built_in());
        let mut sequence = Sequence::new(1);
        let samples: Vec<AckSample> = (0..self.events).map(|_| sequence.ack()).collect();
        let mut counted = module();
        let fuel = Fuel::of(samples.iter().map(|sample| {
            counted.on_ack(sample);
            counted.fuel_used()
        }));
        let time = |policy: &mut dyn CongestionControl| {
            time(&samples, |sample| {
                policy.on_ack(sample);
                policy.window_bytes()
            })
        };
        fuel.cost(Hook::OnAck.name().to_owned(), || (time(&mut module()), time(&mut *built_in())))
    }

    fn path_cost(&self, count: usize) -> Cost {
        let built_in = || self.built_in.build(MTU).path;
        let module = || UserPath::new(self.shared(), built_in());
        let mut sequence = Sequence::new(1);
        let mut paths = vec![PathView::default(); count];
        let requests: Vec<ChunkRequest> =
            (0..self.events).map(|_| sequence.chunk(&mut paths)).collect();
        let mut counted = module();
        let fuel = Fuel::of(requests.iter().map(|request| {
            counted.choose(&paths, request);
            counted.fuel_used()
        }));
        let time = |policy: &mut dyn PathChoice| {
            time(&requests, |request| policy.choose(&paths, request) as u64)
        };
        let what = format!("{}, {count} paths", Hook::ChoosePath.name());
        fuel.cost(what, || (time(&mut module()), time(&mut *built_in())))
    }

    fn loss_cost(&self) -> Cost {
        let built_in = || self.built_in.build(MTU).loss;
        let module = || UserLoss::new(self.shared(), built_in());
        let mut sequence = Sequence::new(1);
        let samples: Vec<Evidence> = (0..self.events).map(|_| sequence.evidence()).collect();
        let mut counted = module();
        let fuel = Fuel::of(samples.iter().map(|evidence| {
            counted.is_lost(evidence);
            counted.fuel_used()
        }));
        let time = |policy: &mut dyn LossDetector| {
            time(&samples, |evidence| u64::from(policy.is_lost(evidence)))
        };
        fuel.cost(Hook::IsLost.name().to_owned(), || (time(&mut module()), time(&mut *built_in())))
    }

    fn transmit_cost(&self) -> Cost {
        let rates = RateRegisters::new(FLOWS);
        let start = |mut policy: Box<dyn Scheduler>| {
            for flow in 0..FLOWS {
                policy.flow_started(Instant::ZERO, FlowId(flow), Share::default(), &rates);
            }
            policy
        };
        let built_in = || self.built_in.scheduler_of_nic(FLOWS).map(start);
        let module = || start(Box::new(UserScheduler::new(self.shared(), FLOWS)));
        let mut sequence = Sequence::new(1);
        let samples: Vec<TransmitSample> = (0..self.events).map(|_| sequence.transmit()).collect();
        let counted = self.shared();
        let mut policy = start(Box::new(UserScheduler::new(counted.clone(), FLOWS)));
        let fuel = Fuel::of(samples.iter().enumerate().map(|(n, sample)| {
            policy.on_transmit(FlowId(n as u32 % FLOWS), sample, &rates);
            counted.lock().fuel_used()
        }));
        let time = |policy: &mut dyn Scheduler| {
            let mut flow = 0;
            time(&samples, |sample| {
                flow = (flow + 1) % FLOWS;
                policy.on_transmit(FlowId(flow), sample, &rates);
                rates.get(FlowId(flow))
            })
        };
        let what = format!("{}, {FLOWS} flows", Hook::OnTransmit.name());
        fuel.cost(what, || {
            let own = built_in().map_or(0.0, |mut policy| time(&mut *policy));
            (time(&mut *module()), own)
        })
    }
}

/// Returns the time of an event in nanoseconds: the median of the means of short runs, most of
/// which no other process interrupts.
fn time<T>(events: &[T], mut deliver: impl FnMut(&T) -> u64) -> f64 {
    let mut means: Vec<f64> = Vec::with_capacity(events.len() / RUN_EVENTS + 1);
    for run in events.chunks(RUN_EVENTS) {
        let begin = Clock::now();
        let sum = run.iter().fold(0_u64, |sum, event| sum.wrapping_add(deliver(event)));
        std::hint::black_box(sum);
        means.push(begin.elapsed().as_nanos() as f64 / run.len() as f64);
    }
    means.sort_by(f64::total_cmp);
    means.get(means.len() / 2).copied().unwrap_or(0.0)
}

struct Fuel {
    mean: f64,
    max: u64,
}

impl Fuel {
    fn of(used: impl Iterator<Item = u64>) -> Fuel {
        let (mut sum, mut max, mut count) = (0, 0, 0_u64);
        for fuel in used {
            sum += fuel;
            max = max.max(fuel);
            count += 1;
        }
        Fuel { mean: sum as f64 / count.max(1) as f64, max }
    }

    /// Computes the medians of the times of the module and of the built-in policy, which `round`
    /// measures.
    fn cost(self, what: String, round: impl Fn() -> (f64, f64)) -> Cost {
        let mut pairs: Vec<(f64, f64)> = (0..ROUNDS).map(|_| round()).collect();
        let mut median = |key: fn(&(f64, f64)) -> f64| {
            pairs.sort_by(|a, b| key(a).total_cmp(&key(b)));
            pairs.get(pairs.len() / 2).map_or(0.0, key)
        };
        Cost {
            what,
            module_ns: median(|pair| pair.0),
            built_in_ns: median(|pair| pair.1),
            fuel_mean: self.mean,
            fuel_max: self.max,
        }
    }
}
