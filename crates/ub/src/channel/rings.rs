//! A channel's places in the rings by which the NIC finds the channels that have something to do.

use crate::names::ChannelIndex;
use crate::shared::Schedule;

/// Which of the NIC's rings a channel stands in. It stands in each of them once at most.
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

    /// PutStreams the channel behind the others that may have data to send.
    #[inline]
    pub(super) fn enter_ready(&mut self, schedule: &mut Schedule) {
        if !self.in_ready {
            self.in_ready = true;
            schedule.push_ready(self.engine, self.channel);
        }
    }

    /// PutStreams the channel behind the others that have to send something that goes before data.
    #[inline]
    pub(super) fn enter_urgent(&mut self, schedule: &mut Schedule) {
        if !self.in_urgent {
            self.in_urgent = true;
            schedule.push_urgent(self.engine, self.channel);
        }
    }

    /// PutStreams the channel behind the others that lack a send-window block.
    pub(super) fn enter_blocked(&mut self, schedule: &mut Schedule) {
        if !self.is_blocked_on_pool {
            self.is_blocked_on_pool = true;
            schedule.push_blocked(self.channel);
        }
    }

    /// The NIC has taken the channel out of the ring of those that may have data to send.
    #[inline]
    pub(super) fn left_ready(&mut self) {
        self.in_ready = false;
    }

    /// The NIC has taken the channel out of the ring of those with something urgent to send.
    #[inline]
    pub(super) fn left_urgent(&mut self) {
        self.in_urgent = false;
    }

    /// The channel was taken out of the ring of those that lack a send-window block.
    pub(super) fn left_blocked(&mut self) {
        self.is_blocked_on_pool = false;
    }
}
