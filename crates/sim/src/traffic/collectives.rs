//! Collective operations, as flows that wait for each other: host `i` forwards a piece when it has
//! received it.

use super::{After, Flow};

/// Kind of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every host ends up with the sum, by two rounds of a ring.
    RingAllReduce,
    /// Every host ends up with all pieces.
    AllGather,
    /// Every host ends up with the sum of one piece.
    ReduceScatter,
    /// The sum goes up a binary tree and down again.
    TreeAllReduce,
}

/// Returns the flows of a collective over `bytes` per host.
pub fn collective(kind: Collective, hosts: u32, bytes: u32) -> Vec<Flow> {
    let piece = bytes.div_ceil(hosts).max(1);
    match kind {
        Collective::RingAllReduce => ring(hosts, piece, 2 * (hosts - 1)),
        Collective::AllGather | Collective::ReduceScatter => ring(hosts, piece, hosts - 1),
        Collective::TreeAllReduce => tree(hosts, bytes),
    }
}

/// In step `s` host `i` sends to `i + 1` what it received in step `s − 1`.
fn ring(hosts: u32, piece: u32, steps: u32) -> Vec<Flow> {
    let flow = |step: u32, host: u32| {
        let mut flow = Flow::new(host, (host + 1) % hosts, piece);
        if step > 0 {
            let before = (step - 1) * hosts + (host + hosts - 1) % hosts;
            flow.after.push(After { flow: before, delivered: true });
        }
        flow
    };
    (0..steps).flat_map(|step| (0..hosts).map(move |host| flow(step, host))).collect()
}

/// Host `i`'s parent is `(i − 1) / 2`. The flows up come first, the last host's before the others;
/// the flows down follow.
fn tree(hosts: u32, bytes: u32) -> Vec<Flow> {
    let children = |host: u32| (2 * host + 1..=2 * host + 2).filter(move |child| *child < hosts);
    let wait = |flow| After { flow, delivered: true };
    let up_from = |host: u32| hosts - 1 - host;
    let up = (1..hosts).rev().map(|host| Flow {
        after: children(host).map(|child| wait(up_from(child))).collect(),
        ..Flow::new(host, (host - 1) / 2, bytes)
    });
    let down = (1..hosts).map(|host| {
        let parent = (host - 1) / 2;
        let after = match parent {
            0 => children(0).map(|child| wait(up_from(child))).collect(),
            _ => vec![wait(hosts - 1 + parent - 1)],
        };
        Flow { after, ..Flow::new(parent, host, bytes) }
    });
    up.chain(down).collect()
}
