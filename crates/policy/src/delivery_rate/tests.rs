use super::*;

#[test]
fn rate_is_the_higher_of_the_last_two_round_trips() {
    let at = |ms| Instant::from_ps(0) - Duration::from_ms(15) + Duration::from_ms(ms);
    let rtt = Duration::from_ms(10);
    let mut delivery = DeliveryRate::default();
    delivery.add(at(0), 5000, rtt);
    delivery.add(at(5), 5000, rtt);
    assert_eq!(delivery.rate(), 0, "no round trip is over");
    delivery.add(at(10), 5000, rtt);
    assert_eq!(delivery.rate(), 1_000_000);
    delivery.add(at(20), 2000, rtt);
    assert_eq!(delivery.rate(), 1_000_000, "the one before still counts");
    delivery.add(at(30), 2000, rtt);
    assert_eq!(delivery.rate(), 200_000);
}
