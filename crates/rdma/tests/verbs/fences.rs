//! Operations with a fence send the bytes that READs and atomics posted before them have stored.

use crate::node::{Pair, content, options, patient};
use fairway_rdma::ProviderOptions;
use fairway_roce::{ScatterList, Transport, Work, WorkRequest};
use fairway_ub::LocalRange;
use fairway_ub::wire::roce::Tail;

/// Where results are stored, and where messages with and without a receive arrive.
const RESULTS: u64 = 100_000;
const ARRIVALS: u64 = 300_000;
const RECEIVED: u64 = 500_000;
const WORD: u64 = 700_000;

/// A network that delays and loses, so that answers arrive late.
fn slow(seed: u64) -> ProviderOptions {
    let spec = "loss=1%,delay=100us,jitter=300us";
    ProviderOptions { emulate: Some((spec.parse().unwrap(), seed)), ..options("127.0.0.1") }
}

/// Random numbers below a limit.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

#[test]
fn fenced_operation_sends_what_operations_before_it_have_stored() {
    let reliability = patient();
    let pair = Pair::with(Transport::Rc, [slow(61), slow(62)], 1 << 20, reliability);
    let [here, there] = &pair.nodes;
    let mut state = 7;
    for round in 0..150_u64 {
        let mut draw = |below| draw(&mut state, below);
        let bytes = content(round, 20_000);
        there.memory.write(0, &bytes);
        there.memory.write(WORD as usize, &round.to_ne_bytes());
        here.memory.write(RESULTS as usize, &[0; 20_000]);
        // The operation that stores bytes, and perhaps another one before the fence.
        let (work, length) = match draw(2) {
            0 => (Work::Read { remote: there.remote(0) }, 1 + draw(20_000) as u32),
            _ => (Work::FetchAdd { remote: there.remote(WORD), add: 5 }, 8),
        };
        let expected = match work {
            Work::Read { .. } => bytes[..length as usize].to_vec(),
            _ => round.to_ne_bytes().to_vec(),
        };
        if draw(2) == 0 {
            let write = Work::Write { remote: there.remote(900_000), immediate: None };
            pair.post(0, round, write, here.local(0, draw(5000) as u32));
        } else {
            let read = Work::Read { remote: there.remote(900_000) };
            pair.post(0, round, read, here.local(0, draw(5000) as u32));
        }
        pair.post(0, round, work, here.local(RESULTS, length));
        // The operation behind the fence: all bytes, in up to three ranges.
        let (first, second) = (draw(u64::from(length)) as u32, draw(3) as u32);
        let part = |from: u32, to: u32| LocalRange {
            segment: here.region.segment,
            offset: RESULTS + u64::from(from),
            length: to - from,
        };
        let second = first + (length - first) * second / 2;
        let parts = [part(0, first), part(first, second), part(second, length)];
        let local = ScatterList::new(&parts).unwrap();
        let (fenced, arrives_at) = match draw(3) {
            0 => (Work::Send { tail: Tail::Nothing }, RECEIVED),
            1 => (Work::Write { remote: there.remote(ARRIVALS), immediate: None }, ARRIVALS),
            _ => (Work::Write { remote: there.remote(ARRIVALS), immediate: Some(3) }, ARRIVALS),
        };
        there.receive(pair.pairs[1], round, RECEIVED, 20_000);
        let request = WorkRequest {
            id: round,
            work: fenced,
            local,
            signaled: true,
            solicited: false,
            fence: true,
        };
        assert_eq!(here.provider.post_send(pair.pairs[0], &[request]), (1, None));
        (0..3).for_each(|_| _ = here.sent(round));
        if matches!(fenced, Work::Write { immediate: None, .. }) {
            pair.post(0, round, Work::Send { tail: Tail::Nothing }, here.local(0, 0));
            here.sent(round);
        }
        there.received(round);
        let found = there.memory.read(arrives_at as usize, length as usize);
        assert!(found == expected, "round {round}: {work:?}, {fenced:?}, {parts:?}");
    }
}
