//! An instance of a module, which has its own memory and whose calls are limited by fuel.

use crate::abi::{Start, Traits};
use crate::hook::Hook;
use crate::limits::{MEMORY_BYTES_MAX, START_FUEL};
use crate::machine::{Function, Machine};
use crate::module::Module;
use crate::{ABI_VERSION, Fault, Reason};

/// A running instance.
pub(crate) struct Guest {
    pub(crate) machine: Machine,
    pub(crate) traits: Traits,
    pub(crate) hooks: Hooks,
    /// The version of the interface for which it was made.
    version: u32,
}

/// The functions that the instance exports.
pub(crate) struct Hooks {
    pub(crate) on_ack: Option<Function<(), ()>>,
    pub(crate) on_loss: Option<Function<(), ()>>,
    pub(crate) on_spurious: Option<Function<(u64, u32), ()>>,
    pub(crate) permit_retransmit: Option<Function<(u64, u32), u32>>,
    pub(crate) on_data: Option<Function<(u64, u32, u32), ()>>,
    pub(crate) on_credit: Option<Function<(u64, u32), ()>>,
    pub(crate) on_sent: Option<Function<(u64, u32, u64), ()>>,
    pub(crate) credit_request: Option<Function<(u64, u64), u32>>,
    pub(crate) choose_path: Option<Function<u32, u32>>,
    pub(crate) has_room: Option<Function<u32, u32>>,
    pub(crate) on_path_ack: Option<Function<u32, ()>>,
    pub(crate) on_path_loss: Option<Function<u32, ()>>,
    pub(crate) is_lost: Option<Function<(), u32>>,
    pub(crate) on_reordering: Option<Function<(), ()>>,
    pub(crate) on_progress: Option<Function<(u64, u64), ()>>,
    pub(crate) overdue_after: Option<Function<u64, i64>>,
    pub(crate) flow_started: Option<Function<(u64, u32), u32>>,
    pub(crate) flow_ended: Option<Function<(u64, u32), u32>>,
    pub(crate) share_changed: Option<Function<(u64, u32), u32>>,
    pub(crate) on_transmit: Option<Function<u32, u32>>,
    pub(crate) on_hint: Option<Function<(u64, u32, u64), u32>>,
}

impl Guest {
    /// Makes an instance and calls it to read its parameters.
    pub(crate) fn start(module: &Module, start: &Start<'_>) -> Result<Guest, Fault> {
        let mut machine = Machine::start(module.code(), MEMORY_BYTES_MAX, START_FUEL)?;
        let version = number(&mut machine, Hook::Abi)?;
        if version == 0 || version > ABI_VERSION {
            return Err(Fault { hook: Hook::Abi, reason: Reason::WrongAbi(version) });
        }
        let area = number(&mut machine, Hook::Area)?;
        let is_fine = machine.set_area(area as usize);
        let fault = Fault { hook: Hook::Area, reason: Reason::BadArea(area) };
        if area == 0 || !area.is_multiple_of(8) || !is_fine {
            return Err(fault);
        }
        match machine.area() {
            Some(mut area) => area.put_start(start),
            None => return Err(fault),
        }
        if number(&mut machine, Hook::Init)? != 0 {
            let text = machine.area().map(|area| area.text()).unwrap_or_default();
            return Err(Fault { hook: Hook::Init, reason: Reason::Refused(text) });
        }
        if module.has(Hook::Rates) {
            let rates = number(&mut machine, Hook::Rates)?;
            machine.set_rates(rates as usize);
        }
        let traits = machine.area().map(|area| area.traits()).unwrap_or_default();
        // From now on its memory cannot grow, so that the host allocates nothing for it.
        machine.freeze();
        let hooks = Hooks::of(&mut machine);
        Ok(Guest { machine, traits, hooks, version })
    }

    /// Reads again what a scheduler states: a module of version 5 or later may have changed it in
    /// the call that has just ended.
    pub(crate) fn read_event_bytes(&mut self) {
        if self.version >= 5
            && let Some(area) = self.machine.area()
        {
            self.traits.event_bytes = area.traits().event_bytes;
        }
    }
}

/// Calls a function that is needed at the start only.
fn number(machine: &mut Machine, hook: Hook) -> Result<u32, Fault> {
    let missing = || Fault { hook, reason: Reason::Unusable(String::from("it is gone")) };
    let function = machine.function::<(), u32>(hook).ok_or_else(missing)?;
    machine.call_with(hook, &function, (), START_FUEL)
}

impl Hooks {
    fn of(machine: &mut Machine) -> Hooks {
        Hooks {
            on_ack: machine.function(Hook::OnAck),
            on_loss: machine.function(Hook::OnLoss),
            on_spurious: machine.function(Hook::OnSpurious),
            permit_retransmit: machine.function(Hook::PermitRetransmit),
            on_data: machine.function(Hook::OnData),
            on_credit: machine.function(Hook::OnCredit),
            on_sent: machine.function(Hook::OnSent),
            credit_request: machine.function(Hook::CreditRequest),
            choose_path: machine.function(Hook::ChoosePath),
            has_room: machine.function(Hook::HasRoom),
            on_path_ack: machine.function(Hook::OnPathAck),
            on_path_loss: machine.function(Hook::OnPathLoss),
            is_lost: machine.function(Hook::IsLost),
            on_reordering: machine.function(Hook::OnReordering),
            on_progress: machine.function(Hook::OnProgress),
            overdue_after: machine.function(Hook::OverdueAfter),
            flow_started: machine.function(Hook::FlowStarted),
            flow_ended: machine.function(Hook::FlowEnded),
            share_changed: machine.function(Hook::ShareChanged),
            on_transmit: machine.function(Hook::OnTransmit),
            on_hint: machine.function(Hook::OnHint),
        }
    }
}
