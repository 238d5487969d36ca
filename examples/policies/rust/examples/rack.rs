//! The built-in loss detector RACK as a module, from the same source file. No parameters.
#![no_std]

use fairway_guest::policy::{Evidence, LateArrival, LossDetector, Rack as BuiltIn};
use fairway_guest::wire::{Duration, Instant};
use fairway_guest::{Beginning, Start, loss_detector};

struct Rack(BuiltIn);

impl Start for Rack {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        match beginning.parameters.into_iter().next() {
            None => Ok(Rack(BuiltIn::new())),
            Some(_) => Err("rack takes no parameters"),
        }
    }
}

impl LossDetector for Rack {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn compares_across_paths(&self) -> bool {
        self.0.compares_across_paths()
    }
    fn is_lost(&mut self, evidence: &Evidence) -> bool {
        self.0.is_lost(evidence)
    }
    fn overdue_after(&self, smoothed_rtt: Duration) -> Option<Duration> {
        self.0.overdue_after(smoothed_rtt)
    }
    fn on_ack(&mut self, now: Instant, smoothed_rtt: Duration, packets: u32) {
        self.0.on_ack(now, smoothed_rtt, packets);
    }
    fn on_reordering(&mut self, late: &LateArrival) {
        self.0.on_reordering(late);
    }
}

loss_detector!(Rack);
