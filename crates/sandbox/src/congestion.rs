//! A congestion control that runs in a module.

use fairway_policy::{AckSample, CongestionControl, CreditRequest, LossSample};
use fairway_wire::{Duration, Instant};

use crate::abi::{Decision, Traits};
use crate::guest::Guest;
use crate::hook::Hook;
use crate::instance::{Outcome, Shared};
use crate::{Fault, Reason};

/// Time after which a module whose channel has waiting data and no allowance is taken out of use: a
/// module must not stop a channel.
const STALL: Duration = Duration::from_secs(1);
/// Time after an event at which a module is called again that names the past, or a nearer time than
/// this too often in a row. Otherwise it would be called without end while no time passes.
const CALL_AGAIN_MIN: Duration = Duration::from_us(1);
/// Longest time after which a module is called again. One that names a later time is not.
const CALL_AGAIN_MAX: Duration = Duration::from_secs(3600);
/// How often in a row a module may name a nearer time than [`CALL_AGAIN_MIN`]. A time-out comes as
/// near while packets leave, one by one.
const HASTY_CALLS: u32 = 64;

/// An instance of a module and, after a fault, the built-in default in its place.
pub(crate) struct UserCongestion {
    shared: Shared,
    /// Built-in default, created in advance because a fault occurs in the middle of an event.
    fallback: Box<dyn CongestionControl>,
    /// What the protocol reads for every packet; as of the last event.
    state: State,
    /// Time of the last event.
    now: Instant,
    /// How often in a row the module has named a past or very near time for the next call.
    hasty_calls: u32,
    /// Since when data waits without an allowance.
    stalled_since: Option<Instant>,
}

#[derive(Clone, Copy)]
struct State {
    /// False if the fallback decides.
    is_module: bool,
    spends_credit: bool,
    traits: Traits,
    decision: Decision,
}

impl State {
    fn of(shared: &Shared) -> State {
        let mut instance = shared.lock();
        let decision = instance.read_decision();
        State {
            is_module: instance.guest().is_some(),
            spends_credit: instance.guest().is_some_and(|guest| guest.hooks.on_sent.is_some()),
            traits: instance.traits(),
            decision,
        }
    }
}

impl UserCongestion {
    pub(crate) fn new(shared: Shared, fallback: Box<dyn CongestionControl>) -> Self {
        let state = State::of(&shared);
        UserCongestion {
            shared,
            fallback,
            state,
            now: Instant::ZERO,
            hasty_calls: 0,
            stalled_since: None,
        }
    }

    /// Passes an event at `now` to the module, and reads its decision.
    fn event<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Guest) -> Option<Result<R, Fault>>,
    ) -> Outcome<R> {
        self.now = now;
        let mut instance = self.shared.lock();
        let generation = instance.generation();
        let outcome = instance.event(now, call);
        let is_other = instance.generation() != generation;
        self.state.is_module = !matches!(outcome, Outcome::Gone);
        if self.state.is_module {
            self.state.decision = instance.read_decision();
        }
        drop(instance);
        if is_other {
            self.state = State::of(&self.shared);
            self.stalled_since = None;
        }
        outcome
    }

    /// True if the module decides and spends credit.
    fn spends_credit(&self) -> bool {
        self.state.is_module && self.state.spends_credit
    }

    /// Takes the module out of use if data has waited for too long without an allowance.
    fn watch(&mut self, now: Instant, backlog_bytes: u64) {
        if !self.spends_credit() || backlog_bytes == 0 || self.allowance_bytes() > 0 {
            self.stalled_since = None;
            return;
        }
        let since = *self.stalled_since.get_or_insert(now);
        if now.elapsed_since(since) >= STALL {
            let fault = Fault { hook: Hook::CreditRequest, reason: Reason::Stalled };
            self.shared.lock().end(fault);
            self.state.is_module = false;
        }
    }

    /// When the module has asked to be called again; `None` if it has not, or names a time that is
    /// too far away. `u64::MAX` is such a time, and not a past one as by wrapping difference.
    fn call_again_at(&self) -> Option<Instant> {
        let after = self.call_again_after()?;
        let is_hasty = after == Duration::ZERO || self.hasty_calls > HASTY_CALLS;
        let after = if is_hasty { after.max(CALL_AGAIN_MIN) } else { after };
        (after <= CALL_AGAIN_MAX).then(|| self.now + after)
    }

    /// Time from the last event to the time that the module has named, zero if that has passed;
    /// `None` if it has named none.
    fn call_again_after(&self) -> Option<Duration> {
        let at = self.state.decision.credit.request_at_ps;
        (at > 0).then(|| Duration::from_ps(at.saturating_sub(self.now.as_ps())))
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.shared.lock().fuel_used()
    }
}

impl CongestionControl for UserCongestion {
    fn name(&self) -> &'static str {
        if self.state.is_module { "wasm" } else { self.fallback.name() }
    }

    fn window_bytes(&self) -> u64 {
        match self.state.is_module {
            true => self.state.decision.window_bytes,
            false => self.fallback.window_bytes(),
        }
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let outcome = self.event(sample.now, |guest| {
            let hook = guest.hooks.on_ack.as_ref()?;
            guest.machine.area()?.put_ack(sample);
            Some(guest.machine.call(Hook::OnAck, hook, ()))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_ack(sample);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        let outcome = self.event(sample.now, |guest| {
            let hook = guest.hooks.on_loss.as_ref()?;
            guest.machine.area()?.put_loss(sample);
            Some(guest.machine.call(Hook::OnLoss, hook, ()))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_loss(sample);
        }
    }

    fn on_spurious(&mut self, now: Instant, packets: u32) {
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.on_spurious.as_ref()?;
            Some(guest.machine.call(Hook::OnSpurious, hook, (now.as_ps(), packets)))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_spurious(now, packets);
        }
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        match self.state.is_module {
            true => Some(self.state.decision.pacing_bytes_per_second).filter(|rate| *rate > 0),
            false => self.fallback.pacing_bytes_per_second(),
        }
    }

    fn pacing_burst_bytes(&self) -> u32 {
        match self.state.is_module {
            true => self.state.decision.pacing_burst_bytes,
            false => self.fallback.pacing_burst_bytes(),
        }
    }

    fn paces_within_window(&self) -> bool {
        match self.state.is_module {
            true => self.state.traits.paces_within_window,
            false => self.fallback.paces_within_window(),
        }
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        match self.state.is_module {
            true => remaining.min(u64::from(self.state.decision.chunk_bytes)) as u32,
            false => self.fallback.chunk_bytes(remaining),
        }
    }

    fn permit_retransmit(&mut self, now: Instant, bytes: u32) -> bool {
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.permit_retransmit.as_ref()?;
            Some(guest.machine.call(Hook::PermitRetransmit, hook, (now.as_ps(), bytes)))
        });
        match outcome {
            Outcome::Answer(answer) => answer != 0,
            // The default of built-in congestion controllers.
            Outcome::NoHook => false,
            Outcome::Gone => self.fallback.permit_retransmit(now, bytes),
        }
    }

    fn on_data(&mut self, now: Instant, bytes: u32, retransmitted: bool) {
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.on_data.as_ref()?;
            Some(guest.machine.call(Hook::OnData, hook, (now.as_ps(), bytes, retransmitted.into())))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_data(now, bytes, retransmitted);
        }
    }

    fn on_credit(&mut self, now: Instant, bytes: u32) {
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.on_credit.as_ref()?;
            Some(guest.machine.call(Hook::OnCredit, hook, (now.as_ps(), bytes)))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_credit(now, bytes);
        }
    }

    fn credit_ahead_bytes(&self) -> u64 {
        match self.state.is_module {
            true if self.spends_credit() => self.state.decision.credit.ahead_bytes,
            true => 0,
            false => self.fallback.credit_ahead_bytes(),
        }
    }

    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        // Most modules spend no credit, and are not locked for every packet.
        if self.state.is_module && !self.state.spends_credit {
            return;
        }
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.on_sent.as_ref()?;
            Some(guest.machine.call(Hook::OnSent, hook, (now.as_ps(), bytes, backlog_bytes)))
        });
        if let Outcome::Gone = outcome {
            self.fallback.on_sent(now, bytes, backlog_bytes);
        }
    }

    fn allowance_bytes(&self) -> u64 {
        match self.state.is_module {
            true if self.spends_credit() => self.state.decision.credit.allowance_bytes,
            true => u64::MAX,
            false => self.fallback.allowance_bytes(),
        }
    }

    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        if self.state.is_module && !self.state.spends_credit {
            return None;
        }
        let outcome = self.event(now, |guest| {
            let hook = guest.hooks.credit_request.as_ref()?;
            Some(guest.machine.call(Hook::CreditRequest, hook, (now.as_ps(), backlog_bytes)))
        });
        let is_hasty = self.call_again_after().is_some_and(|after| after < CALL_AGAIN_MIN);
        self.hasty_calls = if is_hasty { self.hasty_calls.saturating_add(1) } else { 0 };
        self.watch(now, backlog_bytes);
        match outcome {
            Outcome::Answer(0) | Outcome::NoHook => None,
            Outcome::Answer(_) => {
                let credit = self.state.decision.credit;
                let (total_bytes, resend, blocked) =
                    (credit.total_bytes, credit.resend, credit.blocked);
                Some(CreditRequest { total_bytes, resend, blocked })
            }
            Outcome::Gone => self.fallback.credit_request(now, backlog_bytes),
        }
    }

    fn credit_request_at(&self) -> Option<Instant> {
        if !self.state.is_module {
            return self.fallback.credit_request_at();
        }
        if !self.spends_credit() {
            return None;
        }
        let stall = self.stalled_since.map(|since| since + STALL);
        match (self.call_again_at(), stall) {
            (Some(own), Some(stall)) => Some(own.min(stall)),
            (own, stall) => own.or(stall),
        }
    }
}
