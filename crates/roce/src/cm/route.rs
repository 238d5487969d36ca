//! Finds the process to which a management datagram belongs. Many processes of a host share its
//! queue pair 1.

use core::net::IpAddr;
use fairway_wire::Qpn;
use fairway_wire::roce::cm::{self, CommunicationId, IpHeader, Message};

/// Number of bits of a communication id below those of the slot.
pub(super) const LOCAL_BITS: u32 = 24;

/// The process to which a management datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The process in this slot, which created the id in the datagram.
    Slot(u8),
    /// The process that offers this service.
    Service(u64),
    /// Any process: the datagram contains neither an id nor a service.
    Anyone,
}

/// The process to which a management datagram belongs, from the datagram's bytes alone.
pub fn route(bytes: &[u8]) -> Route {
    let Ok(datagram) = cm::parse(bytes) else { return Route::Anyone };
    match datagram.message {
        Message::Request(request) => Route::Service(request.service),
        Message::ServiceRequest(request) => Route::Service(request.service),
        Message::Acknowledgement(message) => by_name(message.names.remote),
        Message::Reject(message) => by_name(message.names.remote),
        Message::Reply(message) => by_name(message.names.remote),
        Message::ReadyToUse(message) => by_name(message.names.remote),
        Message::Disconnect(message) => by_name(message.names.remote),
        Message::Disconnected(message) => by_name(message.names.remote),
        Message::ServiceReply(message) => by_name(message.id),
        Message::Path(message) => by_name(message.names.remote),
    }
}

fn by_name(id: CommunicationId) -> Route {
    match id {
        // A REJ of a peer that gave up before it received a message of this host.
        CommunicationId(0) => Route::Anyone,
        CommunicationId(id) => Route::Slot((id >> LOCAL_BITS) as u8),
    }
}

/// The destination IP address in a request, if it contains one.
pub fn destination(bytes: &[u8]) -> Option<IpAddr> {
    header(bytes).map(|header| header.destination)
}

/// The source IP address that a request claims, if it contains one.
pub fn source(bytes: &[u8]) -> Option<IpAddr> {
    header(bytes).map(|header| header.source)
}

/// What a management datagram names as its sender's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// The slot in the sender's communication id; `None` if the datagram contains no such id.
    pub slot: Option<u8>,
    /// The sender's queue pair, in a request or a reply. Zero if the program named none.
    pub queue_pair: Option<Qpn>,
}

/// Returns what a management datagram names as its sender's own; `None` if it is not a message of a
/// connection manager.
pub fn claim(bytes: &[u8]) -> Option<Claim> {
    let (id, queue_pair) = match cm::parse(bytes).ok()?.message {
        Message::Request(request) => (request.local, Some(request.queue_pair)),
        Message::Reply(reply) => (reply.names.local, Some(reply.queue_pair)),
        Message::ServiceRequest(request) => (request.id, None),
        Message::Acknowledgement(message) => (message.names.local, None),
        Message::Reject(message) => (message.names.local, None),
        Message::ReadyToUse(message) => (message.names.local, None),
        Message::Disconnect(message) => (message.names.local, None),
        Message::Disconnected(message) => (message.names.local, None),
        Message::Path(message) => (message.names.local, None),
        // The id is the receiver's.
        Message::ServiceReply(reply) => (CommunicationId(0), Some(reply.queue_pair)),
    };
    let slot = (id.0 != 0).then_some((id.0 >> LOCAL_BITS) as u8);
    Some(Claim { slot, queue_pair })
}

fn header(bytes: &[u8]) -> Option<IpHeader> {
    match cm::parse(bytes).ok()?.message {
        Message::Request(request) => IpHeader::parse(&request.private),
        Message::ServiceRequest(request) => IpHeader::parse(&request.private),
        _ => None,
    }
}
