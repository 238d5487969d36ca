//! Links that change, and ports that their peers pause.

use super::Partition;
use crate::calendar::Kind;

impl Partition {
    /// Schedules the changes of this partition's links.
    pub(super) fn schedule_changes(&mut self) {
        let scenario = &self.plan.scenario;
        let changes = scenario.changes.iter().map(|change| (change.at_ps, change.link));
        let delays = scenario.delays.iter().map(|delay| (delay.at_ps, delay.link));
        for (index, (at, link)) in changes.chain(delays).enumerate() {
            let node = scenario.network.links[link as usize].from;
            if self.plan.port_part[link as usize] == self.part {
                self.calendar.push(at, node, Kind::Change, 0, index as u32);
            }
        }
    }

    pub(super) fn change(&mut self, index: u32) {
        let (changes, delays) = (&self.plan.scenario.changes, &self.plan.scenario.delays);
        if let Some(change) = changes.get(index as usize) {
            self.ports[change.link as usize].set_rate(change.megabits);
        } else if let Some(delay) = delays.get(index as usize - changes.len()) {
            self.ports[delay.link as usize].set_latency(delay.latency_ps);
        }
    }

    /// Pauses or resumes the data of a link's sender.
    pub(super) fn signal(&mut self, now: u64, link: u32, wait: bool) {
        let network = &self.plan.scenario.network;
        let reverse = network.links[link as usize].reverse;
        let at = now + self.ports[reverse as usize].latency_ps();
        if self.plan.port_part[link as usize] == self.part {
            self.pause_signal(at, link, wait);
        } else {
            self.signals.push((at, link, wait));
        }
    }

    /// Pauses or resumes the data of a port, from `at` on, if the port belongs to this partition.
    pub(crate) fn pause_signal(&mut self, at: u64, port: u32, wait: bool) {
        let network = &self.plan.scenario.network;
        let node = network.links[port as usize].from;
        if self.plan.port_part[port as usize] == self.part {
            let own = port - network.first_port[node as usize];
            self.calendar.push(at, node, Kind::Pause, own, u32::from(wait));
        }
    }

    pub(super) fn pause(&mut self, now: u64, node: u32, port: u32, wait: u32) {
        let here = &mut self.ports[port as usize];
        let tally = &mut self.tallies[port as usize];
        let waited = std::mem::replace(&mut here.paused, wait == 1);
        match (waited, wait == 1) {
            (false, true) => {
                tally.pauses += 1;
                tally.paused_since = now;
            }
            (true, false) => tally.paused_ps += now - tally.paused_since,
            _ => {}
        }
        if here.has_work() && !here.armed {
            here.armed = true;
            let at = here.busy_until.max(now);
            self.arm(at, node, port);
        }
    }
}
