//! Collective operations of a group of ranks, as a state machine for each rank without I/O.
//!
//! **What it is.** A [`Call`] describes an operation: all-reduce, all-gather, broadcast and so on.
//! [`Schedule::new`] converts it, with an [`Algorithm`], to the [`Step`]s of one rank: send these
//! bytes, receive those, combine them, and which steps each one waits for. A [`Rank`] executes
//! schedules: its inputs are messages that have arrived and writes that have ended, its outputs
//! ([`Output`]) are the next writes, combinations and copies. It never handles a byte, a socket or
//! a clock.
//! An [`Outbox`] converts its messages to operations of a NIC. `fairway-communicator` drives both
//! over the network, `fairway-sim` on simulated hosts. For operations of a trace, `fairway-sim`
//! converts the same schedules to flows.
//!
//! **May import:** `half` only.
//!
//! **Invariants.** The k-th message that rank *a* sends to rank *b* in a call is the k-th message
//! that *b* receives from *a* in that call, whatever the algorithm. All ranks combine the same
//! values in the same order, so all receive the same bits. However late its peers are, a rank needs
//! no more than [`Schedule::SLOTS_MIN`] slots for the messages of each of them.
//!
//! **Modules.** `call`: operations, and their description for comparison between ranks. `number`:
//! types of elements, and their reductions. `schedule`: steps. `algorithms`: one file for each
//! algorithm. `choice`: the cost model. `rank` and `link`: the state machine. `header`: what a
//! message says about itself. `outbox`: messages as operations. `means`: slots, and which messages
//! go through them. `name`: errors of unknown names.
//!
//! **How to test:** `cargo test -p fairway-collectives`: groups of ranks in memory, with messages
//! in any order, compare every byte of every algorithm with a plain computation.
#![forbid(unsafe_code)]

mod algorithms;
mod call;
mod choice;
mod header;
mod link;
mod means;
mod name;
mod number;
mod outbox;
mod rank;
mod schedule;

pub use algorithms::Algorithm;
pub use call::{Call, CallError, Digest, Kind, Message, Piece};
pub use choice::{Costs, choose, choose_for_readers, estimate_ns, passed_bytes};
pub use header::{Content, Header};
pub use means::Means;
pub use name::UnknownName;
pub use number::{ElementType, Reduction, accumulate, divide};
pub use outbox::{BATCH, EAGER, KEY_BYTES, Outbox, Posting, Source};
pub use rank::{Memory, Output, Protocol, Rank, RankError, Target, Token, Work, Write};
pub use schedule::{Action, Place, Region, Schedule, Shape, Span, Step, StepIndex};
