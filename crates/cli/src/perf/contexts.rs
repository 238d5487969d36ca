//! Several contexts at once (`--contexts`), which share nothing: each has sockets, state and a lock
//! of its own, and a connection to a context of the server.
//!
//! Every context is driven by a thread, which measures as if it were alone. The threads begin each
//! row together, and their results are added up.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::report::Row;
use crate::failure::Failure;

/// Distance between the first ports of a server's contexts: the most sockets that one has.
const PORTS: u16 = 16;

/// The offset of the first port of context `index` from that of the first one.
pub(super) fn port_offset(index: u32) -> u16 {
    PORTS * index as u16
}

/// Where a context of the server is.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) host: String,
    /// The offset of its port from the one that `host` names.
    pub(super) port_offset: u16,
}

impl Server {
    /// The contexts of a server, whose ports have the usual distance.
    pub(super) fn all_at(host: &str, count: u32) -> Vec<Server> {
        let at = |index| Server { host: host.to_owned(), port_offset: port_offset(index) };
        (0..count).map(at).collect()
    }

    /// A context whose whole address is known.
    pub(super) fn at(address: &str) -> Server {
        Server { host: address.to_owned(), port_offset: 0 }
    }
}

/// Runs `work` for every context, each on a thread of its own. Returns the first failure that
/// is not a consequence of another.
pub(super) fn each(
    count: u32,
    work: impl Fn(u32) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    if count == 1 {
        return work(0);
    }
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn({
                    let work = &work;
                    move || work(index)
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(Ok(()), Result::and)
    })
}

/// What distinguishes one of several contexts.
pub(super) struct Place<'a> {
    pub(super) server: &'a Server,
    /// The offset of its first port from the one that the options name.
    pub(super) own_port: u16,
    pub(super) together: &'a Together,
}

/// Where the threads of several contexts wait for each other, and leave their rows.
pub(super) struct Together {
    count: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: u32,
    /// Number of times that all threads have met.
    meetings: u64,
    failed: bool,
    rows: Vec<Row>,
}

impl Together {
    pub(super) fn new(count: u32) -> Together {
        Together { count, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until all threads are here.
    ///
    /// # Errors
    /// The thread of another context has failed.
    pub(super) fn meet(&self) -> Result<(), Failure> {
        let mut state = self.lock();
        state.waiting += 1;
        if state.waiting == self.count {
            (state.waiting, state.meetings) = (0, state.meetings + 1);
            self.changed.notify_all();
            return Ok(());
        }
        let meeting = state.meetings;
        let waiting = |state: &mut State| state.meetings == meeting && !state.failed;
        let state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
        match state.meetings == meeting {
            true => Err(Failure::failed("another context failed")),
            false => Ok(()),
        }
    }

    /// Notes the result of a thread, and wakes the others if it failed. A failure that another one
    /// has caused is left out: that one is reported.
    pub(super) fn ended(&self, result: Result<(), Failure>) -> Result<(), Failure> {
        let mut state = self.lock();
        let has_failed = state.failed;
        state.failed |= result.is_err();
        self.changed.notify_all();
        if has_failed { Ok(()) } else { result }
    }

    /// Leaves the row of a context. Returns all of them, added up, to the thread that comes last.
    pub(super) fn add(&self, row: Row) -> Option<Row> {
        let mut state = self.lock();
        state.rows.push(row);
        if (state.rows.len() as u32) < self.count {
            return None;
        }
        state.rows.drain(..).reduce(Row::beside)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_meet_and_a_failure_ends_all() {
        let together = Together::new(3);
        let failures = each(3, |index| {
            together.ended((|| {
                together.meet()?;
                together.meet()?;
                if index == 1 {
                    return Err(Failure::failed("the cause"));
                }
                together.meet()
            })())
        });
        assert_eq!(failures.unwrap_err().to_string(), "the cause");
    }
}
