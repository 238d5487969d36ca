//! Receiving: headers to the engine, payloads into place.

use fairway_engine::wire::{Decoded, Instant, Packet};
use fairway_engine::{LocalRange, Placement, PlacementToken, Received, Verdict};
use fairway_port::{Address, Arrival};

use super::Io;
use crate::clock;
use crate::core::{Channels, Core};
use crate::fidelity::Meter;
use crate::memory::{Gone, SharedBytes};
use crate::runtime::{execute_due, place, report};
use crate::setup::Padded;

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

/// Payloads shorter than this are copied at once: that is cheaper than taking the lock again.
const LATE_MIN: u32 = 1024;

/// A payload of the arrival at hand that is to be copied without the lock.
pub(crate) struct Late {
    index: usize,
    header_len: usize,
    room: SharedBytes,
    token: PlacementToken,
    /// What came of it.
    placed: Result<(), Gone>,
}

impl Late {
    pub(crate) fn place(&mut self, arrival: &Arrival<'_>) {
        self.placed = self.room.write(&arrival.segment(self.index)[self.header_len..]);
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

    /// One receive call on `socket`. The time of arrival is read after the call, because a packet
    /// may come in during the turn. An earlier time would make the residence time that the
    /// acknowledgement reports to the peer too long, and a round trip that is measured here too
    /// short.
    fn receive_from(&mut self, io: &mut Io, socket: usize) -> Took {
        let mut buffer = io.take_buffer();
        let arrival = io.receive(socket, &mut buffer);
        let took = match arrival {
            None => Took::NOTHING,
            Some(arrival) => {
                self.handle_arrival(io, clock::now(), socket, &arrival);
                Took { packets: arrival.segments(), bytes: arrival.len() }
            }
        };
        io.give_buffer(buffer);
        took
    }

    /// Hands the run of packets of a receive call to the engine.
    pub(crate) fn handle_arrival(
        &mut self,
        io: &mut Io,
        now: Instant,
        socket: usize,
        arrival: &Arrival<'_>,
    ) {
        self.changes += 1;
        for index in 0..arrival.segments() {
            let Some(heard) = self.hear(io, socket, arrival, index) else { continue };
            let told = self.nic.counters().acks_told;
            self.handle_heard(now, &heard, arrival, index, &mut io.late);
            if let Some(meter) = &mut io.meter {
                self.measure(meter, &heard.received, told);
            }
        }
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
            let placed = late.placed.map(|()| 0);
            report(&mut self.nic, &mut self.memories, now, late.token, placed);
            execute_due(&mut self.nic, &mut self.memories, now);
        }
    }

    /// Reads and proves the header of packet `index`. `None` if it is not for the engine.
    fn hear(
        &mut self,
        io: &mut Io,
        socket: usize,
        arrival: &Arrival<'_>,
        index: usize,
    ) -> Option<Heard> {
        let bytes = arrival.segment(index);
        let decoded = self.channels.decode(bytes, bytes.len());
        let (route, packet, header_len) = match decoded {
            Ok(Decoded::Packet { route, packet, header_len }) => (route, packet, header_len),
            Ok(Decoded::Setup(setup)) => {
                // More than fit are lost; they are repeated.
                if io.setups.len() < io.setups.capacity() {
                    io.setups.push((
                        socket,
                        *arrival.from(),
                        Padded { setup, length: bytes.len() },
                    ));
                }
                return None;
            }
            Err(_) => {
                self.counters.undecodable += 1;
                return None;
            }
        };
        let payload = (bytes.len() - header_len) as u32;
        let received = Received { route, packet, payload, ecn: arrival.ecn() };
        let right_source =
            source_is_right(&self.channels, &received, arrival.from(), (io.engine, socket));
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
        arrival: &Arrival<'_>,
        index: usize,
        late: &mut Vec<Late>,
    ) {
        if self.closes(&heard.received) && !self.may_close(now) {
            return;
        }
        match self.nic.handle_packet(now, &heard.received) {
            Verdict::Place(placement) if self.may_be_late(&placement, late) => {
                let room = self.room_for(&placement.target);
                let (header_len, token) = (heard.header_len, placement.token);
                late.push(Late { index, header_len, room, token, placed: Ok(()) });
            }
            Verdict::Place(placement) => {
                let payload = &arrival.segment(index)[heard.header_len..];
                place(&mut self.nic, &mut self.memories, now, placement, payload);
            }
            Verdict::Own(atomic) => {
                let old = self.memories.change(&atomic);
                report(&mut self.nic, &mut self.memories, now, atomic.token, old);
                execute_due(&mut self.nic, &mut self.memories, now);
            }
            Verdict::Done | Verdict::Drop(_) => {
                execute_due(&mut self.nic, &mut self.memories, now);
            }
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

    /// Where a payload is to be copied.
    fn room_for(&mut self, target: &LocalRange) -> SharedBytes {
        self.memories.counters.placed += 1;
        self.memories.counters.bytes += u64::from(target.length);
        self.memories.room(target).expect("the engine places payload into registered memory")
    }

    /// Is a payload to be copied when the lock has been released?
    fn may_be_late(&self, placement: &Placement, late: &Vec<Late>) -> bool {
        // Without room for any, nothing is.
        placement.target.length >= LATE_MIN && late.len() < late.capacity()
    }
}

/// Does the packet come from where its path begins? Packets of unknown channels and paths are the
/// engine's to count.
fn source_is_right(
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
