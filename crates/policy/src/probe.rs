//! When a channel measures the round trip of its paths out of band (SCR §4.2.1).
//!
//! Acknowledgements tell the round trip of data, with what the hosts' queues add to it. A probe is
//! a small packet of its own, whose answer says how long it was at the peer: what is left is the
//! fabric's part. It also tells of paths on which nothing is sent.

use fairway_wire::Duration;

/// When to probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeSpec {
    /// Never.
    #[default]
    Off,
    /// Every path once in so long, one after the other, whether it is in use or not.
    Periodic {
        /// The time in which all paths are probed.
        interval: Duration,
    },
    /// A path after so many bytes were sent on it.
    Sampled {
        /// Bytes, headers included.
        bytes: u64,
    },
    /// A path that loses something, or whose round trip is several times the least that was seen.
    Anomaly {
        /// How many times.
        times: u32,
    },
}

impl ProbeSpec {
    /// The names under which they are chosen.
    pub const OFF: &'static str = "off";
    /// See [`Self::Periodic`].
    pub const PERIODIC: &'static str = "periodic";
    /// See [`Self::Sampled`].
    pub const SAMPLED: &'static str = "sampled";
    /// See [`Self::Anomaly`].
    pub const ANOMALY: &'static str = "anomaly";
    /// What each takes unless it is told.
    pub const DEFAULT_INTERVAL: Duration = Duration::from_ms(1);
    /// See [`Self::Sampled`].
    pub const DEFAULT_BYTES: u64 = 1024 * 1024;
    /// See [`Self::Anomaly`].
    pub const DEFAULT_TIMES: u32 = 2;
    /// No interval is shorter: probes would be most of what is sent.
    pub const SHORTEST: Duration = Duration::from_us(10);
    /// No path is probed after fewer bytes.
    pub const FEWEST_BYTES: u64 = 4096;
}
