//! Nodes that pause, or crash.

use super::NodeFault;
use fairway_device::random::Random;
use fairway_ub::Profile;
use fairway_ub::wire::{Duration, Instant};

/// Draws the faults of nodes.
pub(super) fn draw(
    random: &mut Random,
    nodes: usize,
    span: Duration,
    profiles: &[Profile],
) -> Vec<NodeFault> {
    let mut node_faults = Vec::new();
    let pauses = if random.chance(250) { random.range(1, 3) } else { 0 };
    for _ in 0..pauses {
        let node = random.below(nodes as u64) as usize;
        let at = Instant::from_ps(random.below(span.as_ps()) + 1);
        let short = random.chance(700);
        let most = if short { span } else { profiles[node].peer_dead.times(2) };
        node_faults.push(NodeFault::Pause {
            node,
            at,
            span: Duration::from_ps(random.below(most.as_ps())),
        });
    }
    let crashes = if random.chance(200) { random.range(1, 2) } else { 0 };
    for _ in 0..crashes {
        let node = random.below(nodes as u64) as usize;
        let at = Instant::from_ps(random.below(span.as_ps()) + 1);
        node_faults.push(NodeFault::Crash {
            node,
            at,
            span: Duration::from_ps(random.below(span.as_ps())),
        });
    }
    node_faults
}
