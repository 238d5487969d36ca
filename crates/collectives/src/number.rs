//! Types of elements, and how they are combined.

mod kernels;
#[cfg(test)]
mod tests;

use crate::name::UnknownName;
use std::fmt;
use std::str::FromStr;

/// Type of the elements of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum ElementType {
    F64,
    F32,
    F16,
    Bf16,
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
}

impl ElementType {
    /// All types.
    pub const ALL: [ElementType; 10] = [
        ElementType::F64,
        ElementType::F32,
        ElementType::F16,
        ElementType::Bf16,
        ElementType::I8,
        ElementType::U8,
        ElementType::I32,
        ElementType::U32,
        ElementType::I64,
        ElementType::U64,
    ];

    /// Length of an element in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            ElementType::I8 | ElementType::U8 => 1,
            ElementType::F16 | ElementType::Bf16 => 2,
            ElementType::F32 | ElementType::I32 | ElementType::U32 => 4,
            ElementType::F64 | ElementType::I64 | ElementType::U64 => 8,
        }
    }

    /// The name that the command line and Python use.
    pub const fn name(self) -> &'static str {
        match self {
            ElementType::F64 => "f64",
            ElementType::F32 => "f32",
            ElementType::F16 => "f16",
            ElementType::Bf16 => "bf16",
            ElementType::I8 => "i8",
            ElementType::U8 => "u8",
            ElementType::I32 => "i32",
            ElementType::U32 => "u32",
            ElementType::I64 => "i64",
            ElementType::U64 => "u64",
        }
    }
}

/// How two elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Integers wrap.
    Sum,
    /// Integers wrap.
    Product,
    /// The smaller one; a NaN if either is.
    Min,
    /// The larger one; a NaN if either is.
    Max,
    /// The sum of all ranks' elements, divided by the number of ranks. Integers are divided without
    /// a remainder, towards zero.
    Average,
}

impl Reduction {
    /// All reductions.
    pub const ALL: [Reduction; 5] =
        [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max, Reduction::Average];

    /// The name that the command line and Python use.
    pub const fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Product => "product",
            Reduction::Min => "min",
            Reduction::Max => "max",
            Reduction::Average => "average",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ElementType {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("type of elements", text, &ElementType::ALL, ElementType::name)
    }
}

impl FromStr for Reduction {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        UnknownName::find("reduction", text, &Reduction::ALL, Reduction::name)
    }
}

/// Combines the elements of `other` into those of `into`, in the byte order of this machine.
/// [`Reduction::Average`] adds; [`divide`] then divides.
///
/// # Panics
/// The slices differ in length, or their length is no multiple of the element's.
pub fn accumulate(element: ElementType, reduction: Reduction, into: &mut [u8], other: &[u8]) {
    assert_eq!(into.len(), other.len(), "both sides have as many elements");
    assert_eq!(into.len() as u64 % element.bytes(), 0, "elements are whole");
    kernels::accumulate(element, reduction, into, other);
}

/// Divides each element by `by`, as the end of [`Reduction::Average`]. Results of floating-point
/// types are rounded to the nearest, integers towards zero.
///
/// # Panics
/// The length is no multiple of the element's, or `by` is 0.
pub fn divide(element: ElementType, elements: &mut [u8], by: u32) {
    assert_eq!(elements.len() as u64 % element.bytes(), 0, "elements are whole");
    assert_ne!(by, 0, "a group has ranks");
    kernels::divide(element, elements, by);
}
