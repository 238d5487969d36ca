//! The loops over elements. Each is written so that the compiler vectorises it: fixed-size pieces,
//! no branches, unaligned loads by `from_ne_bytes`.

use super::{ElementType, Reduction};
use half::{bf16, f16, slice::HalfFloatSliceExt};

/// Elements of a half-precision type that are converted together.
const HALVES: usize = 256;

/// Calls a generic function for the number type of an [`ElementType`] that has one in Rust.
macro_rules! with_number {
    ($element:expr, $half:expr, $call:ident($($argument:expr),*)) => {
        match $element {
            ElementType::F64 => $call::<f64, 8>($($argument),*),
            ElementType::F32 => $call::<f32, 4>($($argument),*),
            ElementType::I8 => $call::<i8, 1>($($argument),*),
            ElementType::U8 => $call::<u8, 1>($($argument),*),
            ElementType::I32 => $call::<i32, 4>($($argument),*),
            ElementType::U32 => $call::<u32, 4>($($argument),*),
            ElementType::I64 => $call::<i64, 8>($($argument),*),
            ElementType::U64 => $call::<u64, 8>($($argument),*),
            ElementType::F16 | ElementType::Bf16 => $half,
        }
    };
}

pub(super) fn accumulate(
    element: ElementType,
    reduction: Reduction,
    into: &mut [u8],
    other: &[u8],
) {
    with_number!(
        element,
        accumulate_halves(element, reduction, into, other),
        accumulate_numbers(reduction, into, other)
    );
}

pub(super) fn divide(element: ElementType, elements: &mut [u8], by: u32) {
    with_number!(element, divide_halves(element, elements, by), divide_numbers(elements, by));
}

/// A number of `N` bytes.
trait Number<const N: usize>: Copy {
    fn load(bytes: [u8; N]) -> Self;
    fn store(self) -> [u8; N];
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn over(self, count: u32) -> Self;
}

macro_rules! integer {
    ($($type:ty, $bytes:literal);*) => {$(
        impl Number<$bytes> for $type {
            #[inline(always)]
            fn load(bytes: [u8; $bytes]) -> Self {
                Self::from_ne_bytes(bytes)
            }
            #[inline(always)]
            fn store(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            #[inline(always)]
            fn over(self, count: u32) -> Self {
                (i128::from(self) / i128::from(count)) as Self
            }
        }
    )*};
}

integer!(i8, 1; u8, 1; i32, 4; u32, 4; i64, 8; u64, 8);

macro_rules! float {
    ($($type:ty, $bytes:literal);*) => {$(
        impl Number<$bytes> for $type {
            #[inline(always)]
            fn load(bytes: [u8; $bytes]) -> Self {
                Self::from_ne_bytes(bytes)
            }
            #[inline(always)]
            fn store(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                // A NaN wins, whichever side it is on.
                if self < other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self > other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn over(self, count: u32) -> Self {
                self / count as Self
            }
        }
    )*};
}

float!(f32, 4; f64, 8);

fn accumulate_numbers<T: Number<N>, const N: usize>(
    reduction: Reduction,
    into: &mut [u8],
    other: &[u8],
) {
    match reduction {
        Reduction::Sum | Reduction::Average => each(into, other, T::sum),
        Reduction::Product => each(into, other, T::product),
        Reduction::Min => each(into, other, T::min),
        Reduction::Max => each(into, other, T::max),
    }
}

#[inline(always)]
fn each<T: Number<N>, const N: usize>(into: &mut [u8], other: &[u8], apply: impl Fn(T, T) -> T) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    for (into, other) in into.iter_mut().zip(other) {
        *into = apply(T::load(*into), T::load(*other)).store();
    }
}

fn divide_numbers<T: Number<N>, const N: usize>(elements: &mut [u8], by: u32) {
    let (elements, _) = elements.as_chunks_mut::<N>();
    for element in elements {
        *element = T::load(*element).over(by).store();
    }
}

/// Half-precision numbers are combined as `f32` and rounded after each combination.
fn accumulate_halves(element: ElementType, reduction: Reduction, into: &mut [u8], other: &[u8]) {
    let (mut left, mut right) = ([0.0; HALVES], [0.0; HALVES]);
    for (into, other) in into.chunks_mut(2 * HALVES).zip(other.chunks(2 * HALVES)) {
        let count = into.len() / 2;
        widen(element, into, &mut left[..count]);
        widen(element, other, &mut right[..count]);
        match reduction {
            Reduction::Sum | Reduction::Average => each_float(&mut left, &right, Number::sum),
            Reduction::Product => each_float(&mut left, &right, Number::product),
            Reduction::Min => each_float(&mut left, &right, Number::<4>::min),
            Reduction::Max => each_float(&mut left, &right, Number::<4>::max),
        }
        narrow(element, &left[..count], into);
    }
}

#[inline(always)]
fn each_float(left: &mut [f32], right: &[f32], apply: impl Fn(f32, f32) -> f32) {
    left.iter_mut().zip(right).for_each(|(left, right)| *left = apply(*left, *right));
}

fn divide_halves(element: ElementType, elements: &mut [u8], by: u32) {
    let mut wide = [0.0; HALVES];
    for piece in elements.chunks_mut(2 * HALVES) {
        let count = piece.len() / 2;
        widen(element, piece, &mut wide[..count]);
        wide[..count].iter_mut().for_each(|value| *value /= by as f32);
        narrow(element, &wide[..count], piece);
    }
}

/// Converts half-precision numbers to `f32`.
fn widen(element: ElementType, bytes: &[u8], to: &mut [f32]) {
    let bits = bytes.as_chunks::<2>().0.iter().map(|bytes| u16::from_ne_bytes(*bytes));
    if element == ElementType::F16 {
        let mut halves = [f16::ZERO; HALVES];
        bits.zip(&mut halves).for_each(|(bits, half)| *half = f16::from_bits(bits));
        halves[..to.len()].convert_to_f32_slice(to);
    } else {
        bits.zip(to).for_each(|(bits, value)| *value = f32::from_bits(u32::from(bits) << 16));
    }
}

/// Rounds to half precision, to the nearest, ties to even.
fn narrow(element: ElementType, from: &[f32], bytes: &mut [u8]) {
    let (bytes, _) = bytes.as_chunks_mut::<2>();
    if element == ElementType::F16 {
        let mut halves = [f16::ZERO; HALVES];
        halves[..from.len()].convert_from_f32_slice(from);
        bytes.iter_mut().zip(&halves).for_each(|(to, half)| *to = half.to_bits().to_ne_bytes());
    } else {
        let to_bits = |value: &f32| bf16::from_f32(*value).to_bits();
        bytes.iter_mut().zip(from).for_each(|(to, from)| *to = to_bits(from).to_ne_bytes());
    }
}
