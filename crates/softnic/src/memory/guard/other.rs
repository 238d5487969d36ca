//! The accesses where no assembly has been written: as atomics of Rust. A fault ends the process.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Outcome;

/// Does a fault within an access come back as a failure?
pub(super) const IS_GUARDED: bool = false;

const ORDER: Ordering = Ordering::Relaxed;

/// # Safety
/// As [`super::copy`], and both ranges are mapped.
pub(super) unsafe fn fairway_guarded_copy(
    to: *mut u8,
    from: *const u8,
    length: usize,
    head: usize,
) -> usize {
    let mut at = 0;
    while at < length {
        let width = if at >= head && length - at >= 8 { 8 } else { 1 };
        // SAFETY: within both ranges. A word of 8 bytes is aligned in the application's memory,
        // which `head` sees to; in ours it need not be.
        unsafe {
            let (to, from) = (to.add(at), from.add(at));
            let is_aligned = width == 1 || (to as usize | from as usize).is_multiple_of(8);
            if is_aligned {
                let value = fairway_guarded_load(from, width).value;
                fairway_guarded_store(to, value, width);
            } else if (from as usize).is_multiple_of(8) {
                to.cast::<u64>().write_unaligned(fairway_guarded_load(from, 8).value);
            } else {
                fairway_guarded_store(to, from.cast::<u64>().read_unaligned(), 8);
            }
        }
        at += width;
    }
    0
}

/// # Safety
/// As [`super::load`], and the word is mapped.
pub(super) unsafe fn fairway_guarded_load(word: *const u8, width: usize) -> Outcome {
    let word = word.cast_mut();
    // SAFETY: as the caller says.
    let value = unsafe {
        match width {
            8 => AtomicU64::from_ptr(word.cast()).load(ORDER),
            4 => AtomicU32::from_ptr(word.cast()).load(ORDER).into(),
            2 => AtomicU16::from_ptr(word.cast()).load(ORDER).into(),
            _ => AtomicU8::from_ptr(word).load(ORDER).into(),
        }
    };
    Outcome { failed: 0, value }
}

/// # Safety
/// As [`super::store`], and the word is mapped.
pub(super) unsafe fn fairway_guarded_store(word: *mut u8, value: u64, width: usize) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        match width {
            8 => AtomicU64::from_ptr(word.cast()).store(value, ORDER),
            4 => AtomicU32::from_ptr(word.cast()).store(value as u32, ORDER),
            2 => AtomicU16::from_ptr(word.cast()).store(value as u16, ORDER),
            _ => AtomicU8::from_ptr(word).store(value as u8, ORDER),
        }
    }
    0
}

/// # Safety
/// As [`super::exchange`], and the word is mapped.
pub(super) unsafe fn fairway_guarded_exchange(
    word: *mut u8,
    expected: u64,
    new: u64,
    width: usize,
) -> Outcome {
    let order = Ordering::SeqCst;
    // SAFETY: as the caller says.
    let was = unsafe {
        match width {
            8 => AtomicU64::from_ptr(word.cast()).compare_exchange(expected, new, order, order),
            _ => AtomicU32::from_ptr(word.cast())
                .compare_exchange(expected as u32, new as u32, order, order)
                .map(u64::from)
                .map_err(u64::from),
        }
    };
    let (Ok(value) | Err(value)) = was;
    Outcome { failed: 0, value }
}

/// # Safety
/// Has no conditions.
pub(super) unsafe fn give_up_access(_: *mut libc::ucontext_t) -> bool {
    false
}
