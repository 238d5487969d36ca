//! Notices of refused requests.
//!
//! An adapter's queue pair fails when it refuses a request of its peer. A Jetty cannot fail at that
//! moment, because packets of earlier requests, which are to succeed, may still be under way. So
//! the initiator, which completes requests in order, tells the target of a refusal once everything
//! before the refused request has completed. Notices travel between Jetties of their own, as the
//! immediate data of SENDs of no bytes.

use fairway::embed::Core;
use fairway_roce::{Event, QueuePairState, Status, Transport};
use fairway_ub::wire::roce::NakCode;
use fairway_ub::{Completion, CompletionKind};

use super::notice::{Cause, NOTICES, Notice};
use super::tables::Verbs;

impl Verbs {
    /// Tells the peer of a queue pair that it has refused a request, which has failed with
    /// `status` and may have been a SEND. If there is no room for the notice, the peer is not told.
    pub(super) fn tell_refusal(
        &self,
        core: &mut Core,
        local: u32,
        (status, is_send): (Status, bool),
    ) {
        let Some(pair) = self.pairs[local as usize].as_deref() else { return };
        let cause = match status {
            Status::RemoteAccess => Cause::Access,
            Status::RemoteInvalidRequest if is_send => Cause::TooLong,
            Status::RemoteInvalidRequest => Cause::Invalid,
            _ => return,
        };
        let (Some(channel), Transport::Rc) = (&pair.channel, pair.config.transport) else { return };
        let notice = Notice { secret: pair.token, local: pair.peer.queue_pair.value(), cause };
        self.notices.send(core, channel.channel, notice);
    }

    /// Processes a notice, if a completion is that of one.
    pub(super) fn takes_notice(&mut self, core: &mut Core, ended: &Completion) -> bool {
        if ended.jetty != NOTICES {
            return false;
        }
        if ended.kind != CompletionKind::Receive {
            // A notice did not reach its peer.
            return true;
        }
        self.notices.post_receive(core);
        let notice = ended.immediate.and_then(Notice::decode);
        if let Some(notice) = notice.filter(|_| self.notices.are_heeded()) {
            self.heed(core, notice);
        }
        true
    }

    fn heed(&mut self, core: &mut Core, notice: Notice) {
        let local = notice.local;
        let Some(pair) = self.pairs.get(local as usize).and_then(Option::as_deref) else { return };
        if pair.config.transport != Transport::Rc || pair.state == QueuePairState::Error {
            return;
        }
        let Some(secret) = pair.secret else { return };
        if secret != notice.secret {
            return self.notices.note_wrong();
        }
        let queue_pair = pair.number;
        let first = match notice.cause {
            Cause::TooLong => Status::LocalLength,
            Cause::Access | Cause::Invalid => Status::Flushed,
        };
        let has_receive = self.enter_error_by(core, local, first);
        let code = match notice.cause {
            Cause::Access => NakCode::RemoteAccess,
            // The completion reports it.
            Cause::TooLong if has_receive => return,
            Cause::TooLong | Cause::Invalid => NakCode::InvalidRequest,
        };
        self.event(Event::Refused { queue_pair, code });
    }
}
