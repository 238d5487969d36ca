//! Ranks of a program or of a group: their NIC's events, and their scheduled actions.

use super::Partition;
use crate::calendar::Kind;
use fairway_ub::Execution;
use fairway_ub::wire::Instant;

impl Partition {
    /// Executes the actions of a host's ranks that are due.
    pub(super) fn act(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(ranks) = host.ranks.as_deref_mut() else { return };
        if ranks.take_wake(now) {
            self.serve_ranks(now, node);
            self.turn(now, node);
        }
    }

    /// Passes the NIC's events to the ranks, and executes actions that are due.
    pub(super) fn serve_ranks(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(ranks) = host.ranks.as_deref_mut() else { return };
        let (at, nic) = (Instant::from_ps(now), host.nic.fairway());
        while let Some(execution) = nic.poll_execution() {
            match execution {
                Execution::Copy { token, .. } => nic.handle_placed(at, token, 0),
                Execution::Atomic(_) => unreachable!("ranks post no atomics"),
            }
        }
        let before = ranks.counts();
        ranks.serve(&self.plan, nic, host.queue, now);
        let (counts, totals) = (ranks.counts(), &mut self.totals);
        totals.messages += counts.messages - before.messages;
        totals.failed += counts.failed - before.failed;
        if counts.done > before.done {
            totals.ranks_done += u64::from(counts.done - before.done);
            // Nodes are executed one after the other within a window.
            totals.ranks_end = totals.ranks_end.max(now);
        }
        self.arm_ranks(now, node);
    }

    /// Schedules the next wake-up of a host's ranks.
    pub(super) fn arm_ranks(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(ranks) = host.ranks.as_deref_mut() else { return };
        if let Some(due) = ranks.arm(now) {
            self.calendar.push(due, node, Kind::Act, 0, 0);
        }
    }
}
