//! A congestion control that runs in a module.

use std::sync::Arc;

use fairway_policy::{AckSample, CongestionControl, CreditRequest, LossSample};
use fairway_wire::Instant;

use crate::Fault;
use crate::abi::Decision;
use crate::guest::Guest;
use crate::module::Hook;
use crate::slot::{Cursor, Slot};

/// An instance of a module and, after a fault, the built-in default in its place.
pub(crate) struct UserCongestion {
    slot: Arc<Slot>,
    cursor: Cursor,
    guest: Option<Guest>,
    /// Built-in default, created in advance because a fault occurs in the middle of an event.
    fallback: Box<dyn CongestionControl>,
    /// The module's last decision, which the protocol reads for every packet.
    decision: Decision,
    mtu_bytes: u32,
}

impl UserCongestion {
    pub(crate) fn new(
        slot: Arc<Slot>,
        fallback: Box<dyn CongestionControl>,
        mtu_bytes: u32,
    ) -> Self {
        let (mut guest, cursor) = slot.start(mtu_bytes);
        let decision =
            guest.as_mut().map_or_else(Decision::default, |guest| guest.decision(mtu_bytes));
        UserCongestion { slot, cursor, guest, fallback, decision, mtu_bytes }
    }

    /// Changes to another module if the current one has been replaced.
    fn follow(&mut self, now: Instant) {
        let change = self.slot.replacement(&mut self.cursor, now, self.mtu_bytes, self.decision);
        if let Some(guest) = change {
            self.guest = guest;
            if let Some(guest) = &mut self.guest {
                self.decision = guest.decision(self.mtu_bytes);
            }
        }
    }

    /// Passes an event at `now` to the module. Returns `None` if the module has no hook for it, or
    /// if there is no module any more.
    fn call_hook<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut Guest) -> Option<Result<R, Fault>>,
    ) -> Option<R> {
        self.follow(now);
        let guest = self.guest.as_mut()?;
        match call(guest)? {
            Ok(answer) => {
                self.decision = guest.decision(self.mtu_bytes);
                Some(answer)
            }
            Err(fault) => {
                self.guest = None;
                self.slot.note(now, fault);
                None
            }
        }
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.guest.as_ref().map_or(0, Guest::fuel_used)
    }
}

impl CongestionControl for UserCongestion {
    fn name(&self) -> &'static str {
        if self.guest.is_some() { "wasm" } else { self.fallback.name() }
    }

    fn window_bytes(&self) -> u64 {
        match self.guest {
            Some(_) => self.decision.window_bytes,
            None => self.fallback.window_bytes(),
        }
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.call_hook(sample.now, |guest| {
            let hook = guest.hooks.on_ack?;
            guest.area()?.put_ack(sample);
            Some(guest.call(Hook::OnAck, hook, ()))
        });
        if self.guest.is_none() {
            self.fallback.on_ack(sample);
        }
    }

    fn on_loss(&mut self, sample: &LossSample) {
        self.call_hook(sample.now, |guest| {
            let hook = guest.hooks.on_loss?;
            guest.area()?.put_loss(sample);
            Some(guest.call(Hook::OnLoss, hook, ()))
        });
        if self.guest.is_none() {
            self.fallback.on_loss(sample);
        }
    }

    fn on_spurious(&mut self, now: Instant, packets: u32) {
        self.call_hook(now, |guest| {
            let hook = guest.hooks.on_spurious?;
            Some(guest.call(Hook::OnSpurious, hook, (now.as_ps(), packets)))
        });
        if self.guest.is_none() {
            self.fallback.on_spurious(now, packets);
        }
    }

    fn pacing_bytes_per_second(&self) -> Option<u64> {
        match self.guest {
            Some(_) => Some(self.decision.pacing_bytes_per_second).filter(|rate| *rate > 0),
            None => self.fallback.pacing_bytes_per_second(),
        }
    }

    fn pacing_burst_bytes(&self) -> u32 {
        match self.guest {
            Some(_) => self.decision.pacing_burst_bytes,
            None => self.fallback.pacing_burst_bytes(),
        }
    }

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        match self.guest {
            Some(_) => remaining.min(u64::from(self.decision.chunk_bytes)) as u32,
            None => self.fallback.chunk_bytes(remaining),
        }
    }

    fn permit_retransmit(&mut self, now: Instant, bytes: u32) -> bool {
        let permitted = self.call_hook(now, |guest| {
            let hook = guest.hooks.permit_retransmit?;
            Some(guest.call(Hook::PermitRetransmit, hook, (now.as_ps(), bytes)))
        });
        match permitted {
            Some(answer) => answer != 0,
            // The default of built-in congestion controllers.
            None if self.guest.is_some() => false,
            None => self.fallback.permit_retransmit(now, bytes),
        }
    }

    fn on_data(&mut self, now: Instant, bytes: u32, retransmitted: bool) {
        self.call_hook(now, |guest| {
            let hook = guest.hooks.on_data?;
            Some(guest.call(Hook::OnData, hook, (now.as_ps(), bytes, retransmitted.into())))
        });
        if self.guest.is_none() {
            self.fallback.on_data(now, bytes, retransmitted);
        }
    }

    fn on_credit(&mut self, now: Instant, bytes: u32) {
        self.call_hook(now, |guest| {
            let hook = guest.hooks.on_credit?;
            Some(guest.call(Hook::OnCredit, hook, (now.as_ps(), bytes)))
        });
        if self.guest.is_none() {
            self.fallback.on_credit(now, bytes);
        }
    }

    // A module does not use credit, so the following calls concern the built-in default only.

    fn on_sent(&mut self, now: Instant, bytes: u32, backlog_bytes: u64) {
        if self.guest.is_none() {
            self.fallback.on_sent(now, bytes, backlog_bytes);
        }
    }

    fn allowance_bytes(&self) -> u64 {
        match self.guest {
            Some(_) => u64::MAX,
            None => self.fallback.allowance_bytes(),
        }
    }

    fn credit_request(&mut self, now: Instant, backlog_bytes: u64) -> Option<CreditRequest> {
        match self.guest {
            Some(_) => None,
            None => self.fallback.credit_request(now, backlog_bytes),
        }
    }

    fn credit_request_at(&self) -> Option<Instant> {
        match self.guest {
            Some(_) => None,
            None => self.fallback.credit_request_at(),
        }
    }
}
