//! What the engine has done becomes what the program is told.

use std::net::{IpAddr, SocketAddr};

use fairway::embed::{Core, Tenant};
use fairway_engine::CompletionKind;
use fairway_engine::wire::Instant;

use super::tables::Verbs;

impl Tenant for Verbs {
    fn digest(&mut self, core: &mut Core) {
        while let Some(ended) = core.nic.poll_completion(self.engine_queue) {
            match ended.kind {
                CompletionKind::Receive | CompletionKind::ReceiveWrite => {
                    self.received(core, &ended);
                }
                _ => self.sent(core, ended.jetty, &ended),
            }
        }
        if !self.connecting.is_empty() || core.has_events() {
            self.look_at_links(core);
        }
        if !self.unanswered.is_empty() {
            self.look_at_unanswered(core);
        }
        // Each queue pair is looked at once: one that has to wait again is in line for the next
        // time.
        for _ in 0..self.waiting.len() {
            let Some(local) = self.waiting.pop() else { break };
            self.set(local, |pair| pair.is_waiting = false);
            self.go_on(core, local);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Verbs::deadline(self)
    }

    fn prevails(&self, local: IpAddr, from: SocketAddr) -> bool {
        Verbs::prevails(self, local, from)
    }

    fn take_calls(&mut self) -> Option<Box<dyn FnOnce()>> {
        let calls = Verbs::take_calls(self)?;
        Some(Box::new(|| calls.make()))
    }
}
