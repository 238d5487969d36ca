use super::{per_second, quotient};
use fairway_wire::Duration;

#[test]
fn quotient_is_that_of_128_bits_around_the_limit_of_64() {
    let most = u128::from(u64::MAX);
    let values = [0, 1, 7, 999, most / 3, most - 1, most, most + 1, most * 1000, u128::MAX];
    for value in values {
        for divisor in [1, 2, 7, 1000, most - 1, most, most + 1, u128::MAX] {
            assert_eq!(quotient(value, divisor), value / divisor, "{value} / {divisor}");
        }
        assert_eq!(quotient(value, 0), 0);
    }
}

#[test]
fn rate_is_bytes_per_second_and_limited() {
    assert_eq!(per_second(4096, Duration::from_us(1)), 4_096_000_000);
    assert_eq!(per_second(u64::MAX, Duration::from_ps(1)), u64::MAX);
    assert_eq!(per_second(5, Duration::ZERO), u64::MAX);
    // The product exceeds 64 bits, the rate does not.
    assert_eq!(per_second(1 << 40, Duration::from_us(1_000_000)), 1 << 40);
}
