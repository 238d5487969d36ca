//! Order defects of an earlier open implementation of Unified Bus, each as a test of every schedule
//! within bounds, on real NICs with real memories. The numbers only distinguish the defects.

mod pair;

use fairway_storm::order::{Bounds, Exploration, explore};
use fairway_ub::wire::{Packet, ServiceMode, Tag};
use fairway_ub::{
    CompletionKind, DropReason, Limits, LocalRange, OrderRequest, PostError, Status, Work,
    WorkRequest,
};
use pair::{Pair, Settings, fine};

/// Checks that every rule of order holds for every schedule. Returns the extent of the search.
fn holds(program: &str, limits: &str) -> Exploration {
    let bounds: Bounds = limits.parse().unwrap();
    let sum = explore(&program.parse().unwrap(), &bounds);
    sum.unwrap_or_else(|failing| panic!("{failing}"))
}

/// As [`holds`], and checks that no schedule was left out.
fn holds_always(program: &str, limits: &str) {
    let sum = holds(program, limits);
    assert_eq!(sum.complete, 1, "{program}: {sum}");
}

const MODES: [&str; 3] = ["roi", "rot", "rol"];
/// Packets may overtake each other, and each way to do so is run at least twice.
const OVERTAKEN: &str = "3,0,0,0,0,0,200000";
/// All kinds of deviations, as far as a test's time permits.
const STRESSED: &str = "2,1,1,1,1,1,2000";

#[test]
fn d7_write_then_read_then_atomic_see_the_same_memory() {
    for mode in MODES {
        let m = mode;
        holds(
            &format!("0 0W1>1.{m}.so 0R1>1.{m}.so 0A1>1.{m}.so 0R1>1.{m}.so"),
            "2,1,1,1,0,0,4000",
        );
        holds(&format!("0 0W1>1.{m}.ro 0A1>1.{m}.so 0W1>1.{m}.so 0R1>1.{m}.so"), STRESSED);
        holds(&format!("0 0A1>1.{m} 0A1>1.{m} 0A1>1.{m} 0R1>1.{m}.fence"), STRESSED);
    }
}

#[test]
fn d9_same_jetty_number_of_two_nodes() {
    // Jetty 1 of node 0 and Jetty 1 of node 2 both send to node 1. Neither waits for the other, and
    // their operations are counted separately.
    for mode in MODES {
        let m = mode;
        holds_always(&format!("0,2 0W1>1.{m}.ro 1W1>1.{m}.so"), OVERTAKEN);
        let both = format!("0,2 0W1>1.{m}.ro 1W1>1.{m}.ro 0W1>1.{m}.so 1W1>1.{m}.so");
        holds(&both, STRESSED);
        holds(&format!("0,2 0S1>1.{m}.rio 1S1>1.{m}.rio 0S1>1.{m}.rio 1S1>1.{m}.rio"), STRESSED);
    }
}

#[test]
fn d14_operation_waits_only_for_its_own_turn() {
    // For operations of two Jetties, the one that arrives first takes effect first.
    for mode in MODES {
        let m = mode;
        holds_always(&format!("0,0 0W1>1.{m}.so 1W1>1.{m}.so"), OVERTAKEN);
        holds(&format!("0,0 0W1>1.{m}.so 1W1>1.{m}.so 0W1>1.{m}.so 1W1>1.{m}.so"), OVERTAKEN);
    }
}

/// Returns a request of the first Jetty of `pair` to write 8 bytes at a place determined by `id`.
fn write(pair: &Pair, id: u64, order: OrderRequest) -> WorkRequest {
    let local = LocalRange { segment: pair.segments[0], offset: id * 8, length: 8 };
    let work = Work::Write { remote: pair.remote(0, 4096 + id * 8) };
    WorkRequest { id, channel: pair.channels[0], work, local, signaled: true, order }
}

#[test]
fn d15_queue_full_is_an_error_not_a_drop() {
    for mode in [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol] {
        let limits = Limits::new().messages(12).read_slots(4);
        let mut pair = Pair::new(&Settings { limits, paths: 2, ..Settings::default() });
        let order = OrderRequest { mode, tag: Tag::So, ..OrderRequest::default() };
        let mut taken = 0;
        loop {
            let request = write(&pair, taken, order);
            match pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request) {
                Ok(()) => taken += 1,
                Err(PostError::TooManyMessages) => break,
                Err(other) => panic!("{other:?}"),
            }
        }
        assert!(taken >= 8, "{taken} operations were taken");
        pair.wake();
        let timeout = fairway_ub::wire::Duration::from_secs(1);
        let ids: Vec<u64> = (0..taken).map(|_| pair.complete(0, timeout, &mut fine).id).collect();
        assert_eq!(ids, (0..taken).collect::<Vec<_>>(), "what was taken completes");
        let bytes = taken as usize * 8;
        assert_eq!(pair.memory[1].bytes[4096..4096 + bytes], pair.memory[0].bytes[..bytes]);
        let request = write(&pair, 100, order);
        pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request).unwrap();
        pair.wake();
        assert_eq!(pair.complete(0, timeout, &mut fine).id, 100);
    }
}

#[test]
fn d15_post_without_an_order_record_fails() {
    let limits = Limits::new().order_records(0);
    let mut pair = Pair::new(&Settings { limits, ..Settings::default() });
    let strict = OrderRequest { mode: ServiceMode::Rot, tag: Tag::So, ..OrderRequest::default() };
    let request = write(&pair, 1, strict);
    let posted = pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request);
    assert_eq!(posted, Err(PostError::TooManyOrders));
    // An operation that requests no order needs no record.
    let request = write(&pair, 2, OrderRequest::default());
    pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request).unwrap();
}

#[test]
fn d16_strict_does_not_overtake_strict() {
    for mode in MODES {
        let m = mode;
        let program = format!("0 0W1>1.{m}.ro 0W1>1.{m}.so 0W1>1.{m}.so 0W1>1.{m}.so");
        holds(&program, OVERTAKEN);
        holds(&program, STRESSED);
    }
    // An operation posted while another was delayed, in any mode.
    for program in [
        "0 0W1>1.roi.ro 0W1>1.roi.so 0W1>1.rot.so",
        "0 0W1>1.rot.ro 0W1>1.roi.so 0W1>1.rol.so",
        "0 0W2>1.rol.ro 0W1>1.rot.so 0W2>1.rot.so",
        "0 0W1>1.rot.ro 0W1>2.rot.so 0W1>1.rot.so",
    ] {
        holds(program, STRESSED);
    }
}

/// Operations that wait at the target keep their slots, and the one that they wait for needs a
/// slot, too.
#[test]
fn d16_strict_behind_one_without_a_slot_is_not_stuck() {
    // The number of places and slots equals that of the operations behind the one of two packets.
    let behind = ["", " 0W1>1.rot.so", " 0W1>1.rot.so 0W1>1.rot.so"];
    for (places, more) in (1..).zip(behind) {
        let program = format!("0 0W1>1.rot.ro 0W2>1.rot.so 0W1>1.rot.so{more}");
        holds(&program, &format!("2,0,0,0,0,0,1000,{places}"));
    }
    // An operation that is sent back, and one for which no receive is posted at first.
    holds("0 0S1>1.rol.ro 0R1>1.rol.so 0R1>1.rot.so", "2,0,0,0,0,0,1000,1");
    holds("0 0S1>1.rot.so 0W1>1.rot.so", "2,0,0,0,0,0,1000,1,2");
}

/// An operation that waits for a dead node continues when the death is detected.
#[test]
fn d17_strict_after_one_that_is_given_up_is_not_stuck() {
    for m in MODES {
        holds(&format!("0/2 0W1>2.{m}.so 0W1>1.{m}.so 0W2>2.{m}.so 0R1>1.{m}.so"), STRESSED);
        let fences = "0R1>2.rol 0W1>1.rol.fence 0S1>2.rol.rio.cio 0S1>1.rol.rio.cio";
        holds(&format!("0/2 {}", fences.replace("rol", m)), STRESSED);
    }
}

/// A SEND without a posted receive is retried, and keeps its position in the order.
#[test]
fn d18_a_send_that_waits_for_its_receive_is_not_overtaken() {
    for m in MODES {
        for after in [1, 5] {
            let limits = format!("1,1,0,1,0,0,1500,16,{after}");
            holds(&format!("0 0S1>1.{m}.ro 0S1>1.{m}.so.rio.cio 0W1>1.{m}.so"), &limits);
            holds(&format!("0 0I1>1.{m}.so 0A1>1.{m}.so 0S2>1.{m}.so 0R1>1.{m}.so"), &limits);
        }
    }
}

#[test]
fn d17_strict_after_none_is_not_stuck() {
    for mode in MODES {
        let m = mode;
        holds_always(&format!("0 0W1>1.{m} 0W1>1.{m}.so"), OVERTAKEN);
        holds(&format!("0 0W1>1.{m}.ro 0W1>1.{m} 0W1>1.{m}.so 0W1>1.{m} 0W1>1.{m}.so"), STRESSED);
    }
}

#[test]
fn d18_strict_arrivals_4_3_2() {
    // With six overtakings every order of arrival occurs, 4-3-2-1 among them.
    for mode in MODES {
        let m = mode;
        let program = format!("0 0W1>1.{m}.so 0W1>1.{m}.so 0W1>1.{m}.so 0W1>1.{m}.so");
        holds(&program, "6,0,0,0,0,0,20000");
        // With one place for early packets, and with none.
        holds(&program, "6,0,0,0,0,0,4000,1");
        holds(&program, "6,0,0,0,0,0,4000,0");
    }
    // With two Jetties, each with its own gap.
    let program = "0,0 0W1>1.rot.so 1W1>1.rot.so 0W1>1.rot.so 1W1>1.rot.so 0W1>1.rot.so";
    holds(program, "6,0,0,0,0,0,20000");
}

#[test]
fn d19_unordered_do_not_hold_ordered_completions() {
    for mode in MODES {
        let m = mode;
        holds(&format!("0 0W1>1.{m} 0R1>1.{m} 0W1>1.{m}.cio 0W1>1.{m}"), STRESSED);
        holds(&format!("0 0W1>1.{m}.quiet 0W1>1.{m}.cio 0A1>1.{m}.cio"), STRESSED);
        let receives = format!("0 0S1>1.{m} 0S1>1.{m}.rio 0S1>1.{m} 0S1>1.{m}.rio");
        holds(&receives, "3,0,0,1,0,0,20000");
        holds(&format!("0 0S1>1.{m}.rio 0I1>1.{m}.rio 0S2>1.{m}.rio"), STRESSED);
        // A refused operation is not waited for.
        holds(&format!("0 0S1>1.{m}.rio.wrong 0S1>1.{m}.rio 0S1>1.{m}.rio.cio"), STRESSED);
    }
}

#[test]
fn d22_rol_reads_are_answered() {
    holds("0 0R1>1.rol.so 0A1>1.rol.so 0R2>1.rol.ro 0A1>1.rol", STRESSED);
    holds_always("0 0R1>1.rol", "2,1,1,1,0,1,200000");
    holds_always("0 0A1>1.rol", "2,1,1,1,0,1,200000");
}

#[test]
fn d23_responses_have_their_own_psn_space() {
    // Both sides write, read and respond on one channel whose sequence numbers wrap.
    for mode in MODES {
        let m = mode;
        let program = format!("0,1 0R2>1.{m}.ro 1W1>0.{m}.ro 1R1>0.{m}.so 0W1>1.{m}.so");
        holds(&program, "2,1,1,1,0,0,6000");
        holds(&format!("0,1 0A1>1.{m}.so 1A1>0.{m}.so 0A1>1.{m}.so 1A1>0.{m}.so"), STRESSED);
    }
}

#[test]
fn d25_wrong_token_never_succeeds() {
    for kind in ["W1", "W2", "R1", "R2", "A1", "S1", "S2", "I1"] {
        for m in MODES {
            holds(&format!("0 0{kind}>1.{m}.wrong 0W1>1.{m}.so.cio"), "2,1,1,1,0,0,400");
            let program = format!("0 0W1>1.{m}.ro 0{kind}>1.{m}.so.wrong 0W1>1.{m}.so.cio");
            holds(&program, "2,1,1,1,1,1,800");
        }
    }
    holds_always("0 0W1>1.uno.wrong", "2,1,0,1,0,0,100");
}

#[test]
fn d29_channels_have_their_own_sequence_numbers() {
    // A channel in the middle of its sequence numbers, and a second Jetty with traffic to another
    // node: neither resets the other.
    holds("0,0 0W2>1.rot.so 1W2>2.rot.so 0W1>1.rot.so 1W1>2.rot.so", STRESSED);
    holds("0,2 0W2>1.roi.so 1W2>1.roi.so 0W1>1.roi.so 1W1>1.roi.so", STRESSED);
    // A packet for the number of a closed channel does not affect its successor.
    let mut pair = Pair::new(&Settings::default());
    let timeout = fairway_ub::wire::Duration::from_secs(1);
    let mut stale = None;
    for id in 0..3 {
        let work = Work::Write { remote: pair.remote(0, 0) };
        pair.post(0, id, work, 64);
        let done = pair.complete(0, timeout, &mut |_, from, transmit| {
            if from == 0 && matches!(transmit.packet, Packet::Data(_)) {
                stale = Some(*transmit);
            }
            pair::Fate::Deliver
        });
        assert_eq!((done.status, done.kind), (Status::Success, CompletionKind::Write));
    }
    let mut transmit = stale.expect("a data packet");
    let tpn = transmit.route.destination_tpn.value();
    transmit.route.destination_tpn = fairway_ub::wire::Tpn::new(tpn ^ 0x1_0000);
    let received = fairway_ub::Received {
        route: transmit.route,
        packet: transmit.packet,
        payload: transmit.gather.length,
        ecn: fairway_ub::wire::Ecn::Capable,
        hops: 0,
    };
    let verdict = pair.drivers[1].device_mut().handle_packet(pair.now, &received);
    assert_eq!(verdict, fairway_ub::Verdict::Drop(DropReason::NoChannel));
    let psns: Vec<u32> = pair
        .log
        .iter()
        .filter_map(|(from, packet)| match packet {
            Packet::Data(data) if *from == 0 => Some(data.psn.value()),
            _ => None,
        })
        .collect();
    assert_eq!(psns, [1000, 1001, 1002]);
}

#[test]
fn d30_unreliable_packets_pass_no_order_gate() {
    for mode in MODES {
        let m = mode;
        holds(&format!("0 0W1>1.{m}.ro 0W1>1.uno 0W1>1.{m}.so"), STRESSED);
        holds_always(&format!("0 0W1>1.{m}.so 0W1>1.uno"), OVERTAKEN);
        holds_always(&format!("0 0R1>1.{m}.so 0S1>1.uno"), OVERTAKEN);
    }
}

#[test]
fn d30_an_unreliable_request_cannot_ask_for_order() {
    let mut pair = Pair::new(&Settings::default());
    let uno = OrderRequest { mode: ServiceMode::Uno, ..OrderRequest::default() };
    let requests = [
        OrderRequest { tag: Tag::Ro, ..uno },
        OrderRequest { tag: Tag::So, ..uno },
        OrderRequest { fence: true, ..uno },
        OrderRequest { complete_in_order: true, ..uno },
        OrderRequest { receive_in_order: true, ..uno },
    ];
    for order in requests {
        let request = write(&pair, 1, order);
        let posted = pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request);
        assert_eq!(posted, Err(PostError::Unreliable), "{order:?}");
    }
    let long = WorkRequest {
        local: LocalRange { length: 4097, ..write(&pair, 1, uno).local },
        ..write(&pair, 1, uno)
    };
    let read =
        WorkRequest { work: Work::Read { remote: pair.remote(0, 0) }, ..write(&pair, 1, uno) };
    for request in [long, read] {
        let posted = pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request);
        assert_eq!(posted, Err(PostError::Unreliable), "{request:?}");
    }
    let request = write(&pair, 7, uno);
    pair.drivers[0].device_mut().post(pair.now, pair.jetties[0], &request).unwrap();
    pair.wake();
    let timeout = fairway_ub::wire::Duration::from_secs(1);
    assert_eq!(pair.complete(0, timeout, &mut fine).id, 7);
}
