//! Turns completions of the protocol into completions of queue pairs.

use std::net::{IpAddr, SocketAddr};

use fairway::embed::{Core, Tenant};
use fairway_runtime::clock;
use fairway_ub::CompletionKind;
use fairway_ub::wire::{Cna, Instant};

use super::tables::Verbs;

impl Tenant for Verbs {
    fn process_completions(&mut self, core: &mut Core) {
        while let Some(ended) = core.nic.poll_completion(self.engine_queue) {
            if self.succeeds_in_turn(core, &ended)
                || self.takes_notice(core, &ended)
                || self.takes_answer(core, &ended)
            {
                continue;
            }
            match ended.kind {
                CompletionKind::Receive | CompletionKind::ReceiveWrite => {
                    self.received(core, &ended);
                }
                _ => self.sent(core, ended.jetty, &ended),
            }
        }
        if !self.unaccessed.is_empty() {
            self.note_accesses(core);
        }
        if self.stir_at.take_if(|at| clock::now().is_at_or_after(*at)).is_some() {
            self.try_stuck(core);
        }
        if !self.connecting.is_empty() || core.has_events() {
            self.poll_links(core);
        }
        if !self.delayed_errors.is_empty() {
            self.report_delayed_errors(core);
        }
        if self.watched.deadline().is_some() {
            self.examine_watched(core);
        }
        self.begin_waiting(core);
    }

    fn begin_waiting(&mut self, core: &mut Core) {
        // Each queue pair is processed once: one that has to wait again is queued behind the
        // others, for the next call.
        for _ in 0..self.waiting.len() {
            let Some(local) = self.waiting.pop_front() else { break };
            self.set(local, |pair| pair.is_waiting = false);
            self.advance(core, local);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Verbs::deadline(self)
    }

    fn prevails(&self, local: IpAddr, from: SocketAddr, incarnation: Cna) -> bool {
        Verbs::prevails(self, local, from, incarnation)
    }

    fn take_calls(&mut self) -> Option<Box<dyn FnOnce()>> {
        let calls = Verbs::take_calls(self)?;
        Some(Box::new(|| calls.make()))
    }
}
