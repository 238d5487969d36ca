//! What a context has done, in numbers that only grow.

use fairway_port::PortCounters;

/// Counts since the context was built: the engine's, the sockets', and the live NIC's own.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The protocol's.
    pub engine: fairway_engine::Counters,
    /// The sockets'.
    pub port: PortCounters,
    /// The live NIC's.
    pub nic: NicCounters,
    /// The latest trouble with the sockets that was no ordinary packet loss.
    pub last_error: Option<String>,
}

/// What the live NIC counts itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Turns run, by whomever.
    pub polls: u64,
    /// Of those, by the background thread.
    pub background_polls: u64,
    /// Payloads copied into place.
    pub placed_copied: u64,
    /// Bytes of those.
    pub bytes_copied: u64,
    /// Payloads that waited for their turn before they were copied into place.
    pub placed_late: u64,
    /// Atomics done to memory here, for whomever.
    pub atomics: u64,
    /// Datagrams that are no packets.
    pub undecodable: u64,
    /// Packets that came from another address than their path's.
    pub wrong_source: u64,
    /// Set-up messages received.
    pub setup_messages: u64,
    /// Of those, ignored because their source had sent more than it may (4,096 in a second, by
    /// IPv4 address or IPv6 network of 64 bits), or all sources that have proven nothing more than
    /// 16,384.
    pub setup_limited: u64,
    /// Connections of peers that were closed because they were idle and few channels were left.
    pub evicted: u64,
    /// Connections opened, by either side.
    pub connections: u64,
    /// Packets that could not be sent: too long, or for a channel that is gone.
    pub unsendable: u64,
    /// Payloads, words and packets for or from registered memory that its owner has unmapped, or
    /// whose file was truncated.
    pub memory_gone: u64,
    /// Errors of the sockets that were no ordinary packet loss.
    pub io_errors: u64,
}
