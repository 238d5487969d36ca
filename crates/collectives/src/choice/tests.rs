use super::*;
use crate::number::{ElementType, Reduction};

/// Costs of four hosts with links of 200 Mb/s and a latency of 0.4 ms, as measured.
const SLOW: Costs =
    Costs { message_ns: 400_000.0, byte_ns: 44.0, combine_ns: 0.02, senders: f64::INFINITY };

fn broadcast(bytes: u64) -> Call {
    Call::Broadcast { bytes, root: 0 }
}

fn all_reduce(bytes: u64) -> Call {
    Call::AllReduce { bytes, element: ElementType::F32, reduction: Reduction::Sum }
}

fn ring_bytes(call: &Call, ranks: u32, costs: &Costs) -> u64 {
    passed_bytes(call, Algorithm::Ring, ranks, costs).expect("ranks of a ring pass bytes on")
}

#[test]
fn messages_are_shorter_the_more_ranks_pass_them_on() {
    let call = broadcast(8 << 20);
    let lengths = [3, 4, 8, 32].map(|ranks| ring_bytes(&call, ranks, &SLOW));
    assert_eq!(lengths, [43_712, 30_912, 17_856, 8_000]);
    assert_eq!(ring_bytes(&broadcast(64 << 10), 4, &SLOW), 4096, "a packet at least");
}

#[test]
fn messages_are_longer_where_bytes_take_less_time() {
    let call = broadcast(1 << 20);
    assert_eq!(ring_bytes(&call, 4, &SLOW), 10_944);
    assert!(ring_bytes(&call, 4, &Costs::default()) > 64 << 10);
}

#[test]
fn slots_hold_what_is_under_way_to_a_distant_host() {
    let distant = Costs { message_ns: 50_000_000.0, byte_ns: 8.0, ..SLOW };
    assert!(ring_bytes(&broadcast(1 << 20), 4, &distant) > 1 << 20);
}

#[test]
fn only_messages_that_are_passed_on_have_a_best_length() {
    let pieces = vec![1 << 20; 4];
    let gather = Call::AllGather { pieces };
    assert_eq!(passed_bytes(&gather, Algorithm::Direct, 4, &SLOW), None);
    assert!(passed_bytes(&gather, Algorithm::Ring, 4, &SLOW).is_some());
    let exchange = Call::Exchange { is_collective: true, sends: vec![], receives: vec![] };
    assert_eq!(passed_bytes(&exchange, Algorithm::Pairwise, 4, &SLOW), None);
}

#[test]
fn ranks_of_different_hosts_prefer_short_ways_for_short_pieces() {
    let apart = [0, 1, 2, 3];
    let gather = Call::AllGather { pieces: vec![16 << 10; 4] };
    assert_eq!(choose(&gather, 4, &apart, &SLOW), Algorithm::Direct);
    assert_eq!(choose(&broadcast(64 << 10), 4, &apart, &SLOW), Algorithm::Ring);
    assert_eq!(choose(&all_reduce(64 << 10), 4, &apart, &SLOW), Algorithm::Halving);
}
