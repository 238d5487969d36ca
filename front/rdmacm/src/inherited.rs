//! Ids and channels in a child of `fork`: devices, with their sockets and threads, stay with the
//! process that opened them, so the ids that use them do nothing in a child.
//!
//! Calls in a child report that as an error, and a channel is readable there, so that a program
//! that waits for its descriptor makes such a call. A program that begins to use the channel for
//! new ids of the child gets it as if it were new.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fairway_verbs::events::EventQueue;
use fairway_verbs::guard::{Errno, Result};

use super::claims;

/// The result of calls that need a device of another process.
const STAYS: Errno = Errno(libc::ENODEV);

/// The process whose ids use a channel; 0 if none has used it yet.
#[derive(Clone, Default)]
pub(super) struct User(Arc<AtomicU32>);

impl User {
    /// True in a child of the process that uses the channel.
    pub(super) fn is_parent(&self) -> bool {
        ![0, std::process::id()].contains(&self.0.load(Ordering::Acquire))
    }

    /// Makes this process the one that uses the channel of these events.
    pub(super) fn set<T>(&self, events: &EventQueue<T>) {
        let process = std::process::id();
        let before = self.0.load(Ordering::Acquire);
        if before == process {
            return;
        }
        if before != 0 {
            events.start_anew();
        }
        self.0.store(process, Ordering::Release);
    }

    /// Fails in a child of the process that uses the channel.
    pub(super) fn check(&self) -> Result<()> {
        check(!self.is_parent())
    }
}

/// Fails, and explains that on standard error once in each process, unless `is_own`: whether what
/// the call needs belongs to this process.
pub(super) fn check(is_own: bool) -> Result<()> {
    static EXPLAINED: AtomicU32 = AtomicU32::new(0);
    if is_own {
        return Ok(());
    }
    let process = std::process::id();
    if EXPLAINED.swap(process, Ordering::AcqRel) != process {
        // The ports are free once the process that listened has ended.
        claims::disown();
        eprintln!(
            "fairway: the program uses an event channel or id of librdmacm in a child process, but \
             its listener or connection stays with the process that made it; create channels and \
             ids after fork() or daemon()"
        );
    }
    Err(STAYS)
}
