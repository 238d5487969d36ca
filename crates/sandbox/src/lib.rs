//! Policies of the user's own: compiled to WebAssembly, loaded at run time, sandboxed and metered.
//!
//! **What it is.** [`Policies`] is what [`PolicySpec`](fairway_policy::PolicySpec) is, read from
//! the same text, but of each kind the name may be that of a WebAssembly file (`cc=./mine.wasm`).
//! The worlds ask it for the policies of a channel and do not know which of them are modules. A
//! [`Module`] is loaded once; every channel has an instance of its own, with memory of its own. A
//! module that traps or uses up the fuel of an event is replaced by the built-in default of its
//! kind, on that channel and from that event on; [`Report`]s tell. A module can be replaced by
//! another between two events, by hand, because its file has changed ([`Watcher`]), or at a planned
//! instant.
//!
//! **May import:** `policy` and `wire`. It knows no packets, sockets or engine.
//!
//! **Invariants.** Whatever a module does, nothing panics, hangs or is written outside the
//! module's own memory. What a module sees is what the traits of `policy` are told, so the same
//! file decides the same live and simulated: it can import nothing, has no floats, and what its
//! fuel pays for is counted and not timed. An event allocates nothing.
//!
//! **How to test:** `cargo test -p fairway-sandbox`.
#![forbid(unsafe_code)]

mod abi;
mod congestion;
mod fault;
mod guest;
mod module;
mod path;
mod policies;
pub mod probe;
mod slot;
mod watch;

pub use abi::{ABI_VERSION, AREA_BYTES};
pub use fault::{Fault, LoadError, Reason};
pub use guest::{EVENT_FUEL, MEMORY_BYTES_MAX, START_FUEL};
pub use module::{Hook, MODULE_BYTES_MAX, Module};
pub use policies::{News, Policies, PoliciesError};
pub use slot::{Report, Role, SwapError};
pub use watch::Watcher;
