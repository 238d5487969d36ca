//! Unreliable messages of one packet (mode UNO): they have UTPH in place of RTPH.

use super::decode::{decoded, next_header, route, transport_version, verified};
use super::decode::{tp_opcode, transaction};
use super::encode::{Header, put_channel, put_network, put_unreliable};
use super::fields::{bad, put};
use super::{
    DecodeError, Decoded, TRANSPORT_LEN, next_header as following, next_layer, tp_opcode as tp,
};
use crate::{CheckKey, Datagram, Operation, Packet, Route};

/// # Panics
///
/// If a datagram cannot carry the operation.
pub(super) fn put_datagram(route: &Route, datagram: &Datagram, out: &mut Header) {
    assert!(offered(&datagram.operation), "an operation that no datagram carries");
    put_network(route, next_layer::UTPH, out);
    put_channel(route, tp::UNRELIABLE << 24 | following::TRANSACTION << 16, out);
    put(out, 6, (datagram.number >> 32) as u32);
    put(out, 7, datagram.number as u32);
    put_unreliable(datagram, out);
}

/// True if the operation fits into one packet and requires no response.
fn offered(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Write { .. }
            | Operation::WriteImmediate { .. }
            | Operation::Send { .. }
            | Operation::SendImmediate { .. }
    )
}

/// Decodes a packet with UTPH, which NLP in NTH has announced.
pub(super) fn decode(
    key: &CheckKey,
    first: &[u8; TRANSPORT_LEN],
    header: &[u8],
    datagram_len: usize,
) -> Result<Decoded, DecodeError> {
    transport_version(first)?;
    next_header(first, "UTPH NLP", following::TRANSACTION)?;
    let header_len = transaction::datagram_len(header)?;
    let (header, payload_len) = verified(key, header, header_len, datagram_len)?;
    let padding = u32::from(first[17] >> 4 & 0b11);
    if padding != 0 {
        return bad("Padding", padding);
    }
    if first[16] & 0x80 != 0 {
        return bad("TPOpcode b7", 1);
    }
    if tp_opcode(first) != tp::UNRELIABLE {
        return bad("TPOpcode", tp_opcode(first));
    }
    let packet = Packet::Datagram(transaction::datagram(header)?);
    decoded(route(first), packet, header_len, payload_len)
}
