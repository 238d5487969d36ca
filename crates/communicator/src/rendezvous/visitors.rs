//! Connections to rank 0 whose greeting has not arrived completely.
//!
//! Any process of the network can connect, so no connection may delay another: all are read in
//! turn and without blocking, each has one deadline for its whole greeting, and their number is
//! bounded.

use super::{Greeting, parse};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Time within which a connection must have sent its whole greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// Maximum number of connections whose greeting is incomplete. One more closes the oldest; a rank
/// whose connection was closed connects again.
pub(super) const VISITORS_MAX: usize = 256;
/// Maximum number of bytes that are read from a connection before the next one is read.
const READ_MAX: usize = 4096;

/// The connections, the oldest first.
#[derive(Debug)]
pub(super) struct Visitors<S> {
    waiting: VecDeque<Visitor<S>>,
}

#[derive(Debug)]
struct Visitor<S> {
    stream: S,
    received: Vec<u8>,
    until: Instant,
}

impl<S: Read> Visitors<S> {
    pub(super) fn new() -> Visitors<S> {
        Visitors { waiting: VecDeque::with_capacity(VISITORS_MAX) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a connection, which must not block.
    pub(super) fn add(&mut self, now: Instant, stream: S) {
        if self.waiting.len() == VISITORS_MAX {
            self.waiting.pop_front();
        }
        let until = now + GREETING_TIME;
        self.waiting.push_back(Visitor { stream, received: Vec::new(), until });
    }

    /// Reads what has arrived, and removes the connections whose greeting is complete, which are
    /// returned, and those of strangers and those whose time is up, which are closed.
    pub(super) fn poll_greetings(&mut self, now: Instant, group: &[u8]) -> Vec<(Greeting, S)> {
        let mut complete = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(mut visitor) = self.waiting.pop_front() else { break };
            let is_open = visitor.receive();
            match parse(&visitor.received, group) {
                Ok(Some(greeting)) => complete.push((greeting, visitor.stream)),
                Ok(None) if is_open && now < visitor.until => self.waiting.push_back(visitor),
                Ok(None) | Err(_) => {}
            }
        }
        complete
    }
}

impl<S: Read> Visitor<S> {
    /// Returns false if no more bytes can arrive.
    fn receive(&mut self) -> bool {
        let mut room = [0; READ_MAX];
        loop {
            return match self.stream.read(&mut room) {
                Ok(0) => false,
                Ok(length) => {
                    self.received.extend_from_slice(&room[..length]);
                    true
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendezvous::greet;
    use std::io;

    /// A connection that passes on so many bytes for each read.
    struct Slow {
        bytes: Vec<u8>,
        step: usize,
    }

    impl Read for Slow {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let length = self.step.min(self.bytes.len());
            if length == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            room[..length].copy_from_slice(&self.bytes[..length]);
            self.bytes.drain(..length);
            Ok(length)
        }
    }

    fn greeting(rank: u32, step: usize) -> Slow {
        let bytes = greet(b"group", (rank, 9), &[rank as u8; 9]);
        Slow { bytes, step }
    }

    #[test]
    fn stranger_that_sends_a_byte_each_second_is_closed_and_delays_no_rank() {
        let mut visitors = Visitors::new();
        let start = Instant::now();
        visitors.add(start, greeting(1, 1));
        visitors.add(start, greeting(2, 0));
        visitors.add(start, greeting(3, 4096));
        let complete = visitors.poll_greetings(start, b"group");
        let [(Greeting { rank: 3, record, .. }, _)] = &complete[..] else { panic!("only rank 3") };
        assert_eq!(record, &[3; 9]);
        for second in 1..5 {
            let now = start + Duration::from_secs(second);
            assert!(visitors.poll_greetings(now, b"group").is_empty());
            assert_eq!(visitors.waiting.len(), 2, "after {second} s");
        }
        assert!(visitors.poll_greetings(start + GREETING_TIME, b"group").is_empty());
        assert!(visitors.is_empty(), "the time is that of the connection, not of a read");
    }

    #[test]
    fn greeting_in_pieces_is_complete_with_its_last_byte() {
        let mut visitors = Visitors::new();
        let start = Instant::now();
        let slow = greeting(7, 1);
        let turns = slow.bytes.len();
        visitors.add(start, slow);
        for _ in 1..turns {
            assert!(visitors.poll_greetings(start, b"group").is_empty());
        }
        let complete = visitors.poll_greetings(start, b"group");
        assert_eq!(complete.len(), 1);
        assert_eq!(complete[0].0, Greeting { rank: 7, ranks: 9, record: vec![7; 9] });
    }

    #[test]
    fn silent_connections_are_bounded_in_number_and_the_oldest_is_closed() {
        let mut visitors = Visitors::new();
        let start = Instant::now();
        for rank in 0..2 * VISITORS_MAX as u32 {
            visitors.add(start, greeting(rank, 0));
        }
        assert_eq!(visitors.waiting.len(), VISITORS_MAX);
        visitors.add(start, greeting(1, 4096));
        assert_eq!(visitors.poll_greetings(start, b"group").len(), 1, "the newest is read");
    }
}
