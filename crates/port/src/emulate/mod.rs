//! Emulation of impaired networks.
//!
//! [`Spec`] describes in a line of text what each path does to packets; [`PathModel`] decides that
//! for each packet, from a seed; [`Impaired`] applies it to the packets that a port sends, and
//! [`Relay`] to those between two programs.

mod impaired;
mod model;
mod pool;
mod quantity;

pub use quantity::rate;
mod random;
mod relay;
mod shaper;
mod spec;

#[cfg(test)]
mod tests;

pub use impaired::{ATTEND, Datapath, FallenBack, Impaired};
pub use model::{Decision, ModelCounters, PathModel};
pub use relay::{Relay, RelayConfig, RelayCounters};
pub use shaper::ShaperCounters;
pub use spec::{Conditions, Spec, SpecError, Window};
