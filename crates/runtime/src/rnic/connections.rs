//! The connections (UC) of sockets with sockets of other sides: which queue pairs they have, and
//! whether packets take them.

use std::collections::HashMap;

use fairway_port::Address;

/// Time for which a confirmed check proves that packets pass, in nanoseconds.
const PASSES_NS: u64 = 3_000_000_000;
/// Time from a confirmed check to the next one, in nanoseconds.
const CHECK_NS: u64 = 500_000_000;
/// Time until a message without an answer is repeated, in nanoseconds. It doubles each time, up to
/// `LAST_DOUBLING` times.
const REPEAT_NS: u64 = 20_000_000;
const LAST_DOUBLING: u32 = 8;
/// After so many checks without an answer, the connection is requested again.
const CHECKS_MAX: u32 = 2;
/// Time after which a connection that neither side has asked for may be closed for another one.
const IDLE_NS: u64 = 10_000_000_000;

/// The ends of a connection: index of the queue pair of datagrams that the own socket has, and the
/// address of the other socket.
pub(super) type Ends = (usize, Address);

/// What is to be sent for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The number of the own queue pair, through the socket.
    Connect,
    /// A check, through the connection.
    Check,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// Its index in the NIC, and the number of its queue pair.
    pub(super) index: usize,
    pub(super) number: u32,
    /// The number of the other side's queue pair, once this side's is connected with it.
    pub(super) other: Option<u32>,
    /// The number that the other side's program has sent; another program has other queue pairs.
    pub(super) echo: u64,
    /// True once the other side has confirmed that it is connected.
    is_answered: bool,
    passes_until_ns: u64,
    ask_at_ns: u64,
    unanswered: u32,
    used_at_ns: u64,
}

impl Connection {
    fn new(now_ns: u64, (index, number): (usize, u32)) -> Connection {
        Connection {
            index,
            number,
            other: None,
            echo: 0,
            is_answered: false,
            passes_until_ns: 0,
            ask_at_ns: 0,
            unanswered: 0,
            used_at_ns: now_ns,
        }
    }

    /// True if packets to the program that has sent `echo` take the connection.
    pub(super) fn passes(&self, now_ns: u64, echo: u64) -> bool {
        self.echo == echo && now_ns < self.passes_until_ns
    }

    /// Decides whether a message is due to the program that has sent `echo`, and counts it.
    pub(super) fn due(&mut self, now_ns: u64, echo: u64) -> Due {
        self.used_at_ns = now_ns;
        if self.echo != echo {
            (self.echo, self.is_answered) = (echo, false);
            (self.passes_until_ns, self.ask_at_ns, self.unanswered) = (0, 0, 0);
        }
        if now_ns < self.ask_at_ns {
            return Due::Nothing;
        }
        self.ask_at_ns = now_ns + (REPEAT_NS << self.unanswered.min(LAST_DOUBLING));
        self.unanswered += 1;
        if self.unanswered > CHECKS_MAX {
            self.is_answered = false;
        }
        if self.is_answered { Due::Check } else { Due::Connect }
    }

    /// Records that the other side is connected with this side's queue pair.
    pub(super) fn answered(&mut self) {
        (self.is_answered, self.unanswered, self.ask_at_ns) = (true, 0, 0);
    }

    /// Records that a check has passed.
    pub(super) fn passed(&mut self, now_ns: u64) {
        self.unanswered = 0;
        (self.passes_until_ns, self.ask_at_ns) = (now_ns + PASSES_NS, now_ns + CHECK_NS);
    }

    /// Records that this side's queue pair is connected with another one of the other side.
    pub(super) fn connected(&mut self, other: u32, echo: u64) {
        if self.other != Some(other) {
            (self.is_answered, self.passes_until_ns) = (false, 0);
        }
        (self.other, self.echo) = (Some(other), echo);
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    of: HashMap<Ends, Connection>,
    /// The ends of each connection, by its index in the NIC.
    ends: Vec<Option<Ends>>,
}

impl Connections {
    #[inline]
    pub(super) fn get(&mut self, ends: &Ends) -> Option<&mut Connection> {
        self.of.get_mut(ends)
    }

    /// The ends of a connection of the NIC.
    #[inline]
    pub(super) fn ends(&self, index: usize) -> Option<Ends> {
        *self.ends.get(index)?
    }

    /// Number of connections that the NIC has made at most.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a connection that the NIC has made.
    pub(super) fn add(&mut self, now_ns: u64, ends: Ends, (index, number): (usize, u32)) {
        if self.ends.len() <= index {
            self.ends.resize(index + 1, None);
        }
        self.ends[index] = Some(ends);
        self.of.insert(ends, Connection::new(now_ns, (index, number)));
    }

    /// Removes a connection. Returns its index in the NIC.
    pub(super) fn remove(&mut self, ends: &Ends) -> Option<usize> {
        let gone = self.of.remove(ends)?;
        self.ends[gone.index] = None;
        Some(gone.index)
    }

    /// The connection that was used least recently, if neither side has used it for a while.
    pub(super) fn idle(&self, now_ns: u64) -> Option<Ends> {
        let oldest = self.of.iter().min_by_key(|(_, one)| (one.used_at_ns, one.index));
        let (ends, oldest) = oldest?;
        (now_ns.saturating_sub(oldest.used_at_ns) >= IDLE_NS).then_some(*ends)
    }

    /// Records that the other side uses a connection.
    pub(super) fn used(&mut self, now_ns: u64, ends: &Ends) {
        if let Some(connection) = self.of.get_mut(ends) {
            connection.used_at_ns = now_ns;
        }
    }
}
