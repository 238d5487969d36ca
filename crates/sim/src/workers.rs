//! Threads for the partitions of a network, kept from window to window.
//!
//! A partition is sent to its thread for a window and comes back after it, so nothing is shared.
//! Partition 0 stays with the caller. An idle thread polls for work a little longer than a handover
//! takes, and then sleeps, so that it does not keep a core from another thread.

use super::partition::Partition;
use std::hint::spin_loop;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// Polls for work before a thread sleeps: some microseconds.
const LOOKS: u32 = 200;

/// A thread, and the channels to and from it.
struct Worker {
    /// `None` makes the thread end.
    jobs: SyncSender<Option<(Partition, u64)>>,
    done: Receiver<Partition>,
    thread: Option<JoinHandle<()>>,
}

/// A thread for each partition except the first.
pub(crate) struct Workers {
    workers: Vec<Worker>,
    looks: u32,
}

impl Workers {
    /// Starts the threads for a network in `parts` partitions.
    pub(crate) fn new(parts: usize) -> Workers {
        // With fewer cores than partitions, a polling thread would keep another from working.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let looks = if parts <= cores { LOOKS } else { 0 };
        let worker = |_| {
            let (jobs, mine) = sync_channel(1);
            let (give, done) = sync_channel(1);
            let thread = std::thread::spawn(move || serve(&mine, &give, looks));
            Worker { jobs, done, thread: Some(thread) }
        };
        Workers { workers: (1..parts).map(worker).collect(), looks }
    }

    /// Runs one window in all partitions.
    ///
    /// # Panics
    /// If one of the partitions panics, with the same panic.
    pub(crate) fn run(&mut self, partitions: &mut Vec<Partition>, window: u64) {
        let mut gone = None;
        for (number, partition) in partitions.drain(1..).enumerate() {
            if self.workers[number].jobs.send(Some((partition, window))).is_err() {
                gone = Some(number);
            }
        }
        partitions[0].run(window);
        for (number, worker) in self.workers.iter().enumerate() {
            match next(&worker.done, self.looks) {
                Some(partition) => partitions.push(partition),
                None => gone = Some(number),
            }
        }
        let thread = gone.and_then(|number| self.workers[number].thread.take());
        if let Some(Err(panic)) = thread.map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // The thread may have ended before, by a panic that was passed on.
            let _ = worker.jobs.send(None);
            let _ = worker.thread.take().map(JoinHandle::join);
        }
    }
}

fn serve(jobs: &Receiver<Option<(Partition, u64)>>, done: &SyncSender<Partition>, looks: u32) {
    while let Some(Some((mut partition, window))) = next(jobs, looks) {
        partition.run(window);
        if done.send(partition).is_err() {
            return;
        }
    }
}

/// Receives the next value after at most `looks` polls and then a sleep; `None` if no sender is
/// left.
fn next<T>(receiver: &Receiver<T>, looks: u32) -> Option<T> {
    for _ in 0..looks {
        match receiver.try_recv() {
            Ok(value) => return Some(value),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => spin_loop(),
        }
    }
    receiver.recv().ok()
}

/// Calls a function for each part: for the first on this thread, for each other one on a thread of
/// its own.
///
/// # Panics
/// If one of the calls panics, with the same panic.
pub(crate) fn each<I: Send, T: Send>(
    parts: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
) -> Vec<T> {
    let mut parts = parts.into_iter();
    let first = parts.next();
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut results: Vec<T> = first.map(work).into_iter().collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}
