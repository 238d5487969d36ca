//! A module: a file that was read, checked and translated, and from which instances are made.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, ExternType, ValType};

use crate::LoadError;
use crate::slot::Role;

/// Maximum size of a file. Policies have a few KiB.
pub const MODULE_BYTES_MAX: usize = 256 * 1024;

/// Size of a call's stack, in values. Larger locals trap, and the time to clear them for every call
/// of an event stays small.
const STACK_VALUES: usize = 2048;
/// Maximum depth of nested calls.
const RECURSION_MAX: usize = 128;
/// Number of stacks that are kept for threads that call modules at the same time.
const STACKS_KEPT: usize = 64;

/// The functions that a module may export. The first three are required.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Returns the version of the interface that the module was made for.
    Abi,
    /// Returns the address of the module's area.
    Area,
    /// Reads the parameters and makes the first decision. Returns 0 on success.
    Init,
    /// [`CongestionControl::on_ack`](fairway_policy::CongestionControl::on_ack).
    OnAck,
    /// [`CongestionControl::on_loss`](fairway_policy::CongestionControl::on_loss).
    OnLoss,
    /// [`CongestionControl::on_spurious`](fairway_policy::CongestionControl::on_spurious).
    OnSpurious,
    /// [`CongestionControl::permit_retransmit`](fairway_policy::CongestionControl::permit_retransmit).
    PermitRetransmit,
    /// [`CongestionControl::on_data`](fairway_policy::CongestionControl::on_data).
    OnData,
    /// [`CongestionControl::on_credit`](fairway_policy::CongestionControl::on_credit).
    OnCredit,
    /// [`PathChoice::choose`](fairway_policy::PathChoice::choose).
    ChoosePath,
}

const I32: ValType = ValType::I32;
const I64: ValType = ValType::I64;

impl Hook {
    /// All hooks.
    pub const ALL: [Hook; 10] = [
        Hook::Abi,
        Hook::Area,
        Hook::Init,
        Hook::OnAck,
        Hook::OnLoss,
        Hook::OnSpurious,
        Hook::PermitRetransmit,
        Hook::OnData,
        Hook::OnCredit,
        Hook::ChoosePath,
    ];

    /// Name of the export.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Abi => "fairway_policy_abi",
            Hook::Area => "fairway_area",
            Hook::Init => "fairway_init",
            Hook::OnAck => "on_ack",
            Hook::OnLoss => "on_loss",
            Hook::OnSpurious => "on_spurious",
            Hook::PermitRetransmit => "permit_retransmit",
            Hook::OnData => "on_data",
            Hook::OnCredit => "on_credit",
            Hook::ChoosePath => "choose_path",
        }
    }

    /// Types of the parameters and results.
    const fn signature(self) -> (&'static [ValType], &'static [ValType]) {
        match self {
            Hook::Abi | Hook::Area | Hook::Init => (&[], &[I32]),
            Hook::OnAck | Hook::OnLoss => (&[], &[]),
            Hook::OnSpurious | Hook::OnCredit => (&[I64, I32], &[]),
            Hook::PermitRetransmit => (&[I64, I32], &[I32]),
            Hook::OnData => (&[I64, I32, I32], &[]),
            Hook::ChoosePath => (&[I32], &[I32]),
        }
    }

    const fn is_required(self) -> bool {
        matches!(self, Hook::Abi | Hook::Area | Hook::Init)
    }
}

/// A checked module. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    module: wasmi::Module,
    file_bytes: usize,
    /// Whether each [`Hook`] is exported.
    exports: [bool; Hook::ALL.len()],
}

impl Module {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a policy.
    pub fn read(path: &Path) -> Result<Module, LoadError> {
        Module::load(&read(path)?)
    }

    /// Checks and translates the bytes of a WebAssembly file.
    ///
    /// # Errors
    /// If they are not a policy. It never panics, and takes a time bounded by the size of the file.
    pub fn load(bytes: &[u8]) -> Result<Module, LoadError> {
        if bytes.len() > MODULE_BYTES_MAX {
            return Err(LoadError::TooLarge);
        }
        let invalid = |error: wasmi::Error| LoadError::Invalid(error.to_string());
        let module = wasmi::Module::new(engine(), bytes).map_err(invalid)?;
        if let Some(import) = module.imports().next() {
            return Err(LoadError::Imports(format!("{}.{}", import.module(), import.name())));
        }
        match module.get_export("memory") {
            Some(ExternType::Memory(_)) => {}
            _ => return Err(LoadError::Missing("memory")),
        }
        let mut exports = [false; Hook::ALL.len()];
        for hook in Hook::ALL {
            exports[hook as usize] = exported(&module, hook)?;
        }
        let loaded = Module(Arc::new(Inner { module, file_bytes: bytes.len(), exports }));
        if loaded.roles().is_empty() {
            return Err(LoadError::NoPolicy);
        }
        Ok(loaded)
    }

    /// True if the module exports this function.
    pub fn has(&self, hook: Hook) -> bool {
        self.0.exports[hook as usize]
    }

    /// Kinds of policy that the module can be.
    pub fn roles(&self) -> &'static [Role] {
        let congestion = self.has(Hook::OnAck) && self.has(Hook::OnLoss);
        match (congestion, self.has(Hook::ChoosePath)) {
            (true, true) => &[Role::Congestion, Role::Path],
            (true, false) => &[Role::Congestion],
            (false, true) => &[Role::Path],
            (false, false) => &[],
        }
    }

    /// Size of its file, in bytes.
    pub fn file_bytes(&self) -> usize {
        self.0.file_bytes
    }

    pub(crate) fn inner(&self) -> &wasmi::Module {
        &self.0.module
    }
}

/// Returns whether `hook` is exported. It is an error if the type is wrong, or if a required hook
/// is missing.
fn exported(module: &wasmi::Module, hook: Hook) -> Result<bool, LoadError> {
    let (parameters, results) = hook.signature();
    match module.get_export(hook.name()) {
        None if hook.is_required() => Err(LoadError::Missing(hook.name())),
        None => Ok(false),
        Some(ExternType::Func(ty)) if ty.params() == parameters && ty.results() == results => {
            Ok(true)
        }
        Some(_) => {
            let wanted = format!("a function of {parameters:?} to {results:?}");
            Err(LoadError::WrongType { name: hook.name(), wanted })
        }
    }
}

/// Reads a regular file, unless it is too large.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |error: std::io::Error| LoadError::Io(format!("{}: {error}", path.display()));
    // Reading a pipe might never end.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(LoadError::Io(format!("{}: this is no file", path.display())));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MODULE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Returns the engine of the process, which holds the settings and the stacks for calls.
pub(crate) fn engine() -> &'static Engine {
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
            .wasm_wide_arithmetic(false)
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
