//! Opening and closing of channels and their groups.

use super::{Entry, EntryState, MTU_MAX, UbDevice, channel_at};
use crate::api::{ChannelConfig, ChannelId, Event, SetupError, Status};
use crate::channel::{Channel, Timer};
use crate::injected_bug::InjectedBug;
use crate::names::ChannelIndex;
use crate::shared::Shared;
use fairway_policy::SourceId;
use fairway_wire::Instant;

impl UbDevice {
    /// Reserves a channel number, to be sent to the peer. Follow with [`Self::open_channel`] or
    /// [`Self::release_channel`].
    ///
    /// # Errors
    /// `Limit` if all channels are taken.
    pub fn reserve_channel(&mut self) -> Result<ChannelId, SetupError> {
        let count = self.entries.len();
        let free = (0..count)
            .map(|step| (self.next_entry + step) % count)
            .find(|&index| matches!(self.entries[index].state, EntryState::Free));
        let index = free.ok_or(SetupError::Limit("channels"))?;
        self.next_entry = (index + 1) % count;
        self.entries[index].state = EntryState::Reserved;
        Ok(ChannelId(u32::from(self.entries[index].generation) << 16 | index as u32))
    }

    /// Releases a channel that was reserved and never opened.
    pub fn release_channel(&mut self, id: ChannelId) {
        if let Some(entry) = self.entry(id)
            && matches!(entry.state, EntryState::Reserved)
        {
            self.free_entry(id.record());
        }
    }

    /// Opens a reserved channel with the parameters on which both sides agreed. The channel's own
    /// memory is allocated here.
    ///
    /// # Errors
    /// `Missing` if the channel was not reserved, `Parameter` if a value is out of range.
    pub fn open_channel(
        &mut self,
        now: Instant,
        id: ChannelId,
        config: ChannelConfig,
    ) -> Result<(), SetupError> {
        if !self.entry(id).is_some_and(|entry| matches!(entry.state, EntryState::Reserved)) {
            return Err(SetupError::Missing);
        }
        let in_range = [
            ("engine", config.engine < self.shared.config.limits().engines),
            ("mtu", (1..=MTU_MAX).contains(&config.mtu)),
            ("paths", (1..=self.shared.config.limits().paths).contains(&config.paths)),
            ("remote_window", (1..=32_768).contains(&config.remote_window)),
            ("remote_message_slots", (1..=256).contains(&config.remote_message_slots)),
            ("remote_read_slots", (1..=256).contains(&config.remote_read_slots)),
        ];
        if let Some((name, _)) = in_range.iter().find(|(_, fine)| !fine) {
            return Err(SetupError::Parameter(name));
        }
        let leader = config.leader.unwrap_or(id);
        let fits = |first: &Channel| {
            first.leader == leader
                && (first.is_open() || first.is_retired())
                && first.remote() == config.remote
                && first.mtu == config.mtu
        };
        if leader != id && !self.open_ref(leader).is_some_and(fits) {
            return Err(SetupError::Parameter("leader"));
        }
        if !self.shared.channels.join(leader.record(), id.record()) {
            return Err(SetupError::Limit("channels of a group"));
        }
        let config = self.place_controller(now, id, config);
        let mut channel = Channel::new(id, config, self.shared.config.limits(), now);
        let at = now + self.shared.config.profile().keep_alive;
        channel.arm(&mut self.shared.schedule, Timer::KeepAlive, at);
        if let Some(trace) = &mut self.shared.flows.trace {
            trace.opened(id.index() as u32);
        }
        channel.begin_probing(&mut self.shared.schedule, now);
        self.entries[id.index()].state = EntryState::Open(channel);
        self.open_channels += 1;
        self.shared.arrivals.keep_slots(self.shared.config.limits().message_slots);
        Ok(())
    }

    /// Sends pending acknowledgements with the next packets that are polled, instead of waiting for
    /// more to acknowledge ([`Profile::acknowledge_delay`](crate::Profile)).
    pub fn acknowledge_at_once(&mut self) {
        for entry in &mut self.entries {
            if let EntryState::Open(channel) = &mut entry.state {
                channel.acknowledge_what_waits(&mut self.shared.schedule);
            }
        }
    }

    /// Sends the peer of an open channel a keep-alive message, which it answers at once
    /// ([`Self::last_received`]).
    pub fn probe_peer(&mut self, id: ChannelId) {
        if self.last_received(id).is_some()
            && let Some(channel) = channel_at(&mut self.entries, id.record())
        {
            channel.probe_peer(&mut self.shared);
        }
    }

    /// Sends the peer of an open channel a probe by the first of the channel's paths, so that the
    /// peer receives a packet from there.
    pub fn probe_first_path(&mut self, id: ChannelId) {
        if self.last_received(id).is_some()
            && let Some(channel) = channel_at(&mut self.entries, id.record())
        {
            channel.probe_path(&mut self.shared, 0);
        }
    }

    /// Flushes the operations of a channel and of those that joined it, and notifies the peer.
    /// [`Event::Closed`] reports when all channels have ended.
    ///
    /// # Errors
    /// `Missing` if the channel is not open, or leads no group.
    pub fn close_channel(&mut self, now: Instant, id: ChannelId) -> Result<(), SetupError> {
        let is_alive = |channel: &Channel| channel.is_open() || channel.is_retired();
        let leads = |channel: &Channel| channel.leader == id && is_alive(channel);
        if !self.open_ref(id).is_some_and(leads) {
            return Err(SetupError::Missing);
        }
        for member in self.shared.channels.get(id.record()).members() {
            let Some(channel) = channel_at(&mut self.entries, member) else { continue };
            if channel.leader != id {
                continue;
            }
            if channel.is_retired() {
                channel.end_retired(&mut self.shared, Status::Flushed);
                self.free_entry(member);
            } else if channel.is_open() {
                channel.close(&mut self.shared, now);
            }
        }
        self.shared.forget_group(id);
        Ok(())
    }

    /// Frees the channel that its peer has closed first, of those that only wait whether the peer
    /// repeats its close. Such a peer gives up after five attempts, in a tenth of a second. Returns
    /// false if there is none: for a caller that needs a channel at once.
    pub fn end_lingering(&mut self) -> bool {
        let lingering = |entry: &Entry| match &entry.state {
            EntryState::Open(channel) => channel.lingers_until(),
            _ => None,
        };
        let ends = self.entries.iter().enumerate();
        let ends = ends.filter_map(|(index, entry)| Some((lingering(entry)?, index)));
        let first = ends.reduce(|first, next| if next.0.is_before(first.0) { next } else { first });
        let Some((_, index)) = first else { return false };
        self.free_entry(ChannelIndex::of(index as u32));
        true
    }

    /// Ends the other channels of a group of which the peer has ended one, before anything else
    /// happens, because an operation may have to wait for one that was sent on another channel.
    pub(super) fn end_groups(&mut self, now: Instant) {
        while let Some((leader, status)) = self.shared.channels.pop_ended() {
            for member in self.shared.channels.get(leader.record()).members() {
                let Some(channel) = channel_at(&mut self.entries, member) else { continue };
                if channel.leader != leader {
                    continue;
                }
                let alone = self.shared.is_injected(InjectedBug::EndAlone);
                if channel.is_retired() {
                    channel.end_retired(&mut self.shared, status);
                } else if channel.is_open() && !alone {
                    channel.end_by_peer(&mut self.shared, now, status);
                }
                if channel.is_gone() {
                    self.free_entry(member);
                }
            }
            self.shared.forget_group(leader);
            self.shared.events.push_back(match status {
                Status::PeerDead => Event::PeerDead { channel: leader },
                _ => Event::PeerClosed { channel: leader },
            });
        }
    }

    /// While `suspended`, no peer is declared dead: for a caller whose system calls still send from
    /// memory while the NIC continues. Returns true if a peer would have been declared dead since
    /// the last call.
    pub fn suspend_teardown(&mut self, suspended: bool) -> bool {
        self.shared.channels.suspend_teardown(suspended)
    }

    pub(super) fn free_entry(&mut self, index: ChannelIndex) {
        let entry = &mut self.entries[index.number() as usize];
        let mut leader = index;
        let mut others = 0;
        if let EntryState::Open(channel) = &entry.state {
            self.open_channels -= 1;
            self.shared.arrivals.release_slots(self.shared.config.limits().message_slots);
            if let Some(policy) = self.shared.backpressure.credit_mut() {
                policy.source_gone(self.shared.flows.now, SourceId(index.number()));
            }
            leader = channel.group();
            let group = self.shared.channels.get_mut(leader);
            group.used -= 1;
            others = group.used;
        }
        // A group is found by its leader, so the leader's number is not reused until the last
        // channel has ended.
        let must_wait = leader == index && others > 0;
        entry.state = if must_wait { EntryState::Led } else { EntryState::Free };
        entry.generation = entry.generation.checked_add(1).unwrap_or(1);
        if leader != index
            && others == 0
            && let first = &mut self.entries[leader.number() as usize].state
            && matches!(first, EntryState::Led)
        {
            *first = EntryState::Free;
        }
        self.shared.schedule.remove(index);
        for turn in &mut self.turns {
            if turn.channel == Some(index) {
                turn.channel = None;
            }
        }
    }

    pub(super) fn entry(&self, id: ChannelId) -> Option<&Entry> {
        let entry = self.entries.get(id.index())?;
        (u32::from(entry.generation) == id.0 >> 16).then_some(entry)
    }

    pub(super) fn open(&mut self, id: ChannelId) -> Option<(&mut Shared, &mut Channel)> {
        match &mut self.entries.get_mut(id.index())?.state {
            EntryState::Open(channel) if channel.id == id => Some((&mut self.shared, channel)),
            _ => None,
        }
    }

    pub(super) fn open_ref(&self, id: ChannelId) -> Option<&Channel> {
        match &self.entries.get(id.index())?.state {
            EntryState::Open(channel) if channel.id == id => Some(channel),
            _ => None,
        }
    }
}
