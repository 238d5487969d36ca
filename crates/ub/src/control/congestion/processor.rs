//! Runs congestion controls: takes their events one at a time, each to completion.

use super::controller_state::ControllerState;
use super::{CongestionController, CongestionKind};
use crate::control::multiplexer::Multiplexer;
use crate::control::processor::ProcessorStats;
use crate::control::ready_queue::{EventKind, ReadyQueue};
use crate::control::slot::{Cursor, Gathered, Slot};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use fairway_policy::{AckSample, CongestionControl, FlowId, LossSample};
use fairway_wire::{Duration, Instant};

/// What events cost in a channel's turn: those that run a controller's decision as much as several
/// that it only counts.
const DECISION_COST: u32 = 4;
const COUNT_COST: u32 = 1;

/// A controller, and how far its slots have been read.
struct Known {
    controller: Box<dyn CongestionControl>,
    state: Arc<ControllerState>,
    mtu: u32,
    cursors: [Cursor; CongestionKind::COUNT],
    acked: AckCursors,
    /// It lets lost packets be resent beyond the window.
    permits: bool,
    /// The last event's time: none that is told later is earlier.
    last: Instant,
}

#[derive(Default)]
struct AckCursors {
    packets: Cursor,
    marked: Cursor,
    limited: Cursor,
    round_trip: Cursor,
    endpoint: Cursor,
}

/// The congestion controls of channels that are elsewhere. Shares nothing with the data path but
/// slots and registers.
pub struct CongestionProcessor {
    /// By index of the channel.
    known: Vec<Option<Known>>,
    ready: Arc<ReadyQueue<CongestionKind>>,
    multiplexer: Multiplexer<CongestionKind>,
    stats: ProcessorStats,
}

impl core::fmt::Debug for CongestionProcessor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let controllers = self.known.iter().flatten().count();
        write!(f, "CongestionProcessor({controllers} laws, {:?})", self.stats)
    }
}

impl CongestionProcessor {
    /// For channels of indices below `channels`.
    pub fn new(channels: u32) -> CongestionProcessor {
        let mut multiplexer = Multiplexer::new(channels);
        multiplexer.set_costs(cost_of, DECISION_COST);
        CongestionProcessor {
            known: (0..channels).map(|_| None).collect(),
            ready: Arc::new(ReadyQueue::new(channels)),
            multiplexer,
            stats: ProcessorStats::default(),
        }
    }

    /// Where its events are announced.
    pub fn ready(&self) -> &Arc<ReadyQueue<CongestionKind>> {
        &self.ready
    }

    /// What it has done, all controllers together.
    pub fn stats(&self) -> &ProcessorStats {
        &self.stats
    }

    /// Takes on a controller, in place of one of an earlier channel of that index, and deals with
    /// what its channel has told meanwhile.
    pub fn adopt(&mut self, controller: CongestionController) {
        let CongestionController { owner, controller, state, mtu, since } = controller;
        let Some(place) = self.known.get_mut(owner.index()) else { return };
        *place = Some(Known {
            controller,
            state,
            mtu,
            cursors: Default::default(),
            acked: AckCursors::default(),
            permits: false,
            last: since,
        });
        for &kind in CongestionKind::ALL {
            self.handle(owner, kind);
        }
    }

    /// Deals with at most `budget` events; true if there are perhaps more.
    pub fn run(&mut self, budget: u32) -> bool {
        (0..budget).all(|_| self.run_one().is_some())
    }

    /// Deals with one event: the index of the channel it was about, or `None` if there is none.
    pub fn run_one(&mut self) -> Option<u32> {
        let (owner, kind) = self.multiplexer.next(&self.ready)?;
        self.handle(owner, kind);
        Some(owner.0)
    }

    fn handle(&mut self, owner: FlowId, kind: CongestionKind) {
        let place = &mut self.known[owner.index()];
        let Some(known) = place else { return };
        match kind {
            CongestionKind::End => {
                if known.state.has_ended.load(Ordering::Relaxed) {
                    *place = None;
                }
            }
            // What comes once is announced for both.
            CongestionKind::Data | CongestionKind::DataAgain => {
                known.hear(CongestionKind::Data, &mut self.stats);
                known.hear(CongestionKind::DataAgain, &mut self.stats);
            }
            kind => known.hear(kind, &mut self.stats),
        }
    }
}

impl Known {
    /// Has the controller deal with what came together, and publishes what it says then.
    fn hear(&mut self, kind: CongestionKind, stats: &mut ProcessorStats) {
        let state = self.state.clone();
        let Some(seen) = take(state.slot(kind), &mut self.cursors[kind as usize]) else { return };
        stats.collected += u64::from(seen.events);
        stats.handled += 1;
        self.tell(kind, &seen, stats);
        if cost_of(kind) == DECISION_COST || kind == CongestionKind::Credit {
            self.permits = self.controller.permit_retransmit(self.last, self.mtu);
        }
        state.publish(&*self.controller, self.permits);
        state.publish_spent(self.cursors[CongestionKind::Sent as usize].sum());
        if !matches!(kind, CongestionKind::Data | CongestionKind::DataAgain) {
            state.publish_handled(seen.events);
        }
    }

    fn tell(&mut self, kind: CongestionKind, seen: &Gathered, stats: &mut ProcessorStats) {
        match kind {
            CongestionKind::Acknowledged => {
                stats.bytes += seen.sum;
                stats.transmits += 1;
                let sample = self.ack_sample(seen);
                self.controller.on_ack(&sample);
            }
            CongestionKind::Lost | CongestionKind::TimedOut => {
                let sample = LossSample {
                    now: self.at(seen.value),
                    lost_bytes: clamp(seen.sum),
                    path: self.state.loss_path.load(Ordering::Relaxed) as u8,
                    smoothed_rtt: duration(self.state.loss_smoothed.load(Ordering::Relaxed)),
                    by_timeout: kind == CongestionKind::TimedOut,
                };
                self.controller.on_loss(&sample);
            }
            CongestionKind::Spurious => {
                let now = self.at(seen.value);
                self.controller.on_spurious(now, clamp(seen.sum));
            }
            CongestionKind::Data | CongestionKind::DataAgain => {
                let (now, again) = (self.at(seen.value), kind == CongestionKind::DataAgain);
                in_parts(seen.sum, |bytes| self.controller.on_data(now, bytes, again));
            }
            CongestionKind::Credit => {
                let now = self.at(seen.value);
                in_parts(seen.sum, |bytes| self.controller.on_credit(now, bytes));
            }
            CongestionKind::Sent => {
                let now = self.at(self.state.sent_at.load(Ordering::Relaxed));
                in_parts(seen.sum, |bytes| self.controller.on_sent(now, bytes, seen.value));
            }
            CongestionKind::Wish => {
                let now = self.at(self.state.asked_at.load(Ordering::Relaxed));
                if let Some(credit_request) = self.controller.credit_request(now, seen.value) {
                    self.state.publish_request(&credit_request);
                }
            }
            CongestionKind::End => {}
        }
    }

    /// The time of an event, but none before what the controller has heard of already.
    fn at(&mut self, ps: u64) -> Instant {
        self.last = self.last.max(Instant::from_ps(ps));
        self.last
    }

    fn ack_sample(&mut self, seen: &Gathered) -> AckSample {
        let now = self.at(seen.value);
        let (parts, cursors) = (&self.state.acked, &mut self.acked);
        let sum = |slot, cursor| clamp(take(slot, cursor).map_or(0, |seen| seen.sum));
        let latest = |slot, cursor| take(slot, cursor).map(|seen| duration(seen.value));
        let [path, hint, hops, pressure] = parts.rest.load(Ordering::Relaxed).to_le_bytes();
        AckSample {
            now,
            acked_bytes: clamp(seen.sum),
            acked_packets: sum(&parts.packets, &mut cursors.packets),
            path,
            rtt: latest(&parts.round_trip, &mut cursors.round_trip),
            smoothed_rtt: duration(parts.smoothed.load(Ordering::Relaxed)),
            marked_packets: sum(&parts.marked, &mut cursors.marked),
            bytes_in_flight: parts.in_flight.load(Ordering::Relaxed),
            hint,
            pressure: pressure != 0,
            window_limited: take(&parts.limited, &mut cursors.limited).is_some(),
            endpoint_delay: latest(&parts.endpoint, &mut cursors.endpoint),
            hops,
        }
    }
}

fn cost_of(kind: CongestionKind) -> u32 {
    match kind {
        CongestionKind::Acknowledged | CongestionKind::Lost | CongestionKind::TimedOut => {
            DECISION_COST
        }
        _ => COUNT_COST,
    }
}

fn take(slot: &Slot, cursor: &mut Cursor) -> Option<Gathered> {
    let seen = slot.peek(cursor)?;
    slot.take(cursor, &seen);
    Some(seen)
}

fn duration(ps: u64) -> Duration {
    Duration::from_ps(ps)
}

/// As much as a sample can tell: no channel has more in flight.
fn clamp(sum: u64) -> u32 {
    u32::try_from(sum).unwrap_or(u32::MAX)
}

/// Tells a sum, in several calls if it is too large for one.
fn in_parts(mut sum: u64, mut tell: impl FnMut(u32)) {
    loop {
        let part = clamp(sum);
        tell(part);
        sum -= u64::from(part);
        if sum == 0 {
            return;
        }
    }
}
