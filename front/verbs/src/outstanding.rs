//! Requests of a queue pair whose completions the program has not polled yet. Such a request holds
//! its place in its queue, as with an adapter: a program that has room for `max_send_wr` and
//! `max_recv_wr` completions in its completion queues never overruns them, because further requests
//! are refused with `ENOMEM`.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fairway_roce::{Completion, CompletionKind};
use fairway_wire::Qpn;

use crate::keys::KeyHasher;

/// Number of requests posted to a queue, and of those whose places are free again.
#[derive(Default)]
struct Counts {
    posted: AtomicU64,
    freed: AtomicU64,
}

impl Counts {
    /// Number of requests that hold a place. The caller has the lock for posting.
    fn held(&self) -> u64 {
        // A thread may poll the completion of a request before its post is counted.
        let freed = self.freed.load(Ordering::Acquire);
        self.posted.load(Ordering::Relaxed).saturating_sub(freed)
    }

    /// Counts posted requests. The caller has the lock for posting.
    fn post(&self, requests: usize) {
        let posted = self.posted.load(Ordering::Relaxed);
        self.posted.store(posted + requests as u64, Ordering::Relaxed);
    }

    /// Frees the places of the first `requests` requests.
    fn free(&self, requests: u64) {
        self.freed.fetch_max(requests, Ordering::Release);
    }
}

/// Outstanding requests of a queue pair.
pub(crate) struct Outstanding {
    sends: Counts,
    receives: Counts,
    send_depth: u64,
    /// Most receives; no limit here if the queue pair takes those of a shared queue.
    receive_depth: u64,
    /// The program's numbers of its sends (`wr_id`). The provider gets the position of a send in
    /// the order of posting instead, so that its completion tells which places are free.
    ids: Box<[AtomicU64]>,
}

impl Outstanding {
    pub(crate) fn new(send_depth: u32, receive_depth: Option<u32>) -> Outstanding {
        Outstanding {
            sends: Counts::default(),
            receives: Counts::default(),
            send_depth: u64::from(send_depth),
            receive_depth: receive_depth.map_or(u64::MAX, u64::from),
            ids: (0..send_depth.next_power_of_two()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn id(&self, position: u64) -> &AtomicU64 {
        &self.ids[position as usize & (self.ids.len() - 1)]
    }

    /// Returns the position of the send that is posted after `waiting` others, and keeps its
    /// `wr_id`; `None` if the queue has no place for it. The caller has the lock for posting.
    pub(crate) fn place(&self, waiting: usize, wr_id: u64) -> Option<u64> {
        if self.sends.held() + waiting as u64 >= self.send_depth {
            return None;
        }
        let position = self.sends.posted.load(Ordering::Relaxed) + waiting as u64;
        self.id(position).store(wr_id, Ordering::Relaxed);
        Some(position)
    }

    /// Counts sends that the provider has accepted.
    pub(crate) fn sent(&self, requests: usize) {
        self.sends.post(requests);
    }

    /// Number of receives that the queue has places for. The caller has the lock for posting.
    pub(crate) fn receive_room(&self) -> usize {
        self.receive_depth.saturating_sub(self.receives.held()) as usize
    }

    /// Counts receives that the provider has accepted.
    pub(crate) fn receiving(&self, requests: usize) {
        self.receives.post(requests);
    }

    /// Frees all places: the queue pair was reset, and its completions are discarded.
    pub(crate) fn reset(&self) {
        for counts in [&self.sends, &self.receives] {
            counts.free(counts.posted.load(Ordering::Relaxed));
        }
    }

    /// Frees the places of the requests that a polled completion reports: of a send, and of the
    /// unsignaled sends before it; or of one receive. Returns the request's `wr_id`.
    fn polled(&self, completion: &Completion) -> u64 {
        if is_receive(completion) {
            self.receives.freed.fetch_add(1, Ordering::Release);
            return completion.id;
        }
        // The number is read first, because another send may take the place once it is free.
        let wr_id = self.id(completion.id).load(Ordering::Relaxed);
        self.sends.free(completion.id + 1);
        wr_id
    }
}

/// True if a completion reports a receive.
pub(crate) fn is_receive(completion: &Completion) -> bool {
    matches!(completion.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite)
}

/// Queue pairs that complete at a completion queue.
#[derive(Default)]
pub(crate) struct Users {
    pairs: RwLock<HashMap<u32, Arc<Outstanding>, BuildHasherDefault<KeyHasher>>>,
    /// Incremented by each change; earlier lookups may then be out of date. (A new queue pair may
    /// take a number before the destroyed one is removed.)
    changes: AtomicU32,
}

/// The queue pair of the last completion, because many programs use few.
#[derive(Default)]
pub(crate) struct LastUser {
    changes: u32,
    found: Option<(Qpn, Arc<Outstanding>)>,
}

impl Users {
    pub(crate) fn add(&self, number: Qpn, pair: &Arc<Outstanding>) {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        pairs.insert(number.value(), Arc::clone(pair));
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Removes a queue pair that the provider has destroyed, unless another thread has already made
    /// a new one of the same number.
    pub(crate) fn remove(&self, number: Qpn, pair: &Arc<Outstanding>) {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        if pairs.get(&number.value()).is_some_and(|known| Arc::ptr_eq(known, pair)) {
            pairs.remove(&number.value());
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Frees the places of the requests that a polled completion reports. Returns the `wr_id` of
    /// its request; `None` if another thread has destroyed the queue pair meanwhile, which discards
    /// its completions.
    pub(crate) fn polled(&self, last: &mut LastUser, completion: &Completion) -> Option<u64> {
        let changes = self.changes.load(Ordering::Acquire);
        let number = completion.queue_pair;
        match &last.found {
            Some((known, pair)) if *known == number && last.changes == changes => {
                Some(pair.polled(completion))
            }
            _ => {
                let pairs = self.pairs.read().unwrap_or_else(PoisonError::into_inner);
                let pair = Arc::clone(pairs.get(&number.value())?);
                let wr_id = pair.polled(completion);
                *last = LastUser { changes, found: Some((number, pair)) };
                Some(wr_id)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(pair: u32, kind: CompletionKind, id: u64) -> Completion {
        Completion { id, kind, queue_pair: Qpn::new(pair), ..Completion::EMPTY }
    }

    /// Positions of sends that are prepared at once, as far as there are places for them.
    fn places(pair: &Outstanding, wr_ids: std::ops::Range<u64>) -> Vec<u64> {
        wr_ids.enumerate().map_while(|(waiting, wr_id)| pair.place(waiting, wr_id)).collect()
    }

    #[test]
    fn polled_completion_frees_the_unsignaled_sends_before_it() {
        let pair = Outstanding::new(3, Some(1));
        let polled = |position| pair.polled(&completed(0, CompletionKind::Write, position));
        assert_eq!(places(&pair, 70..74), [0, 1, 2]);
        // The provider accepts only a part.
        pair.sent(2);
        assert_eq!(places(&pair, 74..76), [2]);
        pair.sent(1);
        assert_eq!(polled(1), 71);
        assert_eq!(places(&pair, 76..79), [3, 4]);
        pair.sent(2);
        assert_eq!(polled(2), 74);
        assert_eq!(places(&pair, 79..81), [5]);
        pair.sent(1);
        assert_eq!(polled(5), 79);
        assert_eq!(places(&pair, 81..85), [6, 7, 8]);
        pair.sent(3);
        pair.reset();
        assert_eq!(places(&pair, 85..89), [9, 10, 11]);
    }

    #[test]
    fn polled_completion_frees_one_receive() {
        let pair = Outstanding::new(1, Some(2));
        assert_eq!(pair.receive_room(), 2);
        pair.receiving(2);
        assert_eq!(pair.receive_room(), 0);
        assert_eq!(pair.polled(&completed(0, CompletionKind::Receive, 9)), 9);
        assert_eq!(pair.receive_room(), 1);
        pair.reset();
        assert_eq!(pair.receive_room(), 2);
    }

    #[test]
    fn completion_of_a_destroyed_pair_is_discarded_and_its_number_reused() {
        let (users, mut last) = (Users::default(), LastUser::default());
        let number = Qpn::new(5);
        let [old, new] = [(); 2].map(|()| Arc::new(Outstanding::new(4, None)));
        assert_eq!((old.place(0, 40), new.place(0, 50)), (Some(0), Some(0)));
        let completion = completed(5, CompletionKind::Send, 0);
        users.add(number, &old);
        assert_eq!(users.polled(&mut last, &completion), Some(40));
        users.remove(number, &old);
        assert_eq!(users.polled(&mut last, &completion), None);
        users.add(number, &old);
        users.add(number, &new);
        users.remove(number, &old);
        assert_eq!(users.polled(&mut last, &completion), Some(50));
    }
}
