//! The scheduler that shares the device among its queue pairs, and the turns in which they send.

use super::RoceDevice;
use alloc::boxed::Box;
use fairway_device::SetupError;
use fairway_device::control::ProcessorStats;
use fairway_policy::{FlowId, RateRegisters, Scheduler, Share};
use fairway_wire::{Instant, Qpn};

/// Events that the scheduler processes between two packets.
const EVENTS_PER_PACKET: u32 = 4;

impl RoceDevice {
    /// Lets a scheduler share the device among queue pairs; `None` for the default: a queue pair
    /// sends [`Profile::turn_bytes`](crate::Profile::turn_bytes) before the next. A flow is what
    /// one queue pair sends, its requests as well as its answers to READs; the scheduler has to be
    /// made for `Limits::queue_pairs` flows. May be changed at any time; memory is allocated here.
    pub fn set_scheduler(&mut self, now: Instant, scheduler: Option<Box<dyn Scheduler>>) {
        self.scheduler = self.shared.schedule.set_scheduler(scheduler).map(Box::new);
        for pair in self.pairs.iter_mut().flatten() {
            pair.reintroduce_flow(&mut self.shared, now);
        }
        self.run_scheduler(now);
    }

    /// Statistics of the scheduler, if there is one.
    pub fn scheduler_stats(&self) -> Option<ProcessorStats> {
        self.scheduler.as_ref().map(|scheduler| *scheduler.stats())
    }

    /// Sets the tenant and the weight of what a queue pair sends.
    ///
    /// # Errors
    /// `Missing` if there is no such queue pair, `Parameter` if the weight is zero.
    pub fn set_share(&mut self, number: Qpn, share: Share) -> Result<(), SetupError> {
        let (shared, pair) = self.pair(number).ok_or(SetupError::Missing)?;
        if share.weight == 0 {
            return Err(SetupError::Parameter("weight"));
        }
        pair.set_share(shared, share);
        Ok(())
    }

    /// The share of what a queue pair sends.
    pub fn share(&mut self, number: Qpn) -> Option<Share> {
        self.pair(number).map(|(_, pair)| pair.flow.share)
    }

    /// Sets the application's hint for what a queue pair sends. The scheduler defines its meaning
    /// ([`Scheduler::on_hint`]). Zero, the initial hint, is not reported for a flow that begins.
    ///
    /// # Errors
    /// `Missing` if there is no such queue pair.
    pub fn set_hint(&mut self, number: Qpn, hint: u64) -> Result<(), SetupError> {
        let (shared, pair) = self.pair(number).ok_or(SetupError::Missing)?;
        pair.set_hint(shared, hint);
        Ok(())
    }

    /// The rate that the scheduler allows a queue pair, in bytes per second; `None` if there is no
    /// such queue pair or no limit.
    pub fn dequeue_rate(&mut self, number: Qpn) -> Option<u64> {
        let (shared, pair) = self.pair(number)?;
        Some(shared.schedule.rate(FlowId(pair.index)))
            .filter(|&rate| rate != RateRegisters::UNLIMITED)
    }

    #[inline]
    pub(super) fn run_scheduler(&mut self, now: Instant) {
        if let Some(scheduler) = &mut self.scheduler {
            self.shared.scheduled_at = now;
            scheduler.run(now, EVENTS_PER_PACKET);
        }
    }

    /// Lets queue pairs whose dequeue rates have been raised send as soon as those permit.
    #[inline]
    pub(super) fn follow_raised_rates(&mut self) {
        while let Some(flow) = self.shared.schedule.pop_raised() {
            let pair = self.pairs.get_mut(flow.index()).and_then(Option::as_mut);
            if let Some(pair) = pair {
                pair.retry_gate(&mut self.shared);
            }
        }
    }

    /// The queue pair whose turn it is, by place; a new turn begins when the last is over.
    pub(super) fn take_turn(&mut self) -> Option<u32> {
        if let Some(index) = self.turn {
            if self.turn_left > 0 {
                return Some(index);
            }
            self.shared.ready.push(index);
        }
        let index = self.shared.ready.pop()?;
        let pair = self.pairs.get_mut(index as usize).and_then(Option::as_mut);
        let quantum = pair.and_then(|pair| pair.begin_turn(&self.shared)).unwrap_or(0);
        self.turn = Some(index);
        // A scheduler's turn ends when the flow's gate shuts; packets without payload are limited.
        self.turn_left = self.shared.profile.turn_bytes.max(quantum);
        Some(index)
    }

    /// Ends the turn of a queue pair that has no packet to send now.
    pub(super) fn end_turn(&mut self, index: u32) {
        self.turn = None;
        if let Some(pair) = self.pairs.get_mut(index as usize).and_then(Option::as_mut) {
            pair.in_ready = pair.pause_flow(&self.shared);
            if pair.in_ready {
                self.shared.ready.push(index);
            }
        }
    }
}
