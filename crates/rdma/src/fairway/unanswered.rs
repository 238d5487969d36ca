//! Sends to queue pairs that are gone.

use fairway::embed::Core;
use fairway_engine::wire::JettyId;
use fairway_roce::Transport;
use fairway_runtime::clock;

use super::tables::{Unanswered, Verbs};

impl Verbs {
    /// An operation of the engine's has ended.
    ///
    /// Adapters hear nothing from a queue pair that is gone, and try again for as long as the
    /// program said: programs count on that time to end a connection in good order, though the peer
    /// was faster. Here that is known at once, and told when it would have been.
    pub(super) fn sent(
        &mut self,
        core: &mut Core,
        jetty: JettyId,
        ended: &fairway_engine::Completion,
    ) {
        use fairway_engine::Status::{PeerClosed, RemoteNoJetty};
        let pair = self.pairs.get(jetty.value() as usize).and_then(Option::as_deref);
        match pair.filter(|_| matches!(ended.status, PeerClosed | RemoteNoJetty)) {
            Some(pair) if pair.config.transport == Transport::Rc => {
                let at = clock::now() + pair.patience;
                self.unanswered.push(Unanswered { at, jetty, ended: *ended });
            }
            _ => self.finish(core, jetty, ended),
        }
    }

    /// Gives up on what has not been answered for long enough.
    pub(super) fn look_at_unanswered(&mut self, core: &mut Core) {
        let now = clock::now();
        let due: Vec<Unanswered> =
            self.unanswered.extract_if(.., |one| now.is_at_or_after(one.at)).collect();
        due.iter().for_each(|one| self.finish(core, one.jetty, &one.ended));
    }
}
