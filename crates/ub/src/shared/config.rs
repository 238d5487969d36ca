//! What a NIC was made with: its address, limits and profile, and the bug that a test has injected.

use crate::injected_bug::InjectedBug;
use crate::limits::{Limits, Profile};
use fairway_wire::Cna;

/// The address, limits and profile of a NIC, which do not change.
pub(crate) struct Config {
    address: Cna,
    limits: Limits,
    profile: Profile,
    bug: Option<InjectedBug>,
}

impl Config {
    pub(crate) fn new(address: Cna, limits: &Limits, profile: &Profile) -> Config {
        Config { address, limits: *limits, profile: *profile, bug: None }
    }

    /// The NIC's node address.
    #[inline]
    pub(crate) fn address(&self) -> Cna {
        self.address
    }

    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Injects a bug, or removes the one that is injected.
    pub(crate) fn inject(&mut self, bug: Option<InjectedBug>) {
        self.bug = bug;
    }

    /// True if a bug is injected, which is possible in builds with the feature `injected-bugs`
    /// only.
    #[inline]
    pub(crate) fn is_injected(&self, bug: InjectedBug) -> bool {
        cfg!(feature = "injected-bugs") && self.bug == Some(bug)
    }
}
