//! One connection.

use super::admission::Holder;
use super::api::{ConnectionId, ListenerId, Sender, State};
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
    /// The listener that received the request; `None` at the end that sent it.
    pub listener: Option<ListenerId>,
    /// Whose it is, if another host has asked for it.
    pub holder: Option<Holder>,
    /// It is a query (SIDR), not a connection.
    pub is_query: bool,
    /// The program has closed it, so it has no more events.
    pub is_orphan: bool,
    /// It was connected, so that its queue pair has to wait.
    pub was_connected: bool,
    /// The peer was granted time until then, since we last gave up a repetition. It is asked again
    /// meanwhile, because its answer may get lost, but that does not count.
    pub extended_until: Option<Instant>,
    /// The peer receives at the address that it sends from: it is the one that this end asks, or
    /// has said what only an answer can have told it.
    pub is_proven: bool,
    /// Datagrams that may be sent to a peer that has proven nothing: one for each that came.
    pub credit: u32,
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
    pub retry_interval: Duration,
    /// When something has to be done about it.
    pub deadline: Option<Instant>,
    /// How long an end is remembered.
    pub wait: Duration,
    /// When it need not be remembered any more, once it is over.
    pub over_at: Instant,
    /// The peer did not answer: a REJ says so, when it asks again.
    pub gave_up: bool,
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
            holder: None,
            is_query: false,
            is_orphan: false,
            was_connected: false,
            extended_until: None,
            is_proven: true,
            credit: 0,
            transaction,
            ca_guid: 0,
            last: [0; MAD_LEN],
            repeats_max: 0,
            repeats: 0,
            retry_interval: Duration::ZERO,
            deadline: None,
            wait: Duration::ZERO,
            over_at: Instant::ZERO,
            gave_up: false,
        }
    }

    /// The record of a peer that has sent a request to this end.
    pub(super) fn asked(
        from: &Sender,
        state: State,
        transaction: u64,
        listener: ListenerId,
    ) -> Record {
        let (listener, holder) = (Some(listener), Holder::of(from));
        let new = Record::new(from.number, state, transaction);
        Record { listener, holder, is_proven: false, credit: 1, ..new }
    }

    /// May a datagram be sent to the peer? Then it counts as sent.
    pub(super) fn spend(&mut self) -> bool {
        if self.is_proven {
            return true;
        }
        let may = self.credit > 0;
        self.credit = self.credit.saturating_sub(1);
        may
    }

    pub(super) fn names(&self) -> Names {
        Names { local: self.id, remote: self.remote }
    }

    /// It only waits to be forgotten, and makes room for another when it has to.
    pub(super) fn is_spare(&self) -> bool {
        self.is_orphan && self.state == State::Waiting
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
