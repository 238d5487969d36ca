//! The record of one connection.

use super::admission::Holder;
use super::api::{ConnectionId, ListenerId, Sender, State};
use super::limits::Profile;
use fairway_wire::roce::cm::{CommunicationId, MAD_LEN, Names};
use fairway_wire::{Duration, Instant, Qpn};

/// Unit of the specification's time-outs, in nanoseconds: a code `n` means this × 2^n.
const TICK_NS: u64 = 4_096;

pub(super) struct Record {
    /// The id at this end; zero if the record is not in use.
    pub id: ConnectionId,
    pub state: State,
    /// The place of the record in the order in which records were opened.
    pub opened: u64,
    /// The network address of the peer.
    pub peer: u64,
    /// The id at the peer; zero while it is not known.
    pub remote: CommunicationId,
    /// The peer's queue pair.
    pub queue_pair: Qpn,
    /// The listener that received the request; `None` at the end that sent it.
    pub listener: Option<ListenerId>,
    /// The source to which the record counts, if another host requested it.
    pub holder: Option<Holder>,
    /// True for a query (SIDR), false for a connection.
    pub is_query: bool,
    /// True if the program has received the request, which then leaves the backlog.
    pub is_delivered: bool,
    /// True if the program has closed the connection, which then reports no more events.
    pub is_orphan: bool,
    /// True if it was connected, so that its queue pair has to wait before it is reused.
    pub was_connected: bool,
    /// End of the extension that the peer was granted since the last counted repetition. Until then
    /// the message is repeated, because the peer's answer may be lost, but these repetitions do not
    /// count.
    pub extended_until: Option<Instant>,
    /// True if the peer has proven that it receives at its source address: this end sent the
    /// request to it, or its message contains something that it can only have received.
    pub is_proven: bool,
    /// Datagrams that may be sent to a peer that has proven nothing: one for each received.
    pub credit: u32,
    /// The number of the exchange that established the connection.
    pub transaction: u64,
    /// The GUID of this end's adapter.
    pub ca_guid: u64,
    /// The last message sent, which is repeated on a time-out or when the peer repeats its own.
    pub last: [u8; MAD_LEN],
    /// How often a message may be repeated.
    pub repeats_max: u8,
    /// How many repetitions are left.
    pub repeats: u8,
    /// Time until the next repetition.
    pub retry_interval: Duration,
    /// The next time at which the record has to be handled.
    pub deadline: Option<Instant>,
    /// How long the ended connection is remembered.
    pub wait: Duration,
    /// Until when the ended connection has to be remembered.
    pub over_at: Instant,
    /// True if the peer did not answer; it is sent a REJ when it repeats its message.
    pub gave_up: bool,
}

impl Record {
    pub(super) fn new(peer: u64, state: State, transaction: u64) -> Record {
        Record {
            id: CommunicationId(0),
            state,
            opened: 0,
            peer,
            remote: CommunicationId(0),
            queue_pair: Qpn::new(0),
            listener: None,
            holder: None,
            is_query: false,
            is_delivered: false,
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
    pub(super) fn of_peer(
        from: &Sender,
        state: State,
        transaction: u64,
        listener: ListenerId,
    ) -> Record {
        let (listener, holder) = (Some(listener), Holder::of(from));
        let new = Record::new(from.number, state, transaction);
        Record { listener, holder, is_proven: false, credit: 1, ..new }
    }

    /// Whether a datagram may be sent to the peer. If so, it counts as sent.
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

    /// True if the record is only remembered, and may be replaced when the table is full.
    pub(super) fn is_spare(&self) -> bool {
        self.is_orphan && self.state == State::Waiting
    }

    /// True if the connection's queue pairs may be in use.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.state, State::Accepting | State::Established | State::Disconnecting)
    }

    /// True if a message of the peer with these ids is about this connection.
    pub(super) fn is_meant(&self, from: u64, names: Names) -> bool {
        self.id == names.remote && self.remote == names.local && self.peer == from
    }
}

/// The time of a code of 5 bits, not less than `min` and not more than `max`.
pub(super) fn timeout(code: u8, min: Duration, max: Duration) -> Duration {
    Duration::from_ns(TICK_NS << code.min(31)).max(min).min(max)
}

/// How long an ended connection over a path with this time-out is remembered (12.9.8.4: twice the
/// packet's lifetime, which is the time that an acknowledgement takes).
pub(super) fn wait(profile: &Profile, ack_timeout: u8) -> Duration {
    timeout(ack_timeout, profile.wait_min, profile.wait_max)
}
