//! State of a NIC that callers may read, and checks of it.

use super::{Entry, EntryState, UbDevice};
use crate::api::ChannelId;
use crate::counters::Counters;
use crate::injected_bug::InjectedBug;
use crate::limits::Limits;
use fairway_policy::PathView;
use fairway_wire::{Cna, Duration, Instant, Psn};

impl UbDevice {
    /// This NIC's node address.
    pub fn address(&self) -> Cna {
        self.shared.config.address()
    }

    /// The limits with which the NIC was created.
    pub fn limits(&self) -> &Limits {
        self.shared.config.limits()
    }

    /// The counters of this NIC.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The channels of the group that `leader` leads, the leader first; none if the leader is not
    /// open.
    pub fn members(&self, leader: ChannelId) -> impl Iterator<Item = ChannelId> + use<'_> {
        let first = self.open_ref(leader).map(|channel| channel.group());
        let members = first.into_iter().flat_map(|group| self.shared.channels.get(group).members());
        members.filter_map(move |index| match &self.entries[index.number() as usize].state {
            EntryState::Open(channel) if channel.leader == leader => Some(channel.id),
            _ => None,
        })
    }

    /// The paths of an open channel; empty if it is not open, or retired. With
    /// [`Limits::allocates_on_use`], paths at the end that were never used are missing.
    pub fn paths(&self, id: ChannelId) -> &[PathView] {
        match self.open_ref(id) {
            Some(channel) if !channel.is_retired() => channel.path_views(),
            _ => &[],
        }
    }

    /// Number of paths of an open channel; 0 if it is not open.
    pub fn path_count(&self, id: ChannelId) -> usize {
        self.open_ref(id).map_or(0, |channel| channel.path_count())
    }

    /// Smoothed round trip of an open channel; zero before the first sample.
    pub fn round_trip(&self, id: ChannelId) -> Duration {
        self.open_ref(id).map_or(Duration::ZERO, |channel| channel.round_trip())
    }

    /// Bytes that the congestion control allows in flight, and bytes in flight.
    pub fn window(&self, id: ChannelId) -> Option<(u64, u64)> {
        let channel = self.open_ref(id)?;
        Some((channel.controller().window_bytes(), u64::from(channel.flight())))
    }

    /// The oldest packet of an open channel that was sent and is not acknowledged. `None` if there
    /// is none, or the channel is not open.
    pub fn oldest_unacknowledged(&self, id: ChannelId) -> Option<Psn> {
        self.open_ref(id)?.oldest_unacknowledged()
    }

    /// True if the channel is open, so that work may be posted to it if it leads its group. A
    /// channel that is retired counts as open until its group ends.
    pub fn is_open(&self, id: ChannelId) -> bool {
        self.open_ref(id).is_some_and(|channel| channel.is_open() || channel.is_retired())
    }

    /// True if the channel is retired: dead, while its group goes on
    /// ([`Event::ChannelRetired`](crate::Event::ChannelRetired)).
    pub fn is_retired(&self, id: ChannelId) -> bool {
        self.open_ref(id).is_some_and(|channel| channel.is_retired())
    }

    /// Time at which an operation was last posted to a connection, or a packet of one of the peer's
    /// operations arrived, on any channel of the group that `leader` begins. `None` if the leader
    /// is not open.
    pub fn last_used(&self, leader: ChannelId) -> Option<Instant> {
        self.open_ref(leader)?;
        let members = self.shared.channels.get(leader.record()).members();
        let used = members.filter_map(|index| match &self.entries[index.number() as usize].state {
            EntryState::Open(channel) => Some(channel.used_at()),
            _ => None,
        });
        used.reduce(Instant::max)
    }

    /// When the last packet of the peer arrived on an open channel, or when that was opened. `None`
    /// if it is not open, or retired.
    pub fn last_received(&self, id: ChannelId) -> Option<Instant> {
        let channel = self.open_ref(id).filter(|channel| channel.is_open())?;
        Some(channel.last_received_at())
    }

    /// Number of further operations that may be posted, all channels together.
    pub fn messages_free(&self) -> u32 {
        let free = self.shared.messages.capacity() - self.shared.messages.in_use();
        free.saturating_sub(self.kept_for_answers())
    }

    /// Injects a bug. Does nothing unless the crate was built with the feature `injected-bugs`.
    pub fn inject(&mut self, bug: Option<InjectedBug>) {
        self.shared.config.inject(bug);
    }

    /// Checks the invariants between any two calls: every packet sent is acknowledged, lost or in
    /// flight, on its path and in total; and no more losses are revoked than were declared.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn audit(&mut self) {
        for entry in &mut self.entries {
            if let EntryState::Open(channel) = &mut entry.state {
                channel.audit(&mut self.shared.send_blocks);
            }
        }
        let counters = &self.shared.counters;
        assert!(counters.lost_revoked <= counters.lost, "only what was declared lost is revoked");
    }

    pub(crate) fn channels_in_use(&self) -> u32 {
        let used = |entry: &&Entry| !matches!(entry.state, EntryState::Free);
        self.entries.iter().filter(used).count() as u32
    }

    pub(crate) fn jetties_in_use(&self) -> u32 {
        self.shared.jetties.in_use()
    }
}
