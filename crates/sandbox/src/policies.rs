//! Policies by name, where the name may be that of a file.
//!
//! The syntax is that of [`PolicySpec`], except that an item may name a module:
//! `cc=wasm:./mine.wasm`, `path=./mine.wasm` (a name that ends in `.wasm` needs no `wasm:`).
//! Parameters follow a further colon, `cc=./mine.wasm:gain=2:floor=64K`, and are parsed by the
//! module. A bare name, `cc=wasm:mine`, is searched as `mine.wasm` in the folders that
//! FAIRWAY_POLICIES lists. Without a label, a module is used for all kinds that it supports. File
//! names with a comma or a colon are not possible.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use fairway_policy::{PathSpec, PolicyError, PolicySet, PolicySpec, SchedulerSpec};
use fairway_wire::Instant;

use crate::congestion::UserCongestion;
use crate::module::Module;
use crate::path::UserPath;
use crate::slot::{Report, Role, Slot, SwapError};

/// Environment variable with the folders in which bare names are searched, separated as in PATH.
const FOLDERS: &str = "FAIRWAY_POLICIES";

/// Source of the policies of new channels. Clones share their modules: a replacement applies to all
/// of them, and so do the counters.
#[derive(Clone, Default)]
pub struct Policies {
    spec: PolicySpec,
    slots: Vec<Arc<Slot>>,
}

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
                write!(f, "\"{label}\" cannot be a module; cc and path can")
            }
        }
    }
}

impl std::error::Error for PoliciesError {}

/// An event of a module since the last call of [`Policies::reload`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The module's file has changed, and the new content decides from the next event on.
    Replaced(String),
    /// The module's file has changed to something unusable, and the old module stays.
    Kept(String, SwapError),
    /// An instance was taken out of use.
    Faulted(Report),
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Replaced(item) => write!(f, "policy {item}: replaced by what the file holds now"),
            News::Kept(item, error) => {
                write!(f, "policy {item}: the new file is not used: {error}")
            }
            News::Faulted(report) => write!(f, "policy {report}"),
        }
    }
}

impl Policies {
    /// Builds the policies of a channel with packets of `mtu_bytes`.
    pub fn build(&self, mtu_bytes: u32) -> PolicySet {
        let mut set = self.spec.build(mtu_bytes);
        for slot in &self.slots {
            let slot = Arc::clone(slot);
            match slot.role() {
                Role::Congestion => {
                    set.congestion = Box::new(UserCongestion::new(slot, set.congestion, mtu_bytes));
                }
                Role::Path => set.path = Box::new(UserPath::new(slot, set.path, mtu_bytes)),
            }
        }
        set
    }

    /// Returns the built-in policies; for a kind that is a module, its fallback.
    pub fn built_in(&self) -> &PolicySpec {
        &self.spec
    }

    /// True if any policy is a module.
    pub fn has_modules(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns a copy without history, with counters of its own.
    pub fn fresh(&self) -> Policies {
        let slots = self.slots.iter().map(|slot| Arc::new(slot.fresh())).collect();
        Policies { spec: self.spec, slots }
    }

    /// Returns a copy in which the module that `item` names (`cc=./other.wasm`) replaces the
    /// current one from `at` on, with the same parameters.
    ///
    /// # Errors
    /// If `item` is not a module, or cannot replace the current one.
    pub fn with_planned(&self, at: Instant, item: &str) -> Result<Policies, PoliciesError> {
        let Some(named) = Named::read(item) else {
            let error = PolicyError::UnknownName(item.to_owned());
            return Err(PoliciesError::BuiltIn(error));
        };
        let failed = |error| PoliciesError::Module(item.to_owned(), error);
        let module = Module::read(&named.file()?).map_err(|e| failed(SwapError::Load(e)))?;
        let mut policies = self.fresh();
        for role in named.roles(&module)? {
            let mut slots = policies.slots.iter_mut();
            let slot = slots
                .find(|slot| slot.role() == *role)
                .ok_or_else(|| failed(SwapError::NoModule(*role)))?;
            *slot = Arc::new(slot.planned(at, module.clone()).map_err(failed)?);
        }
        Ok(policies)
    }

    /// Replaces the path choice by a built-in one.
    pub fn with_path(mut self, path: PathSpec) -> Policies {
        self.spec.path = path;
        self.slots.retain(|slot| slot.role() != Role::Path);
        self
    }

    /// Replaces the scheduler.
    pub fn with_scheduler(mut self, scheduler: SchedulerSpec) -> Policies {
        self.spec.scheduler = scheduler;
        self
    }

    /// Replaces the module of a kind by the one in `bytes`, on every channel before its next event.
    ///
    /// # Errors
    /// If there is no module to replace, or if the new one does not start with the old one's
    /// parameters; nothing changes then.
    pub fn swap(&self, role: Role, bytes: &[u8]) -> Result<(), SwapError> {
        match self.slots.iter().find(|slot| slot.role() == role) {
            Some(slot) => slot.swap(bytes),
            None => Err(SwapError::NoModule(role)),
        }
    }

    /// Checks whether files have changed, and replaces the modules of those that have.
    pub fn reload(&self) -> Vec<News> {
        let mut news = Vec::new();
        for slot in &self.slots {
            match slot.reload() {
                None => {}
                Some(Ok(())) => news.push(News::Replaced(slot.item())),
                Some(Err(error)) => news.push(News::Kept(slot.item(), error)),
            }
        }
        news
    }

    pub(crate) fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    /// Returns the reports on the modules, in the order of the specification.
    pub fn reports(&self) -> Vec<Report> {
        self.slots.iter().map(|slot| slot.report()).collect()
    }
}

impl From<PolicySpec> for Policies {
    fn from(spec: PolicySpec) -> Self {
        Policies { spec, slots: Vec::new() }
    }
}

impl FromStr for Policies {
    type Err = PoliciesError;

    fn from_str(text: &str) -> Result<Self, PoliciesError> {
        let mut built_in = Vec::new();
        let mut slots: Vec<Arc<Slot>> = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match Named::read(item) {
                None => built_in.push(item.to_owned()),
                Some(named) => {
                    for slot in named.open(item)? {
                        // The module's fallback. If the kind is given twice, so is the fallback,
                        // which makes parsing fail.
                        built_in.push(default_of(slot.role()));
                        slots.push(Arc::new(slot));
                    }
                }
            }
        }
        let spec = built_in.join(",").parse().map_err(PoliciesError::BuiltIn)?;
        Ok(Policies { spec, slots })
    }
}

/// Returns the default of a kind, as an item.
fn default_of(role: Role) -> String {
    let all = PolicySpec::default().to_string();
    let of_kind =
        |item: &&str| item.split_once('=').is_some_and(|(label, _)| label == role.label());
    all.split(',').find(of_kind).map(str::to_owned).unwrap_or_default()
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.spec.to_string();
        for (i, item) in all.split(',').enumerate() {
            let separator = if i == 0 { "" } else { "," };
            let label = item.split_once('=').map_or("", |(label, _)| label);
            match self.slots.iter().find(|slot| slot.role().label() == label) {
                Some(slot) => write!(f, "{separator}{}", slot.item())?,
                None => write!(f, "{separator}{item}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policies({self})")
    }
}

/// Two values are equal if their texts are.
impl PartialEq for Policies {
    fn eq(&self, other: &Policies) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Policies {}

/// An item that names a module.
struct Named<'a> {
    label: Option<&'a str>,
    name: &'a str,
    parameters: &'a str,
}

impl<'a> Named<'a> {
    /// Parses an item; `None` if it names a built-in policy.
    fn read(item: &'a str) -> Option<Named<'a>> {
        let is_label = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase());
        let (label, rest) = match item.split_once('=') {
            Some((label, rest)) if is_label(label) => (Some(label), rest),
            _ => (None, item),
        };
        let (is_marked, rest) = match rest.strip_prefix("wasm:") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (name, parameters) = rest.split_once(':').unwrap_or((rest, ""));
        let is_file = Path::new(name).extension().is_some_and(|extension| extension == "wasm");
        (is_marked || is_file).then_some(Named { label, name, parameters })
    }

    fn file(&self) -> Result<PathBuf, PoliciesError> {
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
    fn roles(&self, module: &Module) -> Result<&'static [Role], PoliciesError> {
        match self.label {
            None => Ok(module.roles()),
            Some("cc") => Ok(&[Role::Congestion]),
            Some("path") => Ok(&[Role::Path]),
            Some(other) => Err(PoliciesError::NoModules(other.to_owned())),
        }
    }

    fn open(&self, item: &str) -> Result<Vec<Slot>, PoliciesError> {
        let failed = |error| PoliciesError::Module(item.to_owned(), error);
        let file = self.file()?;
        let module = Module::read(&file).map_err(|error| failed(SwapError::Load(error)))?;
        let mut slots = Vec::new();
        for role in self.roles(&module)? {
            let slot = Slot::open(*role, self.name, file.clone(), self.parameters);
            slots.push(slot.map_err(failed)?);
        }
        Ok(slots)
    }
}
