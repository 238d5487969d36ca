//! The functions that fuzz targets run. Each accepts any bytes, and panics if it finds an error.
//!
//! **What it is.** Targets of parsers pass the bytes to the parser and check that the result
//! survives being encoded and parsed again. Targets of state machines read the bytes as a script
//! ([`script::Script`]) that determines what is posted, delivered, changed in transit, and when.
//! Functions that need private items are in modules `fuzzing` of their crates, behind the feature
//! of that name. The programs that libFuzzer drives are in `fuzz/`, outside this workspace.
//!
//! **May import:** `fairway-ub`, and `fairway` and `fairway-cli` with their feature
//! `fuzzing`.
//!
//! **Invariants.** A function gives the same result for the same bytes, and takes a bounded time.
//! No function uses a socket, a file, a thread or the clock.
//!
//! **How to test:** `cargo test -p fairway-fuzz` replays the inputs in `fuzz/corpus`;
//! `docs/testing.md` describes fuzzing.
#![forbid(unsafe_code)]

mod books;
mod cm;
mod codecs;
mod nic;
mod roce_host;
pub mod script;
mod setup;

pub use cm::cm;
pub use codecs::{decode, names, roce};
pub use fairway_cli::fuzzing::{copy_messages, quantities};
pub use nic::nic_packets;
pub use roce_host::roce_packets;
pub use setup::setup;

/// Datagrams between processes of one host: forwarded datagrams, and requests for shared memory.
pub fn forwarded(input: &[u8]) {
    fairway::fuzzing::mapping_request(input);
    fairway_rdma::fuzzing::forwarded(input);
}

/// A target and its name.
pub type Target = (&'static str, fn(&[u8]));

/// All targets. Each has a program in `fuzz/fuzz_targets` and inputs in `fuzz/corpus`.
pub const TARGETS: [Target; 9] = [
    ("decode", decode),
    ("roce", roce),
    ("setup", setup),
    ("cm", cm),
    ("forwarded", forwarded),
    ("copy_messages", copy_messages),
    ("names", names_and_quantities),
    ("nic_packets", nic_packets),
    ("roce_packets", roce_packets),
];

/// Parses names of policies, or quantities.
///
/// Input: a byte that selects one of the two, and the text.
pub fn names_and_quantities(input: &[u8]) {
    match input.split_first() {
        Some((0..=127, text)) => names(text),
        _ => quantities(input),
    }
}
