//! Order guarantees for programs, over a network that loses, duplicates and reorders.

use std::os::unix::fs::FileExt;

use crate::node::{BASE, DOMAIN, Pair, content, options};
use crate::pages::{Pages, in_child};
use fairway_rdma::{ForeignMemory, ProviderOptions};
use fairway_roce::{
    Change, Completion, Event, MemoryRequest, QueuePairState, ReceiveRequest, RemoteAddress,
    ScatterList, Status, Transport, Work, WorkRequest,
};
use fairway_ub::wire::roce::Tail;
use fairway_ub::{LocalRange, Rights};

const SEND: Work = Work::Send { tail: Tail::Nothing };

fn rough(seed: u64) -> ProviderOptions {
    let spec = "loss=1%,dup=1%,delay=100us,jitter=300us,reorder=16";
    ProviderOptions { emulate: Some((spec.parse().unwrap(), seed)), ..options("127.0.0.1") }
}

fn rough_pair(seed: u64) -> Pair {
    Pair::new(Transport::Rc, [rough(seed), rough(seed + 1)])
}

#[test]
fn sends_that_wait_for_others_begin_before_their_queue_pair_drains() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let write = Work::Write { remote: there.remote(0), immediate: None };
    pair.post(0, 0, write, here.local(0, 8));
    here.sent(0);
    for id in 1..20 {
        pair.post(0, id, write, here.local(0, 8));
    }
    here.provider.modify(pair.pairs[0], &Change::Drain).unwrap();
    for id in 1..20 {
        here.sent(id);
    }
    here.recorder.event(Event::Drained { queue_pair: pair.pairs[0] });
}

#[test]
fn sends_go_into_receives_in_the_order_of_both() {
    let pair = rough_pair(11);
    let [here, there] = &pair.nodes;
    // Lengths differ, from none to several packets, and each receive has exactly the message's
    // length.
    let length = |id: u64| (id * 7919 % 10_007) as u32;
    let bytes = content(1, 20_000);
    here.memory.write(0, &bytes);
    let mut received = 0;
    let mut take = || {
        let done = there.received(received);
        assert_eq!(done.bytes, length(received));
        assert_eq!(done.tail, Tail::Immediate(received as u32));
        let got = there.memory.read((received % 60 * 16_384) as usize, done.bytes as usize);
        assert_eq!(got, bytes[received as usize..][..done.bytes as usize]);
        received += 1;
    };
    for id in 0..600 {
        if id >= 50 {
            take();
            here.sent(id - 50);
        }
        there.receive(pair.pairs[1], id, id % 60 * 16_384, length(id));
        let work = Work::Send { tail: Tail::Immediate(id as u32) };
        pair.post(0, id, work, here.local(id, length(id)));
    }
    (550..600).for_each(|id| {
        take();
        here.sent(id);
    });
}

#[test]
fn writes_before_a_send_are_placed_before_it_is_received() {
    let pair = rough_pair(21);
    let [here, there] = &pair.nodes;
    for round in 0..100_u64 {
        let bytes = content(round, 40_000);
        here.memory.write(0, &bytes);
        there.receive(pair.pairs[1], round, 900_000, 16);
        let write = |at: u64, length: u32, immediate| {
            let work = Work::Write { remote: there.remote(at), immediate };
            pair.post(0, 7, work, here.local(at, length));
        };
        write(0, 30_000, None);
        write(30_000, 9_992, None);
        match round % 3 {
            0 => pair.post(0, 7, SEND, here.local(0, 8)),
            // A WRITE of no bytes needs no key.
            1 => {
                let work = Work::Write { remote: Default::default(), immediate: Some(9) };
                pair.post(0, 7, work, here.local(0, 0));
            }
            _ => write(39_992, 8, Some(9)),
        }
        there.received(round);
        assert_eq!(there.memory.read(0, 39_992), bytes[..39_992], "round {round}");
        for _ in 0..3 {
            here.sent(7);
        }
    }
}

#[test]
fn a_read_sees_what_was_written_before_it_and_atomics_follow_one_another() {
    let pair = rough_pair(31);
    let [here, there] = &pair.nodes;
    for round in 0..100_u64 {
        let bytes = content(round, 20_000);
        here.memory.write(0, &bytes);
        let post = |work, at, length| pair.post(0, round, work, here.local(at, length));
        post(Work::Write { remote: there.remote(0), immediate: None }, 0, 20_000);
        post(Work::Read { remote: there.remote(0) }, 100_000, 20_000);
        let word = there.remote(500_000);
        post(Work::FetchAdd { remote: word, add: 1 }, 300_000, 8);
        let work = Work::CompareSwap { remote: word, compare: 2 * round + 1, swap: 2 * round + 2 };
        post(work, 300_008, 8);
        for _ in 0..2 {
            here.sent(round);
        }
        assert_eq!(here.memory.read(100_000, 20_000), bytes);
        assert_eq!(here.sent(round).value, 2 * round);
        assert_eq!(here.sent(round).value, 2 * round + 1);
        let old = here.memory.read(300_000, 16);
        assert_eq!(old[..8], (2 * round).to_ne_bytes());
        assert_eq!(old[8..], (2 * round + 1).to_ne_bytes());
    }
}

/// Sends messages of a word each into a file's pages, of which the second half is unmapped while
/// messages are under way: every eighth message goes there. They are WRITEs, or SENDs into receives
/// of one range or of two.
fn unmapped_under_messages(seed: u64, ranges: Option<u32>) {
    const WORDS: u64 = 8192;
    let pair = Pair::new(Transport::Rc, [rough(seed), options("127.0.0.1")]);
    let [here, there] = &pair.nodes;
    let pages = Pages::of_file(8 * WORDS as usize);
    // SAFETY: the test has no references to the pages, and nothing else is mapped there.
    let memory = unsafe { ForeignMemory::new(pages.start.as_ptr(), pages.length) };
    let length = pages.length as u64;
    let request = MemoryRequest { domain: DOMAIN, address: BASE, length, rights: Rights::ALL };
    let region = there.provider.register(memory, &request).unwrap();
    let place = |id: u64| if id % 8 == 7 { WORDS / 2 + id / 8 } else { id - id / 8 };
    let receive = |id: u64| {
        let part = |offset, length| LocalRange { segment: region.segment, offset, length };
        let start = 8 * place(id);
        let parts = match ranges {
            Some(2) => vec![part(start, 3), part(start + 3, 5)],
            _ => vec![part(start, 8)],
        };
        let local = ScatterList::new(&parts).unwrap();
        let request = ReceiveRequest { id, local };
        let (posted, error) = there.provider.post_receive(pair.pairs[1], &[request]);
        // No receive is accepted any more once the peer's queue pair has failed.
        assert!(posted == 1 || there.provider.state(pair.pairs[1]) == Some(QueuePairState::Error));
        assert!(posted == 1 || error.is_some());
    };
    let post = |id: u64| {
        here.memory.write(8 * id as usize, &(id + 1).to_ne_bytes());
        let remote = RemoteAddress { address: BASE + 8 * place(id), r_key: region.r_key };
        let work = match ranges {
            Some(_) => SEND,
            None => Work::Write { remote, immediate: None },
        };
        if ranges.is_some() {
            receive(id);
        }
        pair.post(0, id, work, here.local(8 * id, 8));
    };
    let refused = match ranges {
        Some(_) => Status::RemoteOperation,
        None => Status::RemoteAccess,
    };
    (0..64).for_each(post);
    let mut succeeded = 0;
    for id in 64..WORDS / 2 {
        if succeeded == 300 {
            pages.unmap(pages.length / 2);
        }
        let done = here.next(here.sends);
        if done.status != Status::Success {
            assert_eq!((done.id, done.status), (succeeded, refused));
            break;
        }
        assert_eq!(done.id, succeeded);
        succeeded += 1;
        post(id);
        // The queue must have room for the receives that have completed.
        let mut taken = [Completion::EMPTY; 8];
        there.provider.poll(there.receives, &mut taken);
    }
    assert!((300..WORDS / 2 - 64).contains(&succeeded), "{succeeded} succeeded");
    let mut file = vec![0; pages.length];
    pages.file.as_ref().expect("pages of a file").read_exact_at(&mut file, 0).unwrap();
    for id in 0..succeeded {
        let word = u64::from_ne_bytes(file[8 * place(id) as usize..][..8].try_into().unwrap());
        assert_eq!(word, id + 1, "of {succeeded} words, seed {seed}");
    }
}

#[test]
fn writes_that_succeeded_are_in_a_file_that_was_unmapped_meanwhile() {
    in_child("order::writes_that_succeeded_are_in_a_file_that_was_unmapped_meanwhile", || {
        (0..20).for_each(|round| unmapped_under_messages(100 + 2 * round, None));
    });
}

#[test]
fn sends_that_succeeded_are_in_a_file_that_was_unmapped_meanwhile() {
    in_child("order::sends_that_succeeded_are_in_a_file_that_was_unmapped_meanwhile", || {
        for round in 0..10 {
            unmapped_under_messages(200 + 2 * round, Some(1));
            unmapped_under_messages(300 + 2 * round, Some(2));
        }
    });
}

#[test]
fn completions_are_in_order_whatever_they_are_of_and_the_unsignaled_are_silent() {
    let pair = rough_pair(41);
    let [here, there] = &pair.nodes;
    let mut expected = Vec::new();
    for round in 0..300_u64 {
        let works = [
            (Work::Write { remote: there.remote(0), immediate: None }, 30_000),
            (Work::Read { remote: there.remote(0) }, 5),
            (Work::Write { remote: there.remote(0), immediate: None }, 0),
            (Work::FetchAdd { remote: there.remote(64), add: 0 }, 8),
        ];
        let (work, length) = works[(round % 4) as usize];
        let signaled = round % 5 != 3;
        let (local, fence) = (here.local(0, length), round % 7 == 6);
        let request = WorkRequest { id: round, work, local, signaled, solicited: false, fence };
        assert_eq!(here.provider.post_send(pair.pairs[0], &[request]), (1, None));
        if signaled {
            expected.push(round);
        }
        if expected.len() > 50 {
            here.sent(expected.remove(0));
        }
    }
    expected.into_iter().for_each(|id| assert_eq!(here.sent(id).status, Status::Success));
}

#[test]
fn megabytes_arrive() {
    let length = 20_000_000;
    let reliability = Default::default();
    let pair = Pair::with(Transport::Rc, [rough(51), rough(52)], 2 * length, reliability);
    let [here, there] = &pair.nodes;
    let bytes = content(5, length);
    here.memory.write(0, &bytes);
    let work = Work::Write { remote: there.remote(3), immediate: None };
    pair.post(0, 1, work, here.local(0, length as u32));
    there.receive(pair.pairs[1], 2, length as u64 + 8, length as u32 - 8);
    pair.post(0, 2, SEND, here.local(0, length as u32 - 8));
    here.sent(1);
    here.sent(2);
    there.received(2);
    assert!(there.memory.read(3, length) == bytes);
    assert!(there.memory.read(length + 8, length - 8) == bytes[..length - 8]);
    let read = Work::Read { remote: there.remote(3) };
    pair.post(0, 3, read, here.local(length as u64, length as u32));
    here.sent(3);
    assert!(here.memory.read(length, length) == bytes);
}
