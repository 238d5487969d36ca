use super::*;
use alloc::vec::Vec;

const KIB: u64 = 1024;

/// A sender with 64 KiB without credit and requests of 32 KiB, repeated after 500 us.
fn sender() -> CreditSender {
    let parameters = CreditSenderParameters {
        speculative_bytes: 64 * KIB,
        max_bytes: 1024 * KIB,
        quantum_bytes: 32 * KIB,
        ahead_bytes: 0,
        timeout: Duration::from_us(500),
        classes: UnscheduledClasses::NONE,
    };
    CreditSender::eqds(parameters, 4096)
}

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

fn credit_request(total_kib: u64, resend: bool, blocked: bool) -> Option<CreditRequest> {
    Some(CreditRequest { total_bytes: total_kib * KIB, resend, blocked })
}

fn ack(now: Instant, bytes_in_flight: u64) -> AckSample {
    let smoothed_rtt = Duration::from_us(50);
    AckSample { now, acked_bytes: 4096, smoothed_rtt, bytes_in_flight, ..AckSample::default() }
}

#[test]
fn a_short_message_needs_no_credit() {
    let mut sender = sender();
    assert_eq!(sender.credit_request(at_us(0), 60 * KIB), None);
    assert_eq!((sender.allowance_bytes(), sender.chunk_bytes(60 * KIB)), (64 * KIB, 60 * 1024));
    sender.on_sent(at_us(0), 60 * 1024, 0);
    assert_eq!(sender.allowance_bytes(), 4 * KIB);
    // No more may be sent without credit until everything has arrived.
    sender.on_ack(&ack(at_us(40), 4096));
    assert_eq!(sender.allowance_bytes(), 4 * KIB);
    sender.on_ack(&ack(at_us(50), 0));
    assert_eq!(sender.allowance_bytes(), 64 * KIB);
}

#[test]
fn long_message_requests_credit_and_spends_grants() {
    let mut sender = sender();
    assert_eq!(sender.credit_request(at_us(0), 200 * KIB), credit_request(136, false, false));
    sender.on_sent(at_us(1), 64 * 1024, 136 * KIB);
    assert_eq!((sender.allowance_bytes(), sender.credit_request(at_us(2), 136 * KIB)), (0, None));
    assert!(!sender.permit_retransmit(at_us(2), 4096));
    sender.on_credit(at_us(30), 32 * 1024);
    assert_eq!(sender.allowance_bytes(), 32 * KIB);
    // A whole packet exceeds the allowance: the excess is a debt, which the next credit pays.
    sender.on_sent(at_us(31), 36 * 1024, 100 * KIB);
    assert_eq!(sender.allowance_bytes(), 0);
    sender.on_credit(at_us(60), 32 * 1024);
    assert_eq!(sender.allowance_bytes(), 28 * KIB);
    assert_eq!(sender.credit_request(at_us(61), 100 * KIB), None, "nothing new");
}

#[test]
fn demand_is_sent_when_it_grew_by_a_quantum_or_all_was_granted() {
    let mut sender = sender();
    assert_eq!(sender.credit_request(at_us(0), 96 * KIB), credit_request(32, false, false));
    assert_eq!(sender.credit_request(at_us(0), 100 * KIB), None, "a little more can wait");
    assert_eq!(sender.credit_request(at_us(0), 128 * KIB), credit_request(64, false, false));
    assert_eq!(sender.credit_request(at_us(0), 132 * KIB), None);
    sender.on_credit(at_us(30), 64 * 1024);
    assert_eq!(sender.credit_request(at_us(30), 132 * KIB), credit_request(68, false, false));
}

#[test]
fn credit_for_lost_bytes_is_requested_at_once() {
    let mut sender = sender();
    sender.credit_request(at_us(0), 64 * KIB);
    sender.on_sent(at_us(0), 64 * 1024, 0);
    let sample = LossSample { now: at_us(90), lost_bytes: 4096, ..LossSample::default() };
    sender.on_loss(&sample);
    assert_eq!(sender.credit_request(at_us(90), 4 * KIB), credit_request(4, true, true));
    assert_eq!(sender.credit_request(at_us(91), 4 * KIB), None);
    sender.on_credit(at_us(120), 4096);
    assert!(sender.permit_retransmit(at_us(120), 4096));
}

#[test]
fn waiting_sender_requests_again_with_growing_intervals() {
    let mut sender = sender();
    assert_eq!(sender.credit_request_at(), None);
    sender.credit_request(at_us(0), 128 * KIB);
    assert_eq!(sender.credit_request_at(), None, "it can still send");
    sender.on_sent(at_us(10), 64 * 1024, 64 * KIB);
    assert_eq!(sender.credit_request_at(), Some(at_us(500)));
    assert_eq!(sender.credit_request(at_us(499), 64 * KIB), None);
    assert_eq!(sender.credit_request(at_us(500), 64 * KIB), credit_request(64, false, true));
    assert_eq!(sender.credit_request_at(), Some(at_us(1500)));
    assert_eq!(sender.credit_request(at_us(1500), 64 * KIB), credit_request(64, false, true));
    assert_eq!(sender.credit_request_at(), Some(at_us(3500)));
    // A long round trip makes the time-out even longer; credit resets it.
    sender.on_ack(&AckSample { smoothed_rtt: Duration::from_us(300), ..ack(at_us(1600), 4096) });
    assert_eq!(sender.credit_request_at(), Some(at_us(1500 + 4 * 1200)));
    sender.on_credit(at_us(2000), 0);
    assert_eq!(sender.credit_request_at(), Some(at_us(3200)));
    sender.on_credit(at_us(2001), 64 * 1024);
    assert_eq!(sender.credit_request_at(), None);
}

/// A sender whose 64 KiB in flight were acknowledged except for the last packet, that has 64 KiB
/// more to send, and whose first request at 10 us and five more were not answered.
fn sender_of_a_silent_receiver() -> (CreditSender, Instant) {
    let mut sender = sender();
    assert_eq!(sender.credit_request(at_us(10), 128 * KIB), credit_request(64, false, false));
    sender.on_sent(at_us(10), 64 * 1024, 64 * KIB);
    for _ in 0..5 {
        let at = sender.credit_request_at().expect("a sender that waits repeats its request");
        assert_eq!(sender.credit_request(at, 64 * KIB), credit_request(64, false, true));
    }
    (sender, at_us(10 + 31 * 500))
}

#[test]
fn request_is_repeated_at_once_when_the_receiver_acknowledges_again() {
    let (mut sender, last) = sender_of_a_silent_receiver();
    assert_eq!(sender.credit_request_at(), Some(last + Duration::from_us(32 * 500)));
    let now = last + Duration::from_us(100);
    assert_eq!(sender.credit_request(now, 64 * KIB), None, "no acknowledgement has come yet");
    let acknowledged = AckSample { acked_packets: 1, ..ack(now, 4096) };
    sender.on_ack(&acknowledged);
    assert_eq!(sender.credit_request(now, 64 * KIB), credit_request(64, false, true));
    // Further acknowledgements of packets sent before the silence cause no further requests.
    sender.on_ack(&acknowledged);
    assert_eq!(sender.credit_request(now, 64 * KIB), None);
    assert_eq!(sender.credit_request_at(), Some(now + Duration::from_us(500)));
}

#[test]
fn pause_of_the_receiver_does_not_stretch_the_time_between_requests() {
    let (mut sender, mut last) = sender_of_a_silent_receiver();
    // The packet that is acknowledged was sent before a pause of 16 ms.
    let smoothed_rtt = Duration::from_us(2_000);
    sender.on_ack(&AckSample { acked_packets: 1, smoothed_rtt, ..ack(last, 4096) });
    assert_eq!(sender.credit_request(last, 64 * KIB), credit_request(64, false, true));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let at = sender.credit_request_at().expect("a sender that waits repeats its request");
        assert_eq!(sender.credit_request(at, 64 * KIB), credit_request(64, false, true));
        waits.push(at.since(last).as_us());
        last = at;
    }
    assert_eq!(waits, [8_000, 16_000, 32_000, 32_000]);
}

#[test]
fn smaller_credit_request_does_not_hold_back_the_next() {
    let mut sender = sender();
    sender.credit_request(at_us(0), 64 * KIB);
    sender.on_sent(at_us(0), 64 * 1024, 0);
    sender.on_loss(&LossSample { now: at_us(90), lost_bytes: 12_288, ..LossSample::default() });
    // The network loses this request, and two of the three packets have arrived after all.
    assert_eq!(sender.credit_request(at_us(90), 12 * KIB), credit_request(12, true, true));
    assert_eq!(sender.credit_request(at_us(590), 4 * KIB), credit_request(4, false, true));
    sender.on_credit(at_us(600), 4096);
    sender.on_sent(at_us(600), 4096, 0);
    // All of the last request was granted, so newly posted data is announced at once.
    assert_eq!(sender.credit_request(at_us(601), 4 * KIB), credit_request(8, false, true));
}

/// A round trip of `us` us, with 256 KiB in flight before its acknowledgement.
fn round_trip(now_us: u64, us: u64) -> AckSample {
    let rtt = Duration::from_us(us);
    AckSample { rtt: Some(rtt), smoothed_rtt: rtt, ..ack(at_us(now_us), 252 * KIB) }
}

/// A loss of more than a hundredth of the bytes over which the share of losses is computed.
fn loss(now_us: u64, by_timeout: bool) -> LossSample {
    let smoothed_rtt = Duration::from_us(100);
    let (now, sent_at) = (at_us(now_us), at_us(now_us) - smoothed_rtt);
    LossSample { now, lost_bytes: 24_576, path: 0, smoothed_rtt, by_timeout, sent_at }
}

/// A sender that sent its 64 KiB without credit at 0 us, and that has measured a round trip of 50
/// us and one of `rtt_us`.
fn sender_that_saw(rtt_us: u64) -> CreditSender {
    let mut sender = sender();
    sender.on_sent(at_us(0), 64 * 1024, 936 * KIB);
    sender.on_ack(&round_trip(50, 50));
    sender.on_ack(&round_trip(200, rtt_us));
    sender
}

#[test]
fn loss_on_credit_in_a_queue_limits_what_is_in_flight() {
    let mut sender = sender_that_saw(100);
    assert_eq!(sender.window_bytes(), 1024 * KIB);
    assert_eq!(sender.pacing_bytes_per_second(), None, "credit sets the pace");
    sender.on_loss(&loss(300, false));
    assert_eq!(sender.window_bytes(), 1024 * KIB, "less than a hundredth was lost before");
    sender.on_loss(&loss(300, false));
    assert_eq!(sender.window_bytes(), 256 * KIB * 7 / 10, "from what was in flight");
    // On a path as long as this the window is spread over the round trip.
    sender.on_ack(&round_trip(310, 10_000));
    assert!(
        sender
            .pacing_bytes_per_second()
            .is_some_and(|rate| (20_000_000..30_000_000).contains(&rate))
    );
    // From then on a time-out counts as well, and so do losses of new packets without credit.
    sender.on_loss(&loss(500, true));
    let least = sender.window_bytes();
    assert!(least < 256 * KIB * 7 / 10);
    // Without losses the window reaches its maximum again in the end.
    for ms in 1..60_000 {
        sender.on_ack(&AckSample { window_limited: true, ..round_trip(500 + 1000 * ms, 50) });
    }
    assert_eq!(sender.window_bytes(), 1024 * KIB);
}

#[test]
fn other_losses_and_marks_limit_nothing() {
    // There is no queue, so the loss indicates a bad link.
    let mut sender = sender_that_saw(50);
    let smoothed_rtt = Duration::from_us(50);
    for _ in 0..2 {
        sender.on_loss(&LossSample { smoothed_rtt, ..loss(300, false) });
    }
    assert_eq!(sender.window_bytes(), 1024 * KIB);
    // A loss counts as one of packets without credit for two round trips after they were sent.
    let mut sender = sender_that_saw(100);
    for _ in 0..2 {
        sender.on_loss(&loss(200, false));
    }
    assert_eq!(sender.window_bytes(), 1024 * KIB);
    // A path has failed.
    for _ in 0..2 {
        sender.on_loss(&loss(900, true));
    }
    assert_eq!(sender.window_bytes(), 1024 * KIB);
    // A switch on one of the paths marks a packet, and a host signals back-pressure.
    sender.on_ack(&AckSample { marked_packets: 1, pressure: true, ..round_trip(1000, 100) });
    assert_eq!(sender.window_bytes(), 1024 * KIB);
}
