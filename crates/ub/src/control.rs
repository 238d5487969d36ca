//! Control of a NIC's sending (SCR §4.3): the framework, which `device` holds for both protocols
//! ([`fairway_device::control`]), and two parts that are made of channels.
//!
//! * **Congestion** ([`CongestionProcessor`]): runs the congestion controls of channels, each of
//!   which has a proxy on the data path.
//! * **Trace** ([`TraceRecord`]): the events that controllers received and their decisions, for
//!   inspection ([`crate::UbDevice::set_trace`]).

mod congestion;
mod trace;

pub(crate) use congestion::controller_proxy;
pub use congestion::{CongestionController, CongestionKind, CongestionProcessor};
pub use fairway_device::control::{
    Cursor, EventKind, EventQueue, Gathered, Kind, Kinds, Multiplexer, Processor, ProcessorStats,
    ReadyQueue, Slot, Steering,
};
pub(crate) use trace::Recorder;
pub use trace::{TraceEntry, TraceRecord};
