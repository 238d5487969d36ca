//! The accesses on x86-64 (System V ABI): only registers that belong to the called function are
//! used, and the stack holds nothing but the return address.

use std::arch::global_asm;

use super::Outcome;

/// True because a fault within an access is returned as a failure.
pub(super) const IS_GUARDED: bool = true;

pub(super) use {fairway_guarded_copy as copy_out, fairway_guarded_copy_in as copy_in};

unsafe extern "C" {
    /// Copies long ranges by one instruction, which need not write in the order of addresses. It
    /// overwrites whole cache lines without fetching them first: lines of a ring that the core of
    /// another process has read are written in a fraction of the time.
    pub(super) fn fairway_guarded_copy_in(
        to: *mut u8,
        from: *const u8,
        length: usize,
        head: usize,
    ) -> usize;
    /// Copies in the order of addresses.
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
        let counter = &mut (*context).uc_mcontext.gregs[libc::REG_RIP as usize];
        let begin = (&raw const fairway_guarded_begin) as usize;
        let end = (&raw const fairway_guarded_end) as usize;
        if !(begin..end).contains(&(*counter as usize)) {
            return false;
        }
        *counter = (&raw const fairway_guarded_failed) as i64;
        true
    }
}

/// Length in bytes from which on the instruction `rep movsq` is faster than a loop.
const LONG: usize = 2048;

global_asm!(
    ".pushsection .text.fairway_guarded, \"ax\", @progbits",
    ".globl fairway_guarded_begin, fairway_guarded_end, fairway_guarded_failed",
    ".globl fairway_guarded_copy_in, fairway_guarded_copy, fairway_guarded_load",
    ".globl fairway_guarded_store, fairway_guarded_exchange",
    ".hidden fairway_guarded_begin, fairway_guarded_end, fairway_guarded_failed",
    ".hidden fairway_guarded_copy_in, fairway_guarded_copy, fairway_guarded_load",
    ".hidden fairway_guarded_store, fairway_guarded_exchange",
    ".p2align 5",
    ".cfi_startproc",
    "fairway_guarded_begin:",
    // rdi: to; rsi: from; rdx: length; rcx: head
    "fairway_guarded_copy_in:",
    "cmp rdx, {long}",
    "jb fairway_guarded_copy",
    "sub rdx, rcx",
    "rep movsb",
    "mov rcx, rdx",
    "shr rcx, 3",
    "rep movsq",
    "and edx, 7",
    "jmp 6f",
    // rdi: to; rsi: from; rdx: length; rcx: head
    ".p2align 5",
    "fairway_guarded_copy:",
    "sub rdx, rcx",
    "test rcx, rcx",
    "jz 3f",
    "2:",
    "mov al, byte ptr [rsi]",
    "mov byte ptr [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rcx",
    "jnz 2b",
    "3:",
    "sub rdx, 64",
    "jb 5f",
    ".p2align 4",
    "4:",
    "movups xmm0, xmmword ptr [rsi]",
    "movups xmm1, xmmword ptr [rsi + 16]",
    "movups xmm2, xmmword ptr [rsi + 32]",
    "movups xmm3, xmmword ptr [rsi + 48]",
    "movups xmmword ptr [rdi], xmm0",
    "movups xmmword ptr [rdi + 16], xmm1",
    "movups xmmword ptr [rdi + 32], xmm2",
    "movups xmmword ptr [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "jae 4b",
    "5:",
    "add rdx, 64",
    "6:",
    "sub rdx, 8",
    "jb 7f",
    "mov rax, qword ptr [rsi]",
    "mov qword ptr [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "jmp 6b",
    "7:",
    "add rdx, 8",
    "jz 9f",
    "8:",
    "mov al, byte ptr [rsi]",
    "mov byte ptr [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jnz 8b",
    "9:",
    "xor eax, eax",
    "ret",
    // rdi: word; rsi: width; the value goes to rdx
    "fairway_guarded_load:",
    "cmp esi, 8",
    "jne 2f",
    "mov rdx, qword ptr [rdi]",
    "xor eax, eax",
    "ret",
    "2:",
    "cmp esi, 4",
    "jne 3f",
    "mov edx, dword ptr [rdi]",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp esi, 2",
    "jne 4f",
    "movzx edx, word ptr [rdi]",
    "xor eax, eax",
    "ret",
    "4:",
    "movzx edx, byte ptr [rdi]",
    "xor eax, eax",
    "ret",
    // rdi: word; rsi: value; rdx: width
    "fairway_guarded_store:",
    "cmp edx, 8",
    "jne 2f",
    "mov qword ptr [rdi], rsi",
    "xor eax, eax",
    "ret",
    "2:",
    "cmp edx, 4",
    "jne 3f",
    "mov dword ptr [rdi], esi",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp edx, 2",
    "jne 4f",
    "mov word ptr [rdi], si",
    "xor eax, eax",
    "ret",
    "4:",
    "mov byte ptr [rdi], sil",
    "xor eax, eax",
    "ret",
    // rdi: word; rsi: expected; rdx: new; rcx: width; the previous value goes to rdx
    "fairway_guarded_exchange:",
    "mov rax, rsi",
    "cmp ecx, 8",
    "jne 2f",
    "lock cmpxchg qword ptr [rdi], rdx",
    "mov rdx, rax",
    "xor eax, eax",
    "ret",
    "2:",
    "lock cmpxchg dword ptr [rdi], edx",
    "mov edx, eax",
    "xor eax, eax",
    "ret",
    "fairway_guarded_end:",
    "fairway_guarded_failed:",
    "mov eax, 1",
    "xor edx, edx",
    "ret",
    ".cfi_endproc",
    ".popsection",
    long = const LONG,
);
