//! What the engine has done becomes what the program is told.

use fairway_engine::CompletionKind;

use super::tables::Verbs;
use crate::core::Core;

impl Verbs {
    /// Takes in what the engine has to say, and goes on with what that lets go on. Called whenever
    /// the lock is about to be released.
    pub(crate) fn digest(&mut self, core: &mut Core) {
        while let Some(ended) = core.nic.poll_completion(self.engine_queue) {
            match ended.kind {
                CompletionKind::Receive | CompletionKind::ReceiveWrite => {
                    self.received(core, &ended);
                }
                _ => self.sent(core, ended.jetty, &ended),
            }
        }
        if !self.connecting.is_empty() || !core.notices.is_empty() {
            self.look_at_links(core);
        }
        if !self.unanswered.is_empty() {
            self.look_at_unanswered(core);
        }
        // Each is looked at once: who has to wait again gets in line for the next time.
        for _ in 0..self.waiting.len() {
            let Some(local) = self.waiting.pop() else { break };
            self.set(local, |pair| pair.is_waiting = false);
            self.go_on(core, local);
        }
    }
}

impl Core {
    /// Does something with the verbs that live on this NIC, if any do.
    pub(crate) fn with_verbs<R>(
        &mut self,
        work: impl FnOnce(&mut Verbs, &mut Core) -> R,
    ) -> Option<R> {
        let mut verbs = self.verbs.take()?;
        let result = work(&mut verbs, self);
        self.verbs = Some(verbs);
        Some(result)
    }
}
