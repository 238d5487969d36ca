//! Failures of the tool: what was wrong, with which value, and what to do.

use std::fmt;

use fairway_nicmodel::{ConfigError, ModelError};
use fairway_sim::traffic::{ImportError, SizesError};
use fairway_sim::{SettingsError, SimulationError};
use thiserror::Error;

use crate::codec::MessageError;
use crate::printable::{printable_lines, printable_reason};

/// A failure, with its exit status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The command line requests something impossible. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// A command was run and failed, or bytes differ from what they should be. Exit status 1.
    #[error("{0}")]
    Failed(String),
    /// The runtime reported an error. Exit status 1.
    #[error(transparent)]
    Runtime(#[from] fairway::Error),
    /// A setting of a scenario is wrong, or settings cannot be combined. Exit status 2.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A setting that was given as a flag is wrong. Exit status 2.
    #[error("--{0}")]
    Flag(#[source] SettingsError),
    /// The simulator cannot run the scenario. Exit status 2.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// A trace is wrong. Exit status 2.
    #[error(transparent)]
    Trace(#[from] ImportError),
    /// A distribution of sizes is wrong. Exit status 2.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// The NIC model cannot have such a configuration. Exit status 2.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The NIC model ended without a report. Exit status 2 if its configuration is the reason, and
    /// otherwise 1.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The other side sent bytes that are not a message of the tool. Exit status 1.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A file is wrong. The exit status is that of the error in the file.
    #[error("{file}: {error}")]
    File {
        /// The file's name as given.
        file: String,
        /// The error in the file.
        #[source]
        error: Box<Failure>,
    },
}

impl Failure {
    /// Exit status of the process.
    pub fn exit_status(&self) -> u8 {
        match self {
            // Some errors of a configuration show only when the model is built.
            Failure::Model(ModelError::Config(_)) => 2,
            Failure::Failed(_) | Failure::Runtime(_) | Failure::Model(_) | Failure::Message(_) => 1,
            Failure::File { error, .. } => error.exit_status(),
            Failure::Usage(_)
            | Failure::Settings(_)
            | Failure::Flag(_)
            | Failure::Simulation(_)
            | Failure::Trace(_)
            | Failure::Sizes(_)
            | Failure::Config(_) => 2,
        }
    }

    /// The text for a terminal. Characters that a terminal does not show or takes as commands are
    /// escaped, because errors quote files, and names that other machines have sent.
    pub(crate) fn shown(&self) -> String {
        match self {
            // Some of these texts have several lines of this program's own.
            Failure::Usage(_) | Failure::Failed(_) | Failure::Runtime(_) => {
                printable_lines(&self.to_string())
            }
            Failure::File { file, error } => {
                format!("{}: {}", printable_reason(file), error.shown())
            }
            _ => printable_reason(&self.to_string()),
        }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(text.into())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// A failure caused by the contents of a file.
    pub(crate) fn file(file: impl fmt::Display, error: impl Into<Failure>) -> Self {
        Failure::File { file: file.to_string(), error: Box::new(error.into()) }
    }

    /// An error of the operating system during an action, which completes "could not ...".
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Failure::Failed(format!("could not {doing}: {error}"))
    }
}
