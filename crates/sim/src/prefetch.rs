//! Requests for memory that is read soon, so that it is in the CPU's cache by then.
//!
//! The state of all nodes is far larger than a cache, and a node that has its turn in a window was
//! last executed a window ago. Loads would wait for its memory one after the other; a prefetch
//! waits for nothing.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "a prefetch is an unsafe function, because it takes any pointer")
)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Requests the cache line at an address, which need not be valid.
#[inline(always)]
fn request(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing but caches, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    // Rust has no stable prefetch for other processors: there, nothing is requested.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Requests `bytes` bytes from an address on.
#[inline]
pub(crate) fn request_bytes(at: *const u8, bytes: usize) {
    let first = at.addr() % LINE;
    for offset in (0..first + bytes).step_by(LINE) {
        request(at.wrapping_add(offset).wrapping_sub(first));
    }
}

/// Requests the memory of a value, without that to which it points.
#[inline]
pub(crate) fn request_value<T: ?Sized>(value: &T) {
    request_bytes(std::ptr::from_ref(value).cast(), size_of_val(value));
}

/// Requests the first element of a slice, or the one behind it, if there is one.
#[inline]
pub(crate) fn request_element<T>(slice: &[T], index: usize) {
    if let Some(element) = slice.get(index) {
        request_value(element);
    }
}
