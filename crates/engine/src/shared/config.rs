//! What a NIC was made with: its address, limits and profile, and the bug that a test has planted.

use crate::canary::Canary;
use crate::limits::{Limits, Profile};
use fairway_wire::Cna;

/// The address, limits and profile of a NIC, which do not change.
pub(crate) struct Config {
    address: Cna,
    limits: Limits,
    profile: Profile,
    canary: Option<Canary>,
}

impl Config {
    pub(crate) fn new(address: Cna, limits: &Limits, profile: &Profile) -> Config {
        Config { address, limits: *limits, profile: *profile, canary: None }
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

    /// Plants a bug, or removes the one that is planted.
    pub(crate) fn plant(&mut self, canary: Option<Canary>) {
        self.canary = canary;
    }

    /// True if a bug is planted, which is possible in builds with the feature `canary` only.
    #[inline]
    pub(crate) fn is_planted(&self, canary: Canary) -> bool {
        cfg!(feature = "canary") && self.canary == Some(canary)
    }
}
