//! The RoCEv2 carrier: real packets between carriers of this process, and of others.

#[allow(dead_code, reason = "tests of more are to come")]
mod node;
mod progress;
mod reliable;
