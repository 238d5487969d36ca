//! Counters of a context, which only grow.

use fairway_port::PortCounters;

/// Counters since the context was built, of the protocol, the sockets and the live NIC itself.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Counters of the protocol.
    pub engine: fairway_ub::Counters,
    /// Counters of the sockets.
    pub port: PortCounters,
    /// Counters of the live NIC.
    pub nic: NicCounters,
    /// The latest error of the sockets that was not ordinary packet loss.
    pub last_error: Option<String>,
}

/// Counters of the live NIC itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Polls run, by any thread.
    pub polls: u64,
    /// Polls run by the background thread.
    pub background_polls: u64,
    /// Payloads copied into place.
    pub placed_copied: u64,
    /// Bytes of the payloads in `placed_copied`.
    pub bytes_copied: u64,
    /// Payloads that had to wait before they were copied into place, because they arrived early.
    pub placed_late: u64,
    /// Atomics executed on local memory, for this side or a peer.
    pub atomics: u64,
    /// Datagrams that could not be decoded.
    pub undecodable: u64,
    /// Packets from another address than that of their path.
    pub wrong_source: u64,
    /// Set-up messages received.
    pub setup_messages: u64,
    /// Set-up messages that were ignored because of a rate limit: at most 4,096 a second from one
    /// IPv4 address or IPv6 network of 64 bits, and at most 16,384 from all sources that have not
    /// proven their address.
    pub setup_limited: u64,
    /// Connections of peers that were closed because they were idle and few channels were left.
    pub evicted: u64,
    /// Connections opened, by either side.
    pub connections: u64,
    /// Packets that could not be sent: too long, or for a channel that has ended.
    pub unsendable: u64,
    /// Payloads, words and packets that could not be copied to or from registered memory, because
    /// its owner has unmapped it or its file was truncated.
    pub memory_gone: u64,
    /// Errors of the sockets that were not ordinary packet loss.
    pub io_errors: u64,
}
