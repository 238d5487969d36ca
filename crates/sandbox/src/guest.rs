//! An instance of a module, which has its own memory and whose calls are limited by fuel.

use wasmi::{
    Instance, Linker, Memory, Store, StoreLimits, StoreLimitsBuilder, TypedFunc, WasmParams,
    WasmResults,
};

use crate::abi::{Area, Decision, FlowRate, Start, Traits};
use crate::hook::Hook;
use crate::module::{Module, ROOT, engine};
use crate::{ABI_VERSION, Fault, Reason};

/// Maximum number of instructions (approximately) of an event. The built-in Swift takes about
/// 1,400.
pub const EVENT_FUEL: u64 = 20_000;
/// Fuel that an event of a scheduler may use in addition, for each flow that is active.
pub(crate) const FLOW_FUEL: u64 = 4_000;
/// Maximum number of instructions (approximately) for starting an instance and reading its
/// parameters.
pub const START_FUEL: u64 = 5_000_000;
/// Maximum size of an instance's memory, in bytes.
pub const MEMORY_BYTES_MAX: usize = 1 << 20;
/// Maximum number of elements of its tables.
const TABLE_MAX: usize = 1024;

/// A running instance.
pub(crate) struct Guest {
    store: Store<StoreLimits>,
    memory: Memory,
    /// Address of its area.
    area: usize,
    /// Address of its list of rates, if it is a scheduler.
    rates: usize,
    /// Fuel of the last event.
    fuel: u64,
    pub(crate) traits: Traits,
    pub(crate) hooks: Hooks,
}

/// The functions that the instance exports.
pub(crate) struct Hooks {
    pub(crate) on_ack: Option<TypedFunc<(), ()>>,
    pub(crate) on_loss: Option<TypedFunc<(), ()>>,
    pub(crate) on_spurious: Option<TypedFunc<(u64, u32), ()>>,
    pub(crate) permit_retransmit: Option<TypedFunc<(u64, u32), u32>>,
    pub(crate) on_data: Option<TypedFunc<(u64, u32, u32), ()>>,
    pub(crate) on_credit: Option<TypedFunc<(u64, u32), ()>>,
    pub(crate) on_sent: Option<TypedFunc<(u64, u32, u64), ()>>,
    pub(crate) credit_request: Option<TypedFunc<(u64, u64), u32>>,
    pub(crate) choose_path: Option<TypedFunc<u32, u32>>,
    pub(crate) has_room: Option<TypedFunc<u32, u32>>,
    pub(crate) on_path_ack: Option<TypedFunc<u32, ()>>,
    pub(crate) on_path_loss: Option<TypedFunc<u32, ()>>,
    pub(crate) is_lost: Option<TypedFunc<(), u32>>,
    pub(crate) on_reordering: Option<TypedFunc<(), ()>>,
    pub(crate) on_progress: Option<TypedFunc<(u64, u64), ()>>,
    pub(crate) overdue_after: Option<TypedFunc<u64, i64>>,
    pub(crate) flow_started: Option<TypedFunc<(u64, u32), u32>>,
    pub(crate) flow_ended: Option<TypedFunc<(u64, u32), u32>>,
    pub(crate) share_changed: Option<TypedFunc<(u64, u32), u32>>,
    pub(crate) on_transmit: Option<TypedFunc<u32, u32>>,
    pub(crate) on_hint: Option<TypedFunc<(u64, u32, u64), u32>>,
}

impl Guest {
    /// Makes an instance and calls it to read its parameters.
    pub(crate) fn start(module: &Module, start: &Start<'_>) -> Result<Guest, Fault> {
        let mut store = Store::new(engine(), limits(MEMORY_BYTES_MAX, TABLE_MAX));
        store.limiter(|limits| limits);
        refuel(&mut store, START_FUEL);
        let mut linker = Linker::new(engine());
        // This fails only if the name is already taken.
        let _defined = linker.func_wrap(ROOT.0, ROOT.1, u64::isqrt);
        let unusable = |error: wasmi::Error| Fault {
            hook: Hook::Init,
            reason: match Reason::of(&error) {
                Reason::Unusable(text) => Reason::Unusable(text),
                reason => Reason::Unusable(format!("its start function: {reason:?}")),
            },
        };
        let instance =
            linker.instantiate_and_start(&mut store, module.inner()).map_err(unusable)?;
        let memory = instance.get_memory(&store, "memory").ok_or_else(|| Fault {
            hook: Hook::Init,
            reason: Reason::Unusable(String::from("it has no memory")),
        })?;
        let hooks = Hooks::of(&instance, &store);
        let traits = Traits::default();
        let mut guest = Guest { store, memory, area: 0, rates: 0, fuel: 0, traits, hooks };
        let version = guest.number(&instance, Hook::Abi)?;
        if version == 0 || version > ABI_VERSION {
            return Err(Fault { hook: Hook::Abi, reason: Reason::WrongAbi(version) });
        }
        let area = guest.number(&instance, Hook::Area)?;
        guest.area = area as usize;
        let fault = Fault { hook: Hook::Area, reason: Reason::BadArea(area) };
        if area == 0 || !area.is_multiple_of(8) {
            return Err(fault);
        }
        match guest.area() {
            Some(mut area) => area.put_start(start),
            None => return Err(fault),
        }
        if guest.number(&instance, Hook::Init)? != 0 {
            let text = guest.area().map(|area| area.text()).unwrap_or_default();
            return Err(Fault { hook: Hook::Init, reason: Reason::Refused(text) });
        }
        if module.has(Hook::Rates) {
            guest.rates = guest.number(&instance, Hook::Rates)? as usize;
        }
        guest.traits = guest.area().map(|area| area.traits()).unwrap_or_default();
        // From now on its memory cannot grow, so that the host allocates nothing for it.
        *guest.store.data_mut() = limits(guest.memory_bytes(), 0);
        Ok(guest)
    }

    /// Calls a function that is needed at the start only.
    fn number(&mut self, instance: &Instance, hook: Hook) -> Result<u32, Fault> {
        refuel(&mut self.store, START_FUEL);
        let call = instance
            .get_typed_func::<(), u32>(&self.store, hook.name())
            .and_then(|function| function.call(&mut self.store, ()));
        call.map_err(|error| Fault { hook, reason: Reason::of(&error) })
    }

    /// Returns the area; `None` only if it is not in the instance's memory, which was checked at
    /// the start.
    pub(crate) fn area(&mut self) -> Option<Area<'_>> {
        Area::at(self.memory.data_mut(&mut self.store), self.area)
    }

    /// Calls `function` with the fuel of an event.
    pub(crate) fn call<P: WasmParams, R: WasmResults>(
        &mut self,
        hook: Hook,
        function: TypedFunc<P, R>,
        parameters: P,
    ) -> Result<R, Fault> {
        self.call_with(hook, function, parameters, EVENT_FUEL)
    }

    /// Calls `function` with this much fuel.
    pub(crate) fn call_with<P: WasmParams, R: WasmResults>(
        &mut self,
        hook: Hook,
        function: TypedFunc<P, R>,
        parameters: P,
        fuel: u64,
    ) -> Result<R, Fault> {
        self.fuel = fuel;
        refuel(&mut self.store, fuel);
        let result = function.call(&mut self.store, parameters);
        result.map_err(|error| Fault { hook, reason: Reason::of(&error) })
    }

    /// Returns the first `count` entries of the list of rates; `None` if they are not in the
    /// instance's memory.
    pub(crate) fn rates(&self, count: u32) -> Option<impl Iterator<Item = FlowRate>> {
        let bytes = FlowRate::BYTES.checked_mul(count as usize)?;
        let end = self.rates.checked_add(bytes)?;
        let list = self.memory.data(&self.store).get(self.rates..end)?;
        Some(list.as_chunks().0.iter().map(FlowRate::read))
    }

    /// Returns the module's decision.
    pub(crate) fn decision(&mut self, mtu_bytes: u32) -> Decision {
        self.area().map_or_else(Decision::default, |area| area.decision(mtu_bytes))
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    /// Size of the instance's memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.data(&self.store).len()
    }
}

fn refuel(store: &mut Store<StoreLimits>, fuel: u64) {
    // This fails only if fuel is not counted, and it is.
    let _counted = store.set_fuel(fuel);
}

impl Hooks {
    fn of(instance: &Instance, store: &Store<StoreLimits>) -> Hooks {
        fn find<P: WasmParams, R: WasmResults>(
            instance: &Instance,
            store: &Store<StoreLimits>,
            hook: Hook,
        ) -> Option<TypedFunc<P, R>> {
            instance.get_typed_func(store, hook.name()).ok()
        }
        Hooks {
            on_ack: find(instance, store, Hook::OnAck),
            on_loss: find(instance, store, Hook::OnLoss),
            on_spurious: find(instance, store, Hook::OnSpurious),
            permit_retransmit: find(instance, store, Hook::PermitRetransmit),
            on_data: find(instance, store, Hook::OnData),
            on_credit: find(instance, store, Hook::OnCredit),
            on_sent: find(instance, store, Hook::OnSent),
            credit_request: find(instance, store, Hook::CreditRequest),
            choose_path: find(instance, store, Hook::ChoosePath),
            has_room: find(instance, store, Hook::HasRoom),
            on_path_ack: find(instance, store, Hook::OnPathAck),
            on_path_loss: find(instance, store, Hook::OnPathLoss),
            is_lost: find(instance, store, Hook::IsLost),
            on_reordering: find(instance, store, Hook::OnReordering),
            on_progress: find(instance, store, Hook::OnProgress),
            overdue_after: find(instance, store, Hook::OverdueAfter),
            flow_started: find(instance, store, Hook::FlowStarted),
            flow_ended: find(instance, store, Hook::FlowEnded),
            share_changed: find(instance, store, Hook::ShareChanged),
            on_transmit: find(instance, store, Hook::OnTransmit),
            on_hint: find(instance, store, Hook::OnHint),
        }
    }
}

/// Limits what an instance may use of the host's memory: up to `memory_bytes` for its own.
fn limits(memory_bytes: usize, table_elements: usize) -> StoreLimits {
    StoreLimitsBuilder::new()
        .memory_size(memory_bytes)
        .table_elements(table_elements)
        .instances(1)
        .memories(1)
        .tables(4)
        .build()
}
