use super::*;
use fairway_device::random::Random;
use std::collections::BTreeSet;

const NODES: u32 = 3;
const WINDOW: u64 = 1_000_000;

/// Compares the calendar with a sorted set: the events of each node, whether inserted near, far
/// ahead or during the node's own execution, come out in order.
#[test]
fn the_events_of_a_node_come_in_order() {
    let mut random = Random::new(7);
    let mut calendar = Calendar::new(NODES as usize, WINDOW, 16);
    let mut model: BTreeSet<(u64, u32, Kind, u32)> = BTreeSet::new();
    for packet in 0..50 {
        let (at, node) = (random.below(9 * WINDOW), packet % NODES);
        calendar.push(at, node, Kind::Arrive, 5, packet);
        model.insert((at, node, Kind::Arrive, packet));
    }
    let mut happened = 0;
    let mut packet = 50;
    while let Some(window) = calendar.next_window() {
        assert_eq!(Some(window), model.first().map(|first| first.0 / WINDOW));
        let end = (window + 1) * WINDOW;
        calendar.open(window);
        for node in 0..NODES {
            let has_any = model.iter().any(|event| event.0 < end && event.1 == node);
            assert_eq!(calendar.next_node(node) == Some(node), has_any);
            assert_eq!(calendar.turn(node), has_any);
            while let Some((now, entry)) = calendar.pop() {
                let first = model.iter().find(|event| event.1 == node).copied();
                let first = first.expect("an event that was put in");
                assert_eq!((now, entry.kind(), entry.packet()), (first.0, first.2, first.3));
                model.remove(&first);
                happened += 1;
                for _ in 0..random.below(3) {
                    let kind = random.pick(&KINDS[..7]);
                    let own = random.chance(500);
                    let at = if own {
                        now + 1 + random.below(WINDOW / 8)
                    } else {
                        end + random.below(random.clone().pick(&[WINDOW, 3 * WINDOW, 60 * WINDOW]))
                    };
                    let to = if own { node } else { (node + 1) % NODES };
                    if happened + model.len() < 20_000 && model.insert((at, to, kind, packet)) {
                        calendar.push(at, to, kind, packet % 1024, packet);
                        packet += 1;
                    }
                }
            }
            // The window holds no further event of this node.
            assert!(!model.iter().any(|event| event.0 < end && event.1 == node));
        }
    }
    assert!(model.is_empty() && happened > 1_000, "{happened}");
}
