//! Errors of modules.

use std::fmt;

use crate::Engine;
use crate::hook::Hook;
use crate::limits::LOCALS_MAX;

/// Why an instance was taken out of use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The hook that was called.
    pub hook: Hook,
    /// Why the call failed.
    pub reason: Reason,
}

/// Why a call of a module failed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The module used more instructions than an event may.
    OutOfFuel,
    /// The module trapped.
    Trap(&'static str),
    /// The module chose a path that does not exist.
    NoSuchPath(u32),
    /// The module returned a list of this many rates, which is too long or not in its memory.
    BadList(u32),
    /// The module set the rate of a flow that does not exist.
    NoSuchFlow(u32),
    /// The module allowed nothing to be sent for a second while data waited.
    Stalled,
    /// The module's area, at this address, is outside its memory or not aligned to 8 bytes.
    BadArea(u32),
    /// The module was made for another version of the interface.
    WrongAbi(u32),
    /// The module did not accept its parameters, for the reason that it gave.
    Refused(String),
    /// The module could not be started.
    Unusable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = self.hook.name();
        match &self.reason {
            Reason::OutOfFuel => write!(f, "{hook} ran out of fuel"),
            Reason::Trap(what) => write!(f, "{hook} trapped: {what}"),
            Reason::NoSuchPath(path) => write!(f, "{hook} chose path {path}, which there is not"),
            Reason::BadList(count) => write!(f, "{hook} has no list of {count} rates"),
            Reason::NoSuchFlow(flow) => write!(f, "{hook} has flow {flow}, which there is not"),
            Reason::Stalled => write!(f, "{hook} allowed nothing for a second while data waited"),
            Reason::BadArea(at) => write!(f, "{hook} says {at:#x}, where there is no room for it"),
            Reason::WrongAbi(version) => {
                let ours = crate::ABI_VERSION;
                write!(f, "{hook} says {version}; this program has version {ours}")
            }
            Reason::Refused(text) if text.is_empty() => write!(f, "{hook} refused the parameters"),
            Reason::Refused(text) => write!(f, "{hook} refused the parameters: {text}"),
            Reason::Unusable(text) => write!(f, "it cannot be started: {text}"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// Returns the fault of an instance whose start function failed for this reason.
    pub(crate) fn at_start(reason: Reason) -> Fault {
        let reason = match reason {
            Reason::Unusable(text) => Reason::Unusable(text),
            reason => Reason::Unusable(format!("its start function: {reason:?}")),
        };
        Fault { hook: Hook::Init, reason }
    }
}

/// Why a file is not a policy module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file could not be read.
    Io(String),
    /// The file is larger than [`MODULE_BYTES_MAX`](crate::MODULE_BYTES_MAX).
    TooLarge,
    /// The file is not WebAssembly, or uses a feature that is not allowed.
    Invalid(String),
    /// A function has so many locals, parameters excluded, and at most 128 are allowed.
    Locals(u64),
    /// The module imports something that the host does not have.
    Imports(String),
    /// The module lacks this export.
    Missing(&'static str),
    /// An export has the wrong type.
    WrongType {
        /// The export.
        name: &'static str,
        /// The type that it should have.
        wanted: String,
    },
    /// The module does not export the hooks of any kind of policy.
    NoPolicy,
    /// This program was built without the engine.
    NoEngine(Engine),
    /// FAIRWAY_POLICY_ENGINE names no engine.
    UnknownEngine(String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(text) => f.write_str(text),
            LoadError::TooLarge => {
                write!(f, "it is larger than {} KiB", crate::MODULE_BYTES_MAX / 1024)
            }
            LoadError::Invalid(text) => write!(f, "it is no module that can be used here: {text}"),
            LoadError::Locals(locals) => write!(
                f,
                "a function has {locals} locals, and at most {LOCALS_MAX} are allowed: compile the \
                 module with optimization, or divide the function"
            ),
            LoadError::Imports(name) => {
                write!(f, "it imports {name}; policies can import only fairway.isqrt (i64) -> i64")
            }
            LoadError::Missing(name) => write!(f, "it does not export {name}"),
            LoadError::WrongType { name, wanted } => write!(f, "its {name} should be {wanted}"),
            LoadError::NoPolicy => f.write_str(
                "it exports no policy: a congestion control has on_ack and on_loss, a path choice \
                 choose_path, a loss detector is_lost, a scheduler fairway_rates, flow_started and \
                 flow_ended",
            ),
            LoadError::NoEngine(engine) => write!(
                f,
                "this program has no engine for {engine} modules; build it with the feature \
                 compiled, or leave the engine out"
            ),
            LoadError::UnknownEngine(name) => {
                write!(f, "FAIRWAY_POLICY_ENGINE is \"{name}\"; it can be interpreted or compiled")
            }
        }
    }
}

impl std::error::Error for LoadError {}
