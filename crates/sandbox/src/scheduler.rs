//! A scheduler that runs in a module.
//!
//! A hook returns how many entries of the module's list of rates it has written. The host applies
//! them to the registers, within bounds, and keeps the quanta.

use fairway_policy::{FlowId, Greedy, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_wire::Instant;

use crate::guest::Guest;
use crate::hook::Hook;
use crate::instance::{Outcome, Shared};
use crate::limits::{EVENT_FUEL, FLOW_FUEL};
use crate::{Fault, Reason};

/// An instance of a module and, after a fault, no shares at all ([`Greedy`]).
pub(crate) struct UserScheduler {
    shared: Shared,
    /// The shares of the flows that have started, which a new module receives.
    started: Box<[Option<Share>]>,
    active: u32,
    quanta: Box<[u32]>,
    generation: u32,
    is_module: bool,
}

impl UserScheduler {
    pub(crate) fn new(shared: Shared, flows: u32) -> UserScheduler {
        let is_module = shared.lock().guest().is_some();
        UserScheduler {
            shared,
            started: vec![None; flows as usize].into_boxed_slice(),
            active: 0,
            quanta: vec![0; flows as usize].into_boxed_slice(),
            generation: 0,
            is_module,
        }
    }

    /// Passes an event at `now` to the module, and applies the rates that it returns.
    fn event(
        &mut self,
        now: Instant,
        rates: &RateRegisters,
        call: impl FnOnce(&mut Guest, u64) -> Option<Result<u32, Fault>>,
    ) {
        self.follow(now, rates);
        if self.is_module {
            self.call(rates, call);
        }
    }

    fn call(
        &mut self,
        rates: &RateRegisters,
        call: impl FnOnce(&mut Guest, u64) -> Option<Result<u32, Fault>>,
    ) {
        let fuel = EVENT_FUEL + FLOW_FUEL * u64::from(self.active);
        let mut instance = self.shared.lock();
        let (quanta, flows) = (&mut self.quanta, self.started.len());
        let outcome = instance.event_between(|guest| {
            let count = match call(guest, fuel)? {
                Ok(count) => count,
                Err(fault) => return Some(Err(fault)),
            };
            guest.read_event_bytes();
            let fault = |reason| Fault { hook: Hook::Rates, reason };
            let list = guest.machine.rates(count).filter(|_| count as usize <= flows);
            let Some(list) = list else { return Some(Err(fault(Reason::BadList(count)))) };
            for entry in list {
                let Some(quantum) = quanta.get_mut(entry.flow as usize) else {
                    return Some(Err(fault(Reason::NoSuchFlow(entry.flow))));
                };
                rates.set(FlowId(entry.flow), entry.bytes_per_second);
                if *quantum != entry.quantum_bytes {
                    *quantum = entry.quantum_bytes;
                    rates.set_quantum(FlowId(entry.flow), quantum_of(entry.quantum_bytes));
                }
            }
            Some(Ok(()))
        });
        drop(instance);
        if let Outcome::Gone = outcome {
            self.lift(rates);
        }
    }

    /// Takes another module if there is one, and reports all flows to it.
    fn follow(&mut self, now: Instant, rates: &RateRegisters) {
        let mut instance = self.shared.lock();
        instance.follow(now);
        let (generation, is_module) = (instance.generation(), instance.guest().is_some());
        drop(instance);
        if generation == self.generation {
            return;
        }
        self.generation = generation;
        self.lift(rates);
        self.is_module = is_module;
        for flow in 0..self.started.len() as u32 {
            let Some(share) = self.started[flow as usize] else { continue };
            if self.is_module {
                self.call(rates, |guest, fuel| start(guest, now, flow, share, fuel));
            }
        }
    }

    /// Removes all limits, and notes that no module decides.
    fn lift(&mut self, rates: &RateRegisters) {
        self.is_module = false;
        for flow in 0..rates.len() as u32 {
            rates.set(FlowId(flow), RateRegisters::UNLIMITED);
            rates.set_quantum(FlowId(flow), None);
        }
        self.quanta.fill(0);
    }
}

fn quantum_of(bytes: u32) -> Option<u32> {
    (bytes > 0).then_some(bytes)
}

fn start(
    guest: &mut Guest,
    now: Instant,
    flow: u32,
    share: Share,
    fuel: u64,
) -> Option<Result<u32, Fault>> {
    let hook = guest.hooks.flow_started.as_ref()?;
    guest.machine.area()?.put_share(share);
    Some(guest.machine.call_with(Hook::FlowStarted, hook, (now.as_ps(), flow), fuel))
}

impl Scheduler for UserScheduler {
    fn name(&self) -> &'static str {
        if self.is_module { "wasm" } else { Greedy::NAME }
    }

    fn flow_started(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        // Done first, so that a new module does not receive the flow twice.
        self.follow(now, rates);
        if let Some(started) = self.started.get_mut(flow.index()) {
            self.active += u32::from(started.is_none());
            *started = Some(share);
        }
        self.event(now, rates, |guest, fuel| start(guest, now, flow.0, share, fuel));
    }

    fn flow_ended(&mut self, now: Instant, flow: FlowId, rates: &RateRegisters) {
        if let Some(started) = self.started.get_mut(flow.index()) {
            self.active -= u32::from(started.take().is_some());
        }
        self.event(now, rates, |guest, fuel| {
            let hook = guest.hooks.flow_ended.as_ref()?;
            Some(guest.machine.call_with(Hook::FlowEnded, hook, (now.as_ps(), flow.0), fuel))
        });
    }

    fn share_changed(&mut self, now: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        if let Some(started) = self.started.get_mut(flow.index())
            && started.is_some()
        {
            *started = Some(share);
        }
        self.event(now, rates, |guest, fuel| {
            let hook = guest.hooks.share_changed.as_ref()?;
            guest.machine.area()?.put_share(share);
            Some(guest.machine.call_with(Hook::ShareChanged, hook, (now.as_ps(), flow.0), fuel))
        });
    }

    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, rates: &RateRegisters) {
        self.event(sample.now, rates, |guest, fuel| {
            let hook = guest.hooks.on_transmit.as_ref()?;
            guest.machine.area()?.put_transmit(sample);
            Some(guest.machine.call_with(Hook::OnTransmit, hook, flow.0, fuel))
        });
    }

    fn on_hint(&mut self, now: Instant, flow: FlowId, hint: u64, rates: &RateRegisters) {
        self.event(now, rates, |guest, fuel| {
            let hook = guest.hooks.on_hint.as_ref()?;
            Some(guest.machine.call_with(Hook::OnHint, hook, (now.as_ps(), flow.0, hint), fuel))
        });
    }

    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        self.quanta.get(flow.index()).and_then(|bytes| quantum_of(*bytes))
    }

    fn event_bytes(&self) -> u32 {
        if self.is_module { self.shared.lock().traits().event_bytes } else { u32::MAX }
    }
}
