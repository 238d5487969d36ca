//! The offloads of a host's interfaces, as `ethtool -k` shows them.

use std::io;

use crate::ethtool::{Names, Request};

/// An offload of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicFeature {
    /// The kernel's name, such as `tx-udp-segmentation`.
    pub name: String,
    /// True if it is on.
    pub is_on: bool,
    /// True if it can be switched on and off (`ethtool -K`).
    pub can_switch: bool,
}

/// Returns the offloads that the kernel lists for an interface, on and off.
///
/// # Errors
/// There is no such interface, or the kernel does not report its features.
pub fn nic_features(interface: &str) -> io::Result<Vec<NicFeature>> {
    let mut request = Request::new(interface)?;
    let names = request.names(Names::Features)?;
    let states = request.features(names.len())?;
    let feature = |(name, (can_switch, is_on))| NicFeature { name, is_on, can_switch };
    // Numbers that the kernel has not assigned to a feature have no name.
    Ok(names.into_iter().zip(states).map(feature).filter(|one| !one.name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loopback interface passes packets on in memory, so it needs no checksums and no
    /// segmentation: these features are always on.
    #[test]
    fn loopback_interface_reports_its_features() {
        let features = nic_features("lo").unwrap();
        let named = |name: &str| features.iter().find(|feature| feature.name == name);
        assert!(named("loopback").is_some_and(|feature| feature.is_on && !feature.can_switch));
        assert!(named("tx-scatter-gather").is_some_and(|feature| feature.is_on));
        assert!(named("hw-tc-offload").is_some_and(|feature| !feature.is_on), "{features:?}");
    }

    #[test]
    fn missing_interface_is_an_error() {
        assert!(nic_features("no-such-nic").is_err());
    }
}
