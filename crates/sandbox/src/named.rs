//! Items of a specification that name modules.

use std::fmt;
use std::path::{Path, PathBuf};

use fairway_policy::PolicyError;

use crate::module::{self, Module};
use crate::slot::{Item, Role, Slot, SwapError, stamp};
use crate::{Engine, LoadError};

/// Environment variable with the folders in which bare names are searched, separated as in PATH.
const FOLDERS: &str = "FAIRWAY_POLICIES";

/// Why a specification is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoliciesError {
    /// A built-in policy is invalid.
    BuiltIn(PolicyError),
    /// A module is invalid: the item, and the reason.
    Module(String, SwapError),
    /// No file has this name in any of the folders.
    NotFound(String),
    /// Policies of this kind are always built in.
    NoModules(String),
    /// A path that does not end like a module.
    NoModule(String),
}

impl fmt::Display for PoliciesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoliciesError::BuiltIn(error) => error.fmt(f),
            PoliciesError::Module(item, error) => write!(f, "{item}: {error}"),
            PoliciesError::NotFound(name) => {
                write!(f, "no folder of {FOLDERS} has {name}.wasm; write ./{name}.wasm for a file")
            }
            PoliciesError::NoModules(label) => {
                write!(f, "\"{label}\" cannot be a module; cc, path, loss and sched can")
            }
            PoliciesError::NoModule(path) => write!(
                f,
                "{path} has a slash, so it names a file, but a module's name ends in .wasm; write \
                 wasm:{path} if it is a module by another name"
            ),
        }
    }
}

impl std::error::Error for PoliciesError {}

/// The kind that an item names, if any, and the rest of the item.
fn label(item: &str) -> (Option<&str>, &str) {
    let is_label = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
    match item.split_once('=') {
        Some((label, rest)) if is_label(label) => (Some(label), rest),
        _ => (None, item),
    }
}

/// An item that names a module.
pub(crate) struct Named<'a> {
    label: Option<&'a str>,
    /// The engine, if the item names it.
    engine: Option<Engine>,
    name: &'a str,
    parameters: &'a str,
}

impl<'a> Named<'a> {
    /// Parses an item; `None` if it names a built-in policy.
    pub(crate) fn read(item: &'a str) -> Option<Named<'a>> {
        let (label, rest) = label(item);
        let marks = [
            ("wasm:", None),
            ("interpreted:", Some(Engine::Interpreted)),
            ("compiled:", Some(Engine::Compiled)),
        ];
        let marked = marks
            .into_iter()
            .find_map(|(mark, engine)| rest.strip_prefix(mark).map(|rest| (engine, rest)));
        let (is_marked, (engine, rest)) = (marked.is_some(), marked.unwrap_or((None, rest)));
        let (name, parameters) = rest.split_once(':').unwrap_or((rest, ""));
        let is_file = Path::new(name).extension().is_some_and(|extension| extension == "wasm");
        (is_marked || is_file).then_some(Named { label, engine, name, parameters })
    }

    /// Checks the name of a built-in policy, which has no slash.
    pub(crate) fn check_built_in(item: &str) -> Result<(), PoliciesError> {
        let (_, rest) = label(item);
        let name = rest.split_once(':').map_or(rest, |(name, _)| name);
        match name.contains('/') {
            true => Err(PoliciesError::NoModule(name.to_owned())),
            false => Ok(()),
        }
    }

    pub(crate) fn file(&self) -> Result<PathBuf, PoliciesError> {
        if self.name.contains('/') || self.name.ends_with(".wasm") {
            return Ok(PathBuf::from(self.name));
        }
        let folders = std::env::var_os(FOLDERS).unwrap_or_default();
        let file = format!("{}.wasm", self.name);
        let mut candidates = std::env::split_paths(&folders).map(|folder| folder.join(&file));
        let found = candidates.find(|candidate| candidate.is_file());
        found.ok_or_else(|| PoliciesError::NotFound(self.name.to_owned()))
    }

    /// Returns the kinds of policy that the module is used for.
    pub(crate) fn roles(&self, module: &Module) -> Result<Vec<Role>, PoliciesError> {
        let Some(label) = self.label else { return Ok(module.roles()) };
        let of_label = Role::ALL.into_iter().find(|role| role.label() == label);
        of_label.map(|role| vec![role]).ok_or_else(|| PoliciesError::NoModules(label.to_owned()))
    }

    /// Loads the module of a file for the item's engine.
    pub(crate) fn module(&self, file: &Path) -> Result<Module, LoadError> {
        load(&module::read(file)?, self.engine)
    }

    pub(crate) fn open(&self, item: &str) -> Result<Vec<Slot>, PoliciesError> {
        let failed = |error| PoliciesError::Module(item.to_owned(), error);
        let file = self.file()?;
        // Looked at before it is read, so that no change of it is missed.
        let seen = stamp(&file);
        let module = self.module(&file).map_err(|error| failed(SwapError::Load(error)))?;
        let mut slots = Vec::new();
        for role in self.roles(&module)? {
            let named = Item {
                roles: vec![role],
                engine: self.engine,
                name: self.name.to_owned(),
                parameters: self.parameters.to_owned(),
                file: file.clone(),
            };
            slots.push(Slot::open(named, module.clone(), seen).map_err(failed)?);
        }
        Ok(slots)
    }
}

/// Loads a module for `engine`, or for the one of the environment.
pub(crate) fn load(bytes: &[u8], engine: Option<Engine>) -> Result<Module, LoadError> {
    match engine {
        Some(engine) => Module::load_for(bytes, engine),
        None => Module::load(bytes),
    }
}
