//! Receiving: headers to the engine, payloads into place.

use fairway_engine::wire::{Decoded, Instant, Packet, decode};
use fairway_engine::{LocalRange, Received, Verdict};
use fairway_port::{Address, Arrival};

use super::Io;
use super::plan::{self, Last, Method, Targets};
use crate::core::{Channels, Core};

/// Most packets received in one turn, so that what is to be sent is not left lying.
const BUDGET: usize = 256;

/// A packet of the arrival at hand.
#[derive(Clone, Copy)]
pub(crate) struct Heard {
    received: Received,
    header_len: usize,
}

impl Core {
    /// Takes in what has arrived; how many packets that were.
    pub(super) fn receive(&mut self, now: Instant) -> usize {
        self.io.choose_sockets();
        let mut packets = 0;
        while self.io.waiting != 0 && packets < BUDGET {
            // The hot socket first, then the others by number.
            let hot = self.io.waiting & 1 << self.io.hot;
            let socket =
                if hot != 0 { self.io.hot } else { self.io.waiting.trailing_zeros() as usize };
            let count = self.receive_from(now, socket);
            packets += count;
            if count == 0 {
                self.io.waiting &= !(1 << socket);
            } else {
                self.io.hot = socket;
                // A lone packet is answered before the socket is tried again.
                if count == 1 {
                    break;
                }
            }
        }
        packets
    }

    /// One receive call on `socket`; how many packets it brought.
    fn receive_from(&mut self, now: Instant, socket: usize) -> usize {
        let mut targets = Targets::default();
        let planned = match self.prepare(socket, &mut targets) {
            Ok(planned) => planned,
            Err(error) => {
                self.trouble(&error);
                return 0;
            }
        };
        let Io { datapath, buffer, scatter, .. } = &mut self.io;
        let plan = planned.then_some(&*scatter);
        // The buffer is lent to the arrival, so it is taken out for as long.
        let mut buffer = std::mem::take(buffer);
        let count = match datapath.receive(socket, &mut buffer, plan) {
            Ok(Some(mut arrival)) => {
                if !planned {
                    targets.count = 0;
                }
                self.handle_arrival(now, socket, &mut arrival, &targets);
                arrival.segments()
            }
            Ok(None) => 0,
            Err(error) => {
                self.trouble(&error);
                0
            }
        };
        self.io.buffer = buffer;
        count
    }

    /// Draws a plan for the next receive call on `socket`, if it is worth it.
    fn prepare(&mut self, socket: usize, targets: &mut Targets) -> std::io::Result<bool> {
        let state = &self.io.sockets[socket];
        let last = state.last();
        let (known, ahead) = match state.method() {
            Method::Plain => return Ok(false),
            Method::Guess => (last, 1),
            Method::Look => {
                let datapath = &mut *self.io.datapath;
                (plan::look(datapath, socket, &self.channels, last)?, 0)
            }
        };
        let Some(known) = known else { return Ok(false) };
        let canvas = (&mut self.io.scatter, targets);
        let planned = plan::draw(&known, ahead, &self.nic, &self.memories, canvas);
        if planned {
            let counter = if ahead == 0 {
                &mut self.counters.plans_peeked
            } else {
                &mut self.counters.plans_guessed
            };
            *counter += 1;
        }
        Ok(planned)
    }

    fn handle_arrival(
        &mut self,
        now: Instant,
        socket: usize,
        arrival: &mut Arrival<'_>,
        targets: &Targets,
    ) {
        let mut heard = std::mem::take(&mut self.io.heard);
        heard.clear();
        let in_place = (0..arrival.segments()).take_while(|&i| arrival.in_place(i)).count();
        // All headers are read, and the plan is verified, before anything is placed: what lies in
        // a wrong target has to be brought back before somebody else's payload goes there.
        for index in 0..arrival.segments() {
            let packet = self.hear(socket, arrival, index, targets);
            heard.push(packet);
        }
        if targets.count > 0 && !(in_place > 0 && arrival.in_place(in_place - 1)) {
            self.counters.plans_missed += 1;
        }
        let as_last = |heard: &Option<Heard>| {
            let heard = heard.filter(|heard| matches!(heard.received.packet, Packet::Data(_)))?;
            Some(Last { received: heard.received, header_len: heard.header_len })
        };
        let first = heard.first().and_then(as_last);
        let last = heard.last().and_then(as_last);
        self.io.sockets[socket].observe(first, last, arrival.len());
        for (index, packet) in heard.iter().enumerate() {
            if let Some(packet) = packet {
                self.handle_heard(now, packet, arrival, index, targets);
            }
        }
        self.io.heard = heard;
    }

    /// Reads the header of packet `index`, and brings it and those behind it back if the plan was
    /// wrong about it. `None` if it is not for the engine.
    fn hear(
        &mut self,
        socket: usize,
        arrival: &mut Arrival<'_>,
        index: usize,
        targets: &Targets,
    ) -> Option<Heard> {
        let length = arrival.segment_len(index);
        let mut decoded = decode(arrival.header(index), length);
        let as_planned = match &decoded {
            Ok(Decoded::Packet { header_len, .. }) => *header_len == targets.header_len,
            _ => false,
        };
        if arrival.in_place(index) && !as_planned {
            arrival.rescue(index);
            decoded = decode(arrival.header(index), length);
        }
        let (route, packet, header_len) = match decoded {
            Ok(Decoded::Packet { route, packet, header_len }) => (route, packet, header_len),
            Ok(Decoded::Setup(setup)) => {
                // More than fit are lost; they are repeated.
                if self.io.setups.len() < self.io.setups.capacity() {
                    self.io.setups.push((socket, *arrival.from(), setup));
                }
                return None;
            }
            Err(_) => {
                self.counters.undecodable += 1;
                return None;
            }
        };
        let payload = (length - header_len) as u32;
        let received = Received { route, packet, payload, ecn: arrival.ecn() };
        let right_source = source_is_right(&self.channels, &received, arrival.from(), socket);
        if arrival.in_place(index) {
            let belongs = self.nic.locate(&received, 0);
            if !right_source || belongs != Some(with_length(targets.ranges[index], payload)) {
                arrival.rescue(index);
            }
        }
        if !right_source {
            self.counters.wrong_source += 1;
            return None;
        }
        Some(Heard { received, header_len })
    }

    /// Hands a packet to the engine, and puts its payload where the engine says.
    fn handle_heard(
        &mut self,
        now: Instant,
        heard: &Heard,
        arrival: &mut Arrival<'_>,
        index: usize,
        targets: &Targets,
    ) {
        let Verdict::Place(placement) = self.nic.handle_packet(now, &heard.received) else {
            return;
        };
        let target = placement.target;
        if arrival.in_place(index) {
            if target == with_length(targets.ranges[index], heard.received.payload) {
                self.counters.placed_direct += 1;
                self.nic.handle_placed(now, placement.token, 0);
                return;
            }
            // The plan was right when it was verified, but a packet of the same arrival has
            // changed what the engine wants.
            arrival.rescue(index);
        }
        let payload = &arrival.segment(index)[heard.header_len..];
        // A target the engine names is registered memory: it checked. Its bounds are checked once
        // more here, because a mistake must not become a write to somewhere else.
        let room = self.memories.target(&target).filter(|_| target.length as usize == payload.len());
        let room = room.expect("the engine places payload into registered memory");
        room.write(payload);
        self.counters.placed_copied += 1;
        self.counters.bytes_copied += u64::from(target.length);
        self.nic.handle_placed(now, placement.token, 0);
    }
}

/// Does the packet come from where its path begins? Packets of unknown channels and paths are the
/// engine's to count.
pub(super) fn source_is_right(
    channels: &Channels,
    received: &Received,
    from: &Address,
    socket: usize,
) -> bool {
    let Some(channel) = channels.by_number(received.route.destination_tpn.value()) else {
        return true;
    };
    match channel.path(received.route.path) {
        None => true,
        Some(ends) => ends.remote == *from && ends.socket == socket,
    }
}

fn with_length(range: LocalRange, length: u32) -> LocalRange {
    LocalRange { length, ..range }
}
