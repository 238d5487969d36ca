//! Checks of settings that cannot be combined.

use super::Settings;
use super::names::FAIRWAY_ONLY;
use crate::error::SettingsError;
use crate::scenario::{Scenario, Stack};

/// Bytes of the transport's headers of a data packet, at most.
const HEADER_BYTES: u32 = 100;

impl Settings {
    /// Checks that no setting was given that has no effect on the stack.
    pub(super) fn check_stack(&self) -> Result<(), SettingsError> {
        let idle = self.given.iter().find(|(name, _)| FAIRWAY_ONLY.contains(name));
        match idle.filter(|_| self.stack != Stack::Fairway) {
            Some((name, value)) => Err(SettingsError::NoEffect { name, value: value.clone() }),
            None => Ok(()),
        }
    }
}

/// Checks that measuring begins before the run ends, and that a receive queue has room for a
/// packet.
pub(super) fn check_bounds(scenario: &Scenario) -> Result<(), SettingsError> {
    let Scenario { measure_ps, end_ps, mtu, .. } = *scenario;
    if measure_ps > 0 && measure_ps >= end_ps {
        return Err(SettingsError::MeasuresNothing { measure_ps, end_ps });
    }
    let (bytes, packet) = (scenario.receive_queue.bytes, mtu + scenario.frame_bytes + HEADER_BYTES);
    if !scenario.drains.is_empty() && bytes < packet {
        return Err(SettingsError::QueueBelowPacket { bytes, packet, mtu });
    }
    Ok(())
}
