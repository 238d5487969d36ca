//! Rust's types of elements.

use fairway_collectives::ElementType;

/// A number that ranks exchange and combine.
///
/// # Safety
/// Every bit pattern is a value, and the type has the length of [`Element::TYPE`] and no padding.
pub unsafe trait Element: Copy + Send + 'static {
    /// The type, as calls name it.
    const TYPE: ElementType;
}

macro_rules! element {
    ($($type:ty: $name:ident),*) => {$(
        // SAFETY: a number of Rust, of that length.
        unsafe impl Element for $type {
            const TYPE: ElementType = ElementType::$name;
        }
    )*};
}

element!(f64: F64, f32: F32, i8: I8, u8: U8, i32: I32, u32: U32, i64: I64, u64: U64);
