//! What the order of operations has to be, and a search for schedules in which it is not.
//!
//! [`spec`] is an executable specification (UB §7.3): it looks at a
//! [`Program`] and at the [`History`] of one run, and names the rule that was broken. It knows
//! nothing of the engine but the words in which order is asked for. [`freedom`] is the other half:
//! where no rule asks for an order, there has to be a run in which the later operation comes first.
//!
//! [`explore`] runs a program on real NICs with real bytes, once for every schedule within its
//! [`Bounds`]: which packet arrives next, which is lost, which comes twice, how long a payload
//! takes to its place. A schedule is a list of small numbers; the same list gives the same run.

mod bounds;
mod choices;
mod clock;
mod explore;
pub mod freedom;
mod history;
mod host;
mod network;
mod program;
pub mod programs;
mod run;
pub mod spec;

pub use bounds::Bounds;
pub use choices::Choices;
pub use clock::{Clock, NODES};
pub use explore::{Exploration, Failing, explore, replay, sample};
pub use history::{Event, History, What};
pub use program::{Kind, MTU, Operation, ParseError, Program, SHARED_BYTES, Token};
pub use run::{Failure, Run, run};
