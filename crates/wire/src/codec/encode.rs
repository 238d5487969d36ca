//! Packet values to bytes.

use super::{
    BITMAP_256, MAX_HEADER, PROTOCOL_VERSION, SERVICE_MODE_ROL, TRANSACTION_LEN, TRANSPORT_LEN,
    next_header, next_layer, status, ta_opcode, tp_opcode,
};
use crate::check::header_check;
use crate::{Access, Ack, AckFlags, Data, Nak, Operation, Packet, Refusal, Route};

/// A datagram's header under construction.
pub(super) type Header = [u8; MAX_HEADER];

/// Length of a packet's headers in bytes, the check included.
pub fn header_len(packet: &Packet) -> usize {
    match packet {
        Packet::Data(data) => match data.operation {
            Operation::Learned | Operation::ReadResponse => TRANSACTION_LEN,
            Operation::Send { .. } => TRANSACTION_LEN + 8,
            Operation::SendImmediate { .. } => TRANSACTION_LEN + 16,
            Operation::Write { .. } | Operation::Read { .. } => TRANSACTION_LEN + 20,
            Operation::WriteImmediate { .. } => TRANSACTION_LEN + 32,
        },
        Packet::Ack(ack) if ack.flags.contains(AckFlags::SELECTIVE) => TRANSPORT_LEN + 52,
        Packet::Ack(_) => TRANSPORT_LEN + 12,
        Packet::Nak(_) => TRANSPORT_LEN + 4,
        Packet::Void(_) | Packet::Close(_) => TRANSPORT_LEN,
    }
}

/// Writes the headers of `packet`, in front of `payload_len` bytes of payload, to the start of
/// `out`, and returns their length.
///
/// # Panics
///
/// If `out` is shorter than [`MAX_HEADER`], or if `payload_len` is not zero for a packet that
/// carries no payload: both are mistakes of the caller.
pub fn encode(route: &Route, packet: &Packet, payload_len: usize, out: &mut [u8]) -> usize {
    let out: &mut Header = out.first_chunk_mut().expect("room for MAX_HEADER bytes");
    assert!(payload_len == 0 || carries_payload(packet), "payload behind a packet without any");
    match packet {
        Packet::Data(data) => put_data(route, data, out),
        Packet::Ack(ack) => put_ack(route, ack, out),
        Packet::Nak(nak) => put_nak(route, nak, out),
        Packet::Void(void) => {
            let sequence = [flag(void.ack_request, 31) | void.psn.value(), void.message.value()];
            put_transport(route, bare(tp_opcode::VOID), sequence, out);
        }
        Packet::Close(close) => {
            put_transport(route, bare(tp_opcode::CLOSE), [0, flag(close.answer, 24)], out);
        }
    }
    let len = header_len(packet);
    seal(PROTOCOL_VERSION, len, payload_len, out);
    len
}

/// True if payload may follow the headers of `packet`.
pub(super) fn carries_payload(packet: &Packet) -> bool {
    match packet {
        Packet::Data(data) => !matches!(data.operation, Operation::Read { .. }),
        _ => false,
    }
}

/// Fills in the check of a header of `len` bytes.
pub(super) fn seal(version: u8, len: usize, payload_len: usize, out: &mut Header) {
    put(out, 0, header_check(version, &out[4..len], payload_len));
}

/// Writes word `index` of the datagram.
#[inline(always)]
pub(super) fn put(out: &mut Header, index: usize, word: u32) {
    out[4 * index..4 * index + 4].copy_from_slice(&word.to_be_bytes());
}

fn flag(set: bool, bit: u32) -> u32 {
    u32::from(set) << bit
}

/// The first half of RTPH's first word for a packet after whose transport headers nothing comes.
fn bare(opcode: u32) -> u32 {
    opcode << 24 | next_header::NOTHING << 16
}

/// NTH and RTPH. `opcode` holds RTPH bytes 0–1 in its upper half; `sequence` is RTPH bytes 8–15.
#[inline(always)]
fn put_transport(route: &Route, opcode: u32, sequence: [u32; 2], out: &mut Header) {
    put(out, 1, route.source.value());
    put(out, 2, route.destination.value() << 8);
    put(out, 3, u32::from(route.path) << 16 | next_layer::RTPH << 9);
    put(out, 4, opcode | route.source_tpn.value() >> 8);
    put(out, 5, route.source_tpn.value() << 24 | route.destination_tpn.value());
    put(out, 6, sequence[0]);
    put(out, 7, sequence[1]);
}

fn put_data(route: &Route, data: &Data, out: &mut Header) {
    let opcode = flag(data.last, 31) | tp_opcode::DATA << 24 | next_header::TRANSACTION << 16;
    let sequence = [flag(data.ack_request, 31) | data.psn.value(), data.message.value()];
    put_transport(route, opcode, sequence, out);
    put(out, 10, data.jetty.value() << 8 | u32::from(data.slot));
    put(out, 11, data.index);
    match data.operation {
        Operation::ReadResponse => put_response(data, out),
        Operation::Learned => put_request(data, Request::LEARNED, out),
        Operation::Write { access } => {
            put_request(data, Request::WRITE, out);
            put_access(&access, out);
        }
        Operation::Read { access } => {
            put_request(data, Request::READ, out);
            put_access(&access, out);
        }
        Operation::WriteImmediate { access, target, immediate } => {
            put_request(data, Request::WRITE_IMMEDIATE, out);
            put_access(&access, out);
            put(out, 17, target.value());
            put_long(out, 18, immediate);
        }
        Operation::Send { target, length } => {
            put_request(data, Request::SEND, out);
            put(out, 12, target.value());
            put(out, 13, length);
        }
        Operation::SendImmediate { target, length, immediate } => {
            put_request(data, Request::SEND_IMMEDIATE, out);
            put(out, 12, target.value());
            put(out, 13, length);
            put_long(out, 14, immediate);
        }
    }
}

/// What BTAH says about the headers that follow it.
struct Request {
    opcode: u32,
    /// TV_EN: MAETAH and TVETAH follow.
    access: bool,
    /// MT_EN: MTETAH follows.
    target: bool,
    /// L: nothing follows.
    learned: bool,
}

impl Request {
    const LEARNED: Request = Request::new(ta_opcode::WRITE, false, false);
    const WRITE: Request = Request::new(ta_opcode::WRITE, true, false);
    const READ: Request = Request::new(ta_opcode::READ, true, false);
    const WRITE_IMMEDIATE: Request = Request::new(ta_opcode::WRITE_IMMEDIATE, true, true);
    const SEND: Request = Request::new(ta_opcode::SEND, false, true);
    const SEND_IMMEDIATE: Request = Request::new(ta_opcode::SEND_IMMEDIATE, false, true);

    const fn new(opcode: u32, access: bool, target: bool) -> Self {
        Request { opcode, access, target, learned: !access && !target }
    }
}

/// BTAH bytes 0–7 (§7.2.1).
fn put_request(data: &Data, request: Request, out: &mut Header) {
    let environment = 0b01 << 20;
    let kind = request.opcode << 24 | environment | flag(request.access, 19);
    put(out, 8, kind | u32::from(data.transaction));
    let ordering = flag(request.target, 27) | flag(data.retry, 25);
    put(out, 9, ordering | flag(request.learned, 18) | SERVICE_MODE_ROL << 16);
}

/// ATAH bytes 0–7 (§7.2.2). The Retry bit is ours: BTAH's is where ATAH has the status.
fn put_response(data: &Data, out: &mut Header) {
    put(out, 8, ta_opcode::READ_RESPONSE << 24 | u32::from(data.transaction));
    put(out, 9, flag(data.retry, 19) | SERVICE_MODE_ROL << 16);
}

/// MAETAH (§7.2.3) and TVETAH (§7.2.5).
fn put_access(access: &Access, out: &mut Header) {
    put_long(out, 12, access.address);
    put(out, 14, access.token_id.value());
    put(out, 15, access.length);
    put(out, 16, access.token_value);
}

pub(super) fn put_long(out: &mut Header, index: usize, value: u64) {
    put(out, index, (value >> 32) as u32);
    put(out, index + 1, value as u32);
}

fn put_ack(route: &Route, ack: &Ack, out: &mut Header) {
    let selective = ack.flags.contains(AckFlags::SELECTIVE);
    let opcode = if selective { tp_opcode::SELECTIVE_ACK } else { tp_opcode::ACK };
    let request = flag(ack.flags.contains(AckFlags::REQUEST), 31);
    let sequence = [request | ack.cumulative.value(), status::FUSED << 29 | ack.learned.value()];
    put_transport(route, bare(opcode), sequence, out);
    // SELECTIVE and REQUEST are told by TPOpcode and A: a fact has one place.
    let elsewhere = AckFlags::SELECTIVE.with(AckFlags::REQUEST).bits();
    let counts = [ack.flags.bits() & !elsewhere, ack.marks, ack.duplicates, ack.hint];
    put(out, 8, u32::from_be_bytes(counts));
    put(out, 9, ack.echo.value() << 8);
    put(out, 10, u32::from(ack.echo_delay) << 16 | u32::from(ack.window));
    if selective {
        put(out, 11, BITMAP_256 << 24 | ack.sack.highest.value());
        put(out, 12, ack.sack.base.value());
        for (i, word) in ack.sack.bitmap.iter().enumerate() {
            put(out, 13 + i, *word);
        }
    }
}

fn put_nak(route: &Route, nak: &Nak, out: &mut Header) {
    let (status, info) = match nak.reason {
        Refusal::ReceiverNotReady => (status::NOT_READY, 0),
        Refusal::Access => (status::TARGET_ERROR, 1),
        Refusal::Rights => (status::TARGET_ERROR, 2),
        Refusal::NoJetty => (status::TARGET_ERROR, 3),
        Refusal::Length => (status::TARGET_ERROR, 4),
        Refusal::Operation => (status::TARGET_ERROR, 5),
    };
    let sequence = [nak.psn.value(), status << 29 | info << 24 | nak.message.value()];
    put_transport(route, bare(tp_opcode::NAK), sequence, out);
    put(out, 8, u32::from(nak.retry_after_us) << 16);
}
