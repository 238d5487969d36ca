//! When a channel measures the round trip of its paths by probes (SCR §4.2.1).
//!
//! Acknowledgements show the round trip of data, including the delay of the hosts' queues. A probe
//! is a small separate packet, whose answer contains the time it spent at the peer; the rest is the
//! delay of the fabric. Probes also measure paths on which nothing is sent.

use fairway_wire::Duration;

/// When to probe a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeSpec {
    /// Never.
    #[default]
    Off,
    /// Probes every path once per interval, one after the other, whether it is in use or not.
    Periodic {
        /// The interval in which all paths are probed.
        interval: Duration,
    },
    /// Probes a path each time that this many bytes have been sent on it.
    Sampled {
        /// Bytes, headers included.
        bytes: u64,
    },
    /// Probes a path that loses packets, or whose round trip is a multiple of the shortest one
    /// seen.
    Anomaly {
        /// The multiple.
        times: u32,
    },
}

impl ProbeSpec {
    /// Name of [`Self::Off`] in a specification.
    pub const OFF: &'static str = "off";
    /// Name of [`Self::Periodic`] in a specification.
    pub const PERIODIC: &'static str = "periodic";
    /// Name of [`Self::Sampled`] in a specification.
    pub const SAMPLED: &'static str = "sampled";
    /// Name of [`Self::Anomaly`] in a specification.
    pub const ANOMALY: &'static str = "anomaly";
    /// Default interval of [`Self::Periodic`].
    pub const DEFAULT_INTERVAL: Duration = Duration::from_ms(1);
    /// Default number of bytes of [`Self::Sampled`].
    pub const DEFAULT_BYTES: u64 = 1024 * 1024;
    /// Default multiple of [`Self::Anomaly`].
    pub const DEFAULT_TIMES: u32 = 2;
    /// Shortest allowed interval; with a shorter one, most packets would be probes.
    pub const SHORTEST: Duration = Duration::from_us(10);
    /// Smallest allowed number of bytes between probes of a path.
    pub const FEWEST_BYTES: u64 = 4096;
}
