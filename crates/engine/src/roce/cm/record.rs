//! One connection.

use super::api::{ConnectionId, ListenerId, State};
use super::limits::Profile;
use fairway_wire::roce::cm::{CommunicationId, MAD_LEN, Names};
use fairway_wire::{Duration, Instant, Qpn};

/// A unit of the specification's timeouts, in nanoseconds: a code `n` means this × 2^n.
const TICK_NS: u64 = 4_096;

pub(super) struct Record {
    /// Zero: not in use.
    pub id: ConnectionId,
    pub state: State,
    /// The network address of the peer.
    pub peer: u64,
    /// The peer's name for it; zero while it is not known.
    pub remote: CommunicationId,
    /// The peer's queue pair.
    pub queue_pair: Qpn,
    /// Who was asked; `None` at the end that asks.
    pub listener: Option<ListenerId>,
    /// It is a query (SIDR), not a connection.
    pub is_query: bool,
    /// Nobody wants to hear of it any more.
    pub is_orphan: bool,
    /// It was connected, so that its queue pair has to wait.
    pub was_connected: bool,
    /// The peer was granted more time since we last repeated.
    pub is_extended: bool,
    /// The exchange that established it.
    pub transaction: u64,
    /// This end's adapter.
    pub ca_guid: u64,
    /// What was sent last, to be repeated: by the clock, or when the peer asks again.
    pub last: [u8; MAD_LEN],
    /// How often it may be repeated.
    pub repeats_max: u8,
    /// How often it may still be.
    pub repeats: u8,
    /// After how long.
    pub patience: Duration,
    /// When something has to be done about it.
    pub deadline: Option<Instant>,
    /// How long an end is remembered.
    pub wait: Duration,
}

impl Record {
    pub(super) fn new(peer: u64, state: State, transaction: u64) -> Record {
        Record {
            id: CommunicationId(0),
            state,
            peer,
            remote: CommunicationId(0),
            queue_pair: Qpn::new(0),
            listener: None,
            is_query: false,
            is_orphan: false,
            was_connected: false,
            is_extended: false,
            transaction,
            ca_guid: 0,
            last: [0; MAD_LEN],
            repeats_max: 0,
            repeats: 0,
            patience: Duration::ZERO,
            deadline: None,
            wait: Duration::ZERO,
        }
    }

    pub(super) fn names(&self) -> Names {
        Names { local: self.id, remote: self.remote }
    }

    /// Its queue pairs may be in use.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state, State::Accepting | State::Established | State::Disconnecting)
    }

    /// A message of the peer with these names is about it.
    pub(super) fn is_meant(&self, from: u64, names: Names) -> bool {
        self.id == names.remote && self.remote == names.local && self.peer == from
    }
}

/// What a code of 5 bits means, not less than `min` and not more than `max`.
pub(super) fn timeout(code: u8, min: Duration, max: Duration) -> Duration {
    Duration::from_ns(TICK_NS << code.min(31)).max(min).min(max)
}

/// How long the end of a connection over a path with this timeout is remembered (12.9.8.4: twice
/// the packet's lifetime, which is what an acknowledgement takes).
pub(super) fn wait(profile: &Profile, ack_timeout: u8) -> Duration {
    timeout(ack_timeout, profile.wait_min, profile.wait_max)
}
