//! Delivery of messages to the members of a group of endpoints.

use crate::config::{Config, Dispatching, WorkloadKind};

/// A message that a member has handled.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) bytes: Vec<u8>,
    pub(crate) member: u32,
}

/// Parameters of a fan-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fanout {
    pub(crate) dispatch: Dispatching,
    /// True if the target's endpoints share their receives.
    pub(crate) shared: bool,
    pub(crate) members: u32,
}

impl Config {
    /// Returns the fan-out that is configured, if any.
    pub(crate) fn fanout(&self) -> Option<Fanout> {
        let members = self.remote_jetties;
        match self.workload {
            WorkloadKind::Fanout { dispatch, shared } => Some(Fanout { dispatch, shared, members }),
            _ => None,
        }
    }

    /// Number of the target's endpoints that a sender can address; over RoCE each has a queue pair.
    pub(crate) fn addressed(&self) -> u32 {
        let direct = |fanout: Fanout| fanout.dispatch == Dispatching::Direct;
        if self.fanout().is_none_or(direct) { self.remote_jetties } else { 1 }
    }
}
