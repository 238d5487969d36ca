//! The progress lock: which thread drives a NIC.
//!
//! A NIC in software makes progress only when a thread runs its turn. Application threads that poll
//! do it themselves, which is fastest. A background thread stands by for the time when they don't,
//! and must stay out of the way while they do. What it does next depends on three facts and nothing
//! else ([`next_role`]):
//!
//! | an application thread sleeps on the sockets | the background was asked for | application threads polled since the last look | the background thread |
//! |---|---|---|---|
//! | yes | any | any | [`Role::Parked`]: asleep until the sleeper resigns |
//! | no | yes | any | [`Role::Driving`]: asleep on the sockets and timers |
//! | no | no | yes | [`Role::Watching`]: asleep for a while, then looks again |
//! | no | no | no | [`Role::Driving`] |
//!
//! The sleeper and the background's role share one atomic word, so "the background parked" and
//! "the sleeper resigned" can't miss each other.

use crate::sync::{AtomicU32, Ordering};

/// The shared state of one NIC's progress.
#[derive(Debug, Default)]
pub struct ProgressLock {
    /// Bits 0–1: the background's [`Role`]. [`LEADER`], [`DEMAND`].
    word: AtomicU32,
    /// Counts polls. Written without read-modify-write: losing one of two simultaneous
    /// increments does no harm.
    polls: AtomicU32,
}

/// What the background thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// It runs the turns, asleep in the kernel on sockets and timers in between.
    #[default]
    Driving = 0,
    /// Application threads poll; it looks now and then whether they still do.
    Watching = 1,
    /// An application thread sleeps on the sockets; it sleeps until that one is done.
    Parked = 2,
}

const ROLE: u32 = 0b11;
/// An application thread sleeps on the sockets, and drives.
const LEADER: u32 = 0b100;
/// The background should drive now, even if an application thread polled lately.
const DEMAND: u32 = 0b1000;

/// What the background thread does next. Total: this is the table at the top of the module.
pub const fn next_role(leader: bool, demand: bool, polled: bool) -> Role {
    match (leader, demand, polled) {
        (true, _, _) => Role::Parked,
        (false, true, _) => Role::Driving,
        (false, false, true) => Role::Watching,
        (false, false, false) => Role::Driving,
    }
}

impl ProgressLock {
    /// No application thread polls: the background drives.
    pub fn new() -> Self {
        ProgressLock { word: AtomicU32::new(Role::Driving as u32), polls: AtomicU32::new(0) }
    }

    /// An application thread polls. Costs a load and a store.
    pub fn touch(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// An application thread wants to sleep on the sockets and drive meanwhile. False if another
    /// already does: then sleep on something that one rings.
    pub fn try_lead(&self) -> bool {
        self.word.fetch_or(LEADER, Ordering::AcqRel) & LEADER == 0
    }

    /// The leader stops. Returns true if the background is parked and has to be rung.
    pub fn resign(&self) -> bool {
        self.touch();
        let before = self.word.fetch_and(!LEADER, Ordering::AcqRel);
        before & ROLE == Role::Parked as u32
    }

    /// Asks the background to drive now. Returns true if it is not driving and has to be rung.
    pub fn demand(&self) -> bool {
        let before = self.word.fetch_or(DEMAND, Ordering::AcqRel);
        before & ROLE != Role::Driving as u32
    }

    /// True if an application thread sleeps on the sockets.
    pub fn has_leader(&self) -> bool {
        self.word.load(Ordering::Acquire) & LEADER != 0
    }

    /// What the background thread is doing.
    pub fn role(&self) -> Role {
        match self.word.load(Ordering::Acquire) & ROLE {
            1 => Role::Watching,
            2 => Role::Parked,
            _ => Role::Driving,
        }
    }

    /// The background thread decides what to do next. `polls_seen` is its own memory of the poll
    /// count. When the answer is not [`Role::Driving`] it must have listened to its doorbell
    /// before calling this.
    pub fn decide(&self, polls_seen: &mut u32) -> Role {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = polls != *polls_seen;
        *polls_seen = polls;
        let mut before = self.word.load(Ordering::Acquire);
        loop {
            let role = next_role(before & LEADER != 0, before & DEMAND != 0, polled);
            // A demand that found a leader stays: it is answered when the leader resigns.
            let keep = if role == Role::Parked { LEADER | DEMAND } else { LEADER };
            let after = before & keep | role as u32;
            match self.word.compare_exchange_weak(
                before,
                after,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return role,
                Err(now) => before = now,
            }
        }
    }
}
