//! Encodes packet values into bytes.

use super::fields::{flag, put};
use super::{
    BITMAP_256, CARRIED_LEN, CARRIES_BIT, CCI, GRANTED_CLASS, MAX_HEADER, PROTOCOL_VERSION,
    TRANSACTION_LEN, TRANSPORT_LEN, bypass, datagram, next_header, next_layer, refusal, status,
    tp_opcode,
};
use crate::{
    Ack, AckFlags, BypassOperation, CREDIT_MAX, CarriedAck, CheckKey, Data, Nak, Operation, Packet,
    Priority, Probe, Route,
};

mod transaction;

pub(super) use transaction::{put_access, put_unreliable};

/// The header of a datagram while it is being written.
pub(super) type Header = [u8; MAX_HEADER];

/// Length of a packet's headers in bytes, the check included.
#[inline]
pub fn header_len(packet: &Packet) -> usize {
    match packet {
        Packet::Data(data) => {
            let operation = transaction::operation_len(&data.operation);
            let carried = if data.carried.is_some() { CARRIED_LEN } else { 0 };
            TRANSACTION_LEN + transaction::order_len(data) + operation + carried
        }
        Packet::Ack(ack) => {
            let selective = ack.flags.contains(AckFlags::SELECTIVE);
            TRANSPORT_LEN + if selective { 52 } else { 12 } + 4 * ack.paths.len()
        }
        Packet::Nak(_) => TRANSPORT_LEN + 4,
        Packet::Void(_) | Packet::Close(_) => TRANSPORT_LEN,
        Packet::CreditRequest(_) | Packet::Credit(_) | Packet::Probe(_) => TRANSPORT_LEN,
        Packet::Retire(_) => TRANSPORT_LEN,
        Packet::Datagram(datagram) => {
            TRANSACTION_LEN + transaction::operation_len(&datagram.operation)
        }
        Packet::Bypass(bypass) => bypass::header_len(&bypass.operation),
    }
}

/// Encodes as [`encode_keyed`] does, with the public key.
///
/// # Panics
///
/// As [`encode_keyed`].
pub fn encode(route: &Route, packet: &Packet, payload_len: usize, out: &mut [u8]) -> usize {
    encode_keyed(&CheckKey::PUBLIC, route, packet, payload_len, out)
}

/// Writes the headers of `packet`, in front of `payload_len` bytes of payload, to the start of
/// `out`, with a check by `key`, and returns their length.
///
/// # Panics
/// If `out` is shorter than [`MAX_HEADER`]; if `payload_len` is not zero for a packet that carries
/// no payload, or not the length of a store; if an atomic is not of 4 or 8 bytes, or a load or
/// store not of 1 to [`BYPASS_BYTES`](crate::BYPASS_BYTES); if a datagram cannot carry the
/// operation. A debug build also panics if a data packet has mode UNO, or a response or
/// continuation packet any order. All are mistakes of the caller.
pub fn encode_keyed(
    key: &CheckKey,
    route: &Route,
    packet: &Packet,
    payload_len: usize,
    out: &mut [u8],
) -> usize {
    let out: &mut Header = out.first_chunk_mut().expect("room for MAX_HEADER bytes");
    assert!(payload_len == 0 || carries_payload(packet), "payload behind a packet without any");
    let len = match packet {
        Packet::Data(data) => put_data(route, data, out),
        other => {
            put_other(route, other, payload_len, out);
            header_len(other)
        }
    };
    debug_assert_eq!(len, header_len(packet), "length of the headers");
    let check = key.check(PROTOCOL_VERSION, &out[4..len], payload_len);
    put(out, 0, check);
    // Switches may write CCI, so the check is that of a header in which it is zero.
    [out[CCI.start], out[CCI.start + 1]] = route.cci.bits().to_be_bytes();
    len
}

/// Writes a packet that carries no transaction of a reliable channel.
fn put_other(route: &Route, packet: &Packet, payload_len: usize, out: &mut Header) {
    match packet {
        Packet::Data(_) => unreachable!("a data packet"),
        Packet::Ack(ack) => put_ack(route, ack, out),
        Packet::Nak(nak) => put_nak(route, nak, out),
        Packet::Void(void) => {
            let sequence = [flag(void.ack_request, 31) | void.psn.value(), void.message.value()];
            put_transport(route, bare(tp_opcode::VOID), sequence, out);
        }
        Packet::Close(close) => {
            let sequence = [close.next.value(), flag(close.answer, 24)];
            put_transport(route, bare(tp_opcode::CLOSE), sequence, out);
        }
        Packet::Retire(retire) => {
            let sequence = [retire.channel.value(), flag(retire.answer, 24)];
            put_transport(route, bare(tp_opcode::RETIRE), sequence, out);
        }
        Packet::CreditRequest(demand) => {
            let [high, low] = halves(demand.total_bytes);
            let flags = flag(demand.resend, 31) | flag(demand.blocked, 30);
            put_transport(route, bare(tp_opcode::DEMAND), [flags | high, low], out);
        }
        Packet::Credit(credit) => {
            put_transport(route, bare(tp_opcode::CREDIT), halves(credit.total_bytes), out);
            out[GRANTED_CLASS] = Priority::of_data(credit.class.number()).number();
        }
        Packet::Probe(probe) => {
            let number = probe.number & Probe::NUMBER_MAX | flag(probe.turn_ns.is_some(), 31);
            let sequence = [number, probe.turn_ns.unwrap_or(0)];
            put_transport(route, bare(tp_opcode::PROBE), sequence, out);
        }
        Packet::Datagram(datagram) => datagram::put_datagram(route, datagram, out),
        Packet::Bypass(bypass) => bypass::put_bypass(route, bypass, payload_len, out),
    }
}

/// True if payload may follow the headers of `packet`.
pub(super) fn carries_payload(packet: &Packet) -> bool {
    match packet {
        Packet::Data(data) => matches!(
            data.operation,
            Operation::Continuation
                | Operation::Write { .. }
                | Operation::WritePart(_)
                | Operation::ReadResponse
                | Operation::Send { .. }
                | Operation::Put(_)
                | Operation::WriteImmediate { .. }
                | Operation::SendImmediate { .. }
        ),
        Packet::Datagram(_) => true,
        Packet::Bypass(bypass) => matches!(
            bypass.operation,
            BypassOperation::Store { .. } | BypassOperation::LoadResponse { refusal: None }
        ),
        Packet::Ack(_) | Packet::Nak(_) | Packet::Void(_) | Packet::Close(_) => false,
        Packet::CreditRequest(_) | Packet::Credit(_) | Packet::Probe(_) => false,
        Packet::Retire(_) => false,
    }
}

/// The two words of a total, which is limited to 62 bits.
fn halves(total: u64) -> [u32; 2] {
    let total = total.min(CREDIT_MAX);
    [(total >> 32) as u32, total as u32]
}

/// The first half of RTPH's first word for a packet that ends with its transport headers.
fn bare(opcode: u32) -> u32 {
    opcode << 24 | next_header::NOTHING << 16
}

/// Writes NTH (§5.2.2).
#[inline(always)]
pub(super) fn put_network(route: &Route, next_layer: u32, out: &mut Header) {
    put(out, 1, route.source.value());
    put(out, 2, route.destination.value() << 8);
    let level = u32::from(route.priority.number());
    put(out, 3, u32::from(route.path) << 16 | level << 12 | next_layer << 9);
}

/// Writes the first half of RTPH or UTPH. `opcode` holds its bytes 0–1 in the upper half.
#[inline(always)]
pub(super) fn put_channel(route: &Route, opcode: u32, out: &mut Header) {
    put(out, 4, opcode | route.source_tpn.value() >> 8);
    put(out, 5, route.source_tpn.value() << 24 | route.destination_tpn.value());
}

/// Writes NTH and RTPH (§6.2.1). `opcode` is as in [`put_channel`]; `sequence` is RTPH bytes 8–15.
#[inline(always)]
fn put_transport(route: &Route, opcode: u32, sequence: [u32; 2], out: &mut Header) {
    put_network(route, next_layer::RTPH, out);
    put_channel(route, opcode, out);
    put(out, 6, sequence[0]);
    put(out, 7, sequence[1]);
}

/// Writes a data packet, and returns the length of its headers.
#[inline(always)]
fn put_data(route: &Route, data: &Data, out: &mut Header) -> usize {
    let opcode = flag(data.last, 31) | tp_opcode::DATA << 24 | next_header::TRANSACTION << 16;
    let flags = flag(data.ack_request, 31) | flag(data.carried.is_some(), CARRIES_BIT);
    let sequence = [flags | data.psn.value(), data.message.value()];
    put_transport(route, opcode, sequence, out);
    let len = transaction::put_data(data, out);
    match &data.carried {
        None => len,
        Some(carried) => put_carried(carried, len, out),
    }
}

/// Writes the acknowledgement that a data packet carries behind its other headers, which have `len`
/// bytes, and returns the length of all. Out of line: it is rare where speed matters most.
#[inline(never)]
fn put_carried(carried: &CarriedAck, len: usize, out: &mut Header) -> usize {
    let [first, second] = carried.words();
    put(out, len / 4, first);
    put(out, len / 4 + 1, second);
    len + CARRIED_LEN
}

fn put_ack(route: &Route, ack: &Ack, out: &mut Header) {
    let selective = ack.flags.contains(AckFlags::SELECTIVE);
    let opcode = if selective { tp_opcode::SELECTIVE_ACK } else { tp_opcode::ACK };
    let request = flag(ack.flags.contains(AckFlags::REQUEST), 31);
    let sequence =
        [request | ack.cumulative.value(), status::FUSED << 29 | ack.start_known.value()];
    put_transport(route, bare(opcode), sequence, out);
    // SELECTIVE and REQUEST are carried in TPOpcode and A alone, so that they cannot contradict.
    let elsewhere = AckFlags::SELECTIVE.with(AckFlags::REQUEST).bits();
    let counts = [ack.flags.bits() & !elsewhere, ack.marks, ack.duplicates, ack.cci.hint()];
    put(out, 8, u32::from_be_bytes(counts));
    let reports = u32::from(ack.cci.bits() >> 8) | ack.paths.len() as u32;
    put(out, 9, ack.echo.value() << 8 | reports);
    put(out, 10, u32::from(ack.echo_delay) << 16 | u32::from(ack.window));
    if selective {
        put(out, 11, BITMAP_256 << 24 | ack.sack.highest.value());
        put(out, 12, ack.sack.base.value());
        for (i, word) in ack.sack.bitmap.iter().enumerate() {
            put(out, 13 + i, *word);
        }
    }
    let first = if selective { 21 } else { 11 };
    for (i, word) in ack.paths.words().enumerate() {
        put(out, first + i, word);
    }
}

fn put_nak(route: &Route, nak: &Nak, out: &mut Header) {
    let sequence = [nak.psn.value(), refusal::code(nak.reason) << 24 | nak.message.value()];
    put_transport(route, bare(tp_opcode::NAK), sequence, out);
    put(out, 8, u32::from(nak.retry_after_us) << 16);
}
