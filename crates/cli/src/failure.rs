//! How the tool fails: what was wrong, with what value, and what to do.

use std::fmt;

/// A failure, with its exit status.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for what can't be. Exit status 2.
    Usage(String),
    /// It was tried and did not work, or the bytes are not what they should be. Exit status 1.
    Failed(String),
}

impl Failure {
    /// What the process ends with.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(text.into())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// An error of the operating system, while doing something.
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Failure::Failed(format!("could not {doing}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Failure {}

impl From<fairway_softnic::Error> for Failure {
    fn from(error: fairway_softnic::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
