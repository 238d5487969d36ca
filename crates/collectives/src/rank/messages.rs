//! The messages of a rank, in the order in which they are sent.

use super::{Memory, Output, Protocol, Rank, Target, Token, Work, Write};
use crate::header::Content;
use crate::link::Queued;
use crate::schedule::{Action, Place, StepIndex};

impl Rank {
    /// Takes the next message to a rank, if there is one and it has a free slot.
    pub(super) fn next_message(&mut self, to: u32) -> Option<Output> {
        let link = &mut self.links[to as usize];
        if !link.has_slot() {
            return None;
        }
        if let Some(queued) = link.first() {
            let is_ready = match queued {
                Queued::Key(_) => true,
                Queued::Step(work, step) => match self.position(work) {
                    Some(at) => self.executions[at].is_ready(step),
                    // The call was given up.
                    None => {
                        self.links[to as usize].pop();
                        return self.next_message(to);
                    }
                },
            };
            if is_ready {
                self.links[to as usize].pop();
                return match queued {
                    Queued::Key(work) => self.key_message(to, work),
                    Queued::Step(work, step) => self.message(to, work, step),
                };
            }
        }
        let (work, step) = self.links[to as usize].pop_ready()?;
        self.message(to, work, step)
    }

    fn key_message(&mut self, to: u32, work: Work) -> Option<Output> {
        let Some(at) = self.position(work) else { return self.next_message(to) };
        let slot = self.links[to as usize].take_slot();
        let header = self.executions[at].header(to, Content::Key, slot, 0);
        Some(Output::SendKey { work, to, header })
    }

    /// True if a rank reads these bytes from the memory of this one.
    fn lends(&self, to: u32, may_lend: bool, bytes: Memory) -> bool {
        may_lend && self.links[to as usize].lends(bytes.bytes())
    }

    fn message(&mut self, to: u32, work: Work, step: StepIndex) -> Option<Output> {
        let Some(at) = self.position(work) else { return self.next_message(to) };
        let slot = self.links[to as usize].take_slot();
        let execution = &self.executions[at];
        let Action::Send { from, place, .. } = execution.schedule().action(step) else {
            unreachable!("only steps that send are queued");
        };
        let (token, bytes) = (Token::Step(work, step), execution.memory(from));
        let (content, target) = match place {
            _ if self.lends(to, execution.lends(place), bytes) => (Content::Lent, Target::Lent),
            Place::Output(offset)
                if execution.protocol() == Protocol::Direct
                    && !self.links[to as usize].stages_sends() =>
            {
                (Content::Placed, Target::Output(offset))
            }
            _ => (Content::Slot, Target::Slot),
        };
        let number = execution.schedule().number(step);
        let header = execution.header(to, content, slot, number);
        if content == Content::Lent {
            self.links[to as usize].lend(slot, token);
        }
        Some(Output::Write(Write { token, work, to, bytes, target, header }))
    }
}
