//! BTAH, ATAH and the extension headers behind them.

use super::Header;
use crate::codec::fields::{flag, put, put_long};
use crate::codec::{ORDER_LEN, TRANSACTION_LEN, refusal, ta_opcode};
use crate::{
    Access, AtomicOperator, Data, Datagram, Get, Operation, Order, Part, Put, ServiceMode, Tag,
    Target,
};

/// Length in bytes of the extension headers of an operation, without the order extension.
pub(super) fn operation_len(operation: &Operation) -> usize {
    match operation {
        Operation::Continuation | Operation::ReadResponse | Operation::Abandon => 0,
        Operation::Done { others, .. } => 4 + 4 * others.len(),
        Operation::AtomicResponse { .. } => 8,
        Operation::Send { .. } | Operation::AbandonPut { .. } => 12,
        Operation::Write { .. } | Operation::Read { .. } | Operation::SendImmediate { .. } => 20,
        Operation::Atomic { operator: AtomicOperator::CompareSwap, .. } => 36,
        Operation::Atomic { .. } | Operation::WritePart(_) | Operation::ReadPart(_) => 28,
        Operation::Get(_) => 32,
        Operation::WriteImmediate { .. } => 36,
        Operation::Put(_) => 40,
    }
}

/// Length in bytes of the order extension of `data`.
pub(super) fn order_len(data: &Data) -> usize {
    let unordered = matches!(
        data.operation,
        Operation::Continuation
            | Operation::ReadResponse
            | Operation::AtomicResponse { .. }
            | Operation::Done { .. }
    );
    if has_extension(&data.order) && !unordered { ORDER_LEN } else { 0 }
}

/// Writes BTAH or ATAH of a data packet, and the headers behind it. Returns where they end.
#[inline(always)]
pub(super) fn put_data(data: &Data, out: &mut Header) -> usize {
    put(out, 10, data.jetty.value() << 8 | u32::from(data.slot));
    put(out, 11, data.index);
    put_operation(&data.operation, out, |kind, out| {
        put(out, 8, kind.first | u32::from(data.transaction));
        let second = kind.second | flag(data.retry, kind.retry_bit);
        if !kind.ordered {
            debug_assert_eq!(data.order, Order::NONE, "an order where none is carried");
            put(out, 9, second);
            0
        } else if has_no_order(&data.order) {
            put(out, 9, second | mode_bits(ServiceMode::Rol));
            0
        } else {
            put_order(data, second, out)
        }
    })
}

/// Writes BTAH of a datagram, and the headers behind it.
pub(in crate::codec) fn put_unreliable(datagram: &Datagram, out: &mut Header) {
    put(out, 10, datagram.jetty.value() << 8);
    put(out, 11, 0);
    put_operation(&datagram.operation, out, |kind, out| {
        put(out, 8, kind.first | u32::from(datagram.transaction));
        put(out, 9, kind.second | mode_bits(ServiceMode::Uno));
        0
    });
}

/// Bytes 0–7 of BTAH or ATAH, as far as they depend on the operation.
struct Kind {
    first: u32,
    second: u32,
    /// Position of Retry in the second word.
    retry_bit: u32,
    /// Whether the second word also holds the ordering fields.
    ordered: bool,
}

impl Kind {
    const SEND: Kind = Kind::request(ta_opcode::SEND, true, true);
    const SEND_IMMEDIATE: Kind = Kind::request(ta_opcode::SEND_IMMEDIATE, true, true);
    const WRITE: Kind = Kind::request(ta_opcode::WRITE, true, false);
    const WRITE_IMMEDIATE: Kind = Kind::request(ta_opcode::WRITE_IMMEDIATE, true, true);
    const READ: Kind = Kind::request(ta_opcode::READ, true, false);
    const PUT: Kind = Kind::request(ta_opcode::PUT, false, false);
    const GET: Kind = Kind::request(ta_opcode::GET, false, false);
    const WRITE_PART: Kind = Kind::request(ta_opcode::WRITE_PART, true, false);
    const READ_PART: Kind = Kind::request(ta_opcode::READ_PART, true, false);
    const ABANDON: Kind = Kind::request(ta_opcode::ABANDON, false, false);
    const ABANDON_PUT: Kind = Kind::request(ta_opcode::ABANDON_PUT, false, false);
    /// Bit L: the message continues, whatever its operation.
    const START_KNOWN: Kind = Kind {
        second: 1 << 18 | mode_bits(ServiceMode::Rol),
        ordered: false,
        ..Kind::request(ta_opcode::WRITE, false, false)
    };

    /// BTAH (§7.2.1). `token` is TV_EN: a token value follows. `target` is MT_EN: MTETAH follows.
    const fn request(opcode: u32, token: bool, target: bool) -> Self {
        let environment = 0b01 << 20;
        Kind {
            first: opcode << 24 | environment | (token as u32) << 19,
            second: (target as u32) << 27,
            retry_bit: 25,
            ordered: true,
        }
    }

    /// ATAH (§7.2.2). The Retry bit is Fairway's own: ATAH has its status where BTAH has Retry.
    const fn response(opcode: u32, status: u32) -> Self {
        Kind {
            first: opcode << 24,
            second: status << 24 | mode_bits(ServiceMode::Rol),
            retry_bit: 19,
            ordered: false,
        }
    }
}

/// Writes the extension headers as if there were no order extension, and calls `finish` to write
/// the headers in front of them, which returns the length of the order extension. `finish` is
/// called in every branch instead of once at the end, so that the compiler sees the constants of
/// each common kind. Returns where all of the headers end.
#[inline(always)]
fn put_operation(
    operation: &Operation,
    out: &mut Header,
    finish: impl Fn(Kind, &mut Header) -> usize,
) -> usize {
    match operation {
        Operation::Continuation => TRANSACTION_LEN + finish(Kind::START_KNOWN, out),
        Operation::ReadResponse => {
            TRANSACTION_LEN + finish(Kind::response(ta_opcode::READ_RESPONSE, 0), out)
        }
        Operation::Write { access } => {
            put_access(access, 12, out);
            TRANSACTION_LEN + 20 + finish(Kind::WRITE, out)
        }
        Operation::Read { access } => {
            put_access(access, 12, out);
            TRANSACTION_LEN + 20 + finish(Kind::READ, out)
        }
        Operation::Send { target, length } => {
            put_target(target, 12, out);
            put(out, 14, *length);
            TRANSACTION_LEN + 12 + finish(Kind::SEND, out)
        }
        rarer => {
            let kind = put_rarer(rarer, out);
            TRANSACTION_LEN + operation_len(rarer) + finish(kind, out)
        }
    }
}

/// Writes the less frequent kinds; out of line, so that the code of the common kinds stays short.
#[inline(never)]
fn put_rarer(operation: &Operation, out: &mut Header) -> Kind {
    match operation {
        Operation::Continuation
        | Operation::ReadResponse
        | Operation::Write { .. }
        | Operation::Read { .. }
        | Operation::Send { .. } => unreachable!("a common kind"),
        Operation::WriteImmediate { access, target, immediate } => {
            put_access(access, 12, out);
            put_target(target, 17, out);
            put_long(out, 19, *immediate);
            Kind::WRITE_IMMEDIATE
        }
        Operation::SendImmediate { target, length, immediate } => {
            put_target(target, 12, out);
            put(out, 14, *length);
            put_long(out, 15, *immediate);
            Kind::SEND_IMMEDIATE
        }
        Operation::Atomic { access, operator, operand, compare } => {
            put_atomic(access, *operator, [*operand, *compare], out)
        }
        Operation::AtomicResponse { value } => {
            put_long(out, 12, *value);
            Kind::response(ta_opcode::ATOMIC_RESPONSE, 0)
        }
        Operation::Done { refusal, retry_after_us, others } => {
            debug_assert!(refusal.is_none() || others.is_empty(), "a refusal stays alone");
            put(out, 12, u32::from(*retry_after_us) << 16 | (others.len() as u32) << 8);
            for (at, (slot, transaction)) in others.iter().enumerate() {
                put(out, 13 + at, u32::from(transaction) << 16 | u32::from(slot) << 8);
            }
            Kind::response(ta_opcode::DONE, refusal::code_or_zero(*refusal))
        }
        Operation::WritePart(part) => {
            put_part(part, out);
            Kind::WRITE_PART
        }
        Operation::ReadPart(part) => {
            put_part(part, out);
            Kind::READ_PART
        }
        Operation::Put(message) => put_put(message, out),
        Operation::Get(get) => put_get(get, out),
        Operation::Abandon => Kind::ABANDON,
        Operation::AbandonPut { mailbox, sequence } => {
            put_long(out, 12, *mailbox);
            put(out, 14, *sequence);
            Kind::ABANDON_PUT
        }
    }
}

/// Writes MAETAH (§7.2.3) and TVETAH (§7.2.5), from word `at` on.
#[inline(always)]
pub(in crate::codec) fn put_access(access: &Access, at: usize, out: &mut Header) {
    put_long(out, at, access.address);
    put(out, at + 2, access.token_id.value());
    put(out, at + 3, access.length);
    put(out, at + 4, access.token_value);
}

/// Writes MTETAH (§7.2.4) and the target's token value in the layout of TVETAH, from word `at` on.
#[inline(always)]
fn put_target(target: &Target, at: usize, out: &mut Header) {
    put(out, at, u32::from(target.hint) << 24 | target.jetty.value());
    put(out, at + 1, target.token_value);
}

fn put_atomic(
    access: &Access,
    operator: AtomicOperator,
    [operand, compare]: [u64; 2],
    out: &mut Header,
) -> Kind {
    assert!(matches!(access.length, 4 | 8), "an atomic on a word of neither 4 nor 8 bytes");
    put_access(access, 12, out);
    put_long(out, 17, if operator == AtomicOperator::Load { 0 } else { operand });
    if operator == AtomicOperator::CompareSwap {
        put_long(out, 19, compare);
    }
    Kind::request(operator as u32, true, false)
}

fn put_part(part: &Part, out: &mut Header) {
    put_access(&part.access, 12, out);
    put(out, 17, part.before);
    put(out, 18, part.whole);
}

fn put_put(message: &Put, out: &mut Header) -> Kind {
    put_long(out, 12, message.mailbox);
    put_long(out, 14, message.offset);
    put(out, 16, message.sequence);
    put(out, 17, message.before);
    put(out, 18, message.length);
    put(out, 19, message.key);
    put(out, 20, if message.named { message.epoch } else { 0 });
    let flags = flag(message.oldest, 25) | flag(message.follows, 26);
    put(out, 21, flag(message.named, 24) | flags);
    Kind::PUT
}

fn put_get(get: &Get, out: &mut Header) -> Kind {
    put_long(out, 12, get.mailbox);
    put_long(out, 14, get.offset);
    put(out, 16, get.length);
    put(out, 17, get.key);
    put(out, 18, if get.named { get.epoch } else { 0 });
    put(out, 19, flag(get.named, 24));
    Kind::GET
}

/// True if the ordering fields contain nothing but mode ROL.
#[inline(always)]
fn has_no_order(order: &Order) -> bool {
    order.mode == ServiceMode::Rol && order.tag == Tag::No && !order.in_order
}

/// True if four more bytes of ordering fields follow BTAH (X).
fn has_extension(order: &Order) -> bool {
    order.in_order || by_ends(order.mode)
}

/// True if the initiator or the target orders the transaction, so that the initiator waits for the
/// response by slot.
fn by_ends(mode: ServiceMode) -> bool {
    matches!(mode, ServiceMode::Roi | ServiceMode::Rot)
}

const fn mode_bits(mode: ServiceMode) -> u32 {
    (mode as u32) << 16
}

/// Writes BTAH bytes 4–7 and the order extension, for which it moves the other extension headers
/// up. `second` holds the bits of BTAH bytes 4–7 that do not depend on the order. Returns the
/// length of the order extension.
#[inline(never)]
fn put_order(data: &Data, second: u32, out: &mut Header) -> usize {
    let order = &data.order;
    debug_assert!(order.mode != ServiceMode::Uno, "reliable data in mode UNO");
    let sequence = if order.tag == Tag::No { 0 } else { order.sequence };
    let odr = flag(order.in_order, 30) | (order.tag as u32) << 28;
    let mode = flag(has_extension(order), 19) | mode_bits(order.mode);
    put(out, 9, second | odr | mode | u32::from(sequence));
    if !has_extension(order) {
        return 0;
    }
    let end = TRANSACTION_LEN + operation_len(&data.operation);
    out.copy_within(TRANSACTION_LEN..end, TRANSACTION_LEN + ORDER_LEN);
    let receive_sequence = if order.in_order { order.receive_sequence } else { 0 };
    let request_slot = if by_ends(order.mode) { order.request_slot } else { 0 };
    put(out, 12, u32::from(receive_sequence) << 16 | u32::from(request_slot) << 8);
    ORDER_LEN
}
