//! Packets of the peer that no `UbDevice` has sent. All are legal: the decoder accepts each of
//! them.

use fairway_ub::Received;
use fairway_ub::wire::{
    self, Access, Ack, AckFlags, AtomicOperator, CREDIT_MAX, CarriedAck, Cci, Credit,
    CreditRequest, Data, Decoded, Ecn, Executed, Get, JettyId, MAX_HEADER, Msn, Nak, Operation,
    Order, PROTOCOL_VERSION, Packet, Part, PathReport, PathReports, Priority, Probe, Psn, Put,
    Refusal, Route, Sack, ServiceMode, Tag, Target, TokenId, Void, header_check,
};

use super::side::{MAILBOX, MTU, SECRET, TOKEN, address};
use super::{HERE, PEER, Pair};
use crate::books::Memory;
use crate::script::Script;

/// Changes some header bytes of a packet; `None` if the result is not a packet.
pub(super) fn change(received: &Received, script: &mut Script<'_>) -> Option<Received> {
    let mut bytes = [0; MAX_HEADER];
    let payload = received.payload as usize;
    let length = wire::encode(&received.route, &received.packet, payload, &mut bytes);
    for _ in 0..=script.below(4) {
        let at = usize::from(script.byte());
        if (4..length).contains(&at) {
            bytes[at] ^= script.byte();
        }
    }
    let check = header_check(PROTOCOL_VERSION, &bytes[4..length], payload);
    bytes[..4].copy_from_slice(&check.to_be_bytes());
    decoded(&bytes[..length], payload)
}

/// Encodes and decodes a packet, so that only packets arrive that can.
fn legal(route: &Route, packet: &Packet, payload: u32) -> Option<Received> {
    let mut bytes = [0; MAX_HEADER];
    let length = wire::encode(route, packet, payload as usize, &mut bytes);
    decoded(&bytes[..length], payload as usize)
}

fn decoded(header: &[u8], payload: usize) -> Option<Received> {
    match wire::decode(header, header.len() + payload) {
        Ok(Decoded::Packet { route, packet, .. }) => {
            Some(Received { route, packet, payload: payload as u32, ecn: Ecn::Congested, hops: 0 })
        }
        _ => None,
    }
}

/// True if the packet contains the key that the peer does not have.
pub(super) fn names_the_secret(received: &Received) -> bool {
    // The place of a key differs between packets and may change.
    let mut bytes = [0; MAX_HEADER];
    let Received { route, packet, payload, .. } = received;
    let length = wire::encode(route, packet, *payload as usize, &mut bytes);
    bytes[..length].windows(4).any(|some| some == SECRET.to_be_bytes())
}

fn is_with_payload(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Write { .. }
            | Operation::WritePart(_)
            | Operation::WriteImmediate { .. }
            | Operation::Send { .. }
            | Operation::SendImmediate { .. }
            | Operation::Continuation
            | Operation::ReadResponse
            | Operation::Put(_)
    )
}

/// Returns a route to the NIC, and which of its channels that is.
fn route(pair: &mut Pair<'_>) -> (Route, usize) {
    let code = pair.script.byte();
    let (here, there) = (&pair.sides[HERE], &pair.sides[PEER]);
    let (source, destination, number) = match (there.member, here.member) {
        (Some(source), Some(destination)) if code & 2 != 0 => (source, destination, 1),
        _ => (there.channel, here.channel, 0),
    };
    let route = Route {
        source: there.driver.device().address(),
        destination: here.driver.device().address(),
        source_tpn: source.tpn(),
        destination_tpn: destination.tpn(),
        path: code & 1,
        priority: Priority::new(code >> 1),
        cci: Default::default(),
    };
    (route, number)
}

/// Returns a sequence number near `psn`, or far from it.
fn near(script: &mut Script<'_>, psn: Psn) -> Psn {
    match script.byte() {
        byte @ 0..=127 => psn.plus(u32::from(byte & 31)),
        byte @ 128..=223 => psn.minus(u32::from(byte & 31)),
        _ => psn.plus(script.number()),
    }
}

/// Returns a data packet of any kind.
pub(super) fn data(pair: &mut Pair<'_>) -> Option<Received> {
    let (route, number) = route(pair);
    let last_psn = pair.last_psn[PEER][number];
    let own_last = pair.last_psn[HERE][number];
    let script = &mut pair.script;
    let psn = near(script, last_psn);
    let flags = script.byte();
    let operation = operation(script);
    let is_answer = matches!(
        operation,
        Operation::Continuation
            | Operation::ReadResponse
            | Operation::AtomicResponse { .. }
            | Operation::Done { .. }
    );
    let message = Msn::new(script.number());
    let index = if flags & 1 != 0 { script.number() } else { 0 };
    let transaction = if flags & 8 != 0 { script.number() as u16 } else { 0 };
    let slot = script.byte();
    let carried = (slot & 128 != 0).then(|| carried_ack(script, own_last));
    let data = Data {
        psn,
        message,
        index,
        jetty: JettyId::new(u32::from(flags >> 1 & 3)),
        transaction,
        slot: slot & 7,
        ack_request: flags & 16 != 0,
        retry: flags & 32 != 0,
        last: flags & 64 != 0,
        carried,
        order: if is_answer || flags & 128 == 0 { Order::NONE } else { order(script) },
        operation,
    };
    let payload =
        if is_with_payload(&operation) { script.pick(&[MTU, 8, 0, 1, MTU - 1, 5]) } else { 0 };
    legal(&route, &Packet::Data(data), payload)
}

/// Returns an acknowledgement near the last packet that was sent, or far from it.
fn carried_ack(script: &mut Script<'_>, own_last: Psn) -> CarriedAck {
    let flags = AckFlags::from_bits(script.byte());
    let cumulative = near(script, own_last);
    CarriedAck::new(cumulative, flags, script.number() as u16, script.number() as u16)
}

fn order(script: &mut Script<'_>) -> Order {
    let code = script.byte();
    let tag = [Tag::No, Tag::Ro, Tag::So, Tag::Mo][usize::from(code & 3)];
    let in_order = code & 4 != 0;
    Order {
        mode: [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol][usize::from(code >> 4) % 3],
        tag,
        in_order,
        sequence: if tag == Tag::No { 0 } else { script.number() as u16 },
        receive_sequence: if in_order { script.number() as u16 } else { 0 },
        request_slot: if code & 8 != 0 { script.byte() & 7 } else { 0 },
    }
}

fn access(script: &mut Script<'_>) -> Access {
    let code = script.byte();
    let (number, memory) = [
        (0, Memory::Open),
        (1, Memory::Own),
        (2, Memory::Closed),
        (3, Memory::Secret),
        (4, Memory::Staging),
        (5, Memory::Open),
        (0, Memory::Open),
        (0, Memory::Open),
    ][usize::from(code & 7)];
    let offset = match code >> 3 & 3 {
        0 | 1 => u64::from(script.byte()) * 4,
        2 => 1024 - u64::from(script.byte()),
        _ => script.long(),
    };
    Access {
        address: address(memory).wrapping_add(offset),
        length: if code & 32 != 0 { script.number() } else { script.pick(&[8, MTU, 3 * MTU, 4]) },
        token_id: TokenId::new(number),
        token_value: if code & 64 != 0 { script.number() } else { TOKEN },
    }
}

fn operation(script: &mut Script<'_>) -> Operation {
    let code = script.byte();
    let target = Target {
        jetty: JettyId::new(u32::from(code >> 6)),
        token_value: if code & 32 != 0 { 1 } else { 0 },
        hint: 0,
    };
    let immediate = 9;
    match code & 15 {
        0 if code & 64 != 0 => Operation::WritePart(part(script)),
        0 => Operation::Write { access: access(script) },
        1 => Operation::WriteImmediate { access: access(script), target, immediate },
        2 | 3 => Operation::Send { target, length: script.number() },
        4 => Operation::SendImmediate { target, length: script.number(), immediate },
        5 => Operation::Continuation,
        6 if code & 64 != 0 => Operation::ReadPart(part(script)),
        6 => Operation::Read { access: access(script) },
        7 => Operation::ReadResponse,
        8 => Operation::Atomic {
            access: Access { length: if code & 16 != 0 { 4 } else { 8 }, ..access(script) },
            operator: script.pick(&[AtomicOperator::Add, AtomicOperator::CompareSwap]),
            operand: 1,
            compare: 0,
        },
        9 => Operation::AtomicResponse { value: script.long() },
        10 => {
            let mut others = Executed::NONE;
            for _ in 0..script.byte() % 12 {
                let _ = others.push(script.byte() % 8, u16::from(script.byte()));
            }
            Operation::Done { refusal: None, retry_after_us: 0, others }
        }
        11 => {
            let (refusal, others) = (Some(refusal(script)), Executed::NONE);
            Operation::Done { refusal, retry_after_us: 1, others }
        }
        12 => Operation::Put(put(script)),
        13 => Operation::Get(get(script)),
        14 => Operation::AbandonPut { mailbox: MAILBOX, sequence: script.number() },
        _ => Operation::Abandon,
    }
}

fn part(script: &mut Script<'_>) -> Part {
    Part { access: access(script), before: script.number(), whole: script.number() }
}

fn put(script: &mut Script<'_>) -> Put {
    let flags = script.byte();
    Put {
        mailbox: MAILBOX,
        offset: if flags & 1 != 0 { script.long() } else { 0 },
        sequence: script.number(),
        before: script.number(),
        length: script.number(),
        key: if flags & 2 != 0 { 0 } else { TOKEN },
        epoch: if flags & 4 != 0 { script.number() } else { 0 },
        named: flags & 4 != 0,
        oldest: flags & 8 != 0,
        follows: flags & 16 != 0,
    }
}

fn get(script: &mut Script<'_>) -> Get {
    let flags = script.byte();
    Get {
        mailbox: MAILBOX,
        offset: script.long(),
        length: script.number(),
        key: if flags & 2 != 0 { 0 } else { TOKEN },
        epoch: if flags & 4 != 0 { script.number() } else { 0 },
        named: flags & 4 != 0,
    }
}

fn refusal(script: &mut Script<'_>) -> Refusal {
    script.pick(&[
        Refusal::ReceiverNotReady,
        Refusal::Access,
        Refusal::Rights,
        Refusal::NoJetty,
        Refusal::Length,
        Refusal::Operation,
        Refusal::OutOfOrder,
        Refusal::Misaligned,
        Refusal::Resources,
        Refusal::NoMailbox,
        Refusal::Epoch,
    ])
}

/// Returns an acknowledgement with any content.
pub(super) fn ack(pair: &mut Pair<'_>) -> Option<Received> {
    let (route, number) = route(pair);
    let last_psn = pair.last_psn[HERE][number];
    let script = &mut pair.script;
    let flags = AckFlags::from_bits(script.byte());
    let cumulative = near(script, last_psn);
    let base = near(script, cumulative);
    let mut bitmap = [0; 8];
    if flags.contains(AckFlags::SELECTIVE) {
        for word in &mut bitmap[..2] {
            *word = script.number();
        }
    }
    let mut paths = PathReports::NONE;
    for _ in 0..script.byte() % 3 {
        let offset = script.byte() as i8;
        let report = PathReport {
            offset: i16::from(offset),
            retry: script.flag(),
            marks: script.byte() % (PathReport::MARKS_MAX + 1),
            delay: script.number() as u16,
        };
        let has_room = paths.push(report);
        debug_assert!(has_room);
    }
    let ack = Ack {
        cumulative,
        echo: near(script, last_psn),
        start_known: Msn::new(script.number()),
        echo_delay: script.number() as u16,
        window: script.number() as u16,
        marks: script.byte(),
        duplicates: script.byte(),
        cci: Cci::NONE,
        flags,
        sack: Sack { base, highest: near(script, base), bitmap },
        paths,
    };
    legal(&route, &Packet::Ack(ack), 0)
}

/// Returns a refusal, void, credit request, credit or probe.
pub(super) fn news(pair: &mut Pair<'_>) -> Option<Received> {
    let (route, number) = route(pair);
    let last_psn = [HERE, PEER].map(|side| pair.last_psn[side][number]);
    let script = &mut pair.script;
    let packet = match script.below(8) {
        0 | 1 => {
            let retry = script.flag();
            let reason = if script.flag() { refusal(script) } else { Refusal::Trimmed { retry } };
            let psn = near(script, last_psn[HERE]);
            let retry_after_us =
                if reason == Refusal::ReceiverNotReady { script.number() as u16 } else { 0 };
            Packet::Nak(Nak { psn, message: Msn::new(script.number()), reason, retry_after_us })
        }
        2..=4 => {
            let psn = near(script, last_psn[PEER]);
            let message = Msn::new(script.number());
            Packet::Void(Void { psn, message, ack_request: script.flag() })
        }
        5 => Packet::CreditRequest(CreditRequest {
            total_bytes: script.long() & CREDIT_MAX,
            resend: script.flag(),
            blocked: script.flag(),
        }),
        6 => {
            let total_bytes = script.long() & CREDIT_MAX;
            Packet::Credit(Credit { total_bytes, class: Priority::of_data(total_bytes as u8) })
        }
        _ => Packet::Probe(Probe {
            number: script.number() & Probe::NUMBER_MAX,
            turn_ns: script.flag().then(|| script.number()),
        }),
    };
    legal(&route, &packet, 0)
}
