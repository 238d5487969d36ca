//! The acknowledgement that a data packet carries, so that it needs no packet of its own.

use super::{AckState, TpChannel};
use crate::injected_bug::InjectedBug;
use crate::shared::Shared;
use fairway_wire::{CarriedAck, Cci, Instant};

impl AckState {
    /// True if an acknowledgement is due, and a data packet can carry all that it has to report.
    pub(in crate::channel) fn can_be_carried(&self, shared: &Shared, tp: &TpChannel) -> bool {
        let receive = tp.receive();
        let has_gap = receive.end() != receive.base() || self.has_reported_gap;
        let is_placed =
            self.blocked.is_empty() || shared.is_injected(InjectedBug::CarryBeforePlacement);
        let newest = receive.base().minus(1);
        self.is_due
            && !has_gap
            && is_placed
            && !self.has_news
            && (!self.echo || tp.echo() == newest)
            && self.paths.tells_only(newest)
            && self.answers.is_empty()
            && self.trimmed.is_empty()
            && self.cci == Cci::NONE
            && !shared.backpressure.slows_peers()
    }

    /// Reads the register for a data packet, and clears it. [`Self::can_be_carried`] has to hold.
    pub(in crate::channel) fn take_carried(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        tp: &TpChannel,
    ) -> CarriedAck {
        let (flags, delay) = self.told_echo(now);
        let window = tp.receive().recordable(&shared.bitmap_blocks).min(0xFFFF) as u16;
        self.paths.forget();
        shared.counters.acks_carried += 1;
        self.clear_due();
        CarriedAck::new(tp.receive().base().minus(1), flags, delay, window)
    }
}
