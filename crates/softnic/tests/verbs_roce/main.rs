//! The RoCEv2 carrier: real packets between carriers of this process, and of others.

mod life;
mod management;
mod namespaces;
mod node;
mod processes;
mod progress;
mod reliable;
mod strangers;
mod troubles;
mod unreliable;
mod wire_truth;
