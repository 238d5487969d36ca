use super::Kinds;
use crate::control::{Cursor, EventQueue, Kind};
use fairway_policy::FlowId;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_flow_stands_in_it_once() {
    let queue = EventQueue::new(3);
    for flow in [2, 0, 2, 2, 0] {
        queue.slot(FlowId(flow), Kind::Transmit).accumulate(10);
        queue.mark(FlowId(flow), Kind::Transmit);
    }
    queue.mark(FlowId(0), Kind::Hint);
    let (flow, kinds) = queue.ready().pop().unwrap();
    assert_eq!(flow, FlowId(2));
    assert_eq!(kinds, Kinds::new(1 << Kind::Transmit as u32));
    let (flow, kinds) = queue.ready().pop().unwrap();
    assert_eq!(flow, FlowId(0));
    assert!(kinds.has(Kind::Transmit) && kinds.has(Kind::Hint) && !kinds.has(Kind::Life));
    assert_eq!(queue.ready().pop(), None);
    assert!(queue.ready().is_empty());
    queue.mark(FlowId(2), Kind::Life);
    assert!(!queue.ready().is_empty());
    assert_eq!(queue.ready().pop().unwrap().0, FlowId(2));
}

#[test]
fn all_flows_at_once_find_room_again_and_again() {
    let queue = EventQueue::new(64);
    for _ in 0..100 {
        for flow in 0..64 {
            queue.mark(FlowId(flow), Kind::Transmit);
        }
        for flow in 0..64 {
            assert_eq!(queue.ready().pop().unwrap().0, FlowId(flow));
        }
        assert_eq!(queue.ready().pop(), None);
    }
}

/// The last event before the producer stops is found, whatever the consumer does meanwhile.
#[test]
fn no_news_stays_behind_between_threads() {
    const ROUNDS: u64 = if cfg!(miri) { 1_000 } else { 60_000 };
    const FLOWS: u32 = 5;
    let (queue, over) = (EventQueue::new(FLOWS), AtomicBool::new(false));
    let total = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut cursors = [Cursor::default(); FLOWS as usize];
            let mut total = 0;
            loop {
                let last = over.load(Ordering::Acquire);
                while let Some((flow, _)) = queue.ready().pop() {
                    let slot = queue.slot(flow, Kind::Transmit);
                    let cursor = &mut cursors[flow.index()];
                    if let Some(seen) = slot.peek(cursor) {
                        slot.take(cursor, &seen);
                        total += seen.sum;
                    }
                }
                if last {
                    return total;
                }
            }
        });
        for round in 0..ROUNDS {
            let flow = FlowId((round * 7 % u64::from(FLOWS)) as u32);
            queue.slot(flow, Kind::Transmit).accumulate(round);
            queue.mark(flow, Kind::Transmit);
        }
        over.store(true, Ordering::Release);
        consumer.join().unwrap()
    });
    assert_eq!(total, ROUNDS * (ROUNDS - 1) / 2);
}
