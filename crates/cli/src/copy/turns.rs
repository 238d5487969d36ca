//! Long work for clients, by few threads and in turn by address.
//!
//! A client can request such work at little cost to itself, so the number of threads does not
//! depend on the clients, and neither many requests of one address nor long ones delay the others:
//! each address in turn has one part of its oldest request done.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::limits::Holder;
use super::refusal::Refusal;
use super::server::beside;

/// Maximum number of threads.
const THREADS_MAX: usize = 2;

/// Work that is done in parts.
pub(super) trait Work: Send + Sized + 'static {
    /// Does a part. Returns what is left of the work.
    fn part(self) -> Option<Self>;
}

/// Work that waits, and the threads that do it. They start with the first work, and end when none
/// is left.
pub(super) struct Turns<W>(Arc<Mutex<State<W>>>);

struct State<W> {
    threads: usize,
    /// The addresses in the order of their turns, each with its work, the oldest first. An address
    /// without work has no place here.
    waiting: VecDeque<(Holder, VecDeque<W>)>,
    is_closed: bool,
}

impl<W: Work> Turns<W> {
    pub(super) fn new() -> Turns<W> {
        let state = State { threads: 0, waiting: VecDeque::new(), is_closed: false };
        Turns(Arc::new(Mutex::new(state)))
    }

    /// Adds work for a client.
    ///
    /// # Errors
    /// No thread does such work, and none can be started. The work is dropped.
    pub(super) fn add(&self, client: Holder, work: W) -> Result<(), Refusal> {
        let mut state = self.state();
        state.add(client, work);
        if state.threads == THREADS_MAX {
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let turns = Turns(Arc::clone(&self.0));
        let started = beside(move || turns.work());
        if started.is_err() {
            let mut state = self.state();
            state.threads -= 1;
            if state.threads == 0 {
                state.waiting.clear();
                return started;
            }
        }
        Ok(())
    }

    /// Drops all work but the parts that are being done.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.waiting.clear();
    }

    fn work(&self) {
        let mut done: Option<(Holder, W)> = None;
        loop {
            let mut state = self.state();
            if let Some((client, rest)) = done.take()
                && !state.is_closed
            {
                state.resume(client, rest);
            }
            let Some((client, work)) = state.next() else {
                state.threads -= 1;
                return;
            };
            drop(state);
            done = work.part().map(|rest| (client, rest));
        }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W> State<W> {
    /// The work of an address, which gets the last turn if it has none yet.
    fn of(&mut self, client: Holder) -> &mut VecDeque<W> {
        let known = self.waiting.iter().position(|(holder, _)| *holder == client);
        let place = known.unwrap_or(self.waiting.len());
        if known.is_none() {
            self.waiting.push_back((client, VecDeque::new()));
        }
        &mut self.waiting[place].1
    }

    fn add(&mut self, client: Holder, work: W) {
        self.of(client).push_back(work);
    }

    /// Returns what is left of some work, which is done before the address's other work.
    fn resume(&mut self, client: Holder, work: W) {
        self.of(client).push_front(work);
    }

    /// The oldest work of the address whose turn it is. The address gets the last turn.
    fn next(&mut self) -> Option<(Holder, W)> {
        let (client, mut theirs) = self.waiting.pop_front()?;
        let work = theirs.pop_front()?;
        if !theirs.is_empty() {
            self.waiting.push_back((client, theirs));
        }
        Some((client, work))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Barrier, atomic::AtomicUsize, atomic::Ordering};

    use super::*;

    /// Work of so many parts, each of which sends the name.
    struct Named(&'static str, u32, Sender<&'static str>);

    impl Work for Named {
        fn part(self) -> Option<Self> {
            let Named(name, parts, sender) = self;
            sender.send(name).expect("the test waits");
            (parts > 1).then(|| Named(name, parts - 1, sender))
        }
    }

    fn holder(text: &str) -> Holder {
        let address: IpAddr = text.parse().expect("an address");
        Holder::client(address)
    }

    #[test]
    fn addresses_have_their_parts_done_in_turn() {
        let (greedy, other) = (holder("10.0.0.1"), holder("10.0.0.2"));
        let (sender, results) = channel();
        let turns = Turns::new();
        {
            let mut state = turns.state();
            state.add(greedy, Named("a", 3, sender.clone()));
            state.add(greedy, Named("b", 1, sender.clone()));
            state.add(greedy, Named("c", 1, sender.clone()));
            state.add(other, Named("d", 2, sender));
            state.threads = 1;
        }
        // One thread, so that the order is that of the turns.
        turns.work();
        let order: Vec<_> = results.try_iter().collect();
        assert_eq!(order, ["a", "d", "a", "d", "a", "b", "c"]);
        assert_eq!(turns.state().threads, 0);
    }

    /// Work that counts how much is done at the same time.
    struct Counted(Arc<(Barrier, AtomicUsize, AtomicUsize)>, Sender<usize>);

    impl Work for Counted {
        fn part(self) -> Option<Self> {
            let Counted(shared, sender) = self;
            let (both, running, most) = &*shared;
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            // Each part waits for another, so that two are done at once.
            both.wait();
            running.fetch_sub(1, Ordering::SeqCst);
            sender.send(now).expect("the test waits");
            None
        }
    }

    #[test]
    fn much_work_is_done_by_two_threads() {
        let shared = Arc::new((Barrier::new(2), AtomicUsize::new(0), AtomicUsize::new(0)));
        let (sender, results) = channel();
        let turns = Turns::new();
        for number in 0..32 {
            let client = holder(&format!("10.0.0.{}", number % 5));
            turns.add(client, Counted(Arc::clone(&shared), sender.clone())).expect("a thread");
        }
        drop(sender);
        assert_eq!(results.iter().count(), 32);
        assert_eq!(shared.2.load(Ordering::SeqCst), THREADS_MAX);
    }

    #[test]
    fn closed_turns_drop_what_waits_and_what_is_left() {
        let client = holder("10.0.0.1");
        let (sender, results) = channel();
        let turns = Turns::new();
        turns.state().add(client, Named("a", 3, sender));
        turns.close();
        turns.state().threads = 1;
        turns.work();
        assert_eq!(results.iter().count(), 0, "all senders are dropped");
    }
}
