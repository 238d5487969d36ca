//! Receiving: headers to the engine, payloads into place.

use fairway_engine::wire::{Decoded, Instant, Packet};
use fairway_engine::{LocalRange, Placement, PlacementToken, Received, Verdict};
use fairway_port::{Address, Arrival};

use super::Io;
use super::plan::{self, Last, Looked, Method, Targets};
use crate::clock;
use crate::core::{Channels, Core};
use crate::fidelity::Meter;
use crate::memory::SharedBytes;

/// Most packets received in one turn, so that what is to be sent is not left lying.
pub(super) const BUDGET: usize = 64;

/// Whether a lone small packet is answered before anything else is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Eagerness {
    /// It is: somebody waits for the answer.
    AnswerFirst,
    /// It is not.
    TakeAll,
}

/// Arrivals up to this many bytes are somebody's question or answer, and not part of a flood.
const SMALL: usize = 1024;

/// What one receive call brought.
struct Took {
    packets: usize,
    bytes: usize,
}

impl Took {
    const NOTHING: Took = Took { packets: 0, bytes: 0 };
}

/// How the next receive call is to be made.
#[derive(PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Not at all: the socket is empty.
    Nothing,
    /// Without a plan.
    Plain,
    /// With the plan that was drawn.
    Planned,
}

/// Payloads shorter than this are copied at once: that is cheaper than taking the lock again.
const LATE_MIN: u32 = 1024;

/// A payload of the arrival at hand that is to be copied without the lock.
pub(crate) struct Late {
    index: usize,
    header_len: usize,
    room: SharedBytes,
    token: PlacementToken,
}

impl Late {
    pub(crate) fn place(&self, arrival: &Arrival<'_>) {
        self.room.write(&arrival.segment(self.index)[self.header_len..]);
    }
}

/// A packet of the arrival at hand.
#[derive(Clone, Copy)]
pub(crate) struct Heard {
    received: Received,
    header_len: usize,
}

impl Core {
    /// Takes in what has arrived at sockets that are marked, up to about `budget` packets; how many
    /// that were.
    pub(super) fn receive(&mut self, io: &mut Io, budget: usize, eagerness: Eagerness) -> usize {
        let mut packets = 0;
        while packets < budget
            && let Some(socket) = io.next_socket()
        {
            let took = self.receive_from(io, socket);
            packets += took.packets;
            io.took(socket, took.packets);
            let small = took.packets == 1 && took.bytes < SMALL;
            if small && eagerness == Eagerness::AnswerFirst {
                io.waiting &= !(1 << socket);
                break;
            }
        }
        packets
    }

    /// One receive call on `socket`. The time of arrival is read after the call, because a packet may
    /// come in during the turn. An earlier time would make the residence time that the acknowledgement
    /// reports to the peer too long, and a round trip that is measured here too short.
    fn receive_from(&mut self, io: &mut Io, socket: usize) -> Took {
        let mut targets = Targets::default();
        let prepared = self.prepare(io, socket, &mut targets);
        if prepared == Prepared::Nothing {
            return Took::NOTHING;
        }
        let mut buffer = io.take_buffer();
        let arrival = io.receive(socket, &mut buffer, prepared == Prepared::Planned);
        let took = match arrival {
            None => Took::NOTHING,
            Some(mut arrival) => {
                self.handle_arrival(io, clock::now(), socket, &mut arrival, &targets);
                Took { packets: arrival.segments(), bytes: arrival.len() }
            }
        };
        io.give_buffer(buffer);
        took
    }

    /// Draws a plan for the next receive call on `socket`, if it is worth it.
    pub(crate) fn prepare(
        &mut self,
        io: &mut Io,
        socket: usize,
        targets: &mut Targets,
    ) -> Prepared {
        let state = &io.sockets[socket];
        let (known, ahead) = match state.method() {
            Method::Plain => return Prepared::Plain,
            Method::Guess => (state.last(), 1),
            Method::Look => {
                let at = (io.engine, socket);
                match plan::look(&mut *io.datapath, at, &self.channels, state.hint()) {
                    Ok(Looked::Empty) => return Prepared::Nothing,
                    Ok(Looked::Unknown) => return Prepared::Plain,
                    Ok(Looked::Packet(packet)) => (Some(packet), 0),
                    Err(error) => {
                        io.trouble(&error);
                        return Prepared::Nothing;
                    }
                }
            }
        };
        let Some(known) = known else { return Prepared::Plain };
        targets.limit = state.run_limit(&known, ahead);
        let canvas = (&mut io.scatter, targets);
        if !plan::draw(&known, ahead, &self.nic, &self.memories, canvas) {
            return Prepared::Plain;
        }
        match ahead {
            0 => self.counters.plans_peeked += 1,
            _ => self.counters.plans_guessed += 1,
        }
        Prepared::Planned
    }

    /// Hands the run of packets of a receive call to the engine.
    pub(crate) fn handle_arrival(
        &mut self,
        io: &mut Io,
        now: Instant,
        socket: usize,
        arrival: &mut Arrival<'_>,
        targets: &Targets,
    ) {
        self.changes += 1;
        let mut heard = std::mem::take(&mut io.heard);
        heard.clear();
        let in_place = (0..arrival.segments()).take_while(|&i| arrival.in_place(i)).count();
        // All headers are read, and the plan is verified, before anything is placed: what lies in
        // a wrong target has to be brought back before somebody else's payload goes there.
        for index in 0..arrival.segments() {
            let packet = self.hear(io, socket, arrival, index, targets);
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
        let state = &mut io.sockets[socket];
        state.observe(first, last, arrival.len());
        for (one, two) in heard.iter().zip(heard.iter().skip(1)) {
            state.observe_run(one.as_ref().and_then(index_of), two.as_ref().and_then(index_of));
        }
        for (index, packet) in heard.iter().enumerate() {
            if let Some(packet) = packet {
                let place = (index, targets);
                let told = self.nic.counters().acks_told;
                self.handle_heard(now, packet, arrival, place, &mut io.late);
                if let Some(meter) = &mut io.meter {
                    self.measure(meter, &packet.received, told);
                }
            }
        }
        io.heard = heard;
    }

    /// A packet was handled; before, congestion controls had been told of `told` acknowledgements.
    fn measure(&self, meter: &mut Meter, received: &Received, told: u64) {
        let number = received.route.destination_tpn.value();
        let Some(channel) = self.channels.by_number(number) else { return };
        match received.packet {
            Packet::Data(_) => meter.data(channel.id.index()),
            Packet::Ack(_) if self.nic.counters().acks_told != told => {
                meter.told(channel.id.index());
            }
            _ => {}
        }
    }

    /// Tells the engine of payloads that were put in place without the lock.
    pub(crate) fn placed_late(&mut self, io: &mut Io, now: Instant) {
        for late in io.late.drain(..) {
            self.placed(now, late.token, 0);
        }
    }

    /// Reads the header of packet `index`, and brings it and those behind it back if the plan was
    /// wrong about it. `None` if it is not for the engine.
    fn hear(
        &mut self,
        io: &mut Io,
        socket: usize,
        arrival: &mut Arrival<'_>,
        index: usize,
        targets: &Targets,
    ) -> Option<Heard> {
        let length = arrival.segment_len(index);
        let mut decoded = self.channels.decode(arrival.header(index), length);
        let as_planned = match &decoded {
            Ok(Decoded::Packet { header_len, .. }) => *header_len == targets.header_len,
            _ => false,
        };
        if arrival.in_place(index) && !as_planned {
            arrival.rescue(index);
            decoded = self.channels.decode(arrival.header(index), length);
        }
        let (route, packet, header_len) = match decoded {
            Ok(Decoded::Packet { route, packet, header_len }) => (route, packet, header_len),
            Ok(Decoded::Setup(setup)) => {
                // More than fit are lost; they are repeated.
                if io.setups.len() < io.setups.capacity() {
                    io.setups.push((socket, *arrival.from(), setup));
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
        let right_source =
            source_is_right(&self.channels, &received, arrival.from(), (io.engine, socket));
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

    /// Hands a packet to the engine, and does to memory what the engine says.
    fn handle_heard(
        &mut self,
        now: Instant,
        heard: &Heard,
        arrival: &mut Arrival<'_>,
        (index, targets): (usize, &Targets),
        late: &mut Vec<Late>,
    ) {
        if self.closes(&heard.received) && !self.may_close(now) {
            return;
        }
        match self.nic.handle_packet(now, &heard.received) {
            Verdict::Place(placement) if self.may_be_late(&placement, late) => {
                let room = self.room_for(&placement.target, heard.received.payload);
                let (header_len, token) = (heard.header_len, placement.token);
                late.push(Late { index, header_len, room, token });
            }
            Verdict::Place(placement) => {
                self.place(heard, arrival, (index, targets), &placement);
                self.placed(now, placement.token, 0);
            }
            Verdict::Atomic(atomic) => {
                let old = self.change_word(&atomic);
                self.placed(now, atomic.token, old);
            }
            Verdict::Done | Verdict::Drop(_) => self.execute_due(now),
        }
    }

    /// Does a peer say that it closes, or has closed, a connection that there is?
    fn closes(&self, received: &Received) -> bool {
        let route = &received.route;
        matches!(received.packet, Packet::Close(_))
            && self.channels.by_number(route.destination_tpn.value()).is_some_and(|channel| {
                channel.remote_tpn == route.source_tpn
                    && channel.peer.incarnation == route.source.value()
                    && self.nic.is_open(channel.id)
            })
    }

    /// Puts the payload of packet `index` where the engine says, unless the kernel has.
    fn place(
        &mut self,
        heard: &Heard,
        arrival: &mut Arrival<'_>,
        (index, targets): (usize, &Targets),
        placement: &Placement,
    ) {
        let target = placement.target;
        if arrival.in_place(index) {
            if target == with_length(targets.ranges[index], heard.received.payload) {
                self.counters.placed_direct += 1;
                return;
            }
            // The plan was right when it was verified, but a packet of the same arrival has
            // changed what the engine wants: it may have to wait, which nobody plans for.
            arrival.rescue(index);
        }
        let room = self.room_for(&target, heard.received.payload);
        room.write(&arrival.segment(index)[heard.header_len..]);
    }

    /// Where a payload is to be copied.
    fn room_for(&mut self, target: &LocalRange, payload: u32) -> SharedBytes {
        self.counters.placed_copied += 1;
        self.counters.bytes_copied += u64::from(target.length);
        // A target the engine names is registered memory: it checked. Its bounds are checked once
        // more here, because a mistake must not become a write to somewhere else.
        let room = self.memories.target(target).filter(|_| target.length == payload);
        room.expect("the engine places payload into registered memory")
    }

    /// Is a payload to be copied when the lock has been released?
    fn may_be_late(&self, placement: &Placement, late: &Vec<Late>) -> bool {
        // Without room for any, nothing is.
        placement.target.length >= LATE_MIN && late.len() < late.capacity()
    }
}

/// Which packet of which message it is.
fn index_of(heard: &Heard) -> Option<(u32, u32)> {
    match heard.received.packet {
        Packet::Data(data) => Some((data.message.value(), data.index)),
        _ => None,
    }
}

/// Does the packet come from where its path begins? Packets of unknown channels and paths are the
/// engine's to count.
pub(super) fn source_is_right(
    channels: &Channels,
    received: &Received,
    from: &Address,
    (engine, socket): (u32, usize),
) -> bool {
    let Some(channel) = channels.by_number(received.route.destination_tpn.value()) else {
        return true;
    };
    match channel.path(received.route.path) {
        None => true,
        Some(ends) => ends.remote == *from && ends.socket == socket && channel.engine == engine,
    }
}

fn with_length(range: LocalRange, length: u32) -> LocalRange {
    LocalRange { length, ..range }
}
