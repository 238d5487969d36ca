//! The control framework (SCR §4.3): packet-granular events are coalesced and handed to
//! controllers, which set rates that the data path reads.
//!
//! * **Slots** ([`Slot`]): one for each flow and kind of event. A producer adds to it; a consumer
//!   takes what has accumulated since its last reading: the sum, the latest value, the oldest
//!   value, or nothing until the sum reaches a threshold.
//! * **Queue** ([`ReadyQueue`], [`EventQueue`]): which flows have news; each stands in it once,
//!   however much comes.
//! * **Multiplexer** ([`Multiplexer`]): whose turn it is, by deficit round robin over flows.
//! * **Processor** ([`Processor`]): runs one controller to completion for each event. It shares
//!   nothing but slots and rate registers with the data path, so it may run in line with it or on a
//!   thread of its own. [`CongestionProcessor`] does the same for the congestion controls of
//!   channels, for which a stand-in hears and answers on the data path.
//! * **Trace** ([`TraceRecord`]): what controllers were told and what they decided, for inspection
//!   ([`crate::UbDevice::set_trace`]).
//! * **Dequeue rates**: registers that the data path reads before it takes a packet from a message
//!   (`flow`).
//!
//! Slots and registers are atomics that are only loaded and stored, each by one writer, and what
//! says that there is news is one exchange: nothing waits for another core. (The rooms of the
//! design put lock-free code into `ring`; this is here because the engine may not depend on it, and
//! is safe code.)

mod congestion;
mod multiplexer;
mod processor;
mod queue;
mod ready_queue;
mod slot;
mod trace;

pub(crate) use congestion::controller_proxy;
pub use congestion::{CongestionController, CongestionKind, CongestionProcessor};
pub use multiplexer::Multiplexer;
pub(crate) use processor::share_value;
pub use processor::{Processor, ProcessorStats};
pub use queue::{EventQueue, Kind};
pub use ready_queue::{EventKind, Kinds, ReadyQueue};
pub use slot::{Cursor, Gathered, Slot};
pub(crate) use trace::Recorder;
pub use trace::{TraceEntry, TraceRecord};
