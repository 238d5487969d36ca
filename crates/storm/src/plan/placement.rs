//! Placement of a node's congestion controllers.

use fairway_device::random::Random;
use fairway_ub::wire::Duration;

/// Placement of a node's congestion controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerPlacement {
    /// Called for every packet.
    Direct,
    /// On events, with a limit of events handled between two packets.
    InLine { budget: u32 },
    /// On events, apart from the data path, at random times with this mean period.
    Apart { period: Duration },
}

/// In three worlds of ten, some nodes run their controllers on events.
pub(super) fn draw(random: &mut Random, nodes: usize) -> Vec<ControllerPlacement> {
    if !random.chance(300) {
        return vec![ControllerPlacement::Direct; nodes];
    }
    let draw = |_| match random.below(3) {
        0 => ControllerPlacement::Direct,
        1 => ControllerPlacement::InLine { budget: random.pick(&[1, 3, u32::MAX]) },
        _ => ControllerPlacement::Apart { period: Duration::from_us(random.pick(&[1, 20, 200])) },
    };
    (0..nodes).map(draw).collect()
}
