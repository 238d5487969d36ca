//! Where the congestion controls of a node run.

use fairway_device::random::Random;
use fairway_engine::wire::Duration;

/// Where the congestion controls of a node run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ControllerPlacement {
    /// Called for every packet.
    Direct,
    /// On events, so many of which are dealt with between two packets.
    InLine { budget: u32 },
    /// On events, apart from the data path, every so often on average.
    Apart { period: Duration },
}

/// In three worlds of ten some nodes have their laws run on events.
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
