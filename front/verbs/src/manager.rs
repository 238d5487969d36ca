//! Interface of this library for a connection manager, such as the crate `fairway-rdmacm`.
//!
//! A connection manager finds devices by [`devices`] and [`devices_of_all_addresses`], and their
//! providers by [`DeviceState::of`]. It receives the management datagrams of a device
//! ([`DeviceState::set_management`]), and refuses those for processes that do not exist
//! ([`refuse_to`]). [`set_waiting`] registers its function that is called after polls of completion
//! queues, and [`at_exit`] the one that is called when the process ends.
//! It creates and uses objects of libibverbs by the C functions, as any program does.

pub use crate::after_poll::{set_waiting, waiting};
pub use crate::device::{DeviceHandle, devices, devices_of_all_addresses};
pub use crate::device_state::{DeviceState, ManagementListener};
pub use crate::farewell::at_exit;
pub use crate::unattended::refuse_to;
