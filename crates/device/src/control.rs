//! The control framework (SCR §4.3): packet-granular events are coalesced and handed to
//! controllers, which set rates that the data path reads.
//!
//! * **Slots** ([`Slot`]): one for each flow and kind of event. A producer adds to it; a consumer
//!   takes what has accumulated since its last reading: the sum, the latest value, the oldest
//!   value, or nothing until the sum reaches a threshold.
//! * **Queue** ([`ReadyQueue`], [`EventQueue`]): the flows with pending events. Each flow is in it
//!   once, however many events follow.
//! * **Multiplexer** ([`Multiplexer`]): selects the next event by deficit round robin over flows.
//! * **Processor** ([`Processor`]): runs one controller to completion for each event. It shares
//!   only slots and rate registers with the data path, so it may run in line with it or on a thread
//!   of its own.
//! * **Steering** ([`Steering`]): assigns each flow to one thread of a pool.
//! * **Dequeue rates**: registers that the data path reads before it takes a packet from a message
//!   ([`flow`](crate::flow)).
//!
//! Slots and registers are atomics that are only loaded and stored, each by one writer. Announcing
//! pending events takes one atomic exchange. Nothing waits for another core. (The design puts
//! lock-free code into the room `ring`; this code is here because the protocols may not depend on
//! `ring`, and it is safe code.)

mod multiplexer;
mod processor;
mod queue;
mod ready_queue;
mod slot;
mod steering;

pub use multiplexer::Multiplexer;
pub(crate) use processor::share_value;
pub use processor::{Processor, ProcessorStats};
pub(crate) use queue::TransmitState;
pub use queue::{EventQueue, Kind};
pub use ready_queue::{EventKind, Kinds, ReadyQueue};
pub use slot::{Cursor, Gathered, Slot};
pub use steering::Steering;
