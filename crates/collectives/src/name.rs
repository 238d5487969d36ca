//! Names on the command line and in Python, and what to say of others.

use std::fmt;

/// A name that nothing has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    text: String,
    known: Vec<&'static str>,
}

impl UnknownName {
    /// Returns the value whose name is `text`, of those in `all`.
    ///
    /// # Errors
    /// None has it. `what` is the kind of thing that was looked for.
    pub fn find<T: Copy>(
        what: &'static str,
        text: &str,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Result<T, UnknownName> {
        all.iter().copied().find(|value| name(*value) == text).ok_or_else(|| UnknownName {
            what,
            text: text.to_string(),
            known: all.iter().map(|value| name(*value)).collect(),
        })
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { what, text, known } = self;
        write!(f, "{text:?} is no {what}: choose one of {}", known.join(", "))
    }
}

impl std::error::Error for UnknownName {}
