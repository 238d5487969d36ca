use super::Multiplexer;
use crate::control::ready_queue::EventKind;
use crate::control::{EventQueue, Kind};
use fairway_policy::FlowId;
use std::vec::Vec;

#[test]
fn flows_take_turns() {
    let (queue, mut multiplexer) = (EventQueue::new(2), Multiplexer::new(2));
    for &kind in Kind::ALL {
        queue.mark(FlowId(0), kind);
    }
    queue.mark(FlowId(1), Kind::Transmit);
    queue.mark(FlowId(1), Kind::Hint);
    let order: Vec<_> = std::iter::from_fn(|| multiplexer.next(queue.ready())).collect();
    let (a, b) = (FlowId(0), FlowId(1));
    let expected = [
        (a, Kind::Life),
        (b, Kind::Transmit),
        (a, Kind::Share),
        (b, Kind::Hint),
        (a, Kind::Transmit),
        (a, Kind::Hint),
    ];
    assert_eq!(order, expected);
}

#[test]
fn event_that_costs_more_is_handed_over_less_often() {
    let (queue, mut multiplexer) = (EventQueue::new(2), Multiplexer::new(2));
    multiplexer.set_costs(|kind| if kind == Kind::Hint { 3 } else { 1 }, 1);
    let mut served = [0; 2];
    for _ in 0..400 {
        queue.mark(FlowId(0), Kind::Hint);
        queue.mark(FlowId(1), Kind::Transmit);
        let (flow, _) = multiplexer.next(queue.ready()).unwrap();
        served[flow.index()] += 1;
    }
    assert_eq!(served, [100, 300]);
}

#[test]
fn news_that_comes_in_ones_own_turn_is_not_lost() {
    let (queue, mut multiplexer) = (EventQueue::new(1), Multiplexer::new(1));
    for _ in 0..5 {
        queue.mark(FlowId(0), Kind::Transmit);
        assert_eq!(multiplexer.next(queue.ready()), Some((FlowId(0), Kind::Transmit)));
        queue.mark(FlowId(0), Kind::Life);
        assert_eq!(multiplexer.next(queue.ready()), Some((FlowId(0), Kind::Life)));
    }
    assert_eq!(multiplexer.next(queue.ready()), None);
}
