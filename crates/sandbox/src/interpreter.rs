//! The interpreter, which also decides which modules are accepted.

use std::sync::OnceLock;

use wasmi::{
    CompilationMode, Config, EnforcedLimits, Engine, Instance, Linker, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode,
};

use crate::hook::{Hook, ROOT};
use crate::limits::TABLE_MAX;
use crate::{Fault, Reason};

/// Size of a call's stack, in values. Each call sets all values of the called function (locals,
/// constants and intermediate results), which costs no fuel. A function has at most these, so the
/// time for it stays small.
const STACK_VALUES: usize = 512;
/// Maximum depth of nested calls.
const RECURSION_MAX: usize = 128;
/// Number of stacks that are kept for threads that call modules at the same time.
const STACKS_KEPT: usize = 64;

/// An interpreted instance.
pub(crate) struct Run {
    pub(crate) store: Store<StoreLimits>,
    pub(crate) memory: Memory,
    pub(crate) instance: Instance,
}

/// Checks a module and translates it.
pub(crate) fn translate(bytes: &[u8]) -> Result<Module, wasmi::Error> {
    Module::new(engine(), bytes)
}

/// Makes an instance, and runs its start function with this much fuel.
pub(crate) fn start(module: &Module, memory_bytes: usize, fuel: u64) -> Result<Run, Fault> {
    let mut store = Store::new(engine(), limits(memory_bytes, TABLE_MAX));
    store.limiter(|limits| limits);
    refuel(&mut store, fuel);
    let mut linker = Linker::new(engine());
    // This fails only if the name is already taken.
    let _defined = linker.func_wrap(ROOT.0, ROOT.1, u64::isqrt);
    let unusable = |error: wasmi::Error| Fault::at_start(reason(&error));
    let instance = linker.instantiate_and_start(&mut store, module).map_err(unusable)?;
    let memory = instance.get_memory(&store, "memory").ok_or_else(|| Fault {
        hook: Hook::Init,
        reason: Reason::Unusable(String::from("it has no memory")),
    })?;
    Ok(Run { store, memory, instance })
}

impl Run {
    /// Lets the memory grow no further, so that the host allocates nothing for it.
    pub(crate) fn freeze(&mut self) {
        let bytes = self.memory.data(&self.store).len();
        *self.store.data_mut() = limits(bytes, 0);
    }

    pub(crate) fn refuel(&mut self, fuel: u64) {
        refuel(&mut self.store, fuel);
    }
}

fn refuel(store: &mut Store<StoreLimits>, fuel: u64) {
    // This fails only if fuel is not counted, and it is.
    let _counted = store.set_fuel(fuel);
}

/// Returns the reason for which a call failed.
pub(crate) fn reason(error: &wasmi::Error) -> Reason {
    match error.as_trap_code() {
        Some(TrapCode::OutOfFuel) => Reason::OutOfFuel,
        Some(code) => Reason::Trap(words(code)),
        None => Reason::Unusable(error.to_string()),
    }
}

fn words(code: TrapCode) -> &'static str {
    match code {
        TrapCode::UnreachableCodeReached => "unreachable code was reached",
        TrapCode::MemoryOutOfBounds => "memory out of bounds",
        TrapCode::TableOutOfBounds => "table out of bounds",
        TrapCode::IndirectCallToNull => "call through a null reference",
        TrapCode::IntegerDivisionByZero => "division by zero",
        TrapCode::IntegerOverflow => "integer overflow",
        TrapCode::StackOverflow => "stack overflow",
        TrapCode::BadSignature => "call of another signature",
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

/// Returns the interpreter of the process, which holds the settings and the stacks for calls.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut config = Config::default();
        config
            .consume_fuel(true)
            // Only integers are allowed, so that two machines agree bit for bit.
            .floats(false)
            // Translates everything on loading, so that no event has to.
            .compilation_mode(CompilationMode::Eager)
            .enforced_limits(EnforcedLimits::strict())
            .ignore_custom_sections(true)
            .wasm_multi_memory(false)
            .wasm_memory64(false)
            .wasm_custom_page_sizes(false)
            // Without it, each checked product of 64 bits is a call.
            .wasm_wide_arithmetic(true)
            .wasm_tail_call(false);
        config
            .set_max_recursion_depth(RECURSION_MAX)
            // The minimum may not exceed the maximum at any time.
            .set_min_stack_height(STACK_VALUES / 2)
            .set_max_stack_height(STACK_VALUES)
            .set_min_stack_height(STACK_VALUES)
            .set_max_cached_stacks(STACKS_KEPT);
        Engine::new(&config)
    })
}
