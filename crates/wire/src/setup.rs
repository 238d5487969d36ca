//! Connection set-up: the values of the messages that open a TP channel.
//!
//! ```text
//!   client                                   server
//!     | HELLO    identity, request             |   keeps nothing
//!     |--------------------------------------->|
//!     |   WELCOME  cookie, my offer            |
//!     |<---------------------------------------|
//!     | CONFIRM  HELLO again, cookie, agreed   |   cookie proves the address: state from here
//!     |--------------------------------------->|
//!     |   ACCEPT   identity: it is open        |
//!     |<---------------------------------------|
//! ```
//!
//! REJECT may answer HELLO or CONFIRM. Every message is 192 bytes long, but a HELLO may be padded
//! to the length of the longest packets that it requests, and its WELCOME to that of the longest
//! packets that it offers. An offer that arrives has then shown that such packets get through in
//! both directions. No answer is longer than its HELLO or CONFIRM.
//!
//! CONFIRM and ACCEPT carry a public key each, from which both sides derive the secret key of the
//! channel's header checks. WELCOME and REJECT may go to strangers, so they do not reveal the
//! address that channels use: their source is an address for set-up alone.

use crate::{Cna, Psn, Tpn};

/// Most UDP ports (sockets) that one side may have.
pub const PORTS_MAX: usize = 16;
/// Most paths of a channel.
pub const PATHS_MAX: u16 = 256;
/// Most message slots or read slots of a channel: a slot number is one byte.
pub const SLOTS_MAX: u16 = 256;
/// Most channels of a TP channel group.
pub const GROUP_MAX: u16 = 16;
/// Capability: the server answers a HELLO that is followed by any number of meaningless bytes, and
/// pads its WELCOME likewise.
pub const PADDED_HELLOS: u16 = 1;
/// Capability: unreliable messages (mode UNO) may be sent on the channel.
pub const UNRELIABLE: u16 = 2;
/// Capability: loads and stores (transport bypass) may be sent on the channel.
pub const BYPASS: u16 = 4;
/// Capability: parts of operations that go by several channels may be sent on the channel.
pub const PARTS: u16 = 8;
/// Capability: the channel's group goes on when another one of its channels is dead.
pub const RETIRE: u16 = 16;
/// Capability: data packets may carry acknowledgements.
pub const CARRIED_ACKS: u16 = 32;
/// Capability: datagrams may be filled ([`decode_filled`](crate::decode_filled)).
pub const FILLED: u16 = 64;
/// Length of every set-up message in bytes, without the padding of a HELLO or WELCOME.
pub const SETUP_LEN: usize = 192;
/// Length of a public key in bytes (X25519, RFC 7748).
pub const KEY_LEN: usize = 32;

/// A set-up message and the nodes between which it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The sender's node address (SCNA); in WELCOME and REJECT an address for set-up alone.
    pub source: Cna,
    /// The receiver's node address (DCNA); zero in a HELLO, whose sender does not have it yet.
    pub destination: Cna,
    /// The message.
    pub message: SetupMessage,
}

/// A set-up message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupMessage {
    /// The client requests a channel.
    Hello(Hello),
    /// The server makes an offer and keeps no state.
    Welcome(Welcome),
    /// The client agrees, and proves that it receives packets at its source address.
    Confirm(Confirm),
    /// The server has opened the channel.
    Accept(Accept),
    /// The server refuses.
    Reject(Reject),
}

/// The client's request for a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol versions that the client implements.
    pub versions: Versions,
    /// Drawn at random for every attempt; every answer repeats it.
    pub nonce: u64,
    /// The client's end of the channel.
    pub client: Endpoint,
    /// The highest values that the client supports.
    pub requested: Parameters,
    /// The group that the channel joins; `None` if it is the first channel of a group.
    pub joins: Option<Joins>,
}

/// Which TP channel group a channel joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joins {
    /// The client's number of the group's first channel, which is already open.
    pub leader: Tpn,
    /// Number of this channel in the group, from 1; the first channel is 0.
    pub number: u8,
}

/// The server's stateless offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that the server has chosen.
    pub version: u8,
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// Authenticates the HELLO to the server, so that the server need not remember it.
    pub cookie: [u8; 16],
    /// The parameters of the channel if the client confirms.
    pub offer: Parameters,
}

/// The client's agreement: everything the server needs to open the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// The client's HELLO, unchanged.
    pub hello: Hello,
    /// The version of the WELCOME.
    pub version: u8,
    /// The cookie of the WELCOME.
    pub cookie: [u8; 16],
    /// The offer of the WELCOME.
    pub agreed: Parameters,
    /// The client's public key, for this channel alone.
    pub key: [u8; KEY_LEN],
}

/// The channel is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The protocol version of the channel.
    pub version: u8,
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// The server's end of the channel.
    pub server: Endpoint,
    /// The parameters of the channel.
    pub agreed: Parameters,
    /// The server's public key, for this channel alone.
    pub key: [u8; KEY_LEN],
}

/// The channel is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The protocol versions that the server implements.
    pub versions: Versions,
    /// The nonce of the HELLO.
    pub nonce: u64,
    /// Why the server refuses.
    pub reason: RejectReason,
}

/// Why a server refuses a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// No version is implemented by both.
    Version,
    /// The server has no channel, slot or memory left.
    NoResources,
    /// The cookie is too old or not the server's: the client has to start again.
    StaleCookie,
    /// The parameters are not the offered ones, or the server cannot meet them.
    Parameters,
    /// The server does not accept this client.
    Refused,
}

/// An inclusive range of protocol versions, never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    min: u8,
    max: u8,
}

impl Versions {
    /// The range from `min` to `max`; `None` if it is empty or begins at 0, which is not a version.
    pub const fn new(min: u8, max: u8) -> Option<Versions> {
        if min == 0 || min > max { None } else { Some(Versions { min, max }) }
    }

    /// The oldest version.
    pub const fn min(self) -> u8 {
        self.min
    }

    /// The newest version.
    pub const fn max(self) -> u8 {
        self.max
    }

    /// The newest version in both ranges, or `None`.
    pub fn agree(self, other: Versions) -> Option<u8> {
        let (min, max) = (self.min.max(other.min), self.max.min(other.max));
        (min <= max).then_some(max)
    }
}

/// One side's end of a channel. Its node address is in [`Setup::source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The channel number at this side.
    pub tpn: Tpn,
    /// The first PSN this side sends.
    pub initial_psn: Psn,
    /// The UDP ports of this side's sockets, in the order that path numbers count them.
    pub ports: Ports,
}

/// One to [`PORTS_MAX`] UDP ports, none of them zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    ports: [u16; PORTS_MAX],
    count: u8,
}

impl Ports {
    /// The ports in `list`; `None` if it is empty, too long, or holds a zero.
    pub fn new(list: &[u16]) -> Option<Ports> {
        if list.is_empty() || list.len() > PORTS_MAX || list.contains(&0) {
            return None;
        }
        let mut ports = [0; PORTS_MAX];
        for (port, given) in ports.iter_mut().zip(list) {
            *port = *given;
        }
        Some(Ports { ports, count: list.len() as u8 })
    }

    /// The ports as a slice.
    pub fn as_slice(&self) -> &[u16] {
        self.ports.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// The parameters on which the two sides of a channel agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Payload bytes of every packet of a message except the last.
    pub mtu_bytes: u16,
    /// Number of paths, 1 to 256.
    pub paths: u16,
    /// Packets that the receiver can track beyond its cumulative acknowledgement.
    pub window_packets: u16,
    /// Messages of several packets that may be under way in one direction, at most 256.
    pub message_slots: u16,
    /// READs that may be under way in one direction, at most 256.
    pub read_slots: u16,
    /// Silence of the peer in milliseconds after which an acknowledgement is requested; 0 for
    /// never.
    pub keep_alive_ms: u16,
    /// Channels of the TP channel group, 1 to 16: one for each engine that both sides have.
    pub channels: u16,
    /// Optional features, a bit each: [`PADDED_HELLOS`], [`UNRELIABLE`], [`BYPASS`],
    /// [`PARTS`], [`RETIRE`].
    pub capabilities: u16,
}

impl Parameters {
    /// The name of the first field with an invalid value, if there is one.
    pub fn fault(&self) -> Option<&'static str> {
        if self.mtu_bytes == 0 {
            return Some("mtu");
        }
        if self.paths == 0 || self.paths > PATHS_MAX {
            return Some("paths");
        }
        if self.window_packets == 0 {
            return Some("window");
        }
        if self.message_slots > SLOTS_MAX {
            return Some("message slots");
        }
        if self.read_slots > SLOTS_MAX {
            return Some("read slots");
        }
        (self.channels == 0 || self.channels > GROUP_MAX).then_some("channels")
    }

    /// The parameters that two sides with these limits can use together: the smaller of each, and
    /// the capabilities of both. Keep-alive is the shorter of those that are on.
    #[must_use]
    pub fn agree(&self, other: &Parameters) -> Parameters {
        let keep_alive_ms = match (self.keep_alive_ms, other.keep_alive_ms) {
            (0, only) | (only, 0) => only,
            (one, two) => one.min(two),
        };
        Parameters {
            mtu_bytes: self.mtu_bytes.min(other.mtu_bytes),
            paths: self.paths.min(other.paths),
            window_packets: self.window_packets.min(other.window_packets),
            message_slots: self.message_slots.min(other.message_slots),
            read_slots: self.read_slots.min(other.read_slots),
            keep_alive_ms,
            channels: self.channels.min(other.channels),
            capabilities: self.capabilities & other.capabilities,
        }
    }
}

#[cfg(test)]
mod tests;
