use std::prelude::rust_2021::*;

use proptest::prelude::*;

use super::*;

const HALF: Fixed = Fixed::from_bits(1 << 15);

#[test]
fn products_quotients_and_roots_by_hand() {
    let three_halves = Fixed::ONE + HALF;
    assert_eq!(three_halves * three_halves, Fixed::from_bits(9 << 14));
    assert_eq!(Fixed::from_int(3).divide(Fixed::from_int(2)), three_halves);
    assert_eq!(Fixed::from_int(-3).divide(Fixed::from_int(2)), -three_halves);
    // 2/3 = 43690.67 / 65536, rounded to the nearest.
    assert_eq!(three_halves.reciprocal(), Fixed::from_bits(43_691));
    assert_eq!(Fixed::ratio(2, 3), Fixed::from_bits(43_691));
    assert_eq!(Fixed::from_bits(9 << 14).sqrt(), three_halves);
    // √2 = 92681.9 / 65536, rounded down.
    assert_eq!(Fixed::from_int(2).sqrt(), Fixed::from_bits(92_681));
    assert_eq!(three_halves.scale(1001), 1502);
    assert_eq!((three_halves.floor(), (-three_halves).floor()), (1, -2));
}

#[test]
fn the_ends_hold() {
    assert_eq!(Fixed::MAX + Fixed::ONE, Fixed::MAX);
    assert_eq!(Fixed::MIN - Fixed::ONE, Fixed::MIN);
    assert_eq!(-Fixed::MIN, Fixed::MAX);
    assert_eq!(Fixed::from_int(200) * Fixed::from_int(-200), Fixed::MIN);
    assert_eq!(Fixed::ONE.divide(Fixed::ZERO), Fixed::MAX);
    assert_eq!((-Fixed::ONE).divide(Fixed::ZERO), Fixed::MIN);
    assert_eq!(Fixed::from_int(40_000), Fixed::MAX);
    assert_eq!((Fixed::ratio(5, 0), Fixed::ratio(0, 0)), (Fixed::MAX, Fixed::ZERO));
    assert_eq!((-Fixed::ONE).sqrt(), Fixed::ZERO);
    assert_eq!(((-Fixed::ONE).scale(5), Fixed::MAX.scale(u64::MAX)), (0, u64::MAX));
}

#[test]
fn averages_move_part_of_the_way_and_arrive() {
    assert_eq!(ewma(100, 180, 3), 110);
    assert_eq!(ewma(100, 20, 2), 80);
    // A quarter of three is less than one, but the average still moves by one.
    assert_eq!((ewma(100, 103, 2), ewma(100, 97, 2), ewma(100, 100, 2)), (101, 99, 100));
    assert_eq!(ewma(u64::MAX, u64::MAX, 4), i64::MAX as u64);
    assert_eq!(Fixed::ZERO.ewma(Fixed::ONE, 1), HALF);
    assert_eq!(Fixed::MAX.ewma(Fixed::MIN, 0), Fixed::MIN);
}

#[test]
fn logarithms_by_hand() {
    assert_eq!((log2(0), log2(1)), (Fixed::ZERO, Fixed::ZERO));
    assert_eq!(log2(1 << 40), Fixed::from_int(40));
    // log2 3 = 1.5849625: 103872.1 / 65536.
    assert_eq!(log2(3), Fixed::from_bits(103_872));
    assert_eq!(log2(u64::MAX), Fixed::from_bits((64 << 16) - 1));
}

/// The number as a float, which represents 16.16 exactly.
fn float(fixed: Fixed) -> f64 {
    f64::from(fixed.to_bits()) / 65_536.0
}

/// The nearest representable number, saturated.
fn nearest(value: f64) -> f64 {
    (value * 65_536.0).round().clamp(f64::from(i32::MIN), f64::from(i32::MAX)) / 65_536.0
}

const ULP: f64 = 1.0 / 65_536.0;

proptest! {
    #[test]
    fn sums_products_and_quotients_are_those_of_floats(a in any::<i32>(), b in any::<i32>()) {
        let [a, b] = [a, b].map(Fixed::from_bits);
        prop_assert_eq!(float(a + b), nearest(float(a) + float(b)));
        prop_assert_eq!(float(a - b), nearest(float(a) - float(b)));
        prop_assert!((float(a * b) - nearest(float(a) * float(b))).abs() <= ULP);
        if b != Fixed::ZERO {
            prop_assert!((float(a.divide(b)) - nearest(float(a) / float(b))).abs() <= ULP);
        }
    }

    #[test]
    fn small_products_and_quotients_too(a in -200_000i32..200_000, b in -200_000i32..200_000) {
        let [a, b] = [a, b].map(Fixed::from_bits);
        prop_assert!((float(a * b) - nearest(float(a) * float(b))).abs() <= ULP);
        if b != Fixed::ZERO {
            prop_assert!((float(a.divide(b)) - nearest(float(a) / float(b))).abs() <= ULP);
            let reciprocal = nearest(1.0 / float(b));
            prop_assert!((float(b.reciprocal()) - reciprocal).abs() <= ULP);
        }
    }

    #[test]
    fn roots_and_logarithms_are_those_of_floats(bits in 1..i32::MAX, value in 1..u64::MAX) {
        let root = float(Fixed::from_bits(bits)).sqrt();
        let found = float(Fixed::from_bits(bits).sqrt());
        prop_assert!(found <= root && root - found < ULP);
        prop_assert!((float(log2(value)) - (value as f64).log2()).abs() < 2.0 * ULP);
    }

    #[test]
    fn scaling_is_that_of_wide_integers(bits in 0..i32::MAX, value in 0..1u64 << 40) {
        let exact = (u128::from(value) * bits as u128 + 32_768) / 65_536;
        prop_assert_eq!(u128::from(Fixed::from_bits(bits).scale(value)), exact);
    }

    #[test]
    fn an_average_arrives_and_never_overshoots(
        from in 0u64..1 << 50, to in 0u64..1 << 50, shift in 0u32..8,
    ) {
        let mut average = from;
        for _ in 0..64 << shift {
            let next = ewma(average, to, shift);
            prop_assert!(next.abs_diff(to) < average.abs_diff(to) || average == to);
            prop_assert_eq!(next < to, average < to && next != to);
            average = next;
        }
        prop_assert!(average.abs_diff(to) < 1 << 8);
    }
}
