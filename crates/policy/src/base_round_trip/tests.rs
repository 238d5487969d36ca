use super::*;

fn at(seconds: u64) -> Instant {
    Instant::from_ps(0) - Duration::from_secs(5) + Duration::from_secs(seconds)
}

#[test]
fn base_is_the_least_sample_and_follows_a_longer_route_within_twenty_seconds() {
    let ms = Duration::from_ms;
    let mut base = BaseRoundTrip::default();
    assert_eq!(base.permille_of(ms(10)), None);
    base.add(at(0), ms(10));
    base.add(at(1), ms(8));
    base.add(at(2), ms(20));
    assert_eq!(base.permille_of(ms(10)), Some(800));
    assert_eq!(base.permille_of(ms(4)), Some(1000));
    base.add(at(10), ms(16));
    assert_eq!(base.permille_of(ms(16)), Some(500), "the stretch before still counts");
    base.add(at(20), ms(16));
    assert_eq!(base.permille_of(ms(16)), Some(1000));
}
