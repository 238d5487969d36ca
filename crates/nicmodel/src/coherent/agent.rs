//! The cache's half of the fabric: its requests, and the home's snoops.

use super::{Kind, Message};
use std::collections::{BTreeMap, VecDeque};

/// Requests of a cache that are in flight.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    /// By line: the operation that waits for it, and the one that returns it.
    wanted: BTreeMap<u64, u64>,
    returning: BTreeMap<u64, u64>,
    outbox: VecDeque<Message>,
    done: VecDeque<u64>,
}

impl Agent {
    /// Requests or returns a line. There is at most one request of each kind for a line.
    pub(crate) fn request(&mut self, id: u64, message: Message) {
        let table = match message.kind {
            Kind::Return => &mut self.returning,
            _ => &mut self.wanted,
        };
        let other = table.insert(message.line, id);
        assert!(other.is_none(), "line {} is requested twice at once", message.line);
        self.outbox.push_back(message);
    }

    /// Handles a grant that is in place.
    pub(crate) fn handle_granted(&mut self, line: u64) {
        self.done.extend(self.wanted.remove(&line));
        self.outbox.push_back(Message { kind: Kind::Arrived, line });
    }

    /// Handles a snoop that the caches have executed.
    pub(crate) fn handle_snooped(&mut self, line: u64, held: bool, data: bool) {
        self.outbox.push_back(Message { kind: Kind::Answer { held, data }, line });
    }

    /// Handles the confirmation that a returned line has arrived.
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
