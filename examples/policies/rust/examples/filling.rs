//! The built-in scheduler by water-filling as a module, from the same source file. Parameters:
//! line, step and min.
#![no_std]

use fairway_guest::policy::{
    FlowId, RateRegisters, Scheduler, Share, TransmitSample, WaterFilling, WaterFillingParameters,
};
use fairway_guest::wire::Instant;
use fairway_guest::{Beginning, Start, scheduler};

struct Filling(WaterFilling);

impl Start for Filling {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "filling takes line, step and min";
        let mut parameters = WaterFillingParameters::default();
        for given in beginning.parameters {
            match given.name {
                "line" => parameters.line_bits = given.bits().ok_or(HELP)?,
                "step" => parameters.step_bits = given.bits().ok_or(HELP)?,
                "min" => parameters.min_bits = given.bits().ok_or(HELP)?,
                _ => return Err(HELP),
            }
        }
        Ok(Filling(WaterFilling::new(parameters, beginning.flows)))
    }
}

impl Scheduler for Filling {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.flow_started(now, flow, share, rates);
    }
    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters) {
        self.0.flow_ended(now, flow, rates);
    }
    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        self.0.share_changed(now, flow, share, rates);
    }
    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        self.0.on_transmit(flow, sample, rates);
    }
    fn event_bytes(&self) -> u32 {
        self.0.event_bytes()
    }
}

scheduler!(Filling);
