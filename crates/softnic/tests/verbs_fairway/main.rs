//! Verbs over shared TP channels, between carriers of this process.

mod errors;
mod figures;
mod many;
mod node;
mod order;
mod progress;
mod reliable;
mod shared;
mod troubles;
