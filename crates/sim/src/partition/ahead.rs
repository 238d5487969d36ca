//! Prefetches the memory of the nodes that are executed next.
//!
//! The nodes that have events in a window, and their order, are known when it begins. While one is
//! executed, the memory of those behind it comes into the cache: what all have together is far
//! larger.

use super::Partition;
use crate::calendar::Kind;
use crate::packets::NONE;
use crate::prefetch::{request_element, request_value};
use fairway_ub::UbDevice;
use std::ops::Range;

/// Stages in which memory is prefetched for a node.
const STAGES: usize = UbDevice::MEMORY_STAGES as usize;

/// The node that is executed next, and those behind it.
pub(super) struct Ahead([u32; STAGES]);

impl Default for Ahead {
    fn default() -> Self {
        Ahead([NONE; STAGES])
    }
}

impl Partition {
    /// Prefetches what the next nodes need before `node` is executed: each of them in stages, one
    /// for every node that is executed before it.
    #[inline]
    pub(super) fn look_ahead(&self, ahead: &mut Ahead, node: u32) {
        let after = |node| if node == NONE { None } else { self.calendar.next_node(node + 1) };
        if ahead.0[0] != node {
            // The first node of a window.
            let mut at = node;
            for place in &mut ahead.0 {
                *place = at;
                at = after(at).unwrap_or(NONE);
            }
        }
        for (stage, &coming) in ahead.0.iter().rev().enumerate() {
            if coming != NONE {
                self.prefetch(coming, stage);
            }
        }
        let last = after(ahead.0[STAGES - 1]).unwrap_or(NONE);
        ahead.0.rotate_left(1);
        ahead.0[STAGES - 1] = last;
    }

    /// Prefetches memory that the next events of a node touch. Each stage reads what the one before
    /// has prefetched. The state of a host takes all of them; packets and ports are left to the
    /// last ones, so that they are still in the nearest cache.
    #[inline]
    fn prefetch(&self, node: u32, stage: usize) {
        if let Some(Some(host)) = self.hosts.get(node as usize) {
            host.prefetch(stage as u8);
        }
        if stage < STAGES - 3 {
            return;
        }
        let numbers = self.plan.scenario.network.ports_of(node);
        let ports = &self.ports[numbers.start as usize..numbers.end as usize];
        if stage == STAGES - 3 {
            self.calendar.prefetch(node);
            return request_value(ports);
        }
        if stage == STAGES - 2 {
            return self.prefetch_packets(node, numbers);
        }
        for port in ports {
            self.calendar.prefetch_next(port.to);
        }
    }

    /// Prefetches the packets that arrive at a node, the counters of its ports, and the first
    /// packet that waits at each of them.
    #[inline]
    fn prefetch_packets(&self, node: u32, ports: Range<u32>) {
        let is_host = node < self.plan.scenario.network.hosts;
        self.calendar.known(node, |entry| {
            if entry.kind() == Kind::Arrive {
                request_element(&self.packets.meta, entry.packet() as usize);
                if is_host {
                    request_element(&self.packets.headers, entry.packet() as usize);
                }
            }
        });
        for port in ports {
            request_value(&self.tallies[port as usize].marks);
            let first = self.ports[port as usize].queues[1].head;
            request_element(&self.packets.meta, first as usize);
        }
    }
}
