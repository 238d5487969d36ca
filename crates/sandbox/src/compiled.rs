//! The compiling engine: machine code by Cranelift, from modules that the interpreter has accepted.
//!
//! Because the interpreter checks every module first, both engines accept the same ones, without
//! floats, vectors or threads. The limits of memory and tables are the same. Fuel and the depth of
//! the stack are counted in other units, and both limits are wider than the interpreter's, so that
//! a module that keeps to the interpreter's limits keeps to these. The host's signal handlers are
//! not touched: bounds are checked by instructions, and not by pages without access.

use std::sync::OnceLock;

use wasmtime::{
    Config, Engine, Instance, InstancePre, Linker, Memory, Module, OptLevel, Store, StoreLimits,
    StoreLimitsBuilder, Trap, WasmBacktraceDetails,
};

use crate::hook::{Hook, ROOT};
use crate::limits::TABLE_MAX;
use crate::{Fault, Reason};

mod metered;

/// Units of fuel for one of the interpreter's. The interpreter counts its own instructions, each of
/// which stands for some of WebAssembly; this engine counts the latter.
pub(crate) const FUEL_UNITS: u64 = 4;
/// Size of a call's stack, in bytes. The interpreter's limits of depth and of values fit in it.
const STACK_BYTES: usize = 256 * 1024;

/// A module's machine code, linked with the square root.
pub(crate) type Code = InstancePre<StoreLimits>;

/// An instance of machine code.
pub(crate) struct Run {
    pub(crate) store: Store<StoreLimits>,
    pub(crate) memory: Memory,
    pub(crate) instance: Instance,
}

/// Compiles a module that the interpreter has accepted; `None` if it has to be interpreted, because
/// it uses instructions whose time cannot be metered here, or is too large.
pub(crate) fn compile(bytes: &[u8]) -> Option<Code> {
    let engine = engine()?;
    let module = Module::new(engine, metered::metered(bytes)?).ok()?;
    let mut linker = Linker::new(engine);
    linker.func_wrap(ROOT.0, ROOT.1, u64::isqrt).ok()?;
    linker.instantiate_pre(&module).ok()
}

/// Makes an instance, and runs its start function with this much of the interpreter's fuel.
pub(crate) fn start(code: &Code, memory_bytes: usize, fuel: u64) -> Result<Run, Fault> {
    let limits = limits(memory_bytes, TABLE_MAX);
    let mut store = Store::new(code.module().engine(), limits);
    store.limiter(|limits| limits);
    refuel(&mut store, fuel);
    let unusable = |error: wasmtime::Error| Fault::at_start(reason(&error));
    let instance = code.instantiate(&mut store).map_err(unusable)?;
    let memory = instance.get_memory(&mut store, "memory").ok_or_else(|| Fault {
        hook: Hook::Init,
        reason: Reason::Unusable(String::from("it has no memory")),
    })?;
    Ok(Run { store, memory, instance })
}

impl Run {
    /// Lets the memory grow no further, so that the host allocates nothing for it.
    pub(crate) fn freeze(&mut self) {
        let bytes = self.memory.data_size(&self.store);
        *self.store.data_mut() = limits(bytes, 0);
    }

    pub(crate) fn refuel(&mut self, fuel: u64) {
        refuel(&mut self.store, fuel);
    }

    /// Fuel that is left, in the interpreter's units.
    pub(crate) fn fuel(&self) -> u64 {
        self.store.get_fuel().unwrap_or(0) / FUEL_UNITS
    }
}

fn refuel(store: &mut Store<StoreLimits>, fuel: u64) {
    // This fails only if fuel is not counted, and it is.
    let _counted = store.set_fuel(fuel.saturating_mul(FUEL_UNITS));
}

/// Returns the reason for which a call failed, in the words of the interpreter.
pub(crate) fn reason(error: &wasmtime::Error) -> Reason {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Reason::OutOfFuel,
        Some(trap) => Reason::Trap(words(*trap)),
        None => Reason::Unusable(error.to_string()),
    }
}

fn words(trap: Trap) -> &'static str {
    match trap {
        Trap::UnreachableCodeReached => "unreachable code was reached",
        Trap::MemoryOutOfBounds => "memory out of bounds",
        Trap::TableOutOfBounds => "table out of bounds",
        Trap::IndirectCallToNull => "call through a null reference",
        Trap::IntegerDivisionByZero => "division by zero",
        Trap::IntegerOverflow => "integer overflow",
        Trap::StackOverflow => "stack overflow",
        Trap::BadSignature => "call of another signature",
        _ => "a limit was exceeded",
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

/// Returns the compiler of the process; `None` on a processor that it does not support.
fn engine() -> Option<&'static Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    let made = ENGINE.get_or_init(|| {
        let mut config = Config::new();
        config
            .consume_fuel(true)
            .cranelift_opt_level(OptLevel::Speed)
            .max_wasm_stack(STACK_BYTES)
            .wasm_wide_arithmetic(true)
            .wasm_tail_call(false)
            .wasm_multi_memory(false)
            .wasm_memory64(false)
            .wasm_relaxed_simd(false)
            .wasm_simd(false)
            .wasm_backtrace(false)
            .wasm_backtrace_details(WasmBacktraceDetails::Disable);
        // No handlers of signals, and memory from the allocator: an instance takes as much as its
        // module has, and not gigabytes of addresses.
        config
            .signals_based_traps(false)
            .memory_reservation(0)
            .memory_reservation_for_growth(0)
            .memory_guard_size(0)
            .memory_init_cow(false);
        Engine::new(&config).ok()
    });
    made.as_ref()
}
