//! `UbDevice` with a legal but malicious peer, which has a channel and all numbers and keys but
//! one, and sends arbitrary packets.
//!
//! The peer is a second `UbDevice`. Its packets reach the first one unchanged, changed, repeated,
//! late or never, and between them packets arrive that no `UbDevice` has sent. A script determines
//! all that. Payload has no bytes here; only the places where it would be written are checked.

mod forge;
mod side;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use fairway_device::drive::{Access, AccessOf, Outcome};
use fairway_ub::wire::{Duration, Ecn, Instant, Packet, Psn};
use fairway_ub::{Event, Received, Transmit, UbDevice, Verdict};

use crate::script::Script;
use side::{ENGINES, FIRST_PSN, Side};

/// Index of the NIC under attack, and of its peer.
const HERE: usize = 0;
const PEER: usize = 1;

const STEPS_MAX: u32 = 96;
/// Maximum number of packets in flight in one direction; further ones are lost.
const WIRE_MAX: usize = 12;
/// Maximum number of the peer's packets that are kept for repetition.
const REMEMBERED_MAX: usize = 6;
/// Maximum number of clock advances until the channel has ended.
const TIMEOUT: u32 = 2_000;

/// A NIC, and a peer that sends it the packets of the input.
///
/// Checked: nothing panics; payload is placed only in memory to which the peer has a key, or that
/// an operation or receive of this side has lent; every operation completes once; when the channel
/// has ended, every record is back in its pool and all memory can be released.
pub fn nic_packets(input: &[u8]) {
    let mut pair = Pair::new(input);
    for _ in 0..STEPS_MAX {
        if pair.script.is_over() {
            break;
        }
        pair.step();
    }
    pair.finish();
}

/// An access that has not been carried out yet.
struct Late {
    side: usize,
    access: AccessOf<UbDevice, ()>,
}

struct Pair<'a> {
    script: Script<'a>,
    now: Instant,
    sides: [Side; 2],
    /// Packets in flight to each side.
    wires: [VecDeque<Received>; 2],
    remembered: VecDeque<Received>,
    /// Last sequence number of each side, by channel.
    last_psn: [[Psn; 2]; 2],
    late: Vec<Late>,
    /// True if payload is placed late.
    holds: bool,
    /// True if the peer continues until the end.
    polite: bool,
    /// True if the payload of the next packet that has one cannot be read.
    ungathered: bool,
}

impl<'a> Pair<'a> {
    fn new(input: &'a [u8]) -> Pair<'a> {
        let mut script = Script::new(input);
        let settings = script.byte();
        let now = Instant::from_ps(u64::MAX - 1_000_000_000);
        let sides = side::two(now, settings);
        Pair {
            script,
            now,
            sides,
            wires: [VecDeque::with_capacity(WIRE_MAX), VecDeque::with_capacity(WIRE_MAX)],
            remembered: VecDeque::with_capacity(REMEMBERED_MAX),
            last_psn: FIRST_PSN.map(|first| [first; 2]),
            late: Vec::new(),
            holds: settings & 32 != 0,
            polite: settings & 64 != 0,
            ungathered: false,
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
            4 => self.deliver_from(some, false),
            5 | 6 => self.deliver_from(some, true),
            7 => self.replay(some),
            8 | 9 => self.forge(|pair| forge::data(pair)),
            10 => self.forge(|pair| forge::ack(pair)),
            11 => self.forge(|pair| forge::news(pair)),
            12 => {
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
            self.collect(side);
        }
    }

    /// Collects the packets that a side has to send.
    fn pump(&mut self, side: usize) {
        for engine in 0..ENGINES {
            while self.wires[1 - side].len() < WIRE_MAX {
                let nic = self.sides[side].driver.device_mut();
                let Some(transmit) = nic.poll_engine(self.now, engine) else { break };
                self.send(side, &transmit);
            }
        }
    }

    fn send(&mut self, side: usize, transmit: &Transmit) {
        if transmit.gather.length > 0 {
            if std::mem::take(&mut self.ungathered) {
                self.sides[side].driver.handle_ungathered(transmit);
                return;
            }
            self.sides[side].books.demand_readable(&transmit.gather);
        }
        if let Packet::Data(data) = &transmit.packet {
            let number = usize::from(transmit.channel != self.sides[side].channel);
            self.last_psn[side][number] = data.psn;
        }
        let received = Received {
            route: transmit.route,
            packet: transmit.packet,
            payload: transmit.gather.length,
            ecn: Ecn::Capable,
            hops: 0,
        };
        if side == PEER {
            self.remember(received);
        }
        self.wires[1 - side].push_back(received);
    }

    fn remember(&mut self, received: Received) {
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        self.remembered.push_back(received);
    }

    fn deliver_first(&mut self, to: usize) {
        if let Some(received) = self.wires[to].pop_front() {
            self.deliver(to, &received);
        }
    }

    /// Delivers a packet, which may be out of order, changed, lost or without its payload.
    fn deliver_from(&mut self, at: usize, changed: bool) {
        let Some(received) = self.wires[HERE].remove(at % WIRE_MAX) else { return };
        if changed {
            if let Some(changed) = forge::change(&received, &mut self.script) {
                self.deliver(HERE, &changed);
            }
        } else if self.script.flag() {
            let nic = self.sides[HERE].driver.device_mut();
            let verdict = nic.handle_trimmed(self.now, &received);
            assert!(!matches!(verdict, Verdict::Place(_) | Verdict::Own(_)));
        }
    }

    fn replay(&mut self, at: usize) {
        let Some(&received) = self.remembered.get(at % REMEMBERED_MAX) else { return };
        match forge::change(&received, &mut self.script) {
            Some(changed) => self.deliver(HERE, &changed),
            None => self.deliver(HERE, &received),
        }
    }

    fn forge(&mut self, make: impl FnOnce(&mut Self) -> Option<Received>) {
        if let Some(received) = make(self) {
            self.deliver(HERE, &received);
        }
    }

    fn deliver(&mut self, to: usize, received: &Received) {
        if to == HERE && forge::names_the_secret(received) {
            return;
        }
        let outcome = self.sides[to].driver.handle_packet(self.now, received, || ());
        if let Outcome::Access(access) = outcome {
            if let Access::Place { target, .. } = &access {
                assert_eq!(target.length, received.payload, "{received:?}");
            }
            self.carry_out(to, access);
        }
        self.execute(to);
        self.collect(to);
    }

    fn carry_out(&mut self, side: usize, access: AccessOf<UbDevice, ()>) {
        if let Access::Copy { from, to, .. } = &access {
            assert_eq!(from.length, to.length);
            self.sides[side].books.require_staging(from);
        }
        for range in access.ranges() {
            self.sides[side].books.demand_writable(range);
        }
        if self.holds {
            self.late.push(Late { side, access });
        } else {
            self.sides[side].driver.handle_placed(self.now, access.token(), 0);
        }
    }

    fn execute(&mut self, side: usize) {
        while let Some(access) = self.sides[side].driver.poll_access(self.now) {
            self.carry_out(side, access);
        }
    }

    /// Finishes or fails one deferred placement, or switches between late and immediate placing.
    fn place_late(&mut self, at: usize) {
        if at == 15 {
            self.holds = !self.holds;
        } else if at == 14 {
            let late = self.late.pop();
            self.finish_placements();
            if let Some(late) = late {
                self.sides[late.side].driver.handle_unplaced(self.now, late.access.token());
                self.execute(late.side);
            }
        } else if at < self.late.len() {
            let late = self.late.remove(at);
            self.finish_placement(&late);
        }
    }

    fn finish_placement(&mut self, late: &Late) {
        let side = &mut self.sides[late.side];
        // Data of a channel that has ended is not placed any more.
        let token = late.access.token();
        if side.driver.device().is_open(token.channel()) {
            for range in late.access.ranges() {
                side.books.demand_registered(range);
            }
        }
        side.driver.handle_placed(self.now, token, 0);
        self.execute(late.side);
    }

    fn finish_placements(&mut self) {
        let held = std::mem::take(&mut self.holds);
        while let Some(late) = self.late.pop() {
            self.finish_placement(&late);
        }
        self.holds = held;
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
            self.execute(side);
        }
    }

    fn be_rough(&mut self, some: usize) {
        match some {
            0 => self.sides[HERE].close(self.now),
            1 => self.sides[PEER].close(self.now),
            2 => {
                self.finish_placements();
                self.sides[HERE].deregister_open();
            }
            // A deferred placement may belong to a buffer that is returned to the application.
            3 => {
                self.finish_placements();
                self.sides[HERE].change_mailbox(&mut self.script);
            }
            4..=9 => {
                self.finish_placements();
                self.sides[HERE].change_jetty(&mut self.script);
            }
            10 => self.wires[HERE].clear(),
            11 => self.wires[PEER].clear(),
            12 => {
                let nic = self.sides[HERE].driver.device_mut();
                nic.set_pressure(!nic.is_under_pressure());
                nic.set_transmit_pressure(self.script.flag());
            }
            13 => self.ungathered = true,
            _ => self.sides[HERE].driver.device_mut().audit(),
        }
        self.execute(HERE);
    }

    fn collect(&mut self, side: usize) {
        let side = &mut self.sides[side];
        while let Some(event) = side.driver.device_mut().poll_event() {
            if let Event::SegmentReleased { segment } = event {
                side.books.released(segment);
            }
        }
        side.collect();
    }

    /// Ends the channel, by a close or by silence, and releases all resources.
    fn finish(&mut self) {
        self.finish_placements();
        self.holds = false;
        self.sides[HERE].driver.device_mut().audit();
        if self.polite {
            self.sides[HERE].close(self.now);
        }
        let mut left = TIMEOUT;
        while self.sides[HERE].has_channels() {
            assert!(
                left > 0,
                "the channel does not end: {:?}",
                self.sides[HERE].driver.device().usage()
            );
            left -= 1;
            // A peer that is silent from now on does nothing.
            let active: &[usize] = if self.polite { &[HERE, PEER] } else { &[HERE] };
            for &side in active {
                self.pump(side);
            }
            if self.polite {
                self.deliver_all();
            } else {
                self.wires[PEER].clear();
            }
            let due = self.sides[HERE].driver.poll_timeout();
            self.now = self.now.max(due.unwrap_or(self.now + Duration::from_ms(1)));
            for &side in active {
                self.sides[side].driver.device_mut().handle_timeout(self.now);
                self.execute(side);
                self.collect(side);
            }
        }
        self.sides[HERE].strip();
    }

    fn deliver_all(&mut self) {
        for to in [HERE, PEER] {
            while !self.wires[to].is_empty() {
                self.deliver_first(to);
            }
        }
    }
}
