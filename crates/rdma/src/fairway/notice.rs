//! Notices of refused requests, and the Jetty that sends and receives them ([`super::refusal`]).

use fairway::embed::Core;
use fairway_runtime::clock;
use fairway_ub::wire::{JettyId, ServiceMode, Tag, Target};
use fairway_ub::{
    ChannelId, CompletionQueueId, JettyConfig, LocalRange, OrderRequest, ReceiveRequest, Work,
    WorkRequest,
};

use crate::ProviderError;

/// The Jetty that sends and receives notices. Its number belongs to management, so no queue pair
/// has it.
pub(super) const NOTICES: JettyId = JettyId::new(1);
/// The secret of that Jetty. It is no secret, so that every peer can send notices: each has the
/// secret of the connection that it is about.
const TOKEN: u32 = 0x4e4f_5445;
/// Notices that may arrive before the first is processed; others are sent again.
const RECEIVES: u64 = 64;
/// Notices with wrong secrets after which no more are heeded, so that secrets cannot be guessed.
const WRONG_MAX: u32 = 256;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The key does not grant the access.
    Access,
    /// The request is invalid.
    Invalid,
    /// The message is longer than the receive that it would have taken.
    TooLong,
}

/// A notice, which is 64 bits long: bits 0 to 31 are the secret of the connection, 32 to 47 the
/// lower bits of the target's queue pair, and 48 to 49 the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) secret: u32,
    pub(super) local: u32,
    pub(super) cause: Cause,
}

impl Notice {
    fn encode(self) -> u64 {
        let cause: u64 = match self.cause {
            Cause::Access => 1,
            Cause::Invalid => 2,
            Cause::TooLong => 3,
        };
        cause << 48 | u64::from(self.local & 0xffff) << 32 | u64::from(self.secret)
    }

    /// Decodes 64 bits, unless they name no cause.
    pub(super) fn decode(bits: u64) -> Option<Notice> {
        let cause = match bits >> 48 {
            1 => Cause::Access,
            2 => Cause::Invalid,
            3 => Cause::TooLong,
            _ => return None,
        };
        Some(Notice { secret: bits as u32, local: (bits >> 32 & 0xffff) as u32, cause })
    }
}

/// The Jetty of notices, and how many were wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notices {
    nothing: LocalRange,
    wrong: u32,
}

impl Notices {
    /// Creates the Jetty. `nothing` is a range without bytes.
    pub(super) fn new(
        core: &mut Core,
        queue: CompletionQueueId,
        nothing: LocalRange,
    ) -> Result<Notices, ProviderError> {
        let limit = |_| ProviderError::Limit("queue pairs");
        let number = Some(NOTICES.value());
        let jetty = JettyConfig { number, ..JettyConfig::new(queue, queue) };
        core.nic.create_jetty(&jetty).map_err(limit)?;
        core.nic.set_jetty_token(NOTICES, TOKEN).map_err(limit)?;
        let notices = Notices { nothing, wrong: 0 };
        (0..RECEIVES).for_each(|_| notices.post_receive(core));
        Ok(notices)
    }

    /// Posts a receive for a notice.
    pub(super) fn post_receive(&self, core: &mut Core) {
        // If there is no room, one notice fewer can arrive at a time.
        let _ = core.nic.post_receive(NOTICES, &ReceiveRequest { id: 0, local: self.nothing });
    }

    /// Sends a notice on a channel, if there is room for it.
    pub(super) fn send(&self, core: &mut Core, channel: ChannelId, notice: Notice) {
        let target = Target { jetty: NOTICES, token_value: TOKEN, hint: 0 };
        let work = Work::SendImmediate { target, immediate: notice.encode() };
        let order = OrderRequest { mode: ServiceMode::Rol, tag: Tag::No, ..Default::default() };
        let (id, local, signaled) = (0, self.nothing, false);
        let request = WorkRequest { id, channel, work, local, signaled, order };
        let _ = core.nic.post(clock::now(), NOTICES, &request);
        core.note_end();
    }

    /// Counts a notice with a wrong secret.
    pub(super) fn note_wrong(&mut self) {
        self.wrong += 1;
    }

    /// True unless too many notices were wrong.
    pub(super) fn are_heeded(&self) -> bool {
        self.wrong < WRONG_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_survives_the_wire() {
        for cause in [Cause::Access, Cause::Invalid, Cause::TooLong] {
            let notice = Notice { secret: 0x8765_4321, local: 0xfedc, cause };
            assert_eq!(Notice::decode(notice.encode()), Some(notice));
        }
        assert_eq!([0, 4 << 48, u64::MAX].map(Notice::decode), [None; 3]);
    }
}
