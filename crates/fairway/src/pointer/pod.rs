//! Plain values: types whose values are defined by their bytes.

use std::mem::MaybeUninit;

/// A type whose values are plain bytes, so that they can be loaded from and stored to memory that a
/// peer accesses.
///
/// # Safety
/// Any bytes are a value of it, and it has no padding: its size is the sum of the sizes of its
/// fields, which are themselves such types.
///
/// ```
/// #[derive(Clone, Copy)]
/// #[repr(C)]
/// struct Header {
///     length: u32,
///     kind: u32,
///     place: u64,
/// }
///
/// // SAFETY: integers only, and 4 + 4 + 8 bytes are its size.
/// unsafe impl fairway::Pod for Header {}
/// ```
pub unsafe trait Pod: Copy + 'static {}

// SAFETY: an array has no padding between elements that have none.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// An integer type with atomics: 1, 2, 4 or 8 bytes, signed or unsigned.
pub trait Word: Pod + sealed::Sealed {
    /// Returns the value's bits, zero-extended.
    #[doc(hidden)]
    fn to_word(self) -> u64;
    /// Returns the integer with these bits; higher bits are cut off.
    #[doc(hidden)]
    fn from_word(word: u64) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! words {
    ($($integer:ty as $bits:ty),*) => {$(
        // SAFETY: every pattern of bits is an integer, and integers have no padding.
        unsafe impl Pod for $integer {}
        impl sealed::Sealed for $integer {}
        impl Word for $integer {
            fn to_word(self) -> u64 {
                u64::from(self as $bits)
            }
            fn from_word(word: u64) -> Self {
                word as $bits as $integer
            }
        }
    )*};
}

words!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: every pattern of bits is a value, and there is no padding.
        unsafe impl Pod for $type {}
    )*};
}

plain!(u128, i128, f32, f64);

/// Returns the bytes of a value.
pub(super) fn bytes_of<T: Pod>(value: &T) -> &[u8] {
    // SAFETY: a plain value has no padding, so all its bytes are initialised; they are borrowed as
    // long as the value is.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// Returns the value with these bytes. Panics if their number is not the value's size.
pub(super) fn from_bytes<T: Pod>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>(), "a value of another length");
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: as many bytes as the value has are copied to it, from another place; and any bytes
    // are a plain value.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.as_mut_ptr().cast(), bytes.len());
        value.assume_init()
    }
}
