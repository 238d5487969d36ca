//! How the tool fails: what was wrong, with what value, and what to do.

use std::fmt;

use fairway_nicmodel::{ConfigError, ModelError};
use fairway_sim::traffic::{SizesError, TraceError};
use fairway_sim::{SettingsError, SimulationError};
use thiserror::Error;

/// A failure, with its exit status.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// The command line asks for what can't be. Exit status 2.
    #[error("{0}")]
    Usage(String),
    /// It was tried and did not work, or the bytes are not what they should be. Exit status 1.
    #[error("{0}")]
    Failed(String),
    /// The runtime could not do it. Exit status 1.
    #[error(transparent)]
    Runtime(#[from] fairway::Error),
    /// A setting of a scenario is wrong, or settings do not go together. Exit status 2.
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
    Trace(#[from] TraceError),
    /// A distribution of sizes is wrong. Exit status 2.
    #[error(transparent)]
    Sizes(#[from] SizesError),
    /// The NIC model cannot have such a configuration. Exit status 2.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The NIC model ended without a report. Exit status 1.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file is wrong. It ends with the status of what is wrong with the file.
    #[error("{file}: {error}")]
    File {
        /// The file, as it was named.
        file: String,
        /// What is wrong with it.
        #[source]
        error: Box<Failure>,
    },
}

impl Failure {
    /// What the process ends with.
    pub fn exit_status(&self) -> u8 {
        match self {
            Failure::Failed(_) | Failure::Runtime(_) | Failure::Model(_) => 1,
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

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Failure::Usage(text.into())
    }

    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Failure::Failed(text.into())
    }

    /// What is wrong with a file.
    pub(crate) fn file(file: impl fmt::Display, error: impl Into<Failure>) -> Self {
        Failure::File { file: file.to_string(), error: Box::new(error.into()) }
    }

    /// An error of the operating system, while doing something.
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Failure::Failed(format!("could not {doing}: {error}"))
    }
}
