use super::*;
use half::{bf16, f16};

/// The bytes of numbers.
macro_rules! bytes {
    ($($value:expr),*) => { [$($value.to_ne_bytes()),*].concat() };
}

fn combined(element: ElementType, reduction: Reduction, left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut into = left.to_vec();
    accumulate(element, reduction, &mut into, right);
    into
}

#[test]
fn integers_wrap_and_keep_their_sign() {
    let (left, right) = (bytes!(i32::MAX, -3i32), bytes!(1i32, 5i32));
    let element = ElementType::I32;
    assert_eq!(combined(element, Reduction::Sum, &left, &right), bytes!(i32::MIN, 2i32));
    assert_eq!(combined(element, Reduction::Product, &left, &right), bytes!(i32::MAX, -15i32));
    assert_eq!(combined(element, Reduction::Min, &left, &right), bytes!(1i32, -3i32));
    assert_eq!(combined(element, Reduction::Max, &left, &right), bytes!(i32::MAX, 5i32));
    let mut negative = bytes!(-7i64, 7i64);
    divide(ElementType::I64, &mut negative, 2);
    assert_eq!(negative, bytes!(-3i64, 3i64));
}

#[test]
fn smaller_and_larger_of_a_nan_are_a_nan() {
    let (left, right) = (bytes!(f32::NAN, 1f32), bytes!(1f32, f32::NAN));
    for reduction in [Reduction::Min, Reduction::Max] {
        let result = combined(ElementType::F32, reduction, &left, &right);
        for value in result.as_chunks::<4>().0 {
            assert!(f32::from_ne_bytes(*value).is_nan(), "{reduction}");
        }
    }
}

#[test]
fn half_precision_is_rounded_to_the_nearest() {
    // One unit in the last place of 1.0 is 2^-10 in f16 and 2^-7 in bf16.
    let one = f16::from_f32(1.0).to_bits();
    let third = f16::from_f32(0.000_3).to_bits();
    let sum = combined(ElementType::F16, Reduction::Sum, &bytes!(one), &bytes!(third));
    assert_eq!(sum, bytes!(one), "less than half a unit is lost");
    let most = f16::from_f32(0.000_6).to_bits();
    let sum = combined(ElementType::F16, Reduction::Sum, &bytes!(one), &bytes!(most));
    assert_eq!(sum, bytes!((one + 1)), "more than half a unit counts as one");
    let (two, three) = (bf16::from_f32(2.0).to_bits(), bf16::from_f32(3.0).to_bits());
    let product = combined(ElementType::Bf16, Reduction::Product, &bytes!(two), &bytes!(three));
    assert_eq!(product, bytes!(bf16::from_f32(6.0).to_bits()));
}

#[test]
fn long_slices_of_every_type_equal_one_element_at_a_time() {
    for element in ElementType::ALL {
        let length = 1031 * element.bytes() as usize;
        let left: Vec<u8> = (0..length).map(|at| (at * 7 % 61) as u8).collect();
        let right: Vec<u8> = (0..length).map(|at| (at * 5 % 59) as u8).collect();
        for reduction in Reduction::ALL {
            let whole = combined(element, reduction, &left, &right);
            let size = element.bytes() as usize;
            let single = left.chunks(size).zip(right.chunks(size));
            let single = single.flat_map(|(left, right)| combined(element, reduction, left, right));
            assert_eq!(whole, single.collect::<Vec<u8>>(), "{element} {reduction}");
        }
    }
}

#[test]
fn names_are_read_back_and_others_are_listed() {
    for element in ElementType::ALL {
        assert_eq!(element.name().parse(), Ok(element));
    }
    let error = "f8".parse::<ElementType>().unwrap_err().to_string();
    assert!(error.contains("\"f8\"") && error.contains("bf16"), "{error}");
}
