//! Channels that rest while they are not used.

use super::{Controllers, EntryState, UbDevice};
use crate::api::{ChannelConfig, ChannelId, SetupError};
use crate::channel::Channel;
use crate::names::ChannelIndex;
use fairway_wire::{Instant, Tpn};

impl UbDevice {
    /// Frees the memory of a channel on which nothing is under way. Its number stays taken, and a
    /// few bytes keep what it needs to continue. Until [`Self::resume_channel`] is called, nothing
    /// may be posted to it and packets for it are dropped ([`Self::unopened`]), so this is for
    /// callers that look before they hand over a packet: simulators of many channels.
    ///
    /// The channel forgets what its policies have learned. If it may send more operations
    /// (`sends_again`), it rests only if it has sent none yet. A resumed channel then does what it
    /// would have done without the rest, to the bit, except that resting channels send no
    /// keep-alives.
    ///
    /// Returns false, and changes nothing, if the channel is not open, has anything under way, is
    /// one of a group, probes its paths, or has used credit, datagrams, loads or stores; or if
    /// flows are scheduled or traced, or congestion controls run apart from the data path.
    pub fn rest_channel(&mut self, id: ChannelId, sends_again: bool) -> bool {
        let is_turn = |turn: &super::Turn| turn.channel == Some(id.record());
        let flows = &self.shared.flows;
        if flows.are_scheduled()
            || flows.trace.is_some()
            || self.shared.backpressure.credit().is_some()
            || !matches!(self.controllers, Controllers::Direct)
            || self.turns.iter().any(is_turn)
        {
            return false;
        }
        let Some((shared, channel)) = self.open(id) else { return false };
        let Some(resting) = channel.rest(shared, sends_again) else { return false };
        channel.give_back(shared);
        shared.flows.forget_idle(id.record());
        self.entries[id.index()].state = EntryState::Resting(alloc::boxed::Box::new(resting));
        true
    }

    /// Opens a channel again that rests, with the parameters of [`Self::open_channel`] except for
    /// the first numbers, which are those at which it stopped.
    ///
    /// # Errors
    /// `Missing` if the channel does not rest.
    pub fn resume_channel(
        &mut self,
        now: Instant,
        id: ChannelId,
        config: ChannelConfig,
    ) -> Result<(), SetupError> {
        let resting = match self.entry(id).map(|entry| &entry.state) {
            Some(EntryState::Resting(resting)) => **resting,
            _ => return Err(SetupError::Missing),
        };
        let limits = *self.shared.config.limits();
        let mut channel = Channel::new(id, config, &limits, now);
        channel.resume(&mut self.shared, &limits, &resting);
        self.entries[id.index()].state = EntryState::Open(channel);
        Ok(())
    }

    /// The channel with a number on the wire, if it is only reserved or rests
    /// ([`Self::rest_channel`]): it has to be opened before a packet for it is handled.
    #[inline]
    pub fn unopened(&self, tpn: Tpn) -> Option<ChannelId> {
        let id = ChannelId(tpn.value());
        let state = self.entry(id).map(|entry| &entry.state);
        matches!(state, Some(EntryState::Reserved | EntryState::Resting(_))).then_some(id)
    }

    /// True if a channel rests ([`Self::rest_channel`]).
    pub fn is_resting(&self, id: ChannelId) -> bool {
        matches!(self.entry(id).map(|entry| &entry.state), Some(EntryState::Resting(_)))
    }

    /// Acts as if the channels of so many peers had been opened in order at `now`, which are opened
    /// when they are first used: for the records of messages that are reserved for answers to
    /// peers, and the order in which channels have their turns whose deadlines are equal.
    ///
    /// # Panics
    /// If the NIC has fewer channels.
    pub fn expect_channels(&mut self, now: Instant, channels: u32) {
        self.expected_channels = channels;
        let at = now + self.shared.config.profile().keep_alive;
        for channel in (0..channels).map(ChannelIndex::of) {
            self.shared.schedule.wake_by(channel, at);
        }
    }
}
