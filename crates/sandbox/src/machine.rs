//! The memory and the functions of an instance, in whichever engine runs it.

use std::fmt;

use crate::abi::{Area, Decision, FlowRate};
use crate::hook::Hook;
use crate::limits::EVENT_FUEL;
use crate::{Engine, Fault, interpreter};

#[cfg(feature = "compiled")]
use crate::compiled;

/// Parameters that a function of both engines can have.
#[cfg(not(feature = "compiled"))]
pub(crate) trait Parameters: wasmi::WasmParams {}
#[cfg(not(feature = "compiled"))]
impl<P: wasmi::WasmParams> Parameters for P {}
/// Results that a function of both engines can have.
#[cfg(not(feature = "compiled"))]
pub(crate) trait Results: wasmi::WasmResults {}
#[cfg(not(feature = "compiled"))]
impl<R: wasmi::WasmResults> Results for R {}

/// Parameters that a function of both engines can have.
#[cfg(feature = "compiled")]
pub(crate) trait Parameters: wasmi::WasmParams + wasmtime::WasmParams {}
#[cfg(feature = "compiled")]
impl<P: wasmi::WasmParams + wasmtime::WasmParams> Parameters for P {}
/// Results that a function of both engines can have.
#[cfg(feature = "compiled")]
pub(crate) trait Results: wasmi::WasmResults + wasmtime::WasmResults {}
#[cfg(feature = "compiled")]
impl<R: wasmi::WasmResults + wasmtime::WasmResults> Results for R {}

/// A module in the form that an engine runs.
pub(crate) enum Code {
    Interpreted(wasmi::Module),
    #[cfg(feature = "compiled")]
    Compiled(compiled::Code),
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.engine().name())
    }
}

impl Code {
    pub(crate) fn engine(&self) -> Engine {
        match self {
            Code::Interpreted(_) => Engine::Interpreted,
            #[cfg(feature = "compiled")]
            Code::Compiled(_) => Engine::Compiled,
        }
    }
}

/// A function that an instance exports. It is called on the instance's own machine only.
pub(crate) enum Function<P, R> {
    Interpreted(wasmi::TypedFunc<P, R>),
    #[cfg(feature = "compiled")]
    Compiled(wasmtime::TypedFunc<P, R>),
}

#[allow(clippy::large_enum_variant, reason = "a pointer more for every event of the interpreter")]
enum Run {
    Interpreted(interpreter::Run),
    #[cfg(feature = "compiled")]
    Compiled(compiled::Run),
}

/// An instance, whose calls are limited by fuel.
pub(crate) struct Machine {
    run: Run,
    /// Address of its area.
    area: usize,
    /// Address of its list of rates, if it is a scheduler.
    rates: usize,
    /// Fuel of the last event.
    fuel: u64,
}

impl Machine {
    /// Makes an instance and runs its start function, with at most this much fuel.
    pub(crate) fn start(code: &Code, memory_bytes: usize, fuel: u64) -> Result<Machine, Fault> {
        let run = match code {
            Code::Interpreted(code) => {
                Run::Interpreted(interpreter::start(code, memory_bytes, fuel)?)
            }
            #[cfg(feature = "compiled")]
            Code::Compiled(code) => Run::Compiled(compiled::start(code, memory_bytes, fuel)?),
        };
        Ok(Machine { run, area: 0, rates: 0, fuel: 0 })
    }

    /// Sets the address of the area. Returns false if the area would not be in the memory.
    pub(crate) fn set_area(&mut self, address: usize) -> bool {
        self.area = address;
        self.area().is_some()
    }

    pub(crate) fn set_rates(&mut self, address: usize) {
        self.rates = address;
    }

    /// Lets the memory grow no further.
    pub(crate) fn freeze(&mut self) {
        match &mut self.run {
            Run::Interpreted(run) => run.freeze(),
            #[cfg(feature = "compiled")]
            Run::Compiled(run) => run.freeze(),
        }
    }

    /// Returns the function that the instance exports as `hook`.
    pub(crate) fn function<P: Parameters, R: Results>(
        &mut self,
        hook: Hook,
    ) -> Option<Function<P, R>> {
        match &mut self.run {
            Run::Interpreted(run) => {
                let found = run.instance.get_typed_func(&run.store, hook.name());
                found.ok().map(Function::Interpreted)
            }
            #[cfg(feature = "compiled")]
            Run::Compiled(run) => {
                let found = run.instance.get_typed_func(&mut run.store, hook.name());
                found.ok().map(Function::Compiled)
            }
        }
    }

    /// Calls `function` with the fuel of an event.
    pub(crate) fn call<P: Parameters, R: Results>(
        &mut self,
        hook: Hook,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, Fault> {
        self.call_with(hook, function, parameters, EVENT_FUEL)
    }

    /// Calls `function` with this much fuel.
    #[allow(unreachable_patterns, reason = "without the compiler there is one pair")]
    pub(crate) fn call_with<P: Parameters, R: Results>(
        &mut self,
        hook: Hook,
        function: &Function<P, R>,
        parameters: P,
        fuel: u64,
    ) -> Result<R, Fault> {
        self.fuel = fuel;
        let reason = match (&mut self.run, function) {
            (Run::Interpreted(run), Function::Interpreted(function)) => {
                run.refuel(fuel);
                match function.call(&mut run.store, parameters) {
                    Ok(result) => return Ok(result),
                    Err(error) => interpreter::reason(&error),
                }
            }
            #[cfg(feature = "compiled")]
            (Run::Compiled(run), Function::Compiled(function)) => {
                run.refuel(fuel);
                match function.call(&mut run.store, parameters) {
                    Ok(result) => return Ok(result),
                    Err(error) => compiled::reason(&error),
                }
            }
            _ => unreachable!("a function is called on the machine that it was found on"),
        };
        Err(Fault { hook, reason })
    }

    fn memory(&self) -> &[u8] {
        match &self.run {
            Run::Interpreted(run) => run.memory.data(&run.store),
            #[cfg(feature = "compiled")]
            Run::Compiled(run) => run.memory.data(&run.store),
        }
    }

    fn memory_mut(&mut self) -> &mut [u8] {
        match &mut self.run {
            Run::Interpreted(run) => run.memory.data_mut(&mut run.store),
            #[cfg(feature = "compiled")]
            Run::Compiled(run) => run.memory.data_mut(&mut run.store),
        }
    }

    /// Returns the area; `None` only if it is not in the instance's memory, which was checked at
    /// the start.
    pub(crate) fn area(&mut self) -> Option<Area<'_>> {
        let area = self.area;
        Area::at(self.memory_mut(), area)
    }

    /// Returns the first `count` entries of the list of rates; `None` if they are not in the
    /// instance's memory.
    pub(crate) fn rates(&self, count: u32) -> Option<impl Iterator<Item = FlowRate>> {
        let bytes = FlowRate::BYTES.checked_mul(count as usize)?;
        let end = self.rates.checked_add(bytes)?;
        let list = self.memory().get(self.rates..end)?;
        Some(list.as_chunks().0.iter().map(FlowRate::read))
    }

    /// Returns the module's decision.
    pub(crate) fn decision(&mut self, mtu_bytes: u32) -> Decision {
        self.area().map_or_else(Decision::default, |area| area.decision(mtu_bytes))
    }

    /// Fuel that the last event used.
    pub(crate) fn fuel_used(&self) -> u64 {
        let left = match &self.run {
            Run::Interpreted(run) => run.store.get_fuel().unwrap_or(0),
            #[cfg(feature = "compiled")]
            Run::Compiled(run) => run.fuel(),
        };
        self.fuel.saturating_sub(left)
    }
}
