use alloc::vec::Vec;

use super::super::model::{LINE, Model, PACKET};
use super::*;
use crate::CreditSender;

const KIB: u64 = 1024;

/// Parameters for the model's line and round trip: the window is its bandwidth-delay product.
fn parameters() -> EqdsParameters {
    EqdsParameters {
        line_bits: LINE,
        quantum_bytes: 32 * KIB,
        window_bytes: 128 * KIB,
        ..EqdsParameters::default()
    }
}

fn model(parameters: EqdsParameters, senders: usize) -> Model {
    let receiver = Box::new(Eqds::new(parameters, senders as u32));
    Model::new(receiver, senders, || Box::new(CreditSender::eqds(parameters.sender(), PACKET)))
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

fn credit_request(kib: u64) -> CreditRequest {
    CreditRequest { total_bytes: kib * KIB, ..CreditRequest::default() }
}

fn granted(eqds: &mut Eqds, us: u64) -> Vec<(u32, u32)> {
    let credits = core::iter::from_fn(|| eqds.poll_credit(at_us(us)));
    credits.map(|credit| (credit.source.0, credit.bytes / 1024)).collect()
}

/// Jain's index of fairness, in thousandths.
fn jain(packets: &[u64]) -> u64 {
    let sum: u64 = packets.iter().sum();
    let squares: u64 = packets.iter().map(|packets| packets * packets).sum();
    1000 * sum * sum / (packets.len() as u64 * squares)
}

#[test]
fn senders_have_a_quantum_in_turn_at_the_lines_rate() {
    // 32 KiB at 8.192 Gb/s take 32 us, and half a microsecond is left free.
    let mut eqds = Eqds::new(EqdsParameters { line_bits: 8_192_000_000, ..parameters() }, 4);
    let half = Duration::from_ns(500);
    assert_eq!((eqds.poll_at(), granted(&mut eqds, 5)), (None, Vec::new()));
    eqds.announced(at_us(10), SourceId(2), &credit_request(40));
    assert_eq!(eqds.poll_at(), Some(at_us(10)));
    eqds.announced(at_us(10), SourceId(0), &credit_request(64));
    assert_eq!(granted(&mut eqds, 10), [(2, 32)]);
    assert_eq!(eqds.poll_at(), Some(at_us(42) + half));
    assert_eq!(granted(&mut eqds, 42), []);
    assert_eq!(granted(&mut eqds, 43), [(0, 32)]);
    assert_eq!(eqds.poll_at(), Some(at_us(75)), "late once is not late for ever");
    // 8 KiB or 8 us are left of sender 2's demand, so that a late poll grants it and one more.
    assert_eq!(granted(&mut eqds, 90), [(2, 8), (0, 32)]);
    assert_eq!(eqds.poll_at(), None, "no sender requests more");
    eqds.announced(at_us(400), SourceId(1), &credit_request(64));
    assert_eq!(granted(&mut eqds, 400), [(1, 32)], "unrequested time is not made up for");
}

#[test]
fn resends_come_first_and_idle_ones_last() {
    let with_ahead = EqdsParameters { ahead_bytes: 16 * KIB, ..parameters() };
    let mut eqds = Eqds::new(with_ahead, 4);
    eqds.announced(at_us(0), SourceId(0), &credit_request(64));
    eqds.announced(at_us(0), SourceId(1), &credit_request(64));
    eqds.announced(at_us(0), SourceId(3), &CreditRequest { resend: true, ..credit_request(64) });
    eqds.on_data(at_us(0), SourceId(2), 100);
    let all: Vec<(u32, u32)> = (0..20).flat_map(|step| granted(&mut eqds, 27 * step)).collect();
    // Sender 3 comes first, and after one quantum takes turns with the others; then all get credit
    // ahead.
    let wanted = [(3, 32), (0, 32), (1, 32), (3, 32), (0, 32), (1, 32)];
    assert_eq!(all[..6], wanted);
    let mut ahead = all[6..].to_vec();
    ahead.sort_unstable();
    assert_eq!(ahead, [(0, 16), (1, 16), (2, 16), (3, 16)]);
}

#[test]
fn a_total_that_got_lost_is_repeated() {
    let mut eqds = Eqds::new(parameters(), 1);
    eqds.announced(at_us(0), SourceId(0), &credit_request(32));
    assert_eq!(granted(&mut eqds, 0), [(0, 32)]);
    eqds.announced(at_us(600), SourceId(0), &CreditRequest { blocked: true, ..credit_request(32) });
    assert_eq!(granted(&mut eqds, 600), [(0, 0)]);
    assert_eq!(granted(&mut eqds, 700), []);
}

#[test]
fn sender_that_does_not_use_its_credit_gets_no_more() {
    let mut eqds = Eqds::new(parameters(), 2);
    eqds.announced(at_us(0), SourceId(0), &credit_request(10_000));
    assert_eq!(granted(&mut eqds, 0), [(0, 32)]);
    // The data that the sender sends first was not granted. After that it uses credit, a short
    // round trip later.
    eqds.on_data(at_us(10), SourceId(0), 128 * 1024);
    eqds.on_data(at_us(10), SourceId(0), 32 * 1024);
    let credits: Vec<(u32, u32)> = (1..50).flat_map(|us| granted(&mut eqds, 27 * us)).collect();
    assert_eq!(credits, [(0, 32); 8], "two windows");
    eqds.on_data(at_us(2000), SourceId(0), 32 * 1024);
    assert_eq!(granted(&mut eqds, 2000), [(0, 32)]);
    eqds.announced(
        at_us(3000),
        SourceId(0),
        &CreditRequest { blocked: true, ..credit_request(10_000) },
    );
    assert_eq!(granted(&mut eqds, 3000)[0], (0, 32));
    eqds.source_gone(at_us(3001), SourceId(0));
    assert_eq!((eqds.poll_at(), granted(&mut eqds, 9000)), (None, Vec::new()));
    eqds.announced(at_us(9000), SourceId(9), &credit_request(1));
    assert_eq!(granted(&mut eqds, 9100), [], "no such channel");
}

#[test]
fn bytes_sent_without_credit_delay_later_grants() {
    // One window may overlap with the first credits; data beyond it delays them.
    let mut eqds = Eqds::new(EqdsParameters { line_bits: 8_192_000_000, ..parameters() }, 2);
    eqds.on_data(at_us(0), SourceId(1), 128 * 1024);
    eqds.announced(at_us(10), SourceId(0), &credit_request(640));
    assert_eq!(eqds.poll_at(), Some(at_us(10)));
    eqds.on_data(at_us(10), SourceId(1), 64 * 1024);
    assert_eq!(eqds.poll_at(), Some(at_us(75)));
}

#[test]
fn incast_shares_the_line_whatever_the_number() {
    for senders in [1, 2, 4, 8, 16] {
        let mut model = model(parameters(), senders);
        (0..senders).for_each(|sender| model.post(sender, 1 << 30));
        model.run(2_000);
        let packets = model.measure(20_000);
        let all: u64 = packets.iter().sum();
        assert!(all >= 19_600, "{senders}: {packets:?}");
        assert!(jain(&packets) >= 995, "{senders}: {packets:?}");
        // The data that was sent without credit at first has drained.
        assert!(model.queue_most <= 8, "{senders}: {}", model.queue_most);
    }
}

#[test]
fn short_messages_among_long_ones_finish_at_once() {
    let mut model = model(parameters(), 9);
    (1..9).for_each(|sender| model.post(sender, 1 << 30));
    model.run(4_000);
    for _ in 0..10 {
        let start = model.slot;
        model.post(0, 64 * KIB);
        model.run(400);
        // The limit is a round trip, 16 packets, and the length of the queue.
        assert!(model.senders[0].done_at > start && model.senders[0].done_at - start < 120);
    }
}

#[test]
fn lost_credits_requests_and_data_only_cost_time() {
    for lose in [[10, 0], [100, 0], [0, 10], [50, 20]] {
        let mut model = model(parameters(), 8);
        model.lose = lose;
        (0..8).for_each(|sender| model.post(sender, 4 << 20));
        model.finish(100_000);
        assert!(model.senders.iter().all(|sender| sender.delivered >= 4 << 20));
        // 32 MiB are 8192 slots.
        assert!(model.slot < 9_000, "{lose:?}: {} slots", model.slot);
    }
}

#[test]
fn a_queue_that_overflows_in_the_first_window_is_recovered_from() {
    let mut model = model(parameters(), 16);
    model.queue_limit = 64;
    (0..16).for_each(|sender| model.post(sender, 2 << 20));
    model.finish(100_000);
    let dropped = model.dropped;
    assert!(dropped > 100, "sixteen windows do not fit: {dropped}");
    // 32 MiB are 8192 slots.
    assert!(model.slot < 10_500, "{} slots", model.slot);
    let done = model.senders.iter().map(|sender| sender.done_at);
    let (first, last) = (done.clone().min(), done.max());
    assert!(first > Some(6_000), "equal ones finish together: {first:?} and {last:?}");
}

#[test]
fn a_slow_sender_leaves_the_line_to_the_others() {
    let mut model = model(parameters(), 3);
    model.senders[0].every = 10;
    (0..3).for_each(|sender| model.post(sender, 1 << 30));
    model.run(4_000);
    let packets = model.measure(20_000);
    assert!(packets[0].abs_diff(2_000) < 50, "all that its own line carries: {packets:?}");
    assert!(packets.iter().sum::<u64>() >= 19_500, "{packets:?}");
    assert!(packets[1].abs_diff(packets[2]) < 200, "{packets:?}");
}

#[test]
fn a_flow_with_credit_takes_what_other_traffic_leaves() {
    // SCR's Fig. 20: senders that use no credit take a twentieth of the line each.
    let mut model = model(parameters(), 16);
    for sender in 1..16 {
        model.senders[sender].uncontrolled = true;
        model.senders[sender].every = 20;
    }
    model.post(0, 1 << 30);
    for others in 0..16 {
        if others > 0 {
            model.post(others, 1 << 30);
        }
        model.run(2_000);
        let packets = model.measure(10_000);
        let left = 10_000 - 500 * others as u64;
        assert!(packets[0].abs_diff(left) <= 200, "{others}: {packets:?}");
        // The packets of the other senders arrive at the same time.
        assert!(model.queue_most <= 32, "{others}: {}", model.queue_most);
    }
}

#[test]
fn unused_credit_of_a_distant_sender_covers_two_round_trips() {
    let mut eqds = Eqds::new(parameters(), 1);
    eqds.announced(at_us(0), SourceId(0), &credit_request(100_000));
    let line_kib = |us: u64| LINE / 8 * us / 1_000_000 / 1024;
    let before: Vec<_> = (0..150).flat_map(|step| granted(&mut eqds, 27 * step)).collect();
    assert_eq!(before, [(0, 32); 8], "two windows, as long as the round trip is not known");
    eqds.on_data(at_us(4000), SourceId(0), 128 * 1024);
    eqds.on_data(at_us(4000), SourceId(0), 32 * 1024);
    let after: Vec<_> = (150..2000).flat_map(|step| granted(&mut eqds, 27 * step)).collect();
    let granted_kib = 32 * after.len() as u64 + 7 * 32;
    let wanted = 2 * line_kib(4000);
    assert!((wanted - 32..=wanted).contains(&granted_kib), "{granted_kib} of {wanted} KiB");
}
