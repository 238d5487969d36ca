//! Errors of SENDs to missing queue pairs, reported after the delay that an adapter would take.

use fairway::embed::Core;
use fairway_roce::Transport;
use fairway_runtime::clock;
use fairway_ub::wire::JettyId;

use super::tables::{DelayedError, Verbs};

impl Verbs {
    /// Processes the end of an operation of the protocol.
    ///
    /// An adapter gets no answer from a missing queue pair, and retries for as long as the program
    /// configured. Programs rely on that time to end a connection in good order although the peer
    /// was faster. The protocol detects a missing queue pair at once, so the error is delayed by
    /// that time.
    pub(super) fn sent(&mut self, core: &mut Core, jetty: JettyId, ended: &fairway_ub::Completion) {
        use fairway_ub::Status::{PeerClosed, RemoteNoJetty};
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
