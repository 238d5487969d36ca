//! What a connection manager needs of this library: the crate `fairway-rdmacm` is one.
//!
//! A connection manager finds devices by [`devices`] and their providers by [`DeviceState::of`]. It
//! receives the management datagrams of a device ([`DeviceState::set_management`]), and refuses
//! those of processes that do not exist ([`refuse_to`]). [`set_waiting`] has it called after polls
//! of completion queues, and [`at_exit`] when the process ends. Objects of libibverbs it makes and
//! uses by the C functions, as any program does.

pub use crate::after_poll::{set_waiting, waiting};
pub use crate::device::{DeviceHandle, devices};
pub use crate::device_state::{DeviceState, ManagementListener};
pub use crate::farewell::at_exit;
pub use crate::unattended::refuse_to;
