//! Sending: packets of one path become one run, and a run one system call.

use fairway_engine::wire::{BYPASS_BYTES, Instant, MAX_HEADER, Setup, encode, encode_setup};
use fairway_engine::{LocalRange, Transmit};
use fairway_port::{Address, DoesNotFit, RawSlice, Sent};

use super::{Bound, RETRY_AFTER, ns};
use crate::clock;
use crate::core::Core;

/// Most runs, and most packets, sent in one turn, so that what arrives meanwhile is not left lying.
const RUNS_MAX: u32 = 4;
const PACKETS_MAX: usize = 256;

impl Core {
    /// Sends what the engine wants to send.
    pub(crate) fn transmit(&mut self, now: Instant) {
        let mut now = now;
        let mut runs_before = 0;
        self.io.unfinished = false;
        if self.has_vanished() || !self.retry_blocked(now) {
            return;
        }
        self.io.runs = 0;
        for _ in 0..PACKETS_MAX {
            let Some(transmit) = self.nic.poll_transmit(now) else {
                self.flush(now);
                return;
            };
            let ends = self.channels.get(transmit.channel);
            let ends = ends.and_then(|channel| channel.path(transmit.route.path));
            let (Some(ends), Some(payload)) = (ends, self.memories.gather(&transmit.gather)) else {
                // A channel that ended in this very turn. To the protocol it is a lost packet.
                self.counters.unsendable += 1;
                continue;
            };
            let bound = Bound {
                path: usize::from(transmit.route.path),
                socket: ends.socket,
                to: ends.remote,
            };
            if !self.append_packet(now, bound, &transmit, payload) {
                return;
            }
            // A run takes longer to leave than round trips are measured in: what follows it is
            // sent later, and has to be booked so.
            if self.io.runs != runs_before {
                runs_before = self.io.runs;
                now = clock::now();
            }
            // The packet that begins the next run leaves with that, in the next turn.
            if self.io.runs >= RUNS_MAX {
                self.io.unfinished = true;
                return;
            }
        }
        self.io.unfinished = true;
        self.flush(now);
    }

    /// Adds one packet to the run; see [`Core::append`].
    fn append_packet(
        &mut self,
        now: Instant,
        bound: Bound,
        transmit: &Transmit,
        payload: RawSlice,
    ) -> bool {
        let mut header = [0; MAX_HEADER];
        let length = encode(&transmit.route, &transmit.packet, payload.len(), &mut header);
        if self.copy_word(&transmit.gather, &mut header[length..]) {
            let whole = &header[..length + payload.len()];
            return self.append(now, bound, whole, RawSlice::EMPTY);
        }
        self.append(now, bound, &header[..length], payload)
    }

    /// Copies what is short behind its header. The kernel would copy a word byte by byte as it
    /// likes; here an aligned one is read whole. False if it is too long.
    fn copy_word(&self, gather: &LocalRange, room: &mut [u8]) -> bool {
        let length = gather.length as usize;
        if !(1..=BYPASS_BYTES as usize).contains(&length) || length > room.len() {
            return false;
        }
        let Some(bytes) = self.memories.source(gather) else { return false };
        bytes.read(&mut room[..length]);
        true
    }

    /// Sends a set-up message.
    pub(crate) fn send_setup(&mut self, now: Instant, socket: usize, to: &Address, setup: &Setup) {
        // If a socket is full the message is lost; it is asked for, or said, again.
        if self.has_vanished() || !self.retry_blocked(now) {
            return;
        }
        let mut message = [0; MAX_HEADER];
        let length = encode_setup(setup, &mut message);
        let bound = Bound { path: 0, socket, to: *to };
        if self.append(now, bound, &message[..length], RawSlice::EMPTY) {
            self.flush(now);
        }
    }

    /// Adds a packet to the run. False if a socket is full: the packet is kept, but no further
    /// ones may be added.
    fn append(&mut self, now: Instant, bound: Bound, header: &[u8], payload: RawSlice) -> bool {
        let mut may_go_on = true;
        if self.io.bound_for.is_some_and(|other| other != bound) {
            may_go_on = self.flush(now);
        }
        for _ in 0..2 {
            match self.io.train.push(header, payload) {
                Ok(()) => {
                    self.io.bound_for = Some(bound);
                    return may_go_on;
                }
                Err(DoesNotFit::Bytes) if self.io.train.is_empty() => break,
                Err(_) => may_go_on &= self.flush(now),
            }
        }
        self.counters.unsendable += 1;
        may_go_on
    }

    /// Sends the run. False if the socket is full: the run is then set aside.
    fn flush(&mut self, now: Instant) -> bool {
        let Some(bound) = self.io.bound_for.take() else { return true };
        self.io.runs += 1;
        let io = &mut self.io;
        let sent = io.datapath.transmit(ns(now), bound.path, bound.socket, &bound.to, &io.train);
        match sent {
            Ok(Sent::All) => io.train.clear(),
            Ok(Sent::Blocked { sent }) => {
                io.train.skip(sent);
                std::mem::swap(&mut io.train, &mut io.blocked);
                io.blocked_for = Some(bound);
                io.retry_at = now + RETRY_AFTER;
                return false;
            }
            Err(error) => {
                io.train.clear();
                self.trouble(&error);
            }
        }
        true
    }

    /// Tries again to send what a full socket did not take. False if it is still full.
    fn retry_blocked(&mut self, now: Instant) -> bool {
        let Some(bound) = self.io.blocked_for else { return true };
        if now.is_before(self.io.retry_at) {
            return false;
        }
        let io = &mut self.io;
        let sent = io.datapath.transmit(ns(now), bound.path, bound.socket, &bound.to, &io.blocked);
        match sent {
            Ok(Sent::All) => {}
            Ok(Sent::Blocked { sent }) => {
                io.blocked.skip(sent);
                io.retry_at = now + RETRY_AFTER;
                return false;
            }
            Err(error) => self.trouble(&error),
        }
        self.io.blocked.clear();
        self.io.blocked_for = None;
        true
    }
}
