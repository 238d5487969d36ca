//! Receives datagrams, decodes them to packets, passes these to the device, and places payloads.

use fairway_device::{Device, Verdict};
use fairway_port::Arrival;
use fairway_wire::Instant;

use crate::clock;
use crate::execution::{execute_due, place, report};
use crate::io::{Companion, Io};
use crate::memory::Gone;
use crate::protocol::{Eagerness, Parsed, Placing, Protocol};
use crate::sending;

/// Where the application answers what arrives, arrivals of up to this many packets and bytes,
/// headers included, are probably a whole message, and not part of a bulk transfer.
const MESSAGE_PACKETS: usize = 3;
const MESSAGE_BYTES: usize = 17 * 1024;
/// Arrivals below this many bytes are taken for a message even if the application has not been
/// seen to answer.
const SHORT_BYTES: usize = 1024;

/// The size of one receive call's result.
struct Took {
    packets: usize,
    bytes: usize,
}

impl Took {
    /// True if these packets are probably a message that the application answers. `answers`: it
    /// has answered the last ones at once.
    fn is_message(&self, answers: bool) -> bool {
        match answers {
            true => (1..=MESSAGE_PACKETS).contains(&self.packets) && self.bytes <= MESSAGE_BYTES,
            false => self.packets == 1 && self.bytes < SHORT_BYTES,
        }
    }
}

/// Receives from the sockets that are marked, up to about `budget` packets, and returns their
/// number. Their bytes are added to [`Io::received_bytes`].
pub(super) fn receive<P: Protocol>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    budget: usize,
    eagerness: Eagerness,
) -> usize {
    let (mut packets, mut received_once) = (0, 0_u64);
    while packets < budget
        && let Some(socket) = io.sockets.next()
    {
        let took = receive_from(protocol, io, socket);
        packets += took.packets;
        io.received_bytes += took.bytes;
        io.sockets.took(socket, took.packets);
        if packets < budget {
            sending::transmit_urgent(protocol, io);
        }
        match eagerness {
            Eagerness::AnswerFirst if took.is_message(protocol.delayed_ack().is_prompt()) => {
                io.sockets.unmark(socket);
                break;
            }
            Eagerness::OnceEach => {
                io.sockets.unmark(socket);
                received_once |= u64::from(took.packets > 0) << socket;
            }
            Eagerness::AnswerFirst | Eagerness::TakeAll => {}
        }
    }
    while received_once != 0 {
        io.sockets.mark(received_once.trailing_zeros() as usize);
        received_once &= received_once - 1;
    }
    packets
}

/// Makes one receive call on `socket`. The time of arrival is read after the call, because a packet
/// may arrive during the poll. An earlier time would make the residence time that an
/// acknowledgement reports to the peer too long, and a round trip that is measured here too short.
fn receive_from<P: Protocol>(protocol: &mut P, io: &mut Io<P::Own>, socket: usize) -> Took {
    let mut buffer = io.sockets.take_buffer();
    let took = match io.sockets.receive(socket, &mut buffer) {
        None => Took { packets: 0, bytes: 0 },
        Some(arrival) => {
            io.own.arrived(&arrival);
            handle_arrival(protocol, io, clock::now(), socket, &arrival);
            Took { packets: arrival.segments(), bytes: arrival.len() }
        }
    };
    io.sockets.give_buffer(buffer);
    took
}

/// Passes the run of packets of a receive call to the device.
pub fn handle_arrival<P: Protocol>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    now: Instant,
    socket: usize,
    arrival: &Arrival<'_>,
) {
    protocol.arrival_begins(arrival);
    if let Some(cut_from) = arrival.cut_from() {
        return protocol.handle_cut(io, now, socket, arrival, cut_from);
    }
    for index in 0..arrival.segments() {
        let Some(parsed) = protocol.parse(io, socket, arrival, index) else { continue };
        let acknowledged = protocol.acknowledged();
        handle(protocol, io, now, &parsed);
        protocol.handled(io, now, &parsed.received, acknowledged);
    }
}

/// Passes a packet to the device, and executes the requests on memory that become due.
pub fn handle<P: Protocol>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    now: Instant,
    parsed: &Parsed<'_, P>,
) {
    if !protocol.admit(io, now, &parsed.received) {
        return;
    }
    match protocol.parts().0.handle_packet(now, &parsed.received) {
        Verdict::Place(placement) => match protocol.placing(io, &placement, parsed) {
            Placing::Now => {
                let (device, memories) = protocol.parts();
                return place(device, memories, now, placement, parsed.payload);
            }
            Placing::Later => return,
            Placing::Gone => {
                let (device, memories) = protocol.parts();
                report(device, memories, now, placement.token, Err(Gone));
            }
        },
        Verdict::Own(own) => protocol.carry_out(now, own, parsed),
        Verdict::Done | Verdict::Drop(_) => {}
    }
    let (device, memories) = protocol.parts();
    execute_due(device, memories, now);
}
