//! Bytes to packet values.
//!
//! Total: whatever the bytes are, the answer is a value or a [`DecodeError`]. Reserved bits are
//! not looked at; bits that would change what a packet means, and that we do not offer (Poison,
//! ordering tags, other service modes), are refused and not ignored.

use super::{DecodeError, Unsupported};
use super::{
    PROTOCOL_VERSION, SERVICE_MODE_ROL, TRANSACTION_LEN, TRANSPORT_LEN, next_header, next_layer,
    setup, status, ta_opcode, tp_opcode,
};
use crate::check::header_check;
use crate::{
    Access, Ack, AckFlags, Close, Cna, Data, JettyId, Msn, Nak, Operation, Packet, Psn, Refusal,
    Route, Sack, Setup, TokenId, Tpn, Void,
};

/// What a datagram holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A packet of a TP channel.
    Packet {
        /// Who sends to whom.
        route: Route,
        /// The packet.
        packet: Packet,
        /// Where the payload begins, in bytes from the start of the datagram.
        header_len: usize,
    },
    /// A connection set-up message.
    Setup(Setup),
}

/// Decodes the datagram of `datagram_len` bytes that begins with `header`.
///
/// `header` may be the whole datagram or only a prefix of it; a prefix of
/// [`MAX_HEADER`](super::MAX_HEADER) bytes is always enough.
pub fn decode(header: &[u8], datagram_len: usize) -> Result<Decoded, DecodeError> {
    let header = header.get(..datagram_len).unwrap_or(header);
    let first: &[u8; TRANSPORT_LEN] = header.first_chunk().ok_or(too_short(header, 32))?;
    let routing_type = first[4] >> 6;
    if routing_type != 0 {
        return bad("RT", u32::from(routing_type));
    }
    match word(first, 3) >> 9 & 0b111 {
        next_layer::RTPH => {}
        next_layer::SETUP => return setup::decode(header, datagram_len).map(Decoded::Setup),
        next_layer::UTPH => return unsupported(Unsupported::UnreliableTransport),
        next_layer::BYPASS => return unsupported(Unsupported::Bypass),
        other => return Err(DecodeError::UnknownNextLayer(other as u8)),
    }
    if first[17] >> 6 != 0 {
        return Err(DecodeError::UnsupportedVersion(first[17] >> 6));
    }
    let header_len = header_len(first, header)?;
    let header = header.get(..header_len).ok_or(too_short(header, header_len))?;
    let payload_len = datagram_len - header_len;
    if header_check(PROTOCOL_VERSION, &header[4..], payload_len) != word(first, 0) {
        return Err(DecodeError::BadCheck);
    }
    if payload_len != 0 && !carries_payload(header) {
        return Err(DecodeError::TooLong { extra: payload_len });
    }
    packet(first, header).map(|packet| Decoded::Packet { route: route(first), packet, header_len })
}

/// Length of the headers, from as few fields as possible: the check, which needs it, has yet to
/// be verified.
fn header_len(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<usize, DecodeError> {
    let opcode = tp_opcode(first);
    let next = u32::from(first[17]) & 0xf;
    let wanted =
        if opcode == tp_opcode::DATA { next_header::TRANSACTION } else { next_header::NOTHING };
    let len = match opcode {
        tp_opcode::DATA => transaction_len(header)?,
        tp_opcode::NAK => TRANSPORT_LEN + 4,
        tp_opcode::ACK => TRANSPORT_LEN + 12,
        tp_opcode::SELECTIVE_ACK => {
            let code = header.get(44).ok_or(too_short(header, 45))?;
            TRANSPORT_LEN + 20 + bitmap_words(*code)? * 4
        }
        tp_opcode::VOID | tp_opcode::CLOSE => TRANSPORT_LEN,
        0x00 => return unsupported(Unsupported::UnreliableTransport),
        0x05 | 0x08 => return unsupported(Unsupported::TpOpcode(opcode as u8)),
        _ => return Err(DecodeError::UnknownTpOpcode(opcode as u8)),
    };
    match next {
        _ if next == wanted => Ok(len),
        0x1 | 0x3 => unsupported(Unsupported::TransportExtension(next as u8)),
        _ => bad("RTPH NLP", next),
    }
}

/// Length of the headers of a data packet.
fn transaction_len(header: &[u8]) -> Result<usize, DecodeError> {
    let header: &[u8; TRANSACTION_LEN] =
        header.first_chunk().ok_or(too_short(header, TRANSACTION_LEN))?;
    let opcode = header[32];
    let extension = match u32::from(opcode) {
        ta_opcode::WRITE if learned(header) => 0,
        ta_opcode::WRITE | ta_opcode::READ => 20,
        ta_opcode::WRITE_IMMEDIATE => 32,
        ta_opcode::SEND => 8,
        ta_opcode::SEND_IMMEDIATE => 16,
        ta_opcode::READ_RESPONSE => 0,
        0x05 | 0x07..=0x11 | 0x13..=0x15 | 0x17 | 0x18 | 0x40..=0x43 => {
            return unsupported(Unsupported::TaOpcode(opcode));
        }
        _ => return Err(DecodeError::UnknownTaOpcode(opcode)),
    };
    Ok(TRANSACTION_LEN + extension)
}

/// True if payload may follow these headers, which are complete: they are data and no READ.
fn carries_payload(header: &[u8]) -> bool {
    header.get(TRANSPORT_LEN).is_some_and(|opcode| u32::from(*opcode) != ta_opcode::READ)
        && header.get(16).is_some_and(|opcode| u32::from(opcode & 0x7f) == tp_opcode::DATA)
}

/// Words in a SAETPH bitmap of size `code`.
fn bitmap_words(code: u8) -> Result<usize, DecodeError> {
    match code {
        0..=2 => Ok(2 << code),
        _ => bad("BitMapSize", u32::from(code)),
    }
}

#[inline(always)]
fn route(first: &[u8; TRANSPORT_LEN]) -> Route {
    Route {
        source: Cna::new(word(first, 1)),
        destination: Cna::new(word(first, 2) >> 8),
        source_tpn: Tpn::new(word(first, 4) << 8 | u32::from(first[20])),
        destination_tpn: Tpn::new(word(first, 5)),
        path: first[13],
    }
}

/// The packet in `header`, whose length and check are right.
#[inline(always)]
fn packet(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Packet, DecodeError> {
    let padding = u32::from(first[17] >> 4 & 0b11);
    if padding != 0 {
        return bad("Padding", padding);
    }
    let opcode = tp_opcode(first);
    if opcode == tp_opcode::DATA {
        return data(first, header).map(Packet::Data);
    }
    if first[16] & 0x80 != 0 {
        return bad("TPOpcode b7", 1);
    }
    match opcode {
        tp_opcode::ACK | tp_opcode::SELECTIVE_ACK => ack(first, header).map(Packet::Ack),
        tp_opcode::NAK => nak(first, header).map(Packet::Nak),
        tp_opcode::VOID => Ok(Packet::Void(Void {
            psn: psn(first),
            message: message(first),
            ack_request: ack_request(first),
        })),
        tp_opcode::CLOSE => Ok(Packet::Close(Close { answer: first[28] & 1 != 0 })),
        other => Err(DecodeError::UnknownTpOpcode(other as u8)),
    }
}

#[inline(always)]
fn data(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Data, DecodeError> {
    let (fixed, extension) =
        header.split_first_chunk().ok_or(too_short(header, TRANSACTION_LEN))?;
    let fixed: &[u8; TRANSACTION_LEN] = fixed;
    if fixed[33] & 0xc0 != 0 {
        return Err(DecodeError::UnsupportedVersion(fixed[33] >> 6));
    }
    if fixed[33] & 0x04 != 0 {
        return bad("Poison", 1);
    }
    let service_mode = u32::from(fixed[37] & 0b11);
    if service_mode != SERVICE_MODE_ROL {
        return bad("service mode", service_mode);
    }
    let response = u32::from(fixed[32]) == ta_opcode::READ_RESPONSE;
    // What is BTAH's ordering byte is ATAH's status byte: each is read as what it is.
    let (operation, retry) = if response {
        (response_operation(fixed)?, fixed[37] & 0x08 != 0)
    } else {
        (request_operation(fixed, extension)?, fixed[36] & 0x02 != 0)
    };
    Ok(Data {
        psn: psn(first),
        message: message(first),
        index: word(fixed, 11),
        jetty: JettyId::new(word(fixed, 10) >> 8),
        transaction: word(fixed, 8) as u16,
        slot: fixed[43],
        ack_request: ack_request(first),
        retry,
        last: fixed[16] & 0x80 != 0,
        operation,
    })
}

#[inline(always)]
fn response_operation(fixed: &[u8; TRANSACTION_LEN]) -> Result<Operation, DecodeError> {
    match fixed[36] {
        0 => Ok(Operation::ReadResponse),
        status => bad("ATAH RSPST", u32::from(status)),
    }
}

#[inline(always)]
fn request_operation(
    fixed: &[u8; TRANSACTION_LEN],
    extension: &[u8],
) -> Result<Operation, DecodeError> {
    let order = u32::from(fixed[36] >> 4 & 0b111);
    if order != 0 {
        return bad("ODR", order);
    }
    let short = too_short(extension, extension.len() + 4);
    let operation = match u32::from(fixed[32]) {
        ta_opcode::WRITE if learned(fixed) => Operation::Learned,
        ta_opcode::WRITE => {
            let extension: &[u8; 20] = extension.first_chunk().ok_or(short)?;
            Operation::Write { access: access(extension) }
        }
        ta_opcode::READ => {
            let extension: &[u8; 20] = extension.first_chunk().ok_or(short)?;
            Operation::Read { access: access(extension) }
        }
        ta_opcode::WRITE_IMMEDIATE => {
            let extension: &[u8; 32] = extension.first_chunk().ok_or(short)?;
            Operation::WriteImmediate {
                access: access(extension),
                target: JettyId::new(word(extension, 5)),
                immediate: long(extension, 6),
            }
        }
        ta_opcode::SEND => {
            let extension: &[u8; 8] = extension.first_chunk().ok_or(short)?;
            let (target, length) = (JettyId::new(word(extension, 0)), word(extension, 1));
            Operation::Send { target, length }
        }
        ta_opcode::SEND_IMMEDIATE => {
            let extension: &[u8; 16] = extension.first_chunk().ok_or(short)?;
            let (target, length) = (JettyId::new(word(extension, 0)), word(extension, 1));
            Operation::SendImmediate { target, length, immediate: long(extension, 2) }
        }
        _ => return Err(DecodeError::UnknownTaOpcode(fixed[32])),
    };
    enabled(fixed, &operation)?;
    Ok(operation)
}

/// The bits of BTAH that announce extension headers must agree with the opcode.
fn enabled(fixed: &[u8; TRANSACTION_LEN], operation: &Operation) -> Result<(), DecodeError> {
    let (token, target) = match operation {
        Operation::Write { .. } | Operation::Read { .. } => (true, false),
        Operation::WriteImmediate { .. } => (true, true),
        Operation::Send { .. } | Operation::SendImmediate { .. } => (false, true),
        Operation::Learned | Operation::ReadResponse => (false, false),
    };
    if learned(fixed) != matches!(operation, Operation::Learned) {
        return bad("L", 1);
    }
    if (fixed[33] & 0x08 != 0) != token {
        return bad("TV_EN", u32::from(!token));
    }
    if (fixed[36] & 0x08 != 0) != target {
        return bad("MT_EN", u32::from(!target));
    }
    Ok(())
}

#[inline(always)]
fn access<const N: usize>(extension: &[u8; N]) -> Access {
    Access {
        address: long(extension, 0),
        length: word(extension, 3),
        token_id: TokenId::new(word(extension, 2)),
        token_value: word(extension, 4),
    }
}

#[inline(always)]
fn ack(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Ack, DecodeError> {
    let status = u32::from(first[28] >> 5);
    if status != status::FUSED {
        return bad("RSPST", status);
    }
    let short = too_short(header, header.len() + 4);
    let (fixed, rest) = header.split_first_chunk().ok_or(short)?;
    let fixed: &[u8; 44] = fixed;
    let mut flags = AckFlags::from_bits(fixed[32] & !elsewhere().bits());
    if ack_request(first) {
        flags = flags.with(AckFlags::REQUEST);
    }
    let mut selection = Sack::default();
    if tp_opcode(first) == tp_opcode::SELECTIVE_ACK {
        flags = flags.with(AckFlags::SELECTIVE);
        selection = sack(rest).ok_or(short)?;
    }
    Ok(Ack {
        cumulative: psn(first),
        echo: Psn::new(word(fixed, 9) >> 8),
        learned: message(first),
        echo_delay: (word(fixed, 10) >> 16) as u16,
        window: word(fixed, 10) as u16,
        marks: fixed[33],
        duplicates: fixed[34],
        hint: fixed[35],
        flags,
        sack: selection,
    })
}

/// Flags that are told by TPOpcode and by RTPH A, and not by CETPH.
fn elsewhere() -> AckFlags {
    AckFlags::SELECTIVE.with(AckFlags::REQUEST)
}

/// SAETPH; a bitmap shorter than ours leaves the rest of ours empty.
#[inline(always)]
fn sack(extension: &[u8]) -> Option<Sack> {
    let (fixed, map) = extension.split_first_chunk::<8>()?;
    let mut bitmap = [0; 8];
    for (word, bytes) in bitmap.iter_mut().zip(map.chunks_exact(4)) {
        *word = u32::from_be_bytes(*bytes.first_chunk()?);
    }
    Some(Sack { highest: Psn::new(word(fixed, 0)), base: Psn::new(word(fixed, 1)), bitmap })
}

#[inline(always)]
fn nak(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Nak, DecodeError> {
    let (status, info) = (u32::from(first[28] >> 5), u32::from(first[28] & 0x1f));
    let reason = match (status, info) {
        (status::NOT_READY, 0) => Refusal::ReceiverNotReady,
        (status::TARGET_ERROR, 1) => Refusal::Access,
        (status::TARGET_ERROR, 2) => Refusal::Rights,
        (status::TARGET_ERROR, 3) => Refusal::NoJetty,
        (status::TARGET_ERROR, 4) => Refusal::Length,
        (status::TARGET_ERROR, 5) => Refusal::Operation,
        (status::NOT_READY | status::TARGET_ERROR, _) => return bad("RSPINFO", info),
        _ => return bad("RSPST", status),
    };
    let header: &[u8; 36] = header.first_chunk().ok_or(too_short(header, 36))?;
    let retry_after_us = (word(header, 8) >> 16) as u16;
    Ok(Nak { psn: psn(first), message: message(first), reason, retry_after_us })
}

fn tp_opcode(first: &[u8; TRANSPORT_LEN]) -> u32 {
    u32::from(first[16] & 0x7f)
}

fn psn(first: &[u8; TRANSPORT_LEN]) -> Psn {
    Psn::new(word(first, 6))
}

fn message(first: &[u8; TRANSPORT_LEN]) -> Msn {
    Msn::new(word(first, 7))
}

fn ack_request(first: &[u8; TRANSPORT_LEN]) -> bool {
    first[24] & 0x80 != 0
}

fn learned(header: &[u8; TRANSACTION_LEN]) -> bool {
    header[37] & 0x04 != 0
}

/// Word `index` of a block whose size is known, so that the bounds check is the compiler's.
#[inline(always)]
pub(super) fn word<const N: usize>(block: &[u8; N], index: usize) -> u32 {
    let at = 4 * index;
    u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
}

#[inline(always)]
pub(super) fn long<const N: usize>(block: &[u8; N], index: usize) -> u64 {
    u64::from(word(block, index)) << 32 | u64::from(word(block, index + 1))
}

pub(super) fn too_short(header: &[u8], needed: usize) -> DecodeError {
    DecodeError::TooShort { needed, available: header.len() }
}

pub(super) fn bad<T>(field: &'static str, value: u32) -> Result<T, DecodeError> {
    Err(DecodeError::BadField { field, value })
}

fn unsupported<T>(what: Unsupported) -> Result<T, DecodeError> {
    Err(DecodeError::NotSupported(what))
}
