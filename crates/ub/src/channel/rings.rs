//! A channel's entries in the rings by which the device finds the channels that have work.

use crate::names::ChannelIndex;
use crate::shared::Schedule;

/// Which of the device's rings contain the channel. Each contains it at most once.
#[derive(Debug)]
pub(super) struct Rings {
    /// The channel's index.
    channel: ChannelIndex,
    /// The engine that sends the channel's packets.
    engine: u32,
    in_ready: bool,
    in_urgent: bool,
    is_blocked_on_pool: bool,
}

impl Rings {
    pub(super) fn new(channel: ChannelIndex, engine: u32) -> Rings {
        Rings { channel, engine, in_ready: false, in_urgent: false, is_blocked_on_pool: false }
    }

    /// True if the channel is in none of the rings.
    pub(super) fn are_left(&self) -> bool {
        !self.in_ready && !self.in_urgent && !self.is_blocked_on_pool
    }

    /// Puts the channel behind the others that may have data to send.
    #[inline]
    pub(super) fn enter_ready(&mut self, schedule: &mut Schedule) {
        if !self.in_ready {
            self.in_ready = true;
            schedule.push_ready(self.engine, self.channel);
        }
    }

    /// Puts the channel behind the others that have control packets, which precede data.
    #[inline]
    pub(super) fn enter_urgent(&mut self, schedule: &mut Schedule) {
        if !self.in_urgent {
            self.in_urgent = true;
            schedule.push_urgent(self.engine, self.channel);
        }
    }

    /// Notes that the channel's next acknowledgement covers as many packets as it is to cover at
    /// most.
    #[inline]
    pub(super) fn note_full_ack(&self, schedule: &mut Schedule) {
        schedule.note_full_ack(self.engine);
    }

    /// Puts the channel behind the others that lack a send-window block.
    pub(super) fn enter_blocked(&mut self, schedule: &mut Schedule) {
        if !self.is_blocked_on_pool {
            self.is_blocked_on_pool = true;
            schedule.push_blocked(self.channel);
        }
    }

    /// Notes that the device has taken the channel out of the ring of those that may have data to
    /// send.
    #[inline]
    pub(super) fn left_ready(&mut self) {
        self.in_ready = false;
    }

    /// Notes that the device has taken the channel out of the ring of those with control packets.
    #[inline]
    pub(super) fn left_urgent(&mut self) {
        self.in_urgent = false;
    }

    /// Notes that the channel was taken out of the ring of those that lack a send-window block.
    pub(super) fn left_blocked(&mut self) {
        self.is_blocked_on_pool = false;
    }
}
