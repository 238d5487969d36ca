//! The progress lock determines which thread drives a NIC.
//!
//! A NIC in software makes progress only when a thread runs its polls. Application threads that
//! poll do so themselves, which is fastest. A background thread takes over when they do not, and
//! must stay out of the way while they do. Its next role depends only on three facts
//! ([`next_role`]):
//!
//! | an application thread sleeps on the sockets | driving was demanded of the background thread | application threads polled since the last check | the background thread |
//! |---|---|---|---|
//! | yes | any | any | [`Role::Parked`]: asleep until the sleeper resigns |
//! | no | yes | any | [`Role::Driving`]: asleep on the sockets and timers |
//! | no | no | yes | [`Role::Watching`]: asleep for a while, then checks again |
//! | no | no | no | [`Role::Driving`] |
//!
//! The flag of the leader and the role of the background thread share one atomic word, so a parked
//! background thread always notices that the leader has resigned.

use crate::sync::{AtomicU32, Ordering};

/// The shared state of one NIC's progress.
#[derive(Debug, Default)]
pub struct ProgressLock {
    /// Bits 0–1: the background thread's [`Role`]; the other bits are [`LEADER`] and [`DEMAND`].
    word: AtomicU32,
    /// Counts polls. Written without read-modify-write, because the loss of one of two simultaneous
    /// increments does no harm.
    polls: AtomicU32,
}

/// The role of the background thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// The background thread runs the polls, asleep in the kernel on sockets and timers in between.
    #[default]
    Driving = 0,
    /// Application threads poll; the background thread checks from time to time whether they still
    /// do.
    Watching = 1,
    /// An application thread sleeps on the sockets; the background thread sleeps until that one is
    /// done.
    Parked = 2,
}

const ROLE: u32 = 0b11;
/// Set while an application thread sleeps on the sockets, and drives.
const LEADER: u32 = 0b100;
/// Set if the background thread should drive now, even if an application thread polled lately.
const DEMAND: u32 = 0b1000;

/// Returns the next role of the background thread, for every input, by the table at the top of the
/// module.
pub const fn next_role(leader: bool, demand: bool, polled: bool) -> Role {
    match (leader, demand, polled) {
        (true, _, _) => Role::Parked,
        (false, true, _) => Role::Driving,
        (false, false, true) => Role::Watching,
        (false, false, false) => Role::Driving,
    }
}

impl ProgressLock {
    /// Returns the state in which no application thread polls: the background thread drives.
    pub fn new() -> Self {
        ProgressLock { word: AtomicU32::new(Role::Driving as u32), polls: AtomicU32::new(0) }
    }

    /// Records a poll of an application thread. Costs a load and a store.
    pub fn touch(&self) {
        let polls = self.polls.load(Ordering::Relaxed);
        self.polls.store(polls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Called by an application thread that is about to sleep on the sockets and drive meanwhile.
    /// Returns false if another thread already does: then the caller must sleep on a doorbell that
    /// the leader rings.
    pub fn try_lead(&self) -> bool {
        self.word.fetch_or(LEADER, Ordering::AcqRel) & LEADER == 0
    }

    /// Ends the caller's leadership. Returns true if the background thread is parked and must be
    /// rung.
    pub fn resign(&self) -> bool {
        self.touch();
        let before = self.word.fetch_and(!LEADER, Ordering::AcqRel);
        before & ROLE == Role::Parked as u32
    }

    /// Demands that the background thread drive now. Returns true if it is not driving and must be
    /// rung.
    pub fn demand(&self) -> bool {
        let before = self.word.fetch_or(DEMAND, Ordering::AcqRel);
        before & ROLE != Role::Driving as u32
    }

    /// True if an application thread sleeps on the sockets.
    pub fn has_leader(&self) -> bool {
        self.word.load(Ordering::Acquire) & LEADER != 0
    }

    /// Returns the current role of the background thread.
    pub fn role(&self) -> Role {
        match self.word.load(Ordering::Acquire) & ROLE {
            1 => Role::Watching,
            2 => Role::Parked,
            _ => Role::Driving,
        }
    }

    /// Decides the next role of the background thread, which calls this. `polls_seen` is that
    /// thread's own copy of the poll count. If the result is not [`Role::Driving`] it must have
    /// listened to its doorbell before this call.
    pub fn decide(&self, polls_seen: &mut u32) -> Role {
        let polls = self.polls.load(Ordering::Relaxed);
        let polled = polls != *polls_seen;
        *polls_seen = polls;
        let mut before = self.word.load(Ordering::Acquire);
        loop {
            let role = next_role(before & LEADER != 0, before & DEMAND != 0, polled);
            // A demand while there is a leader stays set: it takes effect when the leader resigns.
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
