//! Operations whose target is a queue pair in the reset or init state.
//!
//! An adapter drops packets for such a queue pair, and the sender reports an error when its retries
//! are used up. A Jetty answers them as if it had no receive, so that both ends of a connection may
//! be made ready in any order. The protocol repeats the operations, forever if the queue pair's
//! retries are 7. So the initiator asks the target, by a WRITE of no bytes from a Jetty that
//! repeats nothing, whether its queue pair is ready:
//!
//! * when an operation has been the oldest of its queue pair for as long as an adapter would have
//!   repeated it. It fails if the target is not ready;
//! * when a message has ended because it found no receive, to learn which error it is.

use fairway::embed::Core;
use fairway_roce::{Status, Transport};
use fairway_runtime::clock;
use fairway_ub::wire::{Instant, JettyId};
use fairway_ub::{Completion, Status as End};

use super::question::{QUESTIONS, question};
use super::tables::{PAIRS_MAX, Verbs};

impl Verbs {
    /// Examines from now on whether a queue pair's operations progress.
    pub(super) fn watch(&mut self, local: u32, now: Instant) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        let is_idle = pair.begun() == 0 || pair.config.transport != Transport::Rc;
        if pair.readiness.is_watched || is_idle {
            return;
        }
        pair.readiness.is_watched = true;
        pair.readiness.oldest = Some(((pair.life, pair.first), now));
        self.watched.pairs.push(local);
        self.watched.examined_at.get_or_insert(now);
    }

    /// Examines the queue pairs with operations under way, if it is time.
    pub(super) fn examine_watched(&mut self, core: &mut Core) {
        let now = clock::now();
        if !self.watched.deadline().is_some_and(|at| now.is_at_or_after(at)) {
            return;
        }
        let mut pairs = std::mem::take(&mut self.watched.pairs);
        pairs.retain(|&local| self.examine(core, local, now));
        self.watched.examined_at = (!pairs.is_empty()).then_some(now);
        self.watched.pairs = pairs;
    }

    /// Asks the peer of a queue pair if its oldest operation has made no progress. Returns false if
    /// the queue pair has none under way.
    fn examine(&mut self, core: &mut Core, local: u32, now: Instant) -> bool {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return false };
        if pair.begun() == 0 {
            pair.readiness.is_watched = false;
            return false;
        }
        let oldest = (pair.life, pair.first);
        match pair.readiness.oldest {
            Some((known, since)) if known == oldest => {
                if now.is_at_or_after(since + pair.timeout) {
                    // The next examination repeats this if there is no room for the question.
                    self.ask(core, local);
                }
            }
            _ => pair.readiness.oldest = Some((oldest, now)),
        }
        true
    }

    /// Asks the peer of a queue pair whether its queue pair is ready, unless it has been asked.
    /// Returns false if there is no room for the question.
    fn ask(&mut self, core: &mut Core, local: u32) -> bool {
        let nothing = self.nothing;
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return false };
        let Some(channel) = &pair.channel else { return false };
        if pair.readiness.asked.is_some() {
            return true;
        }
        let id = u64::from(pair.life) << 32 | u64::from(local);
        let target = JettyId::new(pair.peer.queue_pair.value() & (PAIRS_MAX - 1));
        let request = question(id, channel.channel, target, nothing);
        let now = clock::now();
        if core.nic.post(now, QUESTIONS, &request).is_err() {
            return false;
        }
        core.note_post(now, &request);
        pair.readiness.asked = Some(pair.life);
        true
    }

    /// Keeps the end of a message that found no receive until the peer has been asked. Returns
    /// false if that is impossible.
    pub(super) fn keeps_undecided(
        &mut self,
        core: &mut Core,
        local: u32,
        ended: &Completion,
    ) -> bool {
        let asks = self.ask(core, local);
        if asks {
            self.set(local, |pair| pair.readiness.undecided.push(*ended));
        }
        asks
    }

    /// Processes the answer to a question, if a completion is one.
    pub(super) fn takes_answer(&mut self, core: &mut Core, ended: &Completion) -> bool {
        if ended.jetty != QUESTIONS {
            return false;
        }
        let (life, local) = ((ended.id >> 32) as u32, ended.id as u32);
        let pair = self.pairs.get_mut(local as usize).and_then(Option::as_deref_mut);
        let Some(pair) = pair.filter(|pair| pair.readiness.asked == Some(life)) else {
            return true;
        };
        pair.readiness.asked = None;
        let undecided = std::mem::take(&mut pair.readiness.undecided);
        let oldest = (pair.life, pair.first);
        let known = pair.readiness.oldest.filter(|(known, _)| *known == oldest);
        let is_late = known.is_some_and(|(_, since)| {
            pair.life == life && clock::now().is_at_or_after(since + pair.timeout)
        });
        let is_ready = ended.status != End::ReceiverNotReady;
        for mut message in undecided {
            if !is_ready {
                message.status = End::RemoteNoJetty;
            }
            self.end_or_delay(core, Verbs::jetty_of(local), &message);
        }
        if !is_ready && is_late {
            self.fail_oldest(core, local, Status::RetryExceeded);
        }
        true
    }
}
