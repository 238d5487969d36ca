//! librvma: Remote Virtual Memory Access as a C library.
//!
//! **What it is.** The calls of the RVMA paper (§III-C), with their names and argument order, and
//! the calls that a complete library needs in addition, implemented by Fairway's mailboxes. C
//! programs include `include/rvma.h`, which is the reference, and link `librvma.so` or `librvma.a`;
//! the man pages are in `man/`, two programs in `examples/`.
//!
//! **May import:** `fairway`, `libc`.
//!
//! **Invariants.** No protocol decision is made here. No panic crosses into C. A handle is a number
//! that is looked up, never a pointer that is followed. Memory that C passes by pointer is accessed
//! only while the header says that it is the library's. No lock of this library is taken while the
//! NIC's is held.
//!
//! **Modules.** `calls` has the exported functions: they check arguments and convert results to
//! statuses. `library` holds the objects that live from `RVMA_Init` to `RVMA_Finalize`: `window`s,
//! `operations`, `peers`, and the `registry` of the application's memory.
//!
//! **How to test:** `cargo test -p fairway-rvma` compiles C programs against an installed copy of
//! the library, and runs them, also under AddressSanitizer.
#![warn(unsafe_op_in_unsafe_fn)]

mod address;
mod calls;
mod guard;
mod library;
mod operations;
mod options;
mod peers;
mod registry;
mod slots;
mod status;
mod types;
mod window;
