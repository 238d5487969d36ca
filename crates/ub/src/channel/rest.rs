//! Channels at rest, for simulators with many more channels than are busy at a time.
//!
//! Between two operations a channel needs little of its state: the numbers of both directions, and
//! what the next acknowledgement repeats. A channel goes to rest only if everything else is as in a
//! new one, so it continues as if it had never rested. What its policies have learned is lost;
//! callers that let a channel rest which sends again ([`crate::UbDevice::rest_channel`]) do so only
//! before it has sent anything.

use super::ack_state::AckRest;
use super::peer_reports::PeerReports;
use super::tp_channel::TpRest;
use super::{Channel, Timer};
use crate::injected_bug::InjectedBug;
use crate::limits::Limits;
use crate::shared::Shared;
use fairway_wire::Instant;

/// What is kept of a channel at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resting {
    tp: TpRest,
    acks: AckRest,
    reports: PeerReports,
    /// True if a block of send-window records is reserved for the channel, which it held.
    has_block: bool,
    last_received_at: Instant,
    keep_alive_at: Instant,
}

const _: () = assert!(size_of::<Resting>() <= 80);

impl Resting {
    /// When the channel's keep-alive would be due.
    pub(crate) fn keep_alive_at(&self) -> Instant {
        self.keep_alive_at
    }
}

impl Channel {
    /// What is to be kept if the channel goes to rest; `None` if it may not. A channel that
    /// `sends_again` may only rest if it has never sent anything.
    pub(crate) fn rest(&self, shared: &Shared, sends_again: bool) -> Option<Resting> {
        let (tp, acks) = (self.tp.rest()?, self.acks.rest()?);
        let has_nothing_to_send = self.send.is_at_rest()
            && self.line.is_at_rest()
            && self.slots.are_free()
            && self.retries.are_untouched()
            && self.rings.are_left();
        let has_nothing_else = self.inbound.is_untouched()
            && self.paths.are_at_rest()
            && self.congestion.is_without_credit()
            && self.bypass.is_untouched()
            && self.datagrams.as_ref().is_none_or(|datagrams| datagrams.is_untouched())
            && self.probes.are_absent()
            && self.life.is_quiet();
        let forgets_nothing = !sends_again || self.paths.is_untouched();
        let may_rest = has_nothing_to_send
            && has_nothing_else
            && forgets_nothing
            && shared.channels.is_alone(self.index())
            && self.leader == self.id;
        if !may_rest {
            return None;
        }
        Some(Resting {
            tp,
            acks,
            reports: self.recovery.reports(),
            has_block: self.send.holds_blocks(),
            last_received_at: self.life.last_received_at(),
            keep_alive_at: self.timers.only_keep_alive()?,
        })
    }

    /// Returns what a channel that goes to rest has taken from pools. The block of send-window
    /// records that it held stays reserved, so that other channels find as many as before.
    pub(crate) fn give_back(&mut self, shared: &mut Shared) {
        if self.send.holds_blocks() {
            self.send.flush(&mut shared.send_blocks);
            shared.send_blocks.reserve();
        }
    }

    /// Continues as the channel was before it went to rest.
    pub(crate) fn resume(&mut self, shared: &mut Shared, limits: &Limits, rest: &Resting) {
        self.tp.resume(&rest.tp, limits, shared.is_injected(InjectedBug::RestBehind));
        self.acks.resume(&rest.acks);
        self.recovery.set_reports(rest.reports);
        self.life.note_packet_received(rest.last_received_at);
        if rest.has_block {
            shared.send_blocks.unreserve();
            let has_block = self.send.admit(self.tp.next(), &mut shared.send_blocks);
            debug_assert!(has_block, "a block was reserved");
        }
        self.arm(&mut shared.schedule, Timer::KeepAlive, rest.keep_alive_at);
    }
}
