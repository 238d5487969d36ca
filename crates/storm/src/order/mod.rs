//! The order rules for operations, and a search for schedules that violate them.
//!
//! [`spec`] is an executable specification (UB §7.3): it checks a [`Program`] against the
//! [`History`] of one run and names the violated rule. It uses nothing of the protocol except the
//! types of order requests. [`freedom`] is the other half: where no rule requires an order, there
//! has to be a run in which the later operation takes effect first.
//!
//! [`explore`] runs a program on real NICs with real bytes, once for every schedule within its
//! [`Bounds`]: which packet arrives next, which is lost, which is duplicated, how late a payload is
//! placed. A schedule is a list of small numbers; the same list gives the same run.

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
