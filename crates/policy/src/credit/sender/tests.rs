use super::*;
use alloc::vec::Vec;

const KIB: u64 = 1024;

/// 64 KiB without credit, requests of 32 KiB, repeated after 500 us.
fn sender() -> CreditSender {
    let parameters = CreditSenderParameters {
        speculative_bytes: 64 * KIB,
        max_bytes: 1024 * KIB,
        quantum_bytes: 32 * KIB,
        timeout: Duration::from_us(500),
    };
    CreditSender::eqds(parameters, 4096)
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

fn demand(total_kib: u64, resend: bool, blocked: bool) -> Option<Demand> {
    Some(Demand { total_bytes: total_kib * KIB, resend, blocked })
}

fn ack(now: Instant, bytes_in_flight: u64) -> AckSample {
    let smoothed_rtt = Duration::from_us(50);
    AckSample { now, acked_bytes: 4096, smoothed_rtt, bytes_in_flight, ..AckSample::default() }
}

#[test]
fn a_short_message_needs_no_credit() {
    let mut sender = sender();
    assert_eq!(sender.demand(at_us(0), 60 * KIB), None);
    assert_eq!((sender.allowance_bytes(), sender.chunk_bytes(60 * KIB)), (64 * KIB, 60 * 1024));
    sender.on_sent(at_us(0), 60 * 1024, 0);
    assert_eq!(sender.allowance_bytes(), 4 * KIB);
    // Until everything has arrived, no more goes without.
    sender.on_ack(&ack(at_us(40), 4096));
    assert_eq!(sender.allowance_bytes(), 4 * KIB);
    sender.on_ack(&ack(at_us(50), 0));
    assert_eq!(sender.allowance_bytes(), 64 * KIB);
}

#[test]
fn a_long_one_asks_for_what_it_may_not_send_and_spends_what_it_gets() {
    let mut sender = sender();
    assert_eq!(sender.demand(at_us(0), 200 * KIB), demand(136, false, false));
    sender.on_sent(at_us(1), 64 * 1024, 136 * KIB);
    assert_eq!((sender.allowance_bytes(), sender.demand(at_us(2), 136 * KIB)), (0, None));
    assert!(!sender.permit_retransmit(at_us(2), 4096));
    sender.on_credit(at_us(30), 32 * 1024);
    assert_eq!(sender.allowance_bytes(), 32 * KIB);
    // A whole packet more than there was: a debt, which the next credit pays.
    sender.on_sent(at_us(31), 36 * 1024, 100 * KIB);
    assert_eq!(sender.allowance_bytes(), 0);
    sender.on_credit(at_us(60), 32 * 1024);
    assert_eq!(sender.allowance_bytes(), 28 * KIB);
    assert_eq!(sender.demand(at_us(61), 100 * KIB), None, "nothing new");
}

#[test]
fn demand_is_told_when_it_grew_by_a_quantum_or_all_was_granted() {
    let mut sender = sender();
    assert_eq!(sender.demand(at_us(0), 96 * KIB), demand(32, false, false));
    assert_eq!(sender.demand(at_us(0), 100 * KIB), None, "a little more can wait");
    assert_eq!(sender.demand(at_us(0), 128 * KIB), demand(64, false, false));
    assert_eq!(sender.demand(at_us(0), 132 * KIB), None);
    sender.on_credit(at_us(30), 64 * 1024);
    assert_eq!(sender.demand(at_us(30), 132 * KIB), demand(68, false, false));
}

#[test]
fn what_was_lost_is_asked_for_at_once() {
    let mut sender = sender();
    sender.demand(at_us(0), 64 * KIB);
    sender.on_sent(at_us(0), 64 * 1024, 0);
    let sample = LossSample { now: at_us(90), lost_bytes: 4096, ..LossSample::default() };
    sender.on_loss(&sample);
    assert_eq!(sender.demand(at_us(90), 4 * KIB), demand(4, true, true));
    assert_eq!(sender.demand(at_us(91), 4 * KIB), None);
    sender.on_credit(at_us(120), 4096);
    assert!(sender.permit_retransmit(at_us(120), 4096));
}

#[test]
fn who_waits_asks_again_ever_more_seldom() {
    let mut sender = sender();
    assert_eq!(sender.demand_at(), None);
    sender.demand(at_us(0), 128 * KIB);
    assert_eq!(sender.demand_at(), None, "it can still send");
    sender.on_sent(at_us(10), 64 * 1024, 64 * KIB);
    assert_eq!(sender.demand_at(), Some(at_us(500)));
    assert_eq!(sender.demand(at_us(499), 64 * KIB), None);
    assert_eq!(sender.demand(at_us(500), 64 * KIB), demand(64, false, true));
    assert_eq!(sender.demand_at(), Some(at_us(1500)));
    assert_eq!(sender.demand(at_us(1500), 64 * KIB), demand(64, false, true));
    assert_eq!(sender.demand_at(), Some(at_us(3500)));
    // A long round trip makes it more patient still; credit, impatient again.
    sender.on_ack(&AckSample { smoothed_rtt: Duration::from_us(300), ..ack(at_us(1600), 4096) });
    assert_eq!(sender.demand_at(), Some(at_us(1500 + 4 * 1200)));
    sender.on_credit(at_us(2000), 0);
    assert_eq!(sender.demand_at(), Some(at_us(3200)));
    sender.on_credit(at_us(2001), 64 * 1024);
    assert_eq!(sender.demand_at(), None);
}

/// A sender whose 64 KiB in flight were acknowledged to the last packet but one, that has 64 KiB
/// more to send, and whose first request at 10 us and five more were not answered.
fn sender_of_a_silent_receiver() -> (CreditSender, Instant) {
    let mut sender = sender();
    assert_eq!(sender.demand(at_us(10), 128 * KIB), demand(64, false, false));
    sender.on_sent(at_us(10), 64 * 1024, 64 * KIB);
    for _ in 0..5 {
        let at = sender.demand_at().expect("a sender that waits repeats its request");
        assert_eq!(sender.demand(at, 64 * KIB), demand(64, false, true));
    }
    (sender, at_us(10 + 31 * 500))
}

#[test]
fn request_is_repeated_at_once_when_the_receiver_acknowledges_again() {
    let (mut sender, last) = sender_of_a_silent_receiver();
    assert_eq!(sender.demand_at(), Some(last + Duration::from_us(32 * 500)));
    let now = last + Duration::from_us(100);
    assert_eq!(sender.demand(now, 64 * KIB), None, "no acknowledgement has come yet");
    let acknowledged = AckSample { acked_packets: 1, ..ack(now, 4096) };
    sender.on_ack(&acknowledged);
    assert_eq!(sender.demand(now, 64 * KIB), demand(64, false, true));
    // Further acknowledgements of what was sent before the silence call for no further requests.
    sender.on_ack(&acknowledged);
    assert_eq!(sender.demand(now, 64 * KIB), None);
    assert_eq!(sender.demand_at(), Some(now + Duration::from_us(500)));
}

#[test]
fn pause_of_the_receiver_does_not_stretch_the_time_between_requests() {
    let (mut sender, mut last) = sender_of_a_silent_receiver();
    // The acknowledgement of a packet that was sent before a pause of 16 ms.
    let smoothed_rtt = Duration::from_us(2_000);
    sender.on_ack(&AckSample { acked_packets: 1, smoothed_rtt, ..ack(last, 4096) });
    assert_eq!(sender.demand(last, 64 * KIB), demand(64, false, true));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let at = sender.demand_at().expect("a sender that waits repeats its request");
        assert_eq!(sender.demand(at, 64 * KIB), demand(64, false, true));
        waits.push(at.since(last).as_us());
        last = at;
    }
    assert_eq!(waits, [8_000, 16_000, 32_000, 32_000]);
}

#[test]
fn request_that_asks_for_less_than_the_one_before_does_not_hold_back_the_next() {
    let mut sender = sender();
    sender.demand(at_us(0), 64 * KIB);
    sender.on_sent(at_us(0), 64 * 1024, 0);
    sender.on_loss(&LossSample { now: at_us(90), lost_bytes: 12_288, ..LossSample::default() });
    // The network loses this request, and two of the three packets have arrived after all.
    assert_eq!(sender.demand(at_us(90), 12 * KIB), demand(12, true, true));
    assert_eq!(sender.demand(at_us(590), 4 * KIB), demand(4, false, true));
    sender.on_credit(at_us(600), 4096);
    sender.on_sent(at_us(600), 4096, 0);
    // All that the last request asked for was granted, so what is posted now is announced now.
    assert_eq!(sender.demand(at_us(601), 4 * KIB), demand(8, false, true));
}
