//! The built-in Swift as a module: the very same law, from the same source file. It shows that
//! any type with the trait of a congestion control is a policy here, and what the sandbox costs.
#![no_std]

use fairway_guest::policy::{
    AckSample, CongestionControl, LossSample, Swift as BuiltIn, SwiftParameters,
};
use fairway_guest::wire::Instant;
use fairway_guest::{Beginning, Start, congestion_control, isqrt};

struct Swift(BuiltIn);

impl Start for Swift {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "swift takes target, range, hop, endpoint, fsmin, fsmax, ai, min, max, initial and loss";
        let mut parameters = SwiftParameters::default();
        for given in beginning.parameters {
            match given.name {
                "target" => parameters.target = given.time().ok_or(HELP)?,
                "range" => parameters.range = given.time().ok_or(HELP)?,
                "hop" => parameters.hop = given.time().ok_or(HELP)?,
                "endpoint" => parameters.endpoint = given.time().ok_or(HELP)?,
                "fsmin" => parameters.scaling_min_bytes = given.bytes().ok_or(HELP)?,
                "fsmax" => parameters.scaling_max_bytes = given.bytes().ok_or(HELP)?,
                "ai" => parameters.increase_bytes = given.bytes().ok_or(HELP)?,
                "min" => parameters.min_bytes = given.bytes().ok_or(HELP)?,
                "max" => parameters.max_bytes = given.bytes().ok_or(HELP)?,
                "initial" => parameters.initial_bytes = given.bytes().ok_or(HELP)?,
                "loss" => parameters.tolerated_loss_permille = given.bytes().ok_or(HELP)?,
                _ => return Err(HELP),
            }
        }
        // A policy that replaces another one goes on from its window.
        if let Some(window) = beginning.window_bytes {
            parameters.initial_bytes = window;
        }
        Ok(Swift(BuiltIn::with_root(parameters, beginning.mtu_bytes, isqrt)))
    }
}

impl CongestionControl for Swift {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn window_bytes(&self) -> u64 {
        self.0.window_bytes()
    }
    fn on_ack(&mut self, sample: &AckSample) {
        self.0.on_ack(sample);
    }
    fn on_loss(&mut self, sample: &LossSample) {
        self.0.on_loss(sample);
    }
    fn on_spurious(&mut self, now: Instant, packets: u32) {
        self.0.on_spurious(now, packets);
    }
    fn chunk_bytes(&self, remaining: u64) -> u32 {
        self.0.chunk_bytes(remaining)
    }
}

congestion_control!(Swift, hooks = [on_spurious]);
