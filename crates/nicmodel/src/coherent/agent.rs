//! A cache's half of the fabric: what it has asked for, and what it is asked.

use super::{Kind, Message};
use std::collections::{BTreeMap, VecDeque};

/// What a cache has under way.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    /// By line: the operation that waits for it, and the one that gives it back.
    wanted: BTreeMap<u64, u64>,
    returning: BTreeMap<u64, u64>,
    outbox: VecDeque<Message>,
    done: VecDeque<u64>,
}

impl Agent {
    /// Asks for a line, or returns it. There is at most one request of each kind for a line.
    pub(crate) fn ask(&mut self, id: u64, message: Message) {
        let table = match message.kind {
            Kind::Return => &mut self.returning,
            _ => &mut self.wanted,
        };
        let other = table.insert(message.line, id);
        assert!(other.is_none(), "line {} is asked for twice at once", message.line);
        self.outbox.push_back(message);
    }

    /// A grant is in place.
    pub(crate) fn handle_granted(&mut self, line: u64) {
        self.done.extend(self.wanted.remove(&line));
        self.outbox.push_back(Message { kind: Kind::Arrived, line });
    }

    /// The caches have obeyed a snoop.
    pub(crate) fn handle_snooped(&mut self, line: u64, held: bool, data: bool) {
        self.outbox.push_back(Message { kind: Kind::Answer { held, data }, line });
    }

    /// What was returned has arrived.
    pub(crate) fn handle_returned(&mut self, line: u64) {
        self.done.extend(self.returning.remove(&line));
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Message> {
        self.outbox.pop_front()
    }

    pub(crate) fn poll_done(&mut self) -> Option<u64> {
        self.done.pop_front()
    }
}
