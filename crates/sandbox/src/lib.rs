//! User-supplied policies: compiled to WebAssembly, loaded at run time, sandboxed and metered.
//!
//! **What it is.** [`Policies`] corresponds to [`PolicySpec`](fairway_policy::PolicySpec) and is
//! parsed from the same text, but the name of each kind may be that of a WebAssembly file
//! (`cc=./mine.wasm`). The transports and simulators obtain the policies of a channel from it
//! without distinguishing modules from built-in ones. A [`Module`] is loaded once; every channel
//! has an instance with its own memory, which decides all kinds of policy for which the file is
//! given; a scheduler's instance belongs to a NIC. A module that traps or uses up the fuel of an
//! event is replaced by the built-in default of its kind, on that channel and from that event on;
//! [`Report`]s record it. A module can be replaced by another between two events: by hand, because
//! its file has changed ([`Watcher`]), or at a planned time.
//!
//! Modules are interpreted, or, with the feature `compiled`, compiled to machine code ([`Engine`]).
//!
//! **May import:** `policy` and `wire`. It does not depend on packets, sockets or the protocol.
//!
//! **Invariants.** Whatever a module does, nothing panics or hangs, and nothing outside the
//! module's own memory is written. A module sees exactly the arguments of the traits of `policy`,
//! so the same file decides the same live and simulated: it can import nothing but a square root,
//! has no floats, and its fuel is counted and not timed. An event allocates nothing.
//!
//! **How to test:** `cargo test -p fairway-sandbox`; `make compiled` for the compiling engine.
#![forbid(unsafe_code)]

mod abi;
#[cfg(feature = "compiled")]
mod compiled;
mod congestion;
mod engine;
mod fault;
mod guest;
mod hook;
mod instance;
mod interpreter;
mod limits;
mod locals;
mod loss;
mod machine;
mod module;
mod named;
mod path;
mod policies;
pub mod probe;
mod scheduler;
mod slot;
mod watch;

pub use abi::{ABI_VERSION, AREA_BYTES};
pub use engine::Engine;
pub use fault::{Fault, LoadError, Reason};
pub use hook::Hook;
pub use limits::{EVENT_FUEL, MEMORY_BYTES_MAX, START_FUEL};
pub use module::{MODULE_BYTES_MAX, Module};
pub use named::PoliciesError;
pub use policies::{News, Policies};
pub use slot::{Report, Role, SwapError};
pub use watch::Watcher;
