//! Loads and stores that bypass the transport (§8.3), and their answers. BTAH or ATAH follows NTH
//! directly, so these packets have a number of their own instead of a PSN.

use super::decode::transaction::{access, other_opcode};
use super::decode::{decoded, network, verified};
use super::encode::{Header, put_access, put_network};
use super::fields::{bad, flag, put, too_short, word};
use super::{DecodeError, Decoded, TRANSPORT_LEN, next_layer, refusal, ta_opcode};
use crate::{Access, BYPASS_BYTES, Bypass, BypassOperation, CheckKey, JettyId, Packet, Route, Tpn};

/// The word that contains the number of the receiver's channel.
pub(super) const DESTINATION_TPN: usize = 7;

/// Bytes of a request: check, NTH, BTAH, the number of the oldest, MAETAH and TVETAH.
const REQUEST_LEN: usize = 56;
/// Bytes of a response: check, NTH, ATAH and the number of the oldest.
const RESPONSE_LEN: usize = 36;

/// Length of the headers in bytes, the check included.
pub(super) fn header_len(operation: &BypassOperation) -> usize {
    match operation {
        BypassOperation::Load { .. } | BypassOperation::Store { .. } => REQUEST_LEN,
        BypassOperation::LoadResponse { .. } | BypassOperation::StoreDone { .. } => RESPONSE_LEN,
    }
}

/// # Panics
///
/// If the length of a load or store, or that of the payload, is invalid.
pub(super) fn put_bypass(route: &Route, bypass: &Bypass, payload_len: usize, out: &mut Header) {
    assert!(fault(&bypass.operation, payload_len).is_none(), "a load or store of a wrong length");
    let (opcode, access, refusal) = match &bypass.operation {
        BypassOperation::Load { access } => (ta_opcode::LOAD, Some(access), None),
        BypassOperation::Store { access } => (ta_opcode::STORE, Some(access), None),
        BypassOperation::LoadResponse { refusal } => (ta_opcode::LOAD_RESPONSE, None, *refusal),
        BypassOperation::StoreDone { refusal } => (ta_opcode::STORE_DONE, None, *refusal),
    };
    // EE 01 and TV_EN, which only requests have.
    let request = flag(access.is_some(), 20) | flag(access.is_some(), 19);
    put_network(route, next_layer::BYPASS, out);
    put(out, 4, opcode << 24 | request | bypass.number & 0xffff);
    put(out, 5, refusal::code_or_zero(refusal) << 24 | bypass.number >> 16);
    put(out, 6, bypass.jetty.value() << 8);
    put(out, DESTINATION_TPN, route.destination_tpn.value());
    put(out, 8, bypass.oldest);
    if let Some(access) = access {
        put_access(access, 9, out);
    }
}

/// Decodes a packet without a transport header, which NLP in NTH has announced.
pub(super) fn decode(
    key: &CheckKey,
    first: &[u8; TRANSPORT_LEN],
    header: &[u8],
    datagram_len: usize,
) -> Result<Decoded, DecodeError> {
    let header_len = match u32::from(first[16]) {
        ta_opcode::LOAD | ta_opcode::STORE => REQUEST_LEN,
        ta_opcode::LOAD_RESPONSE | ta_opcode::STORE_DONE => RESPONSE_LEN,
        _ => return Err(other_opcode(first[16])),
    };
    let (header, payload_len) = verified(key, header, header_len, datagram_len)?;
    if first[17] & 0xc0 != 0 {
        return Err(DecodeError::UnsupportedVersion(first[17] >> 6));
    }
    if first[17] & 0x04 != 0 {
        return bad("Poison", 1);
    }
    let (oldest, extension) =
        header[TRANSPORT_LEN..].split_first_chunk().ok_or(too_short(header, RESPONSE_LEN))?;
    let operation = operation(first, extension)?;
    if let Some(fault) = fault(&operation, payload_len) {
        return Err(fault);
    }
    let bypass = Bypass {
        number: word(first, 5) << 16 | word(first, 4) & 0xffff,
        oldest: u32::from_be_bytes(*oldest),
        jetty: JettyId::new(word(first, 6) >> 8),
        operation,
    };
    let route = Route { destination_tpn: Tpn::new(word(first, DESTINATION_TPN)), ..network(first) };
    decoded(route, Packet::Bypass(bypass), header_len, payload_len)
}

fn operation(
    first: &[u8; TRANSPORT_LEN],
    extension: &[u8],
) -> Result<BypassOperation, DecodeError> {
    // A response has ATAH's status byte where a request has a reserved byte.
    let refusal = || refusal::decode_or_none(first[20]);
    Ok(match u32::from(first[16]) {
        ta_opcode::LOAD => BypassOperation::Load { access: requested_access(first, extension)? },
        ta_opcode::STORE => BypassOperation::Store { access: requested_access(first, extension)? },
        ta_opcode::LOAD_RESPONSE => BypassOperation::LoadResponse { refusal: refusal()? },
        ta_opcode::STORE_DONE => BypassOperation::StoreDone { refusal: refusal()? },
        _ => return Err(other_opcode(first[16])),
    })
}

/// Reads MAETAH and TVETAH of a request, which TV_EN must announce.
fn requested_access(first: &[u8; TRANSPORT_LEN], extension: &[u8]) -> Result<Access, DecodeError> {
    if first[17] & 0x08 == 0 {
        return bad("TV_EN", 0);
    }
    let extension: &[u8; 20] = extension.first_chunk().ok_or(too_short(extension, 20))?;
    Ok(access(extension))
}

/// The error in the lengths of `operation` and its payload, if there is one.
fn fault(operation: &BypassOperation, payload_len: usize) -> Option<DecodeError> {
    let (length, payload) = match operation {
        BypassOperation::Load { access } => (Some(access.length), 0..=0),
        BypassOperation::Store { access } => {
            (Some(access.length), access.length as usize..=access.length as usize)
        }
        BypassOperation::LoadResponse { refusal: None } => (None, 0..=BYPASS_BYTES as usize),
        BypassOperation::LoadResponse { refusal: Some(_) } | BypassOperation::StoreDone { .. } => {
            (None, 0..=0)
        }
    };
    match length {
        Some(value) if value == 0 || value > BYPASS_BYTES || payload_len < *payload.start() => {
            Some(DecodeError::BadField { field: "MAETAH length", value })
        }
        _ if payload_len > *payload.end() => {
            Some(DecodeError::TooLong { extra: payload_len - payload.end() })
        }
        _ => None,
    }
}
