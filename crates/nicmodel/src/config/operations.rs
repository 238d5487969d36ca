//! The operations that a configuration issues, and checks that its stack can carry them out.

use super::{Config, WorkloadKind};
use crate::error::ConfigError;

impl Config {
    /// Checks that the stack has the operations of the workload, in the requested order.
    pub(super) fn check_operations(&self) -> Result<(), ConfigError> {
        self.check_rate()
    }

    /// Checks that operations can arrive at random times. They cannot if the next operation depends
    /// on the answer to the previous one, or if actors wait for each other.
    fn check_rate(&self) -> Result<(), ConfigError> {
        let depends = matches!(
            self.workload,
            WorkloadKind::Barrier
                | WorkloadKind::CasLock
                | WorkloadKind::PointerChase
                | WorkloadKind::Probe
                | WorkloadKind::Search
                | WorkloadKind::Share { .. }
        );
        match self.rate_mops {
            Some(rate) if !(rate > 0.0 && rate.is_finite()) => Err(ConfigError::Rate(rate)),
            Some(rate) if depends => Err(ConfigError::OpenLoop(rate)),
            _ => Ok(()),
        }
    }
}
