//! Configuration of a device: its address, limits and profile, and the bug that a test has
//! injected.

use crate::injected_bug::InjectedBug;
use crate::limits::{Limits, Profile};
use fairway_wire::Cna;

/// The address, limits and profile of a device, which do not change.
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

    /// The device's node address.
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

    /// Injects a bug, or removes the injected one.
    pub(crate) fn inject(&mut self, bug: Option<InjectedBug>) {
        self.bug = bug;
    }

    /// True if this bug is injected, which is possible only in builds with the feature
    /// `injected-bugs`, and in tests.
    #[inline]
    pub(crate) fn is_injected(&self, bug: InjectedBug) -> bool {
        cfg!(any(feature = "injected-bugs", test)) && self.bug == Some(bug)
    }
}
