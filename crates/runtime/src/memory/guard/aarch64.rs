//! The accesses on AArch64 (AAPCS64): only registers that belong to the called function are used,
//! and the stack is not.

use std::arch::global_asm;

use super::Outcome;

/// True because a fault within an access is returned as a failure.
pub(super) const IS_GUARDED: bool = true;

// In assembly it makes no difference which of the ranges is the application's.
pub(super) use {fairway_guarded_copy as copy_in, fairway_guarded_copy as copy_out};

unsafe extern "C" {
    pub(super) fn fairway_guarded_copy(
        to: *mut u8,
        from: *const u8,
        length: usize,
        head: usize,
    ) -> usize;
    pub(super) fn fairway_guarded_load(word: *const u8, width: usize) -> Outcome;
    pub(super) fn fairway_guarded_store(word: *mut u8, value: u64, width: usize) -> usize;
    pub(super) fn fairway_guarded_exchange(
        word: *mut u8,
        expected: u64,
        new: u64,
        width: usize,
    ) -> Outcome;
    static fairway_guarded_begin: u8;
    static fairway_guarded_end: u8;
    static fairway_guarded_failed: u8;
}

/// If the interrupted code is one of the accesses, makes it continue at the code that returns a
/// failure.
///
/// # Safety
/// The context is one that a signal handler was given.
pub(super) unsafe fn give_up_access(context: *mut libc::ucontext_t) -> bool {
    // SAFETY: as the caller says; of the labels only the addresses are used.
    unsafe {
        let counter = &mut (*context).uc_mcontext.pc;
        let begin = (&raw const fairway_guarded_begin) as u64;
        let end = (&raw const fairway_guarded_end) as u64;
        if !(begin..end).contains(counter) {
            return false;
        }
        *counter = (&raw const fairway_guarded_failed) as u64;
        true
    }
}

global_asm!(
    ".pushsection .text.fairway_guarded, \"ax\", @progbits",
    ".globl fairway_guarded_begin, fairway_guarded_end, fairway_guarded_failed",
    ".globl fairway_guarded_copy, fairway_guarded_load",
    ".globl fairway_guarded_store, fairway_guarded_exchange",
    ".hidden fairway_guarded_begin, fairway_guarded_end, fairway_guarded_failed",
    ".hidden fairway_guarded_copy, fairway_guarded_load",
    ".hidden fairway_guarded_store, fairway_guarded_exchange",
    ".p2align 5",
    ".cfi_startproc",
    "fairway_guarded_begin:",
    // x0: to; x1: from; x2: length; x3: head
    "fairway_guarded_copy:",
    "sub x2, x2, x3",
    "cbz x3, 3f",
    "2:",
    "ldrb w4, [x1], #1",
    "strb w4, [x0], #1",
    "subs x3, x3, #1",
    "b.ne 2b",
    "3:",
    "cmp x2, #8",
    "b.lo 5f",
    "4:",
    "ldr x4, [x1], #8",
    "str x4, [x0], #8",
    "sub x2, x2, #8",
    "cmp x2, #8",
    "b.hs 4b",
    "5:",
    "cbz x2, 7f",
    "6:",
    "ldrb w4, [x1], #1",
    "strb w4, [x0], #1",
    "subs x2, x2, #1",
    "b.ne 6b",
    "7:",
    "mov x0, #0",
    "ret",
    // x0: word; x1: width; the value goes to x1
    "fairway_guarded_load:",
    "cmp x1, #8",
    "b.ne 2f",
    "ldr x1, [x0]",
    "b 5f",
    "2:",
    "cmp x1, #4",
    "b.ne 3f",
    "ldr w1, [x0]",
    "b 5f",
    "3:",
    "cmp x1, #2",
    "b.ne 4f",
    "ldrh w1, [x0]",
    "b 5f",
    "4:",
    "ldrb w1, [x0]",
    "5:",
    "mov x0, #0",
    "ret",
    // x0: word; x1: value; x2: width
    "fairway_guarded_store:",
    "cmp x2, #8",
    "b.ne 2f",
    "str x1, [x0]",
    "b 5f",
    "2:",
    "cmp x2, #4",
    "b.ne 3f",
    "str w1, [x0]",
    "b 5f",
    "3:",
    "cmp x2, #2",
    "b.ne 4f",
    "strh w1, [x0]",
    "b 5f",
    "4:",
    "strb w1, [x0]",
    "5:",
    "mov x0, #0",
    "ret",
    // x0: word; x1: expected; x2: new; x3: width; the previous value goes to x1
    "fairway_guarded_exchange:",
    "cmp x3, #8",
    "b.ne 3f",
    "2:",
    "ldaxr x4, [x0]",
    "cmp x4, x1",
    "b.ne 4f",
    "stlxr w5, x2, [x0]",
    "cbnz w5, 2b",
    "b 5f",
    "3:",
    "ldaxr w4, [x0]",
    "cmp w4, w1",
    "b.ne 4f",
    "stlxr w5, w2, [x0]",
    "cbnz w5, 3b",
    "b 5f",
    "4:",
    "clrex",
    "5:",
    "dmb ish",
    "mov x1, x4",
    "mov x0, #0",
    "ret",
    "fairway_guarded_end:",
    "fairway_guarded_failed:",
    "mov x0, #1",
    "mov x1, #0",
    "ret",
    ".cfi_endproc",
    ".popsection",
);
