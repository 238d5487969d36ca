//! How messages reach the members of a group of endpoints.

use crate::config::{Config, Dispatching, WorkloadKind};

/// A message that a member has handled.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) bytes: Vec<u8>,
    pub(crate) member: u32,
}

/// How messages reach members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fanout {
    pub(crate) dispatch: Dispatching,
    /// Endpoints of the target share their receives.
    pub(crate) shared: bool,
    pub(crate) members: u32,
}

impl Config {
    /// The fan-out that is asked for.
    pub(crate) fn fanout(&self) -> Option<Fanout> {
        let members = self.remote_jetties;
        match self.workload {
            WorkloadKind::Fanout { dispatch, shared } => Some(Fanout { dispatch, shared, members }),
            _ => None,
        }
    }

    /// Endpoints of the target that a sender tells apart: queue pairs each, over RoCE.
    pub(crate) fn addressed(&self) -> u32 {
        let direct = |fanout: Fanout| fanout.dispatch == Dispatching::Direct;
        if self.fanout().is_none_or(direct) { self.remote_jetties } else { 1 }
    }
}
