//! The ranks on a host, whatever they execute: a program's operations, or a group's calls.

use crate::calendar::NEVER;
use crate::counts::Counts;
use crate::members::Members;
use crate::plan::Plan;
use crate::ranks::Ranks;
use fairway_ub::{CompletionQueueId, LocalRange, UbDevice};

/// The ranks on a host.
pub(crate) struct Application {
    ranks: Kind,
    /// Time at which the host's wake-up is armed.
    wake_at: u64,
}

enum Kind {
    Program(Ranks),
    Group(Members),
}

impl From<Ranks> for Application {
    fn from(ranks: Ranks) -> Application {
        Application { ranks: Kind::Program(ranks), wake_at: NEVER }
    }
}

impl From<Members> for Application {
    fn from(members: Members) -> Application {
        Application { ranks: Kind::Group(members), wake_at: NEVER }
    }
}

impl Application {
    /// Passes the NIC's events to the ranks, and executes actions that are due.
    pub(crate) fn serve(
        &mut self,
        plan: &Plan,
        nic: &mut UbDevice,
        queue: CompletionQueueId,
        now: u64,
    ) {
        match &mut self.ranks {
            Kind::Program(ranks) => {
                while let Some(done) = nic.poll_epoch() {
                    ranks.epoch(now, &done);
                }
                while let Some(completion) = nic.poll_completion(queue) {
                    ranks.completed(nic, now, &completion);
                }
                ranks.act(nic, now);
            }
            Kind::Group(members) => {
                let plan = plan.group.as_ref().expect("there is a group");
                while let Some(completion) = nic.poll_completion(queue) {
                    members.completed(plan, nic, now, &completion);
                }
                members.act(plan, nic, now);
            }
        }
    }

    /// Records payload that is in place.
    pub(crate) fn placed(&mut self, now: u64, place: &LocalRange) {
        match &mut self.ranks {
            Kind::Program(ranks) => ranks.placed(now, place),
            Kind::Group(members) => members.placed(place.offset, place.length),
        }
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        match &self.ranks {
            Kind::Program(ranks) => {
                Counts { done: ranks.done, messages: ranks.messages, failed: ranks.failed }
            }
            Kind::Group(members) => members.counts(),
        }
    }

    /// Takes the wake-up that fires at `now`. Returns false if it was replaced by an earlier one.
    pub(crate) fn take_wake(&mut self, now: u64) -> bool {
        let fires = self.wake_at == now;
        if fires {
            self.wake_at = NEVER;
        }
        fires
    }

    /// Arms the next wake-up. Returns its time, if none is armed that is not later.
    pub(crate) fn arm(&mut self, now: u64) -> Option<u64> {
        let due = match &self.ranks {
            Kind::Program(ranks) => ranks.next_due(),
            Kind::Group(members) => members.next_due(),
        };
        let due = due.map(|due| due.max(now)).filter(|due| *due < self.wake_at)?;
        self.wake_at = due;
        Some(due)
    }

    /// The ranks of a group, if they are.
    pub(crate) fn members(&self) -> Option<&Members> {
        match &self.ranks {
            Kind::Program(_) => None,
            Kind::Group(members) => Some(members),
        }
    }
}
