use super::*;
use fairway_wire::Duration;

const MTU: u32 = 1000;
const PARAMETERS: HpccParameters = HpccParameters {
    target_permille: 950,
    stages: 2,
    increase_bytes: 1000,
    initial_bytes: 100_000,
    min_bytes: 0,
    max_bytes: 400_000,
    tolerated_loss_permille: 0,
};

/// An acknowledgement of `bytes` over links of which the busiest is used by `sixteenths` of all it
/// can carry.
fn ack(bytes: u32, sixteenths: u32) -> AckSample {
    let cci = Cci::of_link_use(u64::from(Cci::FULL_LINK) * u64::from(sixteenths) / 16);
    AckSample { acked_bytes: bytes, window_limited: true, cci, ..AckSample::default() }
}

fn hpcc() -> Hpcc {
    Hpcc::new(PARAMETERS, MTU)
}

#[test]
fn window_follows_the_use_of_the_link_once_per_round_trip() {
    let mut hpcc = hpcc();
    // Twice what the link carries: 0.95 / 2 of the reference, however often it is reported.
    for _ in 0..10 {
        hpcc.on_ack(&ack(9_000, 32));
        assert!(hpcc.window_bytes().abs_diff(47_500 + 1000) <= 1);
    }
    // 100,000 bytes are acknowledged: the next report counts from there.
    hpcc.on_ack(&ack(10_000, 32));
    assert_eq!(hpcc.window_bytes(), hpcc.reference_bytes);
    hpcc.on_ack(&ack(1_000, 32));
    assert!(hpcc.window_bytes().abs_diff(24_037) <= 1);
}

#[test]
fn increases_are_additive_and_then_in_proportion() {
    let mut hpcc = hpcc();
    // Half full: two round trips of additive increase, then 0.95 / 0.5.
    hpcc.on_ack(&ack(100_000, 8));
    assert_eq!(hpcc.window_bytes(), 101_000);
    hpcc.on_ack(&ack(101_000, 8));
    assert_eq!(hpcc.window_bytes(), 102_000);
    hpcc.on_ack(&ack(1, 8));
    assert!(hpcc.window_bytes().abs_diff(102_000 * 19 / 10 + 1000) <= 2);
    // A sender that does not use its window does not get a larger one.
    let now = Instant::ZERO + Duration::from_us(1);
    hpcc.on_ack(&AckSample { now, window_limited: false, ..ack(500_000, 1) });
    assert!(hpcc.window_bytes().abs_diff(102_000 * 19 / 10 + 1000) <= 2);
}

#[test]
fn the_additive_increase_follows_from_the_initial_window() {
    // A third of the 5 % of 120,000 bytes that are not aimed at.
    let parameters =
        HpccParameters { increase_bytes: 0, initial_bytes: 120_000, ..HpccParameters::default() };
    let mut hpcc = Hpcc::new(parameters, MTU);
    hpcc.on_ack(&ack(1_000, 1));
    assert_eq!(hpcc.window_bytes(), 122_000);
}

#[test]
fn packets_without_the_field_change_nothing_and_losses_halve_the_window() {
    let mut hpcc = hpcc();
    hpcc.on_ack(&AckSample { cci: Cci::NONE, ..ack(500_000, 1) });
    assert_eq!(hpcc.window_bytes(), 100_000);
    let now = Instant::ZERO + Duration::from_us(100);
    let loss = LossSample { now, lost_bytes: 50_000, by_timeout: true, ..LossSample::default() };
    hpcc.on_loss(&loss);
    assert_eq!(hpcc.window_bytes(), 50_000);
    hpcc.on_spurious(now, 1);
    assert_eq!(hpcc.window_bytes(), 100_000);
}

#[test]
fn any_report_keeps_the_window_within_its_bounds() {
    let wild = HpccParameters {
        target_permille: u64::MAX,
        stages: u64::MAX,
        increase_bytes: u64::MAX,
        initial_bytes: u64::MAX,
        min_bytes: u64::MAX,
        max_bytes: u64::MAX,
        tolerated_loss_permille: u64::MAX,
    };
    for parameters in [PARAMETERS, wild, HpccParameters { target_permille: 0, ..PARAMETERS }] {
        let mut hpcc = Hpcc::new(parameters, 4096);
        for bits in (0..=u16::MAX).step_by(13) {
            let cci = Cci::from_bits(bits);
            hpcc.on_ack(&AckSample { cci, ..ack(u32::MAX, 1) });
            let window = hpcc.window_bytes();
            assert!((8192..=HpccParameters::LARGEST_BYTES).contains(&window), "{window}");
        }
    }
}
