//! The accesses for architectures without assembly: Rust atomics. A fault ends the process.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::Outcome;

/// False because a fault within an access ends the process.
pub(super) const IS_GUARDED: bool = false;

const ORDER: Ordering = Ordering::Relaxed;

/// # Safety
/// As [`super::copy_in`], and both ranges are mapped.
pub(super) unsafe fn copy_in(to: *mut u8, from: *const u8, length: usize, head: usize) -> usize {
    for (at, width) in pieces(length, head) {
        // SAFETY: within both ranges; a word of the application's is aligned.
        unsafe {
            let value = fairway_guarded_load(from.add(at), width).value;
            match width {
                8 => to.add(at).cast::<u64>().write_unaligned(value),
                _ => to.add(at).write(value as u8),
            }
        }
    }
    0
}

/// # Safety
/// As [`super::copy_out`], and both ranges are mapped.
pub(super) unsafe fn copy_out(to: *mut u8, from: *const u8, length: usize, head: usize) -> usize {
    for (at, width) in pieces(length, head) {
        // SAFETY: within both ranges; a word of the application's is aligned.
        unsafe {
            let value = match width {
                8 => from.add(at).cast::<u64>().read_unaligned(),
                _ => from.add(at).read().into(),
            };
            fairway_guarded_store(to.add(at), value, width);
        }
    }
    0
}

/// Offsets and lengths of the pieces of a copy: words of 8 bytes behind `head`, otherwise bytes.
fn pieces(length: usize, head: usize) -> impl Iterator<Item = (usize, usize)> {
    let width = move |at: usize| if at >= head && length - at >= 8 { 8 } else { 1 };
    let first = (length > 0).then(|| (0, width(0)));
    std::iter::successors(first, move |(at, before)| {
        let next = at + before;
        (next < length).then(|| (next, width(next)))
    })
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
