//! Decodes bytes into packet values.
//!
//! Decoding is total: any bytes give a value or a [`DecodeError`]. Reserved bits are ignored. Bits
//! that would change the meaning of a packet are refused, not ignored, if Fairway does not offer
//! them or if they have no meaning where they stand (Poison, a fourth ordering tag, an order of a
//! continued message).

use super::encode::carries_payload;
use super::fields::{bad, too_short, unsupported, word};
use super::{
    CCI, DecodeError, GRANTED_CLASS, MAX_HEADER, PROTOCOL_VERSION, TRANSPORT_LEN, Unsupported,
    bypass, datagram, next_header as following, next_layer, refusal, setup, status,
    tp_opcode as tp,
};
use crate::fill::unfilled_len;
use crate::{
    Ack, AckFlags, CREDIT_MAX, Cci, CheckKey, Close, Cna, Credit, CreditRequest, Msn, Nak,
    PATH_REPORTS_MAX, Packet, PathReports, Priority, Probe, Psn, Retire, Route, Sack, Setup, Tpn,
    Void,
};

pub(super) mod transaction;

/// The content of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A packet of a TP channel.
    Packet {
        /// Source, destination and path.
        route: Route,
        /// The packet.
        packet: Packet,
        /// Where the payload begins, in bytes from the start of the datagram.
        header_len: usize,
    },
    /// A connection set-up message.
    Setup(Setup),
}

/// Decodes as [`decode_keyed`] does, with the public key for all channels.
pub fn decode(header: &[u8], datagram_len: usize) -> Result<Decoded, DecodeError> {
    decode_keyed(header, datagram_len, |_| Some(&CheckKey::PUBLIC))
}

/// Decodes the datagram of `datagram_len` bytes that begins with `header`. `key` returns the key of
/// the channel whose number the packet gives as its destination.
///
/// `header` may be the whole datagram or only a prefix of it; a prefix of
/// [`MAX_HEADER`](super::MAX_HEADER) bytes is always enough for packets, and one of
/// [`SETUP_LEN`](crate::SETUP_LEN) bytes for set-up messages.
pub fn decode_keyed<'k>(
    header: &[u8],
    datagram_len: usize,
    key: impl FnOnce(Tpn) -> Option<&'k CheckKey>,
) -> Result<Decoded, DecodeError> {
    let header = header.get(..datagram_len).unwrap_or(header);
    let first: &[u8; TRANSPORT_LEN] = header.first_chunk().ok_or(too_short(header, 32))?;
    let routing_type = first[4] >> 6;
    if routing_type != 0 {
        return bad("RT", u32::from(routing_type));
    }
    let layer = word(first, 3) >> 9 & 0b111;
    let named_at = match layer {
        next_layer::RTPH | next_layer::UTPH => 5,
        next_layer::BYPASS => bypass::DESTINATION_TPN,
        next_layer::SETUP => return setup::decode(header, datagram_len).map(Decoded::Setup),
        other => return Err(DecodeError::UnknownNextLayer(other as u8)),
    };
    let destination = Tpn::new(word(first, named_at));
    let key = key(destination).ok_or(DecodeError::NoKey(destination))?;
    match layer {
        next_layer::UTPH => return datagram::decode(key, first, header, datagram_len),
        next_layer::BYPASS => return bypass::decode(key, first, header, datagram_len),
        _ => {}
    }
    if let Some(whole) = transaction::as_plain_write(header) {
        return transaction::plain_write(key, whole, datagram_len);
    }
    reliable(key, first, header, datagram_len)
}

/// Decodes a datagram that may be filled, as [`decode_keyed`] does, and returns the length of its
/// packet with it. The check covers the number of payload bytes, so it also proves the fill.
pub fn decode_filled<'k>(
    datagram: &[u8],
    mut key: impl FnMut(Tpn) -> Option<&'k CheckKey>,
) -> Result<(Decoded, usize), DecodeError> {
    let length = datagram.len();
    let refused = match decode_keyed(datagram, length, &mut key) {
        Ok(decoded) => return Ok((decoded, length)),
        Err(error) => error,
    };
    match unfilled_len(datagram) {
        Some(length) if refused == DecodeError::BadCheck => {
            Ok((decode_keyed(&datagram[..length], length, key)?, length))
        }
        _ => Err(refused),
    }
}

/// Decodes any packet with RTPH.
pub(super) fn reliable(
    key: &CheckKey,
    first: &[u8; TRANSPORT_LEN],
    header: &[u8],
    datagram_len: usize,
) -> Result<Decoded, DecodeError> {
    transport_version(first)?;
    let header_len = header_len(first, header)?;
    let (header, payload_len) = verified(key, header, header_len, datagram_len)?;
    decoded(route(first), packet(first, header)?, header_len, payload_len)
}

/// Returns the first `header_len` bytes, and how many bytes of payload follow, if the datagram is
/// long enough and the check is right. `header` does not go beyond the datagram.
#[inline(always)]
pub(super) fn verified<'h>(
    key: &CheckKey,
    header: &'h [u8],
    header_len: usize,
    datagram_len: usize,
) -> Result<(&'h [u8], usize), DecodeError> {
    let header = header.get(..header_len).ok_or(too_short(header, header_len))?;
    let payload_len = datagram_len - header_len;
    let check: &[u8; 4] = header.first_chunk().ok_or(too_short(header, 4))?;
    if computed(key, header, payload_len) != word(check, 0) {
        return Err(DecodeError::BadCheck);
    }
    Ok((header, payload_len))
}

/// The check that this header must have. CCI counts as zero, because switches may write it.
#[inline(always)]
fn computed(key: &CheckKey, header: &[u8], payload_len: usize) -> u32 {
    match header.get(CCI) {
        Some([0, 0]) | None => key.check(PROTOCOL_VERSION, &header[4..], payload_len),
        Some(_) => {
            let mut sent = [0; MAX_HEADER];
            let sent = &mut sent[..header.len()];
            sent.copy_from_slice(header);
            sent[CCI].fill(0);
            key.check(PROTOCOL_VERSION, &sent[4..], payload_len)
        }
    }
}

/// Returns `packet` if this many bytes of payload may follow it.
#[inline(always)]
pub(super) fn decoded(
    route: Route,
    packet: Packet,
    header_len: usize,
    payload_len: usize,
) -> Result<Decoded, DecodeError> {
    if payload_len != 0 && !carries_payload(&packet) {
        return Err(DecodeError::TooLong { extra: payload_len });
    }
    Ok(Decoded::Packet { route, packet, header_len })
}

/// Fails unless TPVer is the version that Fairway implements.
#[inline(always)]
pub(super) fn transport_version(first: &[u8; TRANSPORT_LEN]) -> Result<(), DecodeError> {
    match first[17] >> 6 {
        0 => Ok(()),
        other => Err(DecodeError::UnsupportedVersion(other)),
    }
}

/// Fails unless NLP of RTPH or UTPH is `wanted`.
#[inline(always)]
pub(super) fn next_header(
    first: &[u8; TRANSPORT_LEN],
    field: &'static str,
    wanted: u32,
) -> Result<(), DecodeError> {
    match u32::from(first[17]) & 0xf {
        next if next == wanted => Ok(()),
        next @ (0x1 | 0x3) => unsupported(Unsupported::TransportExtension(next as u8)),
        next => bad(field, next),
    }
}

/// Length of the headers. It depends on as few fields as possible, because the check has not been
/// verified yet and its verification needs the length.
fn header_len(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<usize, DecodeError> {
    let opcode = tp_opcode(first);
    let (len, next) = match opcode {
        tp::DATA => (transaction::data_len(header)?, following::TRANSACTION),
        tp::NAK => (TRANSPORT_LEN + 4, following::NOTHING),
        tp::ACK => (TRANSPORT_LEN + 12 + path_reports(header)? * 4, following::NOTHING),
        tp::SELECTIVE_ACK => {
            let code = header.get(44).ok_or(too_short(header, 45))?;
            let words = bitmap_words(*code)? + path_reports(header)?;
            (TRANSPORT_LEN + 20 + words * 4, following::NOTHING)
        }
        tp::VOID | tp::CLOSE | tp::DEMAND | tp::CREDIT | tp::PROBE | tp::RETIRE => {
            (TRANSPORT_LEN, following::NOTHING)
        }
        // This opcode is valid in UTPH only.
        tp::UNRELIABLE => return bad("TPOpcode", opcode),
        0x05 | 0x08 => return unsupported(Unsupported::TpOpcode(opcode as u8)),
        _ => return Err(DecodeError::UnknownTpOpcode(opcode as u8)),
    };
    next_header(first, "RTPH NLP", next)?;
    Ok(len)
}

/// Words in a SAETPH bitmap of size `code`.
fn bitmap_words(code: u8) -> Result<usize, DecodeError> {
    match code {
        0..=2 => Ok(2 << code),
        _ => bad("BitMapSize", u32::from(code)),
    }
}

/// Number of path reports that an acknowledgement contains, each of one word. It has three bits.
#[inline(always)]
fn path_reports(header: &[u8]) -> Result<usize, DecodeError> {
    let count = header.get(39).ok_or(too_short(header, 40))? & 0b111;
    if usize::from(count) > PATH_REPORTS_MAX {
        return bad("path reports", u32::from(count));
    }
    Ok(usize::from(count))
}

/// The addresses and the path in NTH.
#[inline(always)]
pub(super) fn network(first: &[u8; TRANSPORT_LEN]) -> Route {
    Route {
        source: Cna::new(word(first, 1)),
        destination: Cna::new(word(first, 2) >> 8),
        path: first[13],
        priority: Priority::new(first[14] >> 4),
        cci: Cci::from_bits(u16::from_be_bytes([first[11], first[12]])),
        ..Route::default()
    }
}

/// The route in NTH and in RTPH or UTPH.
#[inline(always)]
pub(super) fn route(first: &[u8; TRANSPORT_LEN]) -> Route {
    Route {
        source_tpn: Tpn::new(word(first, 4) << 8 | u32::from(first[20])),
        destination_tpn: Tpn::new(word(first, 5)),
        ..network(first)
    }
}

/// The packet in `header`, whose length and check have been verified.
#[inline(always)]
fn packet(first: &[u8; TRANSPORT_LEN], header: &[u8]) -> Result<Packet, DecodeError> {
    let padding = u32::from(first[17] >> 4 & 0b11);
    if padding != 0 {
        return bad("Padding", padding);
    }
    let opcode = tp_opcode(first);
    if opcode == tp::DATA {
        return transaction::data(first, header).map(Packet::Data);
    }
    if first[16] & 0x80 != 0 {
        return bad("TPOpcode b7", 1);
    }
    match opcode {
        tp::ACK | tp::SELECTIVE_ACK => ack(first, header).map(Packet::Ack),
        tp::NAK => nak(first, header).map(Packet::Nak),
        tp::VOID => Ok(Packet::Void(Void {
            psn: psn(first),
            message: message(first),
            ack_request: ack_request(first),
        })),
        tp::CLOSE => Ok(Packet::Close(Close { next: psn(first), answer: first[28] & 1 != 0 })),
        tp::RETIRE => Ok(Packet::Retire(Retire {
            channel: Tpn::new(word(first, 6)),
            answer: first[28] & 1 != 0,
        })),
        tp::DEMAND => Ok(Packet::CreditRequest(CreditRequest {
            total_bytes: total(first),
            resend: first[24] & 0x80 != 0,
            blocked: first[24] & 0x40 != 0,
        })),
        tp::CREDIT => match first[24] >> 6 {
            0 => Ok(Packet::Credit(Credit {
                total_bytes: total(first),
                class: Priority::of_data(first[GRANTED_CLASS]),
            })),
            other => bad("credit b63-62", u32::from(other)),
        },
        tp::PROBE => probe(first).map(Packet::Probe),
        other => Err(DecodeError::UnknownTpOpcode(other as u8)),
    }
}

fn probe(first: &[u8; TRANSPORT_LEN]) -> Result<Probe, DecodeError> {
    let (number, turn_ns) = (word(first, 6) & Probe::NUMBER_MAX, word(first, 7));
    match (first[24] & 0x80 != 0, turn_ns) {
        (true, turn_ns) => Ok(Probe { number, turn_ns: Some(turn_ns) }),
        (false, 0) => Ok(Probe { number, turn_ns: None }),
        (false, other) => bad("turn-round time of a request", other),
    }
}

/// The total in a credit request or a credit.
fn total(first: &[u8; TRANSPORT_LEN]) -> u64 {
    (u64::from(word(first, 6)) << 32 | u64::from(word(first, 7))) & CREDIT_MAX
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
    let map_len = rest.len().checked_sub(4 * path_reports(header)?).ok_or(short)?;
    let (map, reports) = rest.split_at(map_len);
    let mut selection = Sack::default();
    if tp_opcode(first) == tp::SELECTIVE_ACK {
        flags = flags.with(AckFlags::SELECTIVE);
        selection = sack(map).ok_or(short)?;
    }
    let mut paths = PathReports::NONE;
    for bytes in reports.as_chunks().0 {
        let has_room = paths.push_word(u32::from_be_bytes(*bytes));
        debug_assert!(has_room);
    }
    Ok(Ack {
        cumulative: psn(first),
        echo: Psn::new(word(fixed, 9) >> 8),
        start_known: message(first),
        echo_delay: (word(fixed, 10) >> 16) as u16,
        window: word(fixed, 10) as u16,
        marks: fixed[33],
        duplicates: fixed[34],
        cci: Cci::from_bits(u16::from_be_bytes([fixed[39], fixed[35]])),
        flags,
        sack: selection,
        paths,
    })
}

/// Flags that are carried in TPOpcode and in bit A of RTPH instead of in CETPH.
fn elsewhere() -> AckFlags {
    AckFlags::SELECTIVE.with(AckFlags::REQUEST)
}

/// Reads SAETPH. A shorter bitmap fills the first words of a [`Sack`]; the other bits stay clear.
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
    let reason = refusal::decode(first[28])?;
    let header: &[u8; 36] = header.first_chunk().ok_or(too_short(header, 36))?;
    let retry_after_us = (word(header, 8) >> 16) as u16;
    Ok(Nak { psn: psn(first), message: message(first), reason, retry_after_us })
}

pub(super) fn tp_opcode(first: &[u8; TRANSPORT_LEN]) -> u32 {
    u32::from(first[16] & 0x7f)
}

pub(super) fn psn(first: &[u8; TRANSPORT_LEN]) -> Psn {
    Psn::new(word(first, 6))
}

pub(super) fn message(first: &[u8; TRANSPORT_LEN]) -> Msn {
    Msn::new(word(first, 7))
}

pub(super) fn ack_request(first: &[u8; TRANSPORT_LEN]) -> bool {
    first[24] & 0x80 != 0
}
