//! BTAH, ATAH and the extension headers behind them.

use super::{Decoded, ack_request, message, psn, route, verified};
use crate::codec::fields::{bad, long, too_short, word};
use crate::codec::{
    CARRIED_LEN, CARRIES_BIT, DecodeError, ORDER_LEN, TRANSACTION_LEN, TRANSPORT_LEN, Unsupported,
    next_header, refusal, ta_opcode, tp_opcode,
};
use crate::{
    Access, AtomicOperator, CarriedAck, CheckKey, Data, Datagram, EXECUTED_MAX, Executed, Get,
    JettyId, Operation, Order, Packet, Part, Put, ServiceMode, Tag, Target, TokenId,
};

/// The fixed headers, which every data packet and datagram has.
type Fixed = [u8; TRANSACTION_LEN];

/// Length of the headers of a data packet, from TAOpcode, L and X.
pub(super) fn data_len(header: &[u8]) -> Result<usize, DecodeError> {
    let fixed: &Fixed = header.first_chunk().ok_or(too_short(header, TRANSACTION_LEN))?;
    let operation = match u32::from(fixed[32]) {
        ta_opcode::WRITE if is_continuation(fixed) => 0,
        ta_opcode::WRITE | ta_opcode::READ | ta_opcode::SEND_IMMEDIATE => 20,
        ta_opcode::READ_RESPONSE | ta_opcode::ABANDON => 0,
        ta_opcode::DONE => done_len(header)?,
        ta_opcode::ATOMIC_RESPONSE => 8,
        ta_opcode::SEND | ta_opcode::ABANDON_PUT => 12,
        ta_opcode::WRITE_IMMEDIATE | ta_opcode::COMPARE_SWAP => 36,
        ta_opcode::SWAP..=ta_opcode::XOR => 28,
        ta_opcode::WRITE_PART | ta_opcode::READ_PART => 28,
        ta_opcode::GET => 32,
        ta_opcode::PUT => 40,
        _ => return Err(other_opcode(fixed[32])),
    };
    let order = if extended(fixed) && !is_response(fixed) { ORDER_LEN } else { 0 };
    let carried = if carries(fixed) { CARRIED_LEN } else { 0 };
    Ok(TRANSACTION_LEN + order + operation + carried)
}

/// Length of what follows ATAH in a TAACK: a word, which counts the further transactions, and a
/// word for each of those.
fn done_len(header: &[u8]) -> Result<usize, DecodeError> {
    let count = *header.get(TRANSACTION_LEN + 2).ok_or(too_short(header, TRANSACTION_LEN + 4))?;
    if usize::from(count) > EXECUTED_MAX {
        return bad("TAACK count", u32::from(count));
    }
    Ok(4 + 4 * usize::from(count))
}

/// Length of the headers of a datagram, from TAOpcode.
pub(in crate::codec) fn datagram_len(header: &[u8]) -> Result<usize, DecodeError> {
    let fixed: &Fixed = header.first_chunk().ok_or(too_short(header, TRANSACTION_LEN))?;
    let operation = match u32::from(fixed[32]) {
        ta_opcode::WRITE | ta_opcode::SEND_IMMEDIATE => 20,
        ta_opcode::WRITE_IMMEDIATE => 36,
        ta_opcode::SEND => 12,
        _ => return Err(other_opcode(fixed[32])),
    };
    Ok(TRANSACTION_LEN + operation)
}

/// The error for a packet whose kind does not have `opcode`.
pub(in crate::codec) fn other_opcode(opcode: u8) -> DecodeError {
    match u32::from(opcode) {
        0x05 | 0x10 | 0x14 | 0x15 | 0x17 | 0x18 => {
            DecodeError::NotSupported(Unsupported::TaOpcode(opcode))
        }
        ta_opcode::SEND
        | ta_opcode::SEND_IMMEDIATE
        | ta_opcode::WRITE
        | ta_opcode::WRITE_IMMEDIATE
        | ta_opcode::READ..=ta_opcode::XOR
        | ta_opcode::DONE..=ta_opcode::ATOMIC_RESPONSE
        | ta_opcode::PUT..=ta_opcode::READ_PART
        | ta_opcode::LOAD..=ta_opcode::STORE_DONE => {
            DecodeError::BadField { field: "TAOpcode", value: u32::from(opcode) }
        }
        _ => DecodeError::UnknownTaOpcode(opcode),
    }
}

/// The data packet in `header`, whose length and check have been verified.
#[inline(always)]
pub(super) fn data(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Data, DecodeError> {
    let (fixed, extension) = split(header)?;
    // BTAH's ordering byte and ATAH's status byte are at the same place, so each kind reads its
    // own.
    let (operation, order, retry) = if is_response(fixed) {
        (response_operation(fixed, extension)?, Order::NONE, fixed[37] & 0x08 != 0)
    } else {
        let (order, extension) = order(fixed, extension)?;
        (request_operation(fixed, extension)?, order, requests_retry(fixed))
    };
    let carried = if carries(fixed) { carried(header) } else { None };
    Ok(Data { carried, ..fields(first, fixed, operation, order, retry) })
}

/// The acknowledgement in a data packet, which stands behind its other headers.
fn carried(header: &[u8]) -> Option<CarriedAck> {
    let words: &[u8; CARRIED_LEN] = header.last_chunk()?;
    Some(CarriedAck::from_words([word(words, 0), word(words, 1)]))
}

/// The data packet with the fields of its fixed headers.
#[inline(always)]
fn fields(
    first: &[u8; TRANSPORT_LEN],
    fixed: &Fixed,
    operation: Operation,
    order: Order,
    retry: bool,
) -> Data {
    Data {
        psn: psn(first),
        message: message(first),
        index: word(fixed, 11),
        jetty: JettyId::new(word(fixed, 10) >> 8),
        transaction: word(fixed, 8) as u16,
        slot: fixed[43],
        ack_request: ack_request(first),
        retry,
        last: fixed[16] & 0x80 != 0,
        carried: None,
        order,
        operation,
    }
}

/// The headers of the most frequent packet, which has a fast path: a WRITE that carries its access,
/// no acknowledgement, and requests no order. Returns `None` for any other packet.
#[inline(always)]
pub(in crate::codec) fn as_plain_write(header: &[u8]) -> Option<&[u8; PLAIN_WRITE_LEN]> {
    let whole: &[u8; PLAIN_WRITE_LEN] = header.first_chunk()?;
    let transport = u16::from_be_bytes([whole[16], whole[17]]);
    let is_plain = transport & TRANSPORT_BITS == PLAIN_TRANSPORT
        && word(whole, 6) >> CARRIES_BIT & 1 == 0
        && long(whole, 8) & TRANSACTION_BITS == PLAIN_TRANSACTION;
    is_plain.then_some(whole)
}

/// Decodes the packet of which these are the headers, with the same result as the general path.
pub(in crate::codec) fn plain_write(
    key: &CheckKey,
    whole: &[u8; PLAIN_WRITE_LEN],
    datagram_len: usize,
) -> Result<Decoded, DecodeError> {
    verified(key, whole, PLAIN_WRITE_LEN, datagram_len)?;
    let (first, _) = whole.split_first_chunk().ok_or(too_short(whole, TRANSPORT_LEN))?;
    let (fixed, extension) = whole.split_first_chunk().ok_or(too_short(whole, TRANSACTION_LEN))?;
    let extension = extension.first_chunk().ok_or(too_short(whole, PLAIN_WRITE_LEN))?;
    let operation = Operation::Write { access: access::<20>(extension) };
    let packet = Packet::Data(fields(first, fixed, operation, Order::NONE, requests_retry(fixed)));
    Ok(Decoded::Packet { route: route(first), packet, header_len: PLAIN_WRITE_LEN })
}

/// Length in bytes of the headers of a WRITE that carries its access and requests no order.
pub(in crate::codec) const PLAIN_WRITE_LEN: usize = TRANSACTION_LEN + 20;

/// Bits of RTPH from TPOpcode on that are the same in every such WRITE: DATA, TPVer 0, no padding,
/// and BTAH next. The excluded bit marks the last packet of a message.
const TRANSPORT_BITS: u16 = 0x7fff;
const PLAIN_TRANSPORT: u16 = (tp_opcode::DATA as u16) << 8 | next_header::TRANSACTION as u16;

/// Bits of the first 8 bytes of BTAH that are the same in every such WRITE: TAOpcode WRITE, TAver
/// 0, not poisoned, TV_EN and neither MT_EN nor L, no order, no X.
const TRANSACTION_BITS: u64 = 0xffcc_0000_780f_0000;
const PLAIN_TRANSACTION: u64 = (ta_opcode::WRITE as u64) << 56
    | (Announced::TOKEN.0 as u64) << 32
    | (ServiceMode::Rol as u64) << 16;

/// The datagram in `header`, whose length and check have been verified.
pub(in crate::codec) fn datagram(header: &[u8]) -> Result<Datagram, DecodeError> {
    let (fixed, extension) = split(header)?;
    require_unordered(fixed, ServiceMode::Uno)?;
    if is_continuation(fixed) {
        return bad("L", 1);
    }
    Ok(Datagram {
        number: u64::from(word(fixed, 6)) << 32 | u64::from(word(fixed, 7)),
        jetty: JettyId::new(word(fixed, 10) >> 8),
        transaction: word(fixed, 8) as u16,
        operation: request_operation(fixed, extension)?,
    })
}

/// Splits off the fixed headers, after checking TAver and Poison.
#[inline(always)]
fn split(header: &[u8]) -> Result<(&Fixed, &[u8]), DecodeError> {
    let (fixed, extension) =
        header.split_first_chunk().ok_or(too_short(header, TRANSACTION_LEN))?;
    let fixed: &Fixed = fixed;
    if fixed[33] & 0xc0 != 0 {
        return Err(DecodeError::UnsupportedVersion(fixed[33] >> 6));
    }
    if fixed[33] & 0x04 != 0 {
        return bad("Poison", 1);
    }
    Ok((fixed, extension))
}

/// Returns the ordering fields and the bytes behind the order extension.
#[inline(always)]
fn order<'a>(fixed: &Fixed, extension: &'a [u8]) -> Result<(Order, &'a [u8]), DecodeError> {
    if fixed[36] & 0x70 == 0 && fixed[37] & 0x0b == ServiceMode::Rol as u8 {
        return Ok((Order::NONE, extension));
    }
    requested_order(fixed, extension)
}

/// The general case of [`order`], for a packet that requests an order.
fn requested_order<'a>(
    fixed: &Fixed,
    extension: &'a [u8],
) -> Result<(Order, &'a [u8]), DecodeError> {
    if is_continuation(fixed) {
        require_unordered(fixed, ServiceMode::Rol)?;
    }
    let tag = match odr(fixed) & 0b11 {
        0 => Tag::No,
        1 => Tag::Ro,
        2 => Tag::So,
        _ => Tag::Mo,
    };
    let (mode, by_ends) = match fixed[37] & 0b11 {
        0 => (ServiceMode::Roi, true),
        1 => (ServiceMode::Rot, true),
        2 => (ServiceMode::Rol, false),
        other => return bad("service mode", u32::from(other)),
    };
    let in_order = odr(fixed) & 0b100 != 0;
    if extended(fixed) != (in_order || by_ends) {
        return bad("X", u32::from(extended(fixed)));
    }
    let sequence = if tag == Tag::No { 0 } else { word(fixed, 9) as u16 };
    let mut order = Order { mode, tag, in_order, sequence, ..Order::NONE };
    if !extended(fixed) {
        return Ok((order, extension));
    }
    let (ordering, extension) =
        extension.split_first_chunk::<ORDER_LEN>().ok_or(too_short(extension, ORDER_LEN))?;
    if in_order {
        order.receive_sequence = u16::from_be_bytes([ordering[0], ordering[1]]);
    }
    if by_ends {
        order.request_slot = ordering[2];
    }
    Ok((order, extension))
}

/// Fails if a packet that cannot request an order has an ordering field set, or a mode other than
/// `mode`.
#[inline(always)]
fn require_unordered(fixed: &Fixed, mode: ServiceMode) -> Result<(), DecodeError> {
    if odr(fixed) != 0 {
        return bad("ODR", odr(fixed));
    }
    require_mode(fixed, mode)?;
    if extended(fixed) {
        return bad("X", 1);
    }
    Ok(())
}

#[inline(always)]
fn require_mode(fixed: &Fixed, mode: ServiceMode) -> Result<(), DecodeError> {
    match fixed[37] & 0b11 {
        found if found == mode as u8 => Ok(()),
        found => bad("service mode", u32::from(found)),
    }
}

#[inline(always)]
fn response_operation(fixed: &Fixed, extension: &[u8]) -> Result<Operation, DecodeError> {
    require_mode(fixed, ServiceMode::Rol)?;
    let short = too_short(extension, extension.len() + 4);
    let opcode = u32::from(fixed[32]);
    if opcode == ta_opcode::DONE {
        return done(fixed, extension);
    }
    match fixed[36] {
        0 => {}
        status => return bad("ATAH RSPST", u32::from(status)),
    }
    if opcode == ta_opcode::READ_RESPONSE {
        return Ok(Operation::ReadResponse);
    }
    let extension: &[u8; 8] = extension.first_chunk().ok_or(short)?;
    Ok(Operation::AtomicResponse { value: long(extension, 0) })
}

/// The content of a TAACK.
#[inline(never)]
fn done(fixed: &Fixed, extension: &[u8]) -> Result<Operation, DecodeError> {
    let short = too_short(extension, extension.len() + 4);
    let (first, mut rest) = extension.split_first_chunk().ok_or(short)?;
    let first: &[u8; 4] = first;
    let refusal = refusal::decode_or_none(fixed[36])?;
    let retry_after_us = (word(first, 0) >> 16) as u16;
    let mut others = Executed::NONE;
    for _ in 0..first[2] {
        let (pair, behind) = rest.split_first_chunk().ok_or(short)?;
        let pair: &[u8; 4] = pair;
        if !others.push(pair[2], (word(pair, 0) >> 16) as u16) {
            return bad("TAACK count", u32::from(first[2]));
        }
        rest = behind;
    }
    if refusal.is_some() && !others.is_empty() {
        return bad("TAACK count", u32::from(first[2]));
    }
    Ok(Operation::Done { refusal, retry_after_us, others })
}

#[inline(always)]
fn request_operation(fixed: &Fixed, extension: &[u8]) -> Result<Operation, DecodeError> {
    let short = too_short(extension, extension.len() + 4);
    Ok(match u32::from(fixed[32]) {
        ta_opcode::WRITE if is_continuation(fixed) => {
            announced(fixed, Announced::START_KNOWN)?;
            Operation::Continuation
        }
        ta_opcode::WRITE => {
            announced(fixed, Announced::TOKEN)?;
            let extension: &[u8; 20] = extension.first_chunk().ok_or(short)?;
            Operation::Write { access: access(extension) }
        }
        ta_opcode::READ => {
            announced(fixed, Announced::TOKEN)?;
            let extension: &[u8; 20] = extension.first_chunk().ok_or(short)?;
            Operation::Read { access: access(extension) }
        }
        ta_opcode::WRITE_IMMEDIATE => {
            announced(fixed, Announced::TOKEN_AND_TARGET)?;
            let extension: &[u8; 36] = extension.first_chunk().ok_or(short)?;
            Operation::WriteImmediate {
                access: access(extension),
                target: target(extension, 5),
                immediate: long(extension, 7),
            }
        }
        ta_opcode::SEND => {
            announced(fixed, Announced::TOKEN_AND_TARGET)?;
            let extension: &[u8; 12] = extension.first_chunk().ok_or(short)?;
            Operation::Send { target: target(extension, 0), length: word(extension, 2) }
        }
        ta_opcode::SEND_IMMEDIATE => {
            announced(fixed, Announced::TOKEN_AND_TARGET)?;
            let extension: &[u8; 20] = extension.first_chunk().ok_or(short)?;
            Operation::SendImmediate {
                target: target(extension, 0),
                length: word(extension, 2),
                immediate: long(extension, 3),
            }
        }
        _ => rarer_operation(fixed, extension)?,
    })
}

/// The part of [`request_operation`] for requests of one packet and for mailbox operations.
fn rarer_operation(fixed: &Fixed, extension: &[u8]) -> Result<Operation, DecodeError> {
    let short = too_short(extension, extension.len() + 4);
    let opcode = u32::from(fixed[32]);
    if matches!(opcode, ta_opcode::COMPARE_SWAP..=ta_opcode::XOR) {
        announced(fixed, Announced::TOKEN)?;
        return atomic(fixed[32], extension);
    }
    if matches!(opcode, ta_opcode::WRITE_PART | ta_opcode::READ_PART) {
        announced(fixed, Announced::TOKEN)?;
        let extension: &[u8; 28] = extension.first_chunk().ok_or(short)?;
        let (before, whole) = (word(extension, 5), word(extension, 6));
        let part = Part { access: access(extension), before, whole };
        let writes = opcode == ta_opcode::WRITE_PART;
        return Ok(if writes { Operation::WritePart(part) } else { Operation::ReadPart(part) });
    }
    announced(fixed, Announced::NOTHING)?;
    Ok(match opcode {
        ta_opcode::PUT => Operation::Put(put(extension.first_chunk().ok_or(short)?)),
        ta_opcode::GET => Operation::Get(get(extension.first_chunk().ok_or(short)?)),
        ta_opcode::ABANDON => Operation::Abandon,
        ta_opcode::ABANDON_PUT => {
            let extension: &[u8; 12] = extension.first_chunk().ok_or(short)?;
            Operation::AbandonPut { mailbox: long(extension, 0), sequence: word(extension, 2) }
        }
        _ => return Err(other_opcode(fixed[32])),
    })
}

fn atomic(opcode: u8, extension: &[u8]) -> Result<Operation, DecodeError> {
    let short = too_short(extension, extension.len() + 4);
    let operator = AtomicOperator::ALL.into_iter().find(|operator| *operator as u8 == opcode);
    let operator = operator.ok_or(other_opcode(opcode))?;
    let (fixed, rest) = extension.split_first_chunk().ok_or(short)?;
    let fixed: &[u8; 28] = fixed;
    let access = access(fixed);
    if !matches!(access.length, 4 | 8) {
        return bad("MAETAH length", access.length);
    }
    let operand = if operator == AtomicOperator::Load { 0 } else { long(fixed, 5) };
    let mut compare = 0;
    if operator == AtomicOperator::CompareSwap {
        let rest: &[u8; 8] = rest.first_chunk().ok_or(short)?;
        compare = long(rest, 0);
    }
    Ok(Operation::Atomic { access, operator, operand, compare })
}

fn put(extension: &[u8; 40]) -> Put {
    let (epoch, named) = epoch(extension, 8);
    Put {
        mailbox: long(extension, 0),
        offset: long(extension, 2),
        sequence: word(extension, 4),
        before: word(extension, 5),
        length: word(extension, 6),
        key: word(extension, 7),
        epoch,
        named,
        oldest: word(extension, 9) >> 25 & 1 != 0,
        follows: word(extension, 9) >> 26 & 1 != 0,
    }
}

fn get(extension: &[u8; 32]) -> Get {
    let (epoch, named) = epoch(extension, 6);
    Get {
        mailbox: long(extension, 0),
        offset: long(extension, 2),
        length: word(extension, 4),
        key: word(extension, 5),
        epoch,
        named,
    }
}

/// The epoch at word `at`, and whether the request names an epoch.
fn epoch<const N: usize>(extension: &[u8; N], at: usize) -> (u32, bool) {
    let named = word(extension, at + 1) >> 24 & 1 != 0;
    (if named { word(extension, at) } else { 0 }, named)
}

/// Fails unless the bits of BTAH that announce extension headers agree with the opcode.
#[inline(always)]
fn announced(fixed: &Fixed, expected: Announced) -> Result<(), DecodeError> {
    let found = word(fixed, 8) & Announced::TOKEN.0
        | word(fixed, 9) & (Announced::TARGET.0 | Announced::START_KNOWN.0);
    if found == expected.0 { Ok(()) } else { Err(misannounced(found, expected)) }
}

/// The error for the bit that does not agree.
fn misannounced(found: u32, expected: Announced) -> DecodeError {
    let differs = |bit: Announced| (found ^ expected.0) & bit.0 != 0;
    let (field, bit) = if differs(Announced::START_KNOWN) {
        ("L", Announced::START_KNOWN)
    } else if differs(Announced::TOKEN) {
        ("TV_EN", Announced::TOKEN)
    } else {
        ("MT_EN", Announced::TARGET)
    };
    DecodeError::BadField { field, value: u32::from(found & bit.0 != 0) }
}

/// The bits TV_EN, MT_EN and L, at their positions in the words of BTAH.
#[derive(Clone, Copy)]
struct Announced(u32);

impl Announced {
    const NOTHING: Announced = Announced(0);
    const TOKEN: Announced = Announced(1 << 19);
    const TARGET: Announced = Announced(1 << 27);
    const TOKEN_AND_TARGET: Announced = Announced(Self::TOKEN.0 | Self::TARGET.0);
    const START_KNOWN: Announced = Announced(1 << 18);
}

#[inline(always)]
pub(in crate::codec) fn access<const N: usize>(extension: &[u8; N]) -> Access {
    Access {
        address: long(extension, 0),
        length: word(extension, 3),
        token_id: TokenId::new(word(extension, 2)),
        token_value: word(extension, 4),
    }
}

/// Reads MTETAH and the token value behind it, from word `at` on.
#[inline(always)]
fn target<const N: usize>(extension: &[u8; N], at: usize) -> Target {
    Target {
        jetty: JettyId::new(word(extension, at)),
        token_value: word(extension, at + 1),
        hint: (word(extension, at) >> 24) as u8,
    }
}

/// The bit of RTPH that says that the packet carries an acknowledgement.
#[inline(always)]
fn carries(fixed: &Fixed) -> bool {
    word(fixed, 6) >> CARRIES_BIT & 1 == 1
}

/// BTAH's Retry bit. ATAH has it at another place.
#[inline(always)]
fn requests_retry(fixed: &Fixed) -> bool {
    fixed[36] & 0x02 != 0
}

/// True if ATAH follows RTPH, instead of BTAH.
#[inline(always)]
fn is_response(fixed: &Fixed) -> bool {
    matches!(u32::from(fixed[32]), ta_opcode::DONE..=ta_opcode::ATOMIC_RESPONSE)
}

/// Bit L: the message continues one whose start the receiver has recorded.
#[inline(always)]
fn is_continuation(fixed: &Fixed) -> bool {
    fixed[37] & 0x04 != 0
}

/// Bit X: the order extension follows BTAH. In ATAH this bit is Retry.
#[inline(always)]
fn extended(fixed: &Fixed) -> bool {
    fixed[37] & 0x08 != 0
}

fn odr(fixed: &Fixed) -> u32 {
    u32::from(fixed[36] >> 4 & 0b111)
}
