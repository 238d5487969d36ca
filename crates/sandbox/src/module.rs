//! A module: a file that was read, checked and translated, and from which instances are made.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use wasmi::{CompilationMode, Config, EnforcedLimits, Engine, ExternType, ImportType, ValType};

use crate::LoadError;
use crate::hook::Hook;
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
        if let Some(import) = module.imports().find(|import| !is_offered(import)) {
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
    pub fn roles(&self) -> Vec<Role> {
        let all = |hooks: &[Hook]| hooks.iter().all(|hook| self.has(*hook));
        Role::ALL.into_iter().filter(|role| all(role.required())).collect()
    }

    /// Size of its file, in bytes.
    pub fn file_bytes(&self) -> usize {
        self.0.file_bytes
    }

    pub(crate) fn inner(&self) -> &wasmi::Module {
        &self.0.module
    }
}

/// Module and name of the function that a module may import: the square root, rounded down.
pub(crate) const ROOT: (&str, &str) = ("fairway", "isqrt");

/// True if the host has what is imported.
fn is_offered(import: &ImportType<'_>) -> bool {
    let is_root = |ty: &ExternType| {
        ty.func().is_some_and(|ty| ty.params() == [ValType::I64] && ty.results() == [ValType::I64])
    };
    (import.module(), import.name()) == ROOT && is_root(import.ty())
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
