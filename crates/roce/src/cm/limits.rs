//! Every capacity of a [`Manager`](super::Manager), by name, and its timing.

use fairway_wire::Duration;

/// Capacities of a [`Manager`](super::Manager).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections and attempts, including ended ones that are still remembered. At most 4096.
    pub connections: u32,
    /// Requests, among the connections, of other hosts that have not proven that they receive at
    /// their addresses.
    pub half_open: u32,
    /// Services with a listener. Each takes 24 bytes from the start.
    pub listeners: u32,
    /// Datagrams that wait to be sent. Any more are lost, and repeated later.
    pub transmits: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, half_open: 2048, listeners: 4096, transmits: 1024 }
    }
}

/// Time-outs and repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Time after which a message is repeated; it doubles with every repetition.
    pub retry_interval_min: Duration,
    /// Longest time between two repetitions.
    pub retry_interval_max: Duration,
    /// Shortest time for which an ended connection is remembered to answer late messages, whatever
    /// the path's lifetime.
    pub wait_min: Duration,
    /// Longest time for which an ended connection is remembered.
    pub wait_max: Duration,
    /// How often the requesting end repeats RTU, whether or not it was lost: no message answers
    /// RTU, and the other end does not repeat REP, because it may not send more than it has
    /// received.
    pub ready_repeats: u8,
    /// Longest extension that is granted to a peer that requests more time.
    pub extension_max: Duration,
    /// Time that the peer has to wait while the application decides whether to accept, 4.096
    /// µs × 2^n.
    pub request_timeout: u8,
    /// The same while the application decides after REP. It is short, because a lost RTU is
    /// detected only after this time.
    pub reply_timeout: u8,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            // Far shorter than the 4.3 s that REQ announces: a repeated message costs little, and
            // over UDP the first may well be lost.
            retry_interval_min: Duration::from_ms(100),
            retry_interval_max: Duration::from_ms(4_300),
            wait_min: Duration::from_ms(500),
            wait_max: Duration::from_secs(5),
            ready_repeats: 7,
            extension_max: Duration::from_secs(70),
            // 69 s, which Linux also requests.
            request_timeout: 24,
            // This code means 4.3 s.
            reply_timeout: 20,
        }
    }
}
