//! Settings of a communicator.

use fairway::Builder;
use fairway_collectives::{Algorithm, Costs, Means};
use std::time::Duration;

/// Silence after which a rank is given up, however soon its calls fail.
const SILENCE: Duration = Duration::from_secs(3);

/// Settings of a [`crate::Communicator`]. All ranks of a group must choose the same ones, except
/// for [`Options::context`] and the times.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings of the rank's NIC: address, paths, policy.
    pub context: Builder,
    /// Time after which a call that has not ended fails (default: 30 minutes).
    pub timeout: Duration,
    /// Time for all ranks to connect to each other (default: 60 seconds).
    pub setup_timeout: Duration,
    /// Time after which the others give a rank up that answers none of their packets, because its
    /// host or its process has stopped, or the network is cut; at most [`Options::timeout`] or 3
    /// seconds, whichever is longer (default: 30 seconds). The end of a process is noticed earlier:
    /// at once if it closes its connections, and within a second if it was killed and its number is
    /// known on this host. Overrides [`fairway::Profile::peer_dead`] of the context.
    pub peer_timeout: Duration,
    /// The algorithm of every call that it can execute; `None`, the default: the one with the
    /// lowest estimate.
    pub algorithm: Option<Algorithm>,
    /// The costs by which algorithms are estimated; `None`, the default: they are measured when the
    /// group has connected, which takes some milliseconds.
    pub costs: Option<Costs>,
    /// Length of a slot in bytes, a multiple of 8 (default: 256 KiB). A rank has
    /// [`Options::slots`] of them for each other rank; memory is used when messages arrive in it.
    pub slot_bytes: u32,
    /// Number of slots for each other rank, from 4 to 32 (default: 16).
    pub slots: u32,
    /// Length of output buffers, in bytes, from which on messages go straight to their place
    /// instead of through slots (default: 128 KiB).
    pub direct_from: u64,
    /// Length of messages, in bytes, from which on a rank reads them from the buffer of a sender on
    /// the same host instead of taking them from a slot, if they are not to be combined (default:
    /// 128 KiB; `u32::MAX`: never).
    pub lend_from: u32,
}

impl Default for Options {
    fn default() -> Options {
        let means = Means::default();
        Options {
            context: Builder::default(),
            timeout: Duration::from_secs(30 * 60),
            setup_timeout: Duration::from_secs(60),
            peer_timeout: Duration::from_secs(30),
            algorithm: None,
            costs: None,
            slot_bytes: means.slot_bytes,
            slots: means.slots,
            direct_from: means.direct_from,
            lend_from: 128 << 10,
        }
    }
}

impl Options {
    /// Silence after which another rank is given up.
    pub(crate) fn silence_max(&self) -> Duration {
        self.peer_timeout.min(self.timeout.max(SILENCE))
    }

    /// What a rank has for the messages of others.
    pub(crate) fn means(&self) -> Means {
        let Options { slots, slot_bytes, direct_from, .. } = *self;
        Means { slots, slot_bytes, direct_from }
    }
}
