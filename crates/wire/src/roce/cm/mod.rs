//! The messages of the connection manager: datagrams of 256 bytes between queue pairs 1.
//!
//! The layouts are those of the InfiniBand Architecture Specification, volume 1 ("IBTA" below),
//! sections 12.6 and 12.11 (messages), 13.4 (the header of all management datagrams), and of its
//! Annex A11 (addresses and ports of a connection over IP). Reserved fields, and fields that only
//! Reliable Datagrams use, are written as zero and ignored on receipt.
//!
//! ```
//! use fairway_wire::roce::cm::{self, CommunicationId, Datagram, Message, Names, ReadyToUse};
//!
//! let names = Names { local: CommunicationId(7), remote: CommunicationId(9) };
//! let message = Message::ReadyToUse(ReadyToUse { names, private: [0; 224] });
//! let datagram = Datagram { transaction: 1, message };
//! let bytes = cm::emit(&datagram);
//! assert_eq!(cm::parse(&bytes), Ok(datagram));
//! ```

mod address;
mod codec;
mod message;

pub use address::{IpHeader, PortSpace, port_of_service, service_id};
pub use codec::{MadError, emit, parse};
pub use message::{
    Acknowledgement, CommunicationId, Datagram, Disconnect, Disconnected, Message, Names, Path,
    PathRequest, ReadyToUse, Reason, Refused, Reject, Reply, Request, Service, ServiceReply,
    ServiceRequest, ServiceStatus,
};

/// Length of a management datagram, in bytes (13.4.2).
pub const MAD_LEN: usize = 256;

/// The queue pair to which these management datagrams go (IBTA 3.9.4).
pub const QUEUE_PAIR: u32 = 1;

/// The Q_Key of that queue pair (10.2.5).
pub const Q_KEY: u32 = 0x8001_0000;

#[cfg(test)]
mod tests;
