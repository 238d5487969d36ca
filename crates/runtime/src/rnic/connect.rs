//! Packets through connections (UC), and the messages that make and check connections.

use std::io;
use std::net::SocketAddr;

use fairway_port::rnic::{Target, Unsent};
use fairway_port::{Address, RawSlice, Sent, Train};

use super::connections::{Due, Ends};
use super::datapath::{QueuePairs, fill, flow};
use super::introduction::{BYTES, Introduction, Kind, Pair};
use crate::memory::Gone;

/// Time after which a connection that could not be made is tried again, in nanoseconds.
const RETRY_NS: u64 = 1_000_000_000;

impl QueuePairs {
    /// Sends a train through the connection with its destination, whose program has sent `echo`.
    /// `None`: it has to take another way.
    pub(super) fn put_connected(
        &mut self,
        now_ns: u64,
        (socket, queue): (usize, usize),
        to: &Address,
        train: &Train,
        echo: u64,
    ) -> Option<io::Result<Sent>> {
        let ends = (queue, *to);
        if self.connections.get(&ends).is_none() {
            self.make(now_ns, ends)?;
        }
        let connection = self.connections.get(&ends)?;
        let due = connection.due(now_ns, echo);
        let (index, passes) = (connection.index, connection.passes(now_ns, echo));
        match due {
            Due::Nothing => {}
            Due::Connect => self.tell_of(Kind::Connect, socket, &ends),
            Due::Check => self.check_connection(socket, index, &ends),
        }
        if !passes {
            return None;
        }
        let count = train.len();
        let result = self.nic.send_connected(index, count, |index, room| fill(train, index, room));
        if matches!(result, Err(Unsent::Failed(_))) {
            self.check_at_ns = 0;
        }
        let before = self.port.counters().packets_sent_by_rnic;
        let sent = self.account(train, result);
        let counters = self.port.counters_mut();
        counters.packets_sent_connected += counters.packets_sent_by_rnic - before;
        sent
    }

    /// Makes a connection, which is not connected yet, if need be in place of one that was not used
    /// for long.
    #[cold]
    fn make(&mut self, now_ns: u64, ends: Ends) -> Option<()> {
        if now_ns < self.make_at_ns {
            return None;
        }
        let mut made = self.nic.make_connection(ends.0);
        if made.is_none()
            && let Some(idle) = self.connections.idle(now_ns)
        {
            self.close(&idle);
            made = self.nic.make_connection(ends.0);
        }
        if made.is_none() {
            self.make_at_ns = now_ns + RETRY_NS;
        }
        self.connections.add(now_ns, ends, made?);
        Some(())
    }

    fn close(&mut self, ends: &Ends) {
        if let Some(index) = self.connections.remove(ends) {
            self.nic.close_connection(index);
        }
    }

    /// The message about a connection, from a socket. `None`: the connection is closed, or the
    /// socket has no queue pair in use.
    fn message_of(&mut self, kind: Kind, socket: usize, ends: &Ends) -> Option<Introduction> {
        let connection = self.connections.get(ends)?;
        let (number, other) = (connection.number, connection.other.unwrap_or(0));
        let to = SocketAddr::from(ends.1);
        let peer = self.peers.known(&ends.1)?;
        let (echo, seen) = (peer.echo, peer.seen.unwrap_or(to.ip()));
        let seen = if kind == Kind::Check { seen } else { to.ip() };
        let message = self.message(kind, socket, to.ip(), (echo, seen))?;
        let own = Pair { port: self.port.local_addrs()[socket].port(), number };
        let pairs = vec![own, Pair { port: to.port(), number: other }];
        Some(Introduction { pairs, ..message })
    }

    /// Sends a message about a connection through a socket.
    #[cold]
    fn tell_of(&mut self, kind: Kind, socket: usize, ends: &Ends) {
        if let Some(message) = self.message_of(kind, socket, ends) {
            self.post(socket, &ends.1, &message);
        }
    }

    /// Sends a check through a connection.
    #[cold]
    fn check_connection(&mut self, socket: usize, index: usize, ends: &Ends) {
        let Some(message) = self.message_of(Kind::Check, socket, ends) else { return };
        let bytes = message.to_bytes();
        let fill = |_, room: &mut [u8]| {
            room[..BYTES].copy_from_slice(&bytes);
            Ok::<_, Gone>(BYTES)
        };
        // A check that is lost is repeated.
        let _ = self.nic.send_connected(index, 1, fill);
    }

    /// Handles a message about a connection that has come through a socket. Only peers to whose
    /// queue pairs of datagrams a probe has passed are served, so none can name the queue pair of
    /// another NIC.
    #[cold]
    pub(super) fn connection_told(
        &mut self,
        now_ns: u64,
        (socket, queue): (usize, usize),
        from: &Address,
        message: &Introduction,
    ) {
        let ends = (queue, *from);
        let &[theirs, own] = message.pairs.as_slice() else { return };
        let is_served = self.nic.has_connections()
            && theirs.port == from.port()
            && self.peers.is_proven(now_ns, from, message);
        if !is_served {
            return;
        }
        if message.kind == Kind::Connect && self.connections.get(&ends).is_none() {
            let _ = self.make(now_ns, ends);
        }
        let Some(connection) = self.connections.get(&ends) else { return };
        let is_of_this = connection.number == own.number;
        match message.kind {
            Kind::Connect => {
                self.connections.used(now_ns, &ends);
                if self.join(&ends, message, theirs.number) {
                    self.tell_of(Kind::Connected, socket, &ends);
                }
            }
            Kind::Connected if is_of_this => {
                if self.join(&ends, message, theirs.number)
                    && let Some(connection) = self.connections.get(&ends)
                {
                    connection.answered();
                }
            }
            Kind::Passed if is_of_this && connection.other == Some(theirs.number) => {
                connection.passed(now_ns);
            }
            _ => {}
        }
    }

    /// Handles a check that has come through a connection.
    #[cold]
    pub(super) fn connection_checked(&mut self, now_ns: u64, ends: &Ends, message: &Introduction) {
        let socket = self.sockets[ends.0];
        if message.kind == Kind::Check && self.peers.is_genuine(message, message.seen) {
            self.connections.used(now_ns, ends);
            self.tell_of(Kind::Passed, socket, ends);
        }
    }

    /// Connects a connection with the other side's queue pair, unless it is already. Returns true
    /// if it is then.
    fn join(&mut self, ends: &Ends, message: &Introduction, number: u32) -> bool {
        let Some(connection) = self.connections.get(ends) else { return false };
        if connection.other == Some(number) {
            return true;
        }
        let flow = flow(connection.number, number);
        let target = Target { gid: message.gid, lid: message.lid, flow, class: 0 };
        let packet_max = usize::from(message.packet_max);
        let index = connection.index;
        if self.nic.connect(index, (&target, number), packet_max).is_err() {
            self.close(ends);
            return false;
        }
        if let Some(connection) = self.connections.get(ends) {
            connection.connected(number, message.nonce);
        }
        true
    }

    /// Closes a connection that has failed. Returns the reason. It is made again when a packet is
    /// sent.
    #[cold]
    pub(super) fn close_failed(&mut self) -> Option<String> {
        let failed = (0..self.connections.len())
            .find_map(|index| Some((index, self.nic.connection_failure(index)?.to_owned())));
        let (index, reason) = failed?;
        match self.connections.ends(index) {
            Some(ends) => self.close(&ends),
            None => self.nic.close_connection(index),
        }
        Some(reason)
    }

    /// Sends a message through a socket. A message that is lost is repeated.
    pub(super) fn post(&mut self, socket: usize, to: &Address, message: &Introduction) {
        let bytes = message.to_bytes();
        self.note.clear();
        if self.note.push(&bytes, RawSlice::EMPTY).is_ok()
            && matches!(self.port.send(socket, to, &self.note), Ok(Sent::All))
        {
            self.port.counters_mut().introductions_sent += 1;
        }
    }
}
