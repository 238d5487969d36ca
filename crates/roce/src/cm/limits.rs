//! Every capacity of a [`Manager`](super::Manager), by name; and its timing.

use fairway_wire::Duration;

/// How much of everything a [`Manager`](super::Manager) may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections, attempts and what is remembered of them. At most 4096.
    pub connections: u32,
    /// Of these, requests of other hosts that have not shown that they receive at their addresses.
    pub half_open: u32,
    /// Services listened for.
    pub listeners: u32,
    /// Datagrams that wait to be sent. What does not fit is lost, and repeated.
    pub transmits: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 4096, half_open: 2048, listeners: 256, transmits: 1024 }
    }
}

/// Timing, not capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// A message is repeated after so long; then after twice that, and so on.
    pub retry_interval_min: Duration,
    /// But not less often than this.
    pub retry_interval_max: Duration,
    /// How long an end is remembered at least, whatever the path's lifetime, to answer what comes
    /// late.
    pub wait_min: Duration,
    /// And at most.
    pub wait_max: Duration,
    /// How often the end that asks repeats RTU, whether or not it was lost: nothing answers it, and
    /// the other end does not repeat REP, because it may not send more than it has received.
    pub ready_repeats: u8,
    /// A peer that asks for more time gets it up to this.
    pub extension_max: Duration,
    /// What a peer is asked to wait while the application thinks whether to accept, 4.096 µs × 2^n.
    pub request_timeout: u8,
    /// The same after it was accepted. Not long, because a lost RTU is then missed as long.
    pub reply_timeout: u8,
}

impl Default for Profile {
    fn default() -> Self {
        Profile {
            // Far less than the 4.3 s that REQ announces: a repeated message costs nothing, and
            // over UDP the first may well be lost.
            retry_interval_min: Duration::from_ms(100),
            retry_interval_max: Duration::from_ms(4_300),
            wait_min: Duration::from_ms(500),
            wait_max: Duration::from_secs(5),
            ready_repeats: 7,
            extension_max: Duration::from_secs(70),
            // 69 s, as Linux asks for.
            request_timeout: 24,
            // 4.3 s.
            reply_timeout: 20,
        }
    }
}
