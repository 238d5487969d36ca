//! A loss detector that runs in a module.

use fairway_policy::{Evidence, LateArrival, LossDetector};
use fairway_wire::{Duration, Instant};

use crate::hook::Hook;
use crate::instance::{Outcome, Shared};

/// Most round trips after which a packet is overdue; at least one. Without these limits a module
/// could have every packet sent twice, or leave the end of a burst to the timer.
const OVERDUE_ROUND_TRIPS: u64 = 16;

/// An instance of a module and, after a fault, the built-in default in its place.
pub(crate) struct UserLoss {
    shared: Shared,
    /// Built-in default, created in advance because a fault occurs in the middle of an event.
    fallback: Box<dyn LossDetector>,
}

impl UserLoss {
    pub(crate) fn new(shared: Shared, fallback: Box<dyn LossDetector>) -> Self {
        UserLoss { shared, fallback }
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.shared.lock().fuel_used()
    }
}

impl LossDetector for UserLoss {
    fn name(&self) -> &'static str {
        if self.shared.lock().guest().is_some() { "wasm" } else { self.fallback.name() }
    }

    fn compares_across_paths(&self) -> bool {
        let instance = self.shared.lock();
        match instance.guest() {
            Some(guest) => guest.traits.compares_across_paths,
            None => self.fallback.compares_across_paths(),
        }
    }

    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        let outcome = self.shared.lock().event_between(|guest| {
            let hook = guest.hooks.is_lost.as_ref()?;
            guest.machine.area()?.put_evidence(evidence);
            Some(guest.machine.call(Hook::IsLost, hook, ()))
        });
        match outcome {
            Outcome::Answer(answer) => answer != 0,
            Outcome::NoHook | Outcome::Gone => self.fallback.is_lost(evidence),
        }
    }

    fn overdue_after(&self, smoothed_rtt: Duration) -> Option<Duration> {
        let outcome = self.shared.lock().event_between(|guest| {
            let hook = guest.hooks.overdue_after.as_ref()?;
            Some(guest.machine.call(Hook::OverdueAfter, hook, smoothed_rtt.as_ps()))
        });
        match outcome {
            Outcome::Answer(after) => {
                let after = Duration::from_ps(u64::try_from(after).ok()?);
                Some(after.clamp(smoothed_rtt, smoothed_rtt.times(OVERDUE_ROUND_TRIPS)))
            }
            Outcome::NoHook => None,
            Outcome::Gone => self.fallback.overdue_after(smoothed_rtt),
        }
    }

    /// The only event of a loss detector that has a time: another module is taken here.
    fn on_ack(&mut self, now: Instant, smoothed_rtt: Duration, packets: u32) {
        let outcome = self.shared.lock().event(now, |guest| {
            let hook = guest.hooks.on_progress.as_ref()?;
            guest.machine.area()?.put_progress(packets);
            Some(guest.machine.call(Hook::OnProgress, hook, (now.as_ps(), smoothed_rtt.as_ps())))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_ack(now, smoothed_rtt, packets);
        }
    }

    fn on_reordering(&mut self, late: &LateArrival) {
        let outcome = self.shared.lock().event_between(|guest| {
            let hook = guest.hooks.on_reordering.as_ref()?;
            guest.machine.area()?.put_late(late);
            Some(guest.machine.call(Hook::OnReordering, hook, ()))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_reordering(late);
        }
    }
}
