//! Additive increase, multiplicative decrease, by delay.
//!
//! At every acknowledgement, with the lower of the sampled and the smoothed round trip as `delay`:
//!
//! ```text
//! delay < target, nothing marked, no pressure:  w += ai · acked / w   (ai bytes per round trip)
//! otherwise, and at loss:                       w *= 1 − beta / 1000  (once per round trip)
//! ```
//!
//! Parameters: target (300us), ai (32K), beta (500), min (64K), max (8M), initial (512K).
//! `../../c/aimd.c` is the same law in C.
#![no_std]

use fairway_guest::policy::{AckSample, CongestionControl, LossSample};
use fairway_guest::wire::{Duration, Instant};
use fairway_guest::{Beginning, Start, congestion_control};

struct Aimd {
    target: Duration,
    increase: u64,
    beta_permille: u64,
    min: u64,
    max: u64,
    window: u64,
    /// What has been added to the window but is less than a byte yet: `growth / window`.
    growth: u64,
    last_fall: Option<Instant>,
}

impl Start for Aimd {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "aimd takes target, ai, beta (0 to 1000), min, max and initial";
        let mut aimd = Aimd {
            target: Duration::from_us(300),
            increase: 32 << 10,
            beta_permille: 500,
            min: 64 << 10,
            max: 8 << 20,
            window: 512 << 10,
            growth: 0,
            last_fall: None,
        };
        for given in beginning.parameters {
            match given.name {
                "target" => aimd.target = given.time().ok_or(HELP)?,
                "ai" => aimd.increase = given.bytes().ok_or(HELP)?,
                "beta" => {
                    aimd.beta_permille = given.bytes().filter(|beta| *beta <= 1000).ok_or(HELP)?;
                }
                "min" => aimd.min = given.bytes().ok_or(HELP)?,
                "max" => aimd.max = given.bytes().ok_or(HELP)?,
                "initial" => aimd.window = given.bytes().ok_or(HELP)?,
                _ => return Err(HELP),
            }
        }
        aimd.min = aimd.min.max(2 * u64::from(beginning.mtu_bytes));
        aimd.max = aimd.max.max(aimd.min);
        // A policy that replaces another one goes on from its window.
        let window = beginning.window_bytes.unwrap_or(aimd.window);
        aimd.window = window.clamp(aimd.min, aimd.max);
        Ok(aimd)
    }
}

impl Aimd {
    fn fall(&mut self, now: Instant, round_trip: Duration) {
        if self.last_fall.is_some_and(|last| now.since(last) < round_trip) {
            return;
        }
        let window = self.window.wrapping_mul(1000 - self.beta_permille) / 1000;
        self.window = window.max(self.min);
        self.growth = 0;
        self.last_fall = Some(now);
    }
}

impl CongestionControl for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn window_bytes(&self) -> u64 {
        self.window
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let smoothed = sample.smoothed_rtt;
        let delay = match sample.rtt {
            Some(rtt) if rtt < smoothed || smoothed == Duration::ZERO => rtt,
            _ => smoothed,
        };
        if delay >= self.target || sample.marked_packets > 0 || sample.pressure {
            self.fall(sample.now, smoothed);
        } else if sample.window_limited {
            let more = self.increase.wrapping_mul(u64::from(sample.acked_bytes));
            self.growth = self.growth.wrapping_add(more);
            let grown = self.window.wrapping_add(self.growth / self.window);
            self.growth %= self.window;
            self.window = grown.min(self.max);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.fall(sample.now, sample.smoothed_rtt);
    }
}

congestion_control!(Aimd, hooks = []);
