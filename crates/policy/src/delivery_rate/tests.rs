use super::*;

#[test]
fn rate_is_the_highest_of_the_last_four_round_trips() {
    let at = |ms| Instant::from_ps(0) - Duration::from_ms(15) + Duration::from_ms(ms);
    let rtt = Duration::from_ms(10);
    let mut delivery = DeliveryRate::default();
    delivery.add(at(0), 5000, rtt);
    delivery.add(at(5), 5000, rtt);
    assert_eq!(delivery.rate(), 0, "no round trip is over");
    delivery.add(at(10), 5000, rtt);
    assert_eq!(delivery.rate(), 1_000_000);
    for ms in [20, 30, 40] {
        delivery.add(at(ms), 2000, rtt);
        assert_eq!(delivery.rate(), 1_000_000, "the first still counts");
    }
    delivery.add(at(50), 2000, rtt);
    assert_eq!(delivery.rate(), 200_000);
}
