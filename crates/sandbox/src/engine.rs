//! The engines that can run a module, and which of them does.

use std::fmt;
use std::sync::OnceLock;

/// Environment variable with the engine of modules whose item does not name one.
const CHOICE: &str = "FAIRWAY_POLICY_ENGINE";

/// What runs a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// An interpreter, which every program has.
    Interpreted,
    /// A compiler to machine code; only in programs that were built with the feature `compiled`.
    /// A module that it cannot take is interpreted.
    Compiled,
}

/// A name of FAIRWAY_POLICY_ENGINE that is none of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoSuchEngine(pub(crate) String);

impl Engine {
    /// True if this program was built with the engine.
    pub const fn is_built_in(self) -> bool {
        matches!(self, Engine::Interpreted) || cfg!(feature = "compiled")
    }

    /// Name of the engine, in specifications and in FAIRWAY_POLICY_ENGINE.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Interpreted => "interpreted",
            Engine::Compiled => "compiled",
        }
    }

    /// Returns the engine that FAIRWAY_POLICY_ENGINE names, or the interpreter.
    pub(crate) fn of_environment() -> Result<Engine, NoSuchEngine> {
        static NAMED: OnceLock<Result<Engine, NoSuchEngine>> = OnceLock::new();
        NAMED.get_or_init(|| Engine::read(std::env::var(CHOICE).ok().as_deref())).clone()
    }

    fn read(name: Option<&str>) -> Result<Engine, NoSuchEngine> {
        match name {
            None | Some("" | "interpreted") => Ok(Engine::Interpreted),
            Some("compiled") => Ok(Engine::Compiled),
            Some(other) => Err(NoSuchEngine(other.to_owned())),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_names_the_interpreter_or_the_compiler_and_nothing_else() {
        assert_eq!(Engine::read(None), Ok(Engine::Interpreted));
        assert_eq!(Engine::read(Some("")), Ok(Engine::Interpreted));
        for engine in [Engine::Interpreted, Engine::Compiled] {
            assert_eq!(Engine::read(Some(engine.name())), Ok(engine));
        }
        assert_eq!(Engine::read(Some("jit")), Err(NoSuchEngine(String::from("jit"))));
    }
}
