//! The observed events of one run.

use super::clock::Clock;
use super::program::Program;
use std::fmt;

/// Kind of an observed event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Operation `op` was posted to its NIC.
    Posted {
        /// Index of the operation.
        op: usize,
    },
    /// Bytes of a WRITE or SEND were placed.
    Placed {
        /// Index of the operation.
        op: usize,
        /// Offset of the first byte.
        at: usize,
        /// Number of bytes.
        length: usize,
    },
    /// An atomic changed its word.
    Executed {
        /// Index of the operation.
        op: usize,
        /// Value of the word before.
        old: u64,
    },
    /// Bytes for a READ were taken from memory: those that reached the initiator, not those of lost
    /// copies.
    Gathered {
        /// Index of the operation.
        op: usize,
        /// Offset of the first byte.
        at: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The initiator received a completion of the operation.
    Completed {
        /// Index of the operation.
        op: usize,
        /// True if the operation succeeded.
        success: bool,
        /// The old value of an atomic.
        value: u64,
        /// The bytes that a READ returned.
        bytes: Vec<u8>,
    },
    /// The target received a completion of a receive.
    Received {
        /// Index of the operation that consumed it.
        op: usize,
    },
}

impl What {
    /// Index of the operation that the event concerns.
    pub fn op(&self) -> usize {
        match self {
            What::Posted { op }
            | What::Placed { op, .. }
            | What::Executed { op, .. }
            | What::Gathered { op, .. }
            | What::Completed { op, .. }
            | What::Received { op } => *op,
        }
    }

    /// True if the event is an effect at the target.
    pub fn is_effect(&self) -> bool {
        matches!(self, What::Placed { .. } | What::Executed { .. } | What::Gathered { .. })
    }
}

/// An observed event and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Increasing number: one possible order of all events.
    pub at: u64,
    /// Vector clock: the events that must have happened before.
    pub clock: Clock,
    /// Kind of the event.
    pub what: What,
}

impl Event {
    /// True if the event precedes `later` however fast messages travelled.
    pub fn is_before(&self, later: &Event) -> bool {
        self.clock.is_before(&later.clock)
    }
}

/// All observed events of one run, sorted by [`Event::at`].
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// Makes a history of events in any order.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        History { events }
    }

    /// Makes a history in which each event precedes the next.
    pub fn in_order(whats: Vec<What>) -> Self {
        let mut clock = Clock::default();
        let event = |(at, what)| Event { at: at as u64, clock: clock.tick(0), what };
        History { events: whats.into_iter().enumerate().map(event).collect() }
    }

    /// The observed events.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Formats the history, one event per line.
    pub fn describe(&self, program: &Program) -> String {
        let line = |event: &Event| {
            let op = event.what.op();
            format!("  {:4} {:?} ({})\n", event.at, event.what, program.operations[op])
        };
        self.events.iter().map(line).collect()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.what, self.at)
    }
}
