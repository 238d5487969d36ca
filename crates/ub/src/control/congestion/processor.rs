//! Runs congestion controls: takes their events one at a time and runs each to completion.

use super::controller_state::ControllerState;
use super::{CongestionController, CongestionKind};
use crate::control::{Cursor, EventKind, Gathered, Multiplexer, ProcessorStats, ReadyQueue, Slot};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use fairway_policy::{AckSample, CongestionControl, FlowId, LossSample};
use fairway_wire::{Cci, Duration, Instant};

/// Cost of an event in a channel's turn. An event that runs a controller's decision costs as much
/// as several that the controller only counts.
const DECISION_COST: u32 = 4;
const COUNT_COST: u32 = 1;

/// A controller, and how far its slots have been read.
struct Known {
    controller: Box<dyn CongestionControl>,
    state: Arc<ControllerState>,
    mtu: u32,
    cursors: [Cursor; CongestionKind::COUNT],
    acked: AckCursors,
    /// True if the controller lets lost packets be resent beyond the window.
    permits: bool,
    /// Time of the last event. Later events never carry an earlier time.
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

/// Runs the congestion controls of channels apart from their data path, with which it shares only
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
        write!(f, "CongestionProcessor({controllers} controllers, {:?})", self.stats)
    }
}

impl CongestionProcessor {
    /// Creates a processor for channels of indices below `channels`.
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

    /// The queue through which events are announced to this processor.
    pub fn ready(&self) -> &Arc<ReadyQueue<CongestionKind>> {
        &self.ready
    }

    /// Statistics over all controllers.
    pub fn stats(&self) -> &ProcessorStats {
        &self.stats
    }

    /// Adds a controller, in place of that of an earlier channel with the same index, and processes
    /// the events that its channel has accumulated meanwhile.
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

    /// Processes at most `budget` events; returns true if there may be more.
    pub fn run(&mut self, budget: u32) -> bool {
        (0..budget).all(|_| self.run_one().is_some())
    }

    /// Processes one event. Returns the index of its channel, or `None` if there is no event.
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
            // Data that was received once is announced for both kinds.
            CongestionKind::Data | CongestionKind::DataAgain => {
                known.process(CongestionKind::Data, &mut self.stats);
                known.process(CongestionKind::DataAgain, &mut self.stats);
            }
            kind => known.process(kind, &mut self.stats),
        }
    }
}

impl Known {
    /// Runs the controller on the accumulated events of a kind, and publishes its decisions.
    fn process(&mut self, kind: CongestionKind, stats: &mut ProcessorStats) {
        let state = self.state.clone();
        let Some(seen) = take(state.slot(kind), &mut self.cursors[kind as usize]) else { return };
        stats.collected += u64::from(seen.events);
        stats.handled += 1;
        self.call_controller(kind, &seen, stats);
        if cost_of(kind) == DECISION_COST || kind == CongestionKind::Credit {
            self.permits = self.controller.permit_retransmit(self.last, self.mtu);
        }
        state.publish(&*self.controller, self.permits);
        state.publish_spent(self.cursors[CongestionKind::Sent as usize].sum());
        if !matches!(kind, CongestionKind::Data | CongestionKind::DataAgain) {
            state.publish_handled(seen.events);
        }
    }

    fn call_controller(
        &mut self,
        kind: CongestionKind,
        seen: &Gathered,
        stats: &mut ProcessorStats,
    ) {
        match kind {
            CongestionKind::Acknowledged => {
                stats.bytes += seen.sum;
                stats.transmits += 1;
                let sample = self.ack_sample(seen);
                self.controller.on_ack(&sample);
            }
            CongestionKind::Lost | CongestionKind::TimedOut => {
                let by_timeout = kind == CongestionKind::TimedOut;
                let sent_at =
                    self.state.loss_sent_at[usize::from(by_timeout)].load(Ordering::Relaxed);
                let sample = LossSample {
                    now: self.at(seen.value),
                    lost_bytes: clamp(seen.sum),
                    path: self.state.loss_path.load(Ordering::Relaxed) as u8,
                    smoothed_rtt: duration(self.state.loss_smoothed.load(Ordering::Relaxed)),
                    by_timeout,
                    sent_at: Instant::from_ps(sent_at),
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
            CongestionKind::Request => {
                let now = self.at(self.state.requested_at.load(Ordering::Relaxed));
                if let Some(credit_request) = self.controller.credit_request(now, seen.value) {
                    self.state.publish_request(&credit_request);
                }
            }
            CongestionKind::End => {}
        }
    }

    /// The time of an event, raised to that of the last event which the controller has processed.
    fn at(&mut self, ps: u64) -> Instant {
        self.last = self.last.max(Instant::from_ps(ps));
        self.last
    }

    fn ack_sample(&mut self, seen: &Gathered) -> AckSample {
        let now = self.at(seen.value);
        let (parts, cursors) = (&self.state.acked, &mut self.acked);
        let sum = |slot, cursor| clamp(take(slot, cursor).map_or(0, |seen| seen.sum));
        let latest = |slot, cursor| take(slot, cursor).map(|seen| duration(seen.value));
        let [path, hint, hops, high] = parts.rest.load(Ordering::Relaxed).to_le_bytes();
        AckSample {
            now,
            acked_bytes: clamp(seen.sum),
            acked_packets: sum(&parts.packets, &mut cursors.packets),
            path,
            rtt: latest(&parts.round_trip, &mut cursors.round_trip),
            smoothed_rtt: duration(parts.smoothed.load(Ordering::Relaxed)),
            marked_packets: sum(&parts.marked, &mut cursors.marked),
            bytes_in_flight: parts.in_flight.load(Ordering::Relaxed),
            // Bits 8 to 13 of CCI are reserved, so pressure has one of them.
            cci: Cci::from_bits(u16::from_be_bytes([high, hint])),
            pressure: high & 1 != 0,
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

/// Limits a sum to what a sample can hold; no channel has more in flight.
fn clamp(sum: u64) -> u32 {
    u32::try_from(sum).unwrap_or(u32::MAX)
}

/// Reports a sum, in several calls if it is too large for one.
fn in_parts(mut sum: u64, mut call_controller: impl FnMut(u32)) {
    loop {
        let part = clamp(sum);
        call_controller(part);
        sum -= u64::from(part);
        if sum == 0 {
            return;
        }
    }
}
