//! What can be wrong with a module.

use std::fmt;

use wasmi::TrapCode;

use crate::module::Hook;

/// Why a module was taken out of use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// What it was doing.
    pub hook: Hook,
    /// What went wrong.
    pub reason: Reason,
}

/// What went wrong in a call of a module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It used more instructions than an event may.
    OutOfFuel,
    /// It trapped.
    Trap(&'static str),
    /// It chose a path that there is not.
    NoSuchPath(u32),
    /// Its area is not in its memory, or not at a multiple of 8.
    BadArea(u32),
    /// It was made for another version of the interface.
    WrongAbi(u32),
    /// It did not accept its parameters, and says this about them.
    Refused(String),
    /// It could not be started.
    Unusable(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = self.hook.name();
        match &self.reason {
            Reason::OutOfFuel => write!(f, "{hook} ran out of fuel"),
            Reason::Trap(what) => write!(f, "{hook} trapped: {what}"),
            Reason::NoSuchPath(path) => write!(f, "{hook} chose path {path}, which there is not"),
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

impl Reason {
    /// What made a call fail.
    pub(crate) fn of(error: &wasmi::Error) -> Reason {
        match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Reason::OutOfFuel,
            Some(code) => Reason::Trap(words(code)),
            None => Reason::Unusable(error.to_string()),
        }
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

/// Why a file is no policy module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The file could not be read.
    Io(String),
    /// It is larger than [`MODULE_BYTES_MAX`](crate::MODULE_BYTES_MAX).
    TooLarge,
    /// It is no WebAssembly, or uses what is not allowed here.
    Invalid(String),
    /// It imports something.
    Imports(String),
    /// It lacks this export.
    Missing(&'static str),
    /// It exports this as something else than a policy does.
    WrongType {
        /// The export.
        name: &'static str,
        /// What it should be.
        wanted: String,
    },
    /// It exports the hooks of no kind of policy.
    NoPolicy,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(text) => f.write_str(text),
            LoadError::TooLarge => {
                write!(f, "it is larger than {} KiB", crate::MODULE_BYTES_MAX / 1024)
            }
            LoadError::Invalid(text) => write!(f, "it is no module that can be used here: {text}"),
            LoadError::Imports(name) => write!(f, "it imports {name}; policies import nothing"),
            LoadError::Missing(name) => write!(f, "it does not export {name}"),
            LoadError::WrongType { name, wanted } => write!(f, "its {name} should be {wanted}"),
            LoadError::NoPolicy => f.write_str(
                "it exports no policy: a congestion control has on_ack and on_loss, a path choice \
                 has choose_path",
            ),
        }
    }
}

impl std::error::Error for LoadError {}
