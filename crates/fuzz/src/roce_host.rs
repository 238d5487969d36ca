//! `roce::RoceDevice` with a legal but malicious peer, which is connected and has all numbers and
//! keys but one, and sends arbitrary packets.
//!
//! As in [`crate::nic`], the peer is a second `RoceDevice` whose packets are changed, repeated,
//! late or lost, and between them others arrive. Payload has no bytes.

mod forge;
mod side;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use fairway_device::drive::{Access, AccessOf, Outcome};
use fairway_roce::{Received, RoceDevice, Transmit};
use fairway_ub::wire::{Duration, Ecn, Instant, Psn};

use crate::script::Script;
use side::{FIRST_PSN, Side};

/// Index of the host under attack, and of its peer.
const HERE: usize = 0;
const PEER: usize = 1;

const STEPS_MAX: u32 = 96;
/// Maximum number of packets in flight in one direction; further ones are lost.
const WIRE_MAX: usize = 12;
/// Maximum number of the peer's packets that are kept for repetition.
const REMEMBERED_MAX: usize = 6;

/// A host, and a peer that sends it the packets of the input.
///
/// Checked: nothing panics; payload is placed only in memory to which the peer has a key, or that
/// an operation or receive of this side has lent; every operation and receive completes once; when
/// the connection has ended, every record is back in its pool and all memory can be released.
pub fn roce_packets(input: &[u8]) {
    let mut pair = Pair::new(input);
    for _ in 0..STEPS_MAX {
        if pair.script.is_over() {
            break;
        }
        pair.step();
    }
    pair.sides[HERE].end();
    pair.sides[HERE].strip();
}

struct Pair<'a> {
    script: Script<'a>,
    now: Instant,
    sides: [Side; 2],
    /// Packets in flight to each side.
    wires: [VecDeque<Received>; 2],
    remembered: VecDeque<Received>,
    /// Last sequence number of each side.
    last_psn: [Psn; 2],
    /// Accesses that have not been carried out yet, with their side.
    late: Vec<(usize, AccessOf<RoceDevice, ()>)>,
    /// True if payload is placed late.
    holds: bool,
    /// True if nothing can be sent before a packet has been received.
    blocked: bool,
}

impl<'a> Pair<'a> {
    fn new(input: &'a [u8]) -> Pair<'a> {
        let mut script = Script::new(input);
        let settings = script.byte();
        let now = Instant::from_ps(u64::MAX - 1_000_000_000);
        Pair {
            script,
            now,
            sides: side::two(settings),
            wires: [VecDeque::with_capacity(WIRE_MAX), VecDeque::with_capacity(WIRE_MAX)],
            remembered: VecDeque::with_capacity(REMEMBERED_MAX),
            last_psn: FIRST_PSN,
            late: Vec::new(),
            holds: settings & 64 != 0,
            blocked: false,
        }
    }

    fn step(&mut self) {
        let code = self.script.byte();
        let some = usize::from(code >> 4);
        match code & 15 {
            0 | 1 => self.sides[some & 1].post(self.now, &mut self.script),
            2 => self.sides[some & 1].post_receive(&mut self.script),
            3 => {
                for _ in 0..=some {
                    self.deliver_first(HERE);
                }
            }
            4 => drop(self.wires[HERE].remove(some % WIRE_MAX)),
            5 | 6 => {
                if let Some(received) = self.wires[HERE].remove(some % WIRE_MAX) {
                    self.deliver_changed(&received);
                }
            }
            7 => {
                if let Some(&received) = self.remembered.get(some % REMEMBERED_MAX) {
                    self.deliver_changed(&received);
                }
            }
            8..=10 => {
                if let Some(received) = forge::any(self) {
                    self.deliver(HERE, &received);
                }
            }
            11 | 12 => {
                for _ in 0..=some {
                    self.deliver_first(PEER);
                }
            }
            13 => self.pass(some),
            14 => self.place_late(some),
            _ => self.be_rough(some),
        }
        for side in [HERE, PEER] {
            self.pump(side);
            self.sides[side].collect();
        }
    }

    /// Collects the packets that a side has to send.
    fn pump(&mut self, side: usize) {
        while self.wires[1 - side].len() < WIRE_MAX {
            let Some(transmit) = self.sides[side].driver.poll_transmit(self.now) else { return };
            self.send(side, &transmit);
        }
    }

    fn send(&mut self, side: usize, transmit: &Transmit) {
        for range in transmit.gather.ranges() {
            self.sides[side].books.demand_readable(range);
        }
        if !transmit.packet.operation.is_response() {
            self.last_psn[side] = transmit.packet.bth.psn;
        }
        let payload = transmit.gather.length();
        let received = Received { source: 1, packet: transmit.packet, payload, ecn: Ecn::Capable };
        if side == PEER {
            if self.remembered.len() == REMEMBERED_MAX {
                self.remembered.pop_front();
            }
            self.remembered.push_back(received);
        }
        if self.wires[1 - side].len() < WIRE_MAX {
            self.wires[1 - side].push_back(received);
        }
    }

    fn deliver_first(&mut self, to: usize) {
        if let Some(received) = self.wires[to].pop_front() {
            self.deliver(to, &received);
        }
    }

    fn deliver_changed(&mut self, received: &Received) {
        let changed = forge::change(received, &mut self.script);
        self.deliver(HERE, &changed.unwrap_or(*received));
    }

    fn deliver(&mut self, to: usize, received: &Received) {
        if to == HERE && self.sides[HERE].is_secret(&received.packet) {
            return;
        }
        self.take_in(to, received);
        self.execute(to);
        self.sides[to].collect();
    }

    fn take_in(&mut self, to: usize, received: &Received) {
        let driver = &mut self.sides[to].driver;
        let mut answers = Vec::new();
        let outcome = match self.blocked {
            true => driver.handle_packet(self.now, received, || ()),
            false => driver.handle_packet_after_answers(
                self.now,
                received,
                || (),
                |answer| answers.push(answer),
            ),
        };
        for answer in answers {
            self.send(to, &answer);
        }
        if let Outcome::Access(access) = outcome {
            match &access {
                Access::Place { target, .. } => {
                    assert_eq!(target.bytes.length(), received.payload, "{received:?}");
                }
                Access::Store { target, .. } => assert_eq!(target.length(), 8),
                Access::Copy { .. } | Access::Atomic(_) => panic!("{access:?} without its turn"),
            }
            self.carry_out(to, access);
        }
    }

    fn carry_out(&mut self, side: usize, access: AccessOf<RoceDevice, ()>) {
        for range in access.ranges() {
            self.sides[side].books.demand_writable(range);
        }
        if self.holds {
            self.late.push((side, access));
        } else {
            self.sides[side].driver.handle_placed(self.now, access.token(), 0);
        }
    }

    /// Carries out the accesses that are due: those of buffered packets, and atomics.
    fn execute(&mut self, side: usize) {
        loop {
            let driver = &mut self.sides[side].driver;
            let mut answers = Vec::new();
            let access = match self.blocked {
                true => driver.poll_access(self.now),
                false => driver.poll_access_after_answers(self.now, |answer| answers.push(answer)),
            };
            for answer in answers {
                self.send(side, &answer);
            }
            let Some(access) = access else { return };
            self.carry_out(side, access);
        }
    }

    /// Finishes one deferred placement, or switches between late and immediate placing.
    fn place_late(&mut self, at: usize) {
        if at == 15 {
            self.holds = !self.holds;
        } else if at == 14 {
            self.blocked = !self.blocked;
        } else if at < self.late.len() {
            let (side, access) = self.late.remove(at);
            self.sides[side].driver.handle_placed(self.now, access.token(), 0);
            self.execute(side);
        }
    }

    /// Advances time, to the next deadline or by a little.
    fn pass(&mut self, some: usize) {
        let due = self.sides[some & 1].driver.poll_timeout();
        self.now = match due {
            Some(due) if some & 2 == 0 => self.now.max(due),
            _ => self.now + Duration::from_us(u64::from(self.script.byte()) << (some >> 2)),
        };
        for side in [HERE, PEER] {
            self.sides[side].driver.device_mut().handle_timeout(self.now);
        }
    }

    fn be_rough(&mut self, some: usize) {
        match some {
            0 => self.sides[PEER].end(),
            1 => {
                // Deferred placements are dropped.
                self.late.retain(|(side, _)| *side != HERE);
                self.sides[HERE].end();
            }
            2 => {
                self.late.retain(|(side, _)| *side != HERE);
                self.sides[HERE].deregister_open();
            }
            3..=5 => self.sides[HERE].change(some),
            6 => self.wires[HERE].clear(),
            7 => self.wires[PEER].clear(),
            _ => self.sides[PEER].change(some),
        }
        self.execute(HERE);
    }
}
