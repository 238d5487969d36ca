//! Ranks of a program: their NIC's events, and their scheduled actions.

use super::Partition;
use crate::calendar::Kind;
use fairway_ub::Execution;
use fairway_ub::wire::Instant;

impl Partition {
    /// Executes the actions of a host's ranks that are due.
    pub(super) fn act(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(ranks) = host.ranks.as_deref_mut() else { return };
        if ranks.wake_at == now {
            ranks.wake_at = u64::MAX;
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
        let before = (ranks.done, ranks.messages, ranks.failed);
        while let Some(done) = nic.poll_epoch() {
            ranks.epoch(now, &done);
        }
        while let Some(completion) = nic.poll_completion(host.queue) {
            ranks.completed(nic, now, &completion);
        }
        ranks.act(nic, now);
        let totals = &mut self.totals;
        totals.messages += ranks.messages - before.1;
        totals.failed += ranks.failed - before.2;
        if ranks.done > before.0 {
            totals.ranks_done += u64::from(ranks.done - before.0);
            totals.ranks_end = now;
        }
        self.arm_ranks(now, node);
    }

    /// Schedules the next wake-up of a host's ranks.
    pub(super) fn arm_ranks(&mut self, now: u64, node: u32) {
        let Some(host) = self.hosts[node as usize].as_mut() else { return };
        let Some(ranks) = host.ranks.as_deref_mut() else { return };
        if let Some(due) = ranks.next_due().map(|due| due.max(now))
            && due < ranks.wake_at
        {
            ranks.wake_at = due;
            self.calendar.push(due, node, Kind::Act, 0, 0);
        }
    }
}
