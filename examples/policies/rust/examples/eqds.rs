//! The sender of the built-in EQDS as a module, from the same source file: a congestion control
//! that spends the credit of its receiver. Parameters: line, quantum, window, ahead, max and
//! timeout.
#![no_std]

use fairway_guest::policy::{
    AckSample, CongestionControl, CreditRequest, CreditSender, EqdsParameters, LossSample,
};
use fairway_guest::wire::Instant;
use fairway_guest::{Beginning, Start, congestion_control};

struct Eqds(CreditSender);

impl Start for Eqds {
    const SPENDS_CREDIT: bool = true;

    fn start(beginning: &Beginning<'_>) -> Result<Self, &'static str> {
        const HELP: &str = "eqds takes line, quantum, window, ahead, max and timeout";
        let mut parameters = EqdsParameters::default();
        for given in beginning.parameters {
            match given.name {
                "line" => parameters.line_bits = given.bits().ok_or(HELP)?,
                "quantum" => parameters.quantum_bytes = given.bytes().ok_or(HELP)?,
                "window" => parameters.window_bytes = given.bytes().ok_or(HELP)?,
                "ahead" => parameters.ahead_bytes = given.bytes().ok_or(HELP)?,
                "max" => parameters.max_bytes = given.bytes().ok_or(HELP)?,
                "timeout" => parameters.timeout = given.time().ok_or(HELP)?,
                _ => return Err(HELP),
            }
        }
        Ok(Eqds(CreditSender::eqds(parameters.sender(), beginning.mtu_bytes)))
    }
}

impl CongestionControl for Eqds {
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
    fn pacing_bytes_per_second(&self) -> Option<u64> {
        self.0.pacing_bytes_per_second()
    }
    fn pacing_burst_bytes(&self) -> u32 {
        self.0.pacing_burst_bytes()
    }
    fn paces_within_window(&self) -> bool {
        self.0.paces_within_window()
    }
    fn chunk_bytes(&self, remaining: u64) -> u32 {
        self.0.chunk_bytes(remaining)
    }
    fn permit_retransmit(&mut self, now: Instant, bytes: u32) -> bool {
        self.0.permit_retransmit(now, bytes)
    }
    fn on_credit(&mut self, now: Instant, bytes: u32) {
        self.0.on_credit(now, bytes);
    }
    fn credit_ahead_bytes(&self) -> u64 {
        self.0.credit_ahead_bytes()
    }
    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        self.0.on_sent(now, bytes, backlog_bytes);
    }
    fn allowance_bytes(&self) -> u64 {
        self.0.allowance_bytes()
    }
    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        self.0.credit_request(now, backlog_bytes)
    }
    fn credit_request_at(&self) -> Option<Instant> {
        self.0.credit_request_at()
    }
}

congestion_control!(
    Eqds,
    hooks = [on_spurious, permit_retransmit, on_credit, on_sent, credit_request]
);
