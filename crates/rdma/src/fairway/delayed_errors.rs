//! Errors of operations whose target does not take part, reported after the delay that an adapter
//! would take.

use fairway::embed::Core;
use fairway_roce::Transport;
use fairway_runtime::clock;
use fairway_ub::Status::{PeerClosed, ReceiverNotReady, RemoteNoJetty};
use fairway_ub::wire::JettyId;

use super::tables::{DelayedError, Verbs};

impl Verbs {
    /// Processes the end of an operation of the protocol.
    pub(super) fn sent(&mut self, core: &mut Core, jetty: JettyId, ended: &fairway_ub::Completion) {
        if ended.status != ReceiverNotReady {
            return self.end_or_delay(core, jetty, ended);
        }
        match self.needs_receive(jetty, ended) {
            // The operation needs no receive, so the queue pair itself is not ready.
            Some(false) => {
                let ended = fairway_ub::Completion { status: RemoteNoJetty, ..*ended };
                self.end_or_delay(core, jetty, &ended);
            }
            Some(true) if self.keeps_undecided(core, jetty.value(), ended) => {}
            Some(true) | None => self.finish(core, jetty, ended),
        }
    }

    /// True if an operation of a reliable connection takes a receive of the peer.
    fn needs_receive(&self, jetty: JettyId, ended: &fairway_ub::Completion) -> Option<bool> {
        let pair = self.pairs.get(jetty.value() as usize).and_then(Option::as_deref)?;
        let is_its_own = pair.life == (ended.id >> 32) as u32;
        let reliable = pair.config.transport == Transport::Rc && is_its_own;
        let send = pair.sends.get((ended.id as u32).wrapping_sub(pair.first) as usize)?;
        reliable.then(|| send.takes_receive())
    }

    /// Ends an operation.
    ///
    /// An adapter gets no answer from a missing queue pair, and retries for as long as the program
    /// configured. Programs rely on that time to end a connection in good order although the peer
    /// was faster. The protocol detects a missing queue pair at once, so the error is delayed by
    /// that time.
    pub(super) fn end_or_delay(
        &mut self,
        core: &mut Core,
        jetty: JettyId,
        ended: &fairway_ub::Completion,
    ) {
        let pair = self.pairs.get(jetty.value() as usize).and_then(Option::as_deref);
        match pair.filter(|_| matches!(ended.status, PeerClosed | RemoteNoJetty)) {
            Some(pair) if pair.config.transport == Transport::Rc => {
                let at = clock::now() + pair.timeout;
                self.delayed_errors.push(DelayedError { at, jetty, ended: *ended });
            }
            _ => self.finish(core, jetty, ended),
        }
    }

    /// Reports the errors whose delay is over.
    pub(super) fn report_delayed_errors(&mut self, core: &mut Core) {
        let now = clock::now();
        let due: Vec<DelayedError> =
            self.delayed_errors.extract_if(.., |one| now.is_at_or_after(one.at)).collect();
        due.iter().for_each(|one| self.finish(core, one.jetty, &one.ended));
    }
}
