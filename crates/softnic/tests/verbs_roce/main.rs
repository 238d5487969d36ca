//! The RoCEv2 carrier: real packets between carriers of this process, and of others.

mod namespaces;
#[allow(dead_code, reason = "tests of more are to come")]
mod node;
mod progress;
mod reliable;
mod wire_truth;
