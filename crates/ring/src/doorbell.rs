//! A word on which threads sleep until it is rung.

use std::time::Duration;

use crate::futex;
use crate::sync::{AtomicU32, Ordering, fence};

/// A doorbell: one 32-bit word, which may be in memory that several processes share.
///
/// To sleep until a condition holds: call [`Doorbell::listen`], check the condition, and if it does
/// not hold yet, call [`Doorbell::wait`]. To wake: make the condition hold, then call
/// [`Doorbell::ring`], which costs a fence and a load when no thread sleeps.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Doorbell {
    /// Bit 0: a thread may be asleep. The other bits count rings.
    word: AtomicU32,
}

/// The state that [`Doorbell::listen`] read; a ring after that ends the wait at once.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Ticket(u32);

const SLEEPER: u32 = 1;
const ONE_RING: u32 = 2;

impl Doorbell {
    /// Creates a doorbell that has not been rung. (It is all zeros, so zeroed shared memory
    /// contains such doorbells.)
    pub fn new() -> Self {
        Doorbell { word: AtomicU32::new(0) }
    }

    /// Announces that the caller is about to sleep. The caller must check the condition after this.
    pub fn listen(&self) -> Ticket {
        let seen = self.word.fetch_or(SLEEPER, Ordering::SeqCst) | SLEEPER;
        // Pairs with the fence in `ring`: either the caller sees the data published before the
        // ring, or the ringing thread sees the sleeper.
        fence(Ordering::SeqCst);
        Ticket(seen)
    }

    /// Sleeps until the bell is rung after `ticket` was taken, for at most `timeout`. Returns true
    /// if it was rung. May return false early, so the caller must check the condition again.
    pub fn wait(&self, ticket: Ticket, timeout: Option<Duration>) -> bool {
        futex::wait(&self.word, ticket.0, timeout);
        self.rung(ticket)
    }

    /// True if the bell was rung since `ticket` was taken.
    pub fn rung(&self, ticket: Ticket) -> bool {
        self.word.load(Ordering::Acquire) & !SLEEPER != ticket.0 & !SLEEPER
    }

    /// Wakes every thread that listened. Returns false if none had, in which case it cost no system
    /// call.
    pub fn ring(&self) -> bool {
        fence(Ordering::SeqCst);
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen & SLEEPER == 0 {
                return false;
            }
            let rung = (seen & !SLEEPER).wrapping_add(ONE_RING);
            match self.word.compare_exchange_weak(seen, rung, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        futex::wake_all(&self.word);
        true
    }
}
