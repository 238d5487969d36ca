//! Errors of the operating system.

use std::fmt;
use std::io;

/// A call that the operating system refused.
#[derive(Debug)]
#[non_exhaustive]
pub struct SystemError {
    /// The action that failed, as a verb and its object.
    pub doing: String,
    /// The error that the operating system reported.
    pub source: io::Error,
}

impl SystemError {
    /// Returns the error of a call with the purpose `doing`.
    pub fn new(doing: impl Into<String>, source: io::Error) -> Self {
        SystemError { doing: doing.into(), source }
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.doing, self.source)
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
