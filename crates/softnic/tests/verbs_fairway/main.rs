//! Verbs over shared TP channels, between carriers of this process.

mod errors;
mod many;
mod node;
mod order;
mod progress;
mod reliable;
mod shared;
