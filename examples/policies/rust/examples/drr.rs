//! The built-in deficit round robin as a module, from the same source file. Parameter: quantum.
#![no_std]

use fairway_guest::policy::{
    FlowId, RateRegisters, RoundRobin, RoundRobinParameters, Scheduler, Share, TransmitSample,
};
use fairway_guest::wire::Instant;
use fairway_guest::{Beginning, Start, scheduler};

struct Turns(RoundRobin);

impl Start for Turns {
    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "drr takes quantum";
        let mut parameters = RoundRobinParameters::default();
        for given in beginning.parameters {
            match given.name {
                "quantum" => {
                    parameters.quantum_bytes = given.bytes().filter(|n| *n > 0).ok_or(HELP)?;
                }
                _ => return Err(HELP),
            }
        }
        Ok(Turns(RoundRobin::new(parameters, beginning.flows)))
    }
}

impl Scheduler for Turns {
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
    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        self.0.quantum_bytes(flow)
    }
    fn event_bytes(&self) -> u32 {
        self.0.event_bytes()
    }
}

scheduler!(Turns);
