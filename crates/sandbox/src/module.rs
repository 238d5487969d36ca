//! A module: a file that was read, checked and translated, and from which instances are made.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use wasmi::{ExternType, ImportType, ValType};

use crate::hook::{Hook, ROOT};
use crate::limits::LOCALS_MAX;
use crate::locals::most_locals;
use crate::machine::Code;
use crate::slot::Role;
use crate::{Engine, LoadError, interpreter};

/// Maximum size of a file. Policies have a few KiB.
pub const MODULE_BYTES_MAX: usize = 256 * 1024;

/// A checked module. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    file_bytes: usize,
    /// Whether each [`Hook`] is exported.
    exports: [bool; Hook::ALL.len()],
}

impl Module {
    /// Reads and checks a file, for the engine that FAIRWAY_POLICY_ENGINE names.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a policy.
    pub fn read(path: &Path) -> Result<Module, LoadError> {
        Module::load(&read(path)?)
    }

    /// Checks and translates the bytes of a WebAssembly file, for the engine that
    /// FAIRWAY_POLICY_ENGINE names.
    ///
    /// # Errors
    /// If they are not a policy. It never panics, and takes a time bounded by the size of the file.
    pub fn load(bytes: &[u8]) -> Result<Module, LoadError> {
        let engine = Engine::of_environment().map_err(|name| LoadError::UnknownEngine(name.0))?;
        Module::load_for(bytes, engine)
    }

    /// Checks and translates the bytes of a WebAssembly file for `engine`. If it is the compiler
    /// and cannot take the module, the module is interpreted: see [`Module::engine`].
    ///
    /// # Errors
    /// If the bytes are not a policy, or this program does not have the engine.
    pub fn load_for(bytes: &[u8], engine: Engine) -> Result<Module, LoadError> {
        if !engine.is_built_in() {
            return Err(LoadError::NoEngine(engine));
        }
        if bytes.len() > MODULE_BYTES_MAX {
            return Err(LoadError::TooLarge);
        }
        let invalid = |error: wasmi::Error| LoadError::Invalid(printable(&error.to_string()));
        let module = interpreter::translate(bytes).map_err(invalid)?;
        let locals = most_locals(bytes)
            .ok_or_else(|| LoadError::Invalid(String::from("its functions cannot be examined")))?;
        if locals > LOCALS_MAX {
            return Err(LoadError::Locals(locals));
        }
        if let Some(import) = module.imports().find(|import| !is_offered(import)) {
            let name = format!("{}.{}", import.module(), import.name());
            return Err(LoadError::Imports(printable(&name)));
        }
        match module.get_export("memory") {
            Some(ExternType::Memory(_)) => {}
            _ => return Err(LoadError::Missing("memory")),
        }
        let mut exports = [false; Hook::ALL.len()];
        for hook in Hook::ALL {
            exports[hook as usize] = exported(&module, hook)?;
        }
        let has = |hooks: &[Hook]| hooks.iter().all(|hook| exports[*hook as usize]);
        if !Role::ALL.iter().any(|role| has(role.required())) {
            return Err(LoadError::NoPolicy);
        }
        let code = code_for(engine, module, bytes);
        Ok(Module(Arc::new(Inner { code, file_bytes: bytes.len(), exports })))
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

    /// The engine that runs the module.
    pub fn engine(&self) -> Engine {
        self.0.code.engine()
    }

    pub(crate) fn code(&self) -> &Code {
        &self.0.code
    }
}

/// Returns the form of a checked module that `engine` runs, or that of the interpreter.
#[cfg(feature = "compiled")]
fn code_for(engine: Engine, module: wasmi::Module, bytes: &[u8]) -> Code {
    let compiled = (engine == Engine::Compiled).then(|| crate::compiled::compile(bytes)).flatten();
    compiled.map_or(Code::Interpreted(module), Code::Compiled)
}

#[cfg(not(feature = "compiled"))]
fn code_for(_: Engine, module: wasmi::Module, _: &[u8]) -> Code {
    Code::Interpreted(module)
}

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

/// Escapes the characters of names in a module that a terminal does not show or takes as commands.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\'' | '"' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
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
