//! Frames past the kernel's network stack: AF_XDP sockets, the program that redirects frames to
//! them, and the headers of frames.
//!
//! [`FrameSocket`] sends and receives whole Ethernet frames through one queue of an interface;
//! [`Redirect`] is a program on the interface that passes frames for certain UDP ports to these
//! sockets, and all others to the kernel; [`Flow`] and [`frame`] write and check the headers; and
//! [`Tables`] asks the kernel for the way to an address.
//!
//! The program is written here as instructions (`redirect`) and loaded by plain system calls
//! (`bpf`), so that it needs neither a compiler nor a binary file in the repository.

mod bpf;
mod checksum;
pub mod frame;
mod interface;
mod neighbour;
mod redirect;
mod ring;
mod socket;
#[cfg(test)]
mod tests;

pub use frame::Flow;
pub use interface::Interface;
pub use neighbour::{Hop, Tables};
pub use redirect::{FRAME_MAX, Redirect};
pub(crate) use ring::Mapping;
pub use socket::{FrameSocket, Mode};

/// Finds out whether this process may use AF_XDP sockets and load the program that redirects frames
/// to them. Attaches nothing.
///
/// # Errors
/// What is refused, and the capability that is missing or the feature that the kernel lacks.
pub fn check() -> std::io::Result<()> {
    FrameSocket::check()?;
    Redirect::check()
}
