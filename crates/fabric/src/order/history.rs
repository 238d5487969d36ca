//! What was seen of one run.

use super::clock::Clock;
use super::program::Program;
use std::fmt;

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Operation `op` was handed to its NIC.
    Posted {
        /// Which.
        op: usize,
    },
    /// Bytes of a WRITE or SEND came to their place.
    Placed {
        /// Which.
        op: usize,
        /// The first of its bytes.
        at: usize,
        /// How many.
        length: usize,
    },
    /// An atomic changed its word.
    Executed {
        /// Which.
        op: usize,
        /// The word before.
        old: u64,
    },
    /// Bytes for a READ were taken from memory: those that the initiator got to see, not those of
    /// copies that were lost.
    Gathered {
        /// Which.
        op: usize,
        /// The first of its bytes.
        at: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The initiator was told that it ended.
    Completed {
        /// Which.
        op: usize,
        /// How.
        success: bool,
        /// The old value of an atomic.
        value: u64,
        /// The bytes that a READ has brought.
        bytes: Vec<u8>,
    },
    /// The target was told that a receive was consumed.
    Received {
        /// By which.
        op: usize,
    },
}

impl What {
    /// The operation it is about.
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

    /// Is it an effect at the target?
    pub fn is_effect(&self) -> bool {
        matches!(self, What::Placed { .. } | What::Executed { .. } | What::Gathered { .. })
    }
}

/// Something that was seen, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A number that grows: one order in which everything may have happened.
    pub at: u64,
    /// What must have happened before.
    pub clock: Clock,
    /// What.
    pub what: What,
}

impl Event {
    /// Did it come before `later` however fast messages travelled?
    pub fn is_before(&self, later: &Event) -> bool {
        self.clock.is_before(&later.clock)
    }
}

/// Everything that was seen of one run, sorted by [`Event::at`].
#[derive(Clone, Debug, Default)]
pub struct History {
    events: Vec<Event>,
}

impl History {
    /// From what was seen, in any order.
    pub fn new(mut events: Vec<Event>) -> Self {
        events.sort_by_key(|event| event.at);
        History { events }
    }

    /// In which each thing came before the next.
    pub fn in_order(whats: Vec<What>) -> Self {
        let mut clock = Clock::default();
        let event = |(at, what)| Event { at: at as u64, clock: clock.tick(0), what };
        History { events: whats.into_iter().enumerate().map(event).collect() }
    }

    /// What was seen.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// In lines.
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
