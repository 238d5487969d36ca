//! Encodes and decodes set-up messages. All of them share one layout. A message writes zero into
//! the words that it does not use and ignores them on receipt.

use super::fields::{bad, long, put, put_long, too_short, word};
use super::{DecodeError, PROTOCOL_VERSION, SETUP_VERSION, next_layer};
use crate::check::header_check;
use crate::setup::{
    Accept, Confirm, Endpoint, GROUP_MAX, Hello, Joins, KEY_LEN, PORTS_MAX, Parameters, Ports,
    Reject, RejectReason, SETUP_LEN, Setup, SetupMessage, Versions, Welcome,
};
use crate::{Cna, Psn, Tpn};

/// A set-up message while it is being written.
type Header = [u8; SETUP_LEN];

/// Message kinds (byte 16).
mod kind {
    pub const HELLO: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const CONFIRM: u8 = 3;
    pub const ACCEPT: u8 = 4;
    pub const REJECT: u8 = 5;
}

/// The word at which each field begins.
mod at {
    pub const KIND: usize = 4;
    pub const NONCE: usize = 5;
    pub const VERSION_TPN: usize = 7;
    pub const REASON_PSN: usize = 8;
    pub const PARAMETERS: usize = 9;
    pub const PORTS: usize = 13;
    pub const COOKIE: usize = 21;
    pub const AGREED: usize = 26;
    pub const JOINS: usize = 30;
    pub const KEY: usize = 32;
}

/// Writes `setup` to the start of `out` and returns its length, always
/// [`SETUP_LEN`].
///
/// # Panics
///
/// If `out` is shorter than [`SETUP_LEN`], or if [`Parameters::fault`] finds an error in the
/// message's parameters. Both are mistakes of the caller.
pub fn encode_setup(setup: &Setup, out: &mut [u8]) -> usize {
    let out: &mut Header = out.first_chunk_mut().expect("room for a set-up message");
    *out = [0; SETUP_LEN];
    put(out, 1, setup.source.value());
    put(out, 2, setup.destination.value() << 8);
    put(out, 3, next_layer::SETUP << 9 | 1 << 8);
    match &setup.message {
        SetupMessage::Hello(hello) => put_hello(kind::HELLO, hello, out),
        SetupMessage::Welcome(welcome) => {
            put_kind(kind::WELCOME, None, out);
            put_long(out, at::NONCE, welcome.nonce);
            put(out, at::VERSION_TPN, u32::from(welcome.version) << 24);
            put_parameters(at::PARAMETERS, &welcome.offer, out);
            put_cookie(&welcome.cookie, out);
        }
        SetupMessage::Confirm(confirm) => {
            put_hello(kind::CONFIRM, &confirm.hello, out);
            out[4 * at::VERSION_TPN] = confirm.version;
            put_cookie(&confirm.cookie, out);
            put_parameters(at::AGREED, &confirm.agreed, out);
            put_key(&confirm.key, out);
        }
        SetupMessage::Accept(accept) => {
            put_kind(kind::ACCEPT, None, out);
            put_long(out, at::NONCE, accept.nonce);
            put_endpoint(accept.version, &accept.server, out);
            put_parameters(at::PARAMETERS, &accept.agreed, out);
            put_key(&accept.key, out);
        }
        SetupMessage::Reject(reject) => {
            put_kind(kind::REJECT, Some(reject.versions), out);
            put_long(out, at::NONCE, reject.nonce);
            put(out, at::REASON_PSN, reason_code(reject.reason) << 24);
        }
    }
    let check = header_check(SETUP_VERSION, &out[4..], 0);
    put(out, 0, check);
    SETUP_LEN
}

fn put_kind(kind: u8, versions: Option<Versions>, out: &mut Header) {
    let (min, max) = versions.map_or((0, 0), |versions| (versions.min(), versions.max()));
    put(out, at::KIND, u32::from_be_bytes([kind, min, max, 0]));
}

fn put_hello(kind: u8, hello: &Hello, out: &mut Header) {
    put_kind(kind, Some(hello.versions), out);
    put_long(out, at::NONCE, hello.nonce);
    put_endpoint(0, &hello.client, out);
    put_parameters(at::PARAMETERS, &hello.requested, out);
    if let Some(Joins { leader, number }) = hello.joins {
        put(out, at::JOINS, u32::from(number) << 24 | leader.value());
    }
}

fn put_endpoint(version: u8, endpoint: &Endpoint, out: &mut Header) {
    put(out, at::VERSION_TPN, u32::from(version) << 24 | endpoint.tpn.value());
    put(out, at::REASON_PSN, endpoint.initial_psn.value());
    let ports = endpoint.ports.as_slice();
    out[4 * at::KIND + 3] = ports.len() as u8;
    for (bytes, port) in out[4 * at::PORTS..].chunks_exact_mut(2).zip(ports) {
        bytes.copy_from_slice(&port.to_be_bytes());
    }
}

fn put_parameters(first: usize, parameters: &Parameters, out: &mut Header) {
    assert_eq!(parameters.fault(), None, "parameters that no peer would take");
    let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
    put(out, first, pair(parameters.mtu_bytes, parameters.paths));
    put(out, first + 1, pair(parameters.window_packets, parameters.message_slots));
    put(out, first + 2, pair(parameters.read_slots, parameters.keep_alive_ms));
    put(out, first + 3, pair(parameters.channels - 1, parameters.capabilities));
}

fn put_cookie(cookie: &[u8; 16], out: &mut Header) {
    out[4 * at::COOKIE..4 * at::COOKIE + 16].copy_from_slice(cookie);
}

fn put_key(key: &[u8; KEY_LEN], out: &mut Header) {
    out[4 * at::KEY..4 * at::KEY + KEY_LEN].copy_from_slice(key);
}

fn reason_code(reason: RejectReason) -> u32 {
    match reason {
        RejectReason::Version => 1,
        RejectReason::NoResources => 2,
        RejectReason::StaleCookie => 3,
        RejectReason::Parameters => 4,
        RejectReason::Refused => 5,
    }
}

/// Decodes a set-up message, which NLP in NTH has announced.
pub(super) fn decode(header: &[u8], datagram_len: usize) -> Result<Setup, DecodeError> {
    let message: &Header = header.first_chunk().ok_or(too_short(header, SETUP_LEN))?;
    let extra = datagram_len - SETUP_LEN;
    // HELLO and WELCOME may be padded to the length of the longest packet, to test whether such
    // packets get through in both directions.
    if extra != 0 && !matches!(message[4 * at::KIND], kind::HELLO | kind::WELCOME) {
        return Err(DecodeError::TooLong { extra });
    }
    if header_check(SETUP_VERSION, &message[4..], 0) != word(message, 0) {
        return Err(DecodeError::BadCheck);
    }
    if message[14] & 1 == 0 {
        return bad("mgmt", 0);
    }
    Ok(Setup {
        source: Cna::new(word(message, 1)),
        destination: Cna::new(word(message, 2) >> 8),
        message: content(message)?,
    })
}

fn content(message: &Header) -> Result<SetupMessage, DecodeError> {
    let nonce = long(message, at::NONCE);
    Ok(match message[4 * at::KIND] {
        kind::HELLO => SetupMessage::Hello(hello(message)?),
        kind::WELCOME => SetupMessage::Welcome(Welcome {
            version: version(message)?,
            nonce,
            cookie: cookie(message),
            offer: parameters(message, at::PARAMETERS)?,
        }),
        kind::CONFIRM => SetupMessage::Confirm(Confirm {
            hello: hello(message)?,
            version: version(message)?,
            cookie: cookie(message),
            agreed: parameters(message, at::AGREED)?,
            key: key(message),
        }),
        kind::ACCEPT => SetupMessage::Accept(Accept {
            version: version(message)?,
            nonce,
            server: endpoint(message)?,
            agreed: parameters(message, at::PARAMETERS)?,
            key: key(message),
        }),
        kind::REJECT => SetupMessage::Reject(Reject {
            versions: versions(message)?,
            nonce,
            reason: reason(message)?,
        }),
        other => return Err(DecodeError::UnknownSetup(other)),
    })
}

fn hello(message: &Header) -> Result<Hello, DecodeError> {
    Ok(Hello {
        versions: versions(message)?,
        nonce: long(message, at::NONCE),
        client: endpoint(message)?,
        requested: parameters(message, at::PARAMETERS)?,
        joins: joins(message)?,
    })
}

fn joins(message: &Header) -> Result<Option<Joins>, DecodeError> {
    let number = message[4 * at::JOINS];
    let leader = Tpn::new(word(message, at::JOINS));
    match number {
        0 if leader == Tpn::new(0) => Ok(None),
        number if (1..GROUP_MAX).contains(&u16::from(number)) => Ok(Some(Joins { leader, number })),
        other => bad("joins", u32::from(other)),
    }
}

fn versions(message: &Header) -> Result<Versions, DecodeError> {
    let (min, max) = (message[4 * at::KIND + 1], message[4 * at::KIND + 2]);
    match Versions::new(min, max) {
        Some(versions) => Ok(versions),
        None => bad("versions", u32::from(min) << 8 | u32::from(max)),
    }
}

/// The version that was chosen, which this end must implement.
fn version(message: &Header) -> Result<u8, DecodeError> {
    match message[4 * at::VERSION_TPN] {
        PROTOCOL_VERSION => Ok(PROTOCOL_VERSION),
        other => Err(DecodeError::UnsupportedVersion(other)),
    }
}

fn endpoint(message: &Header) -> Result<Endpoint, DecodeError> {
    Ok(Endpoint {
        tpn: Tpn::new(word(message, at::VERSION_TPN)),
        initial_psn: Psn::new(word(message, at::REASON_PSN)),
        ports: ports(message)?,
    })
}

fn ports(message: &Header) -> Result<Ports, DecodeError> {
    let count = message[4 * at::KIND + 3];
    let mut list = [0; PORTS_MAX];
    for (port, bytes) in list.iter_mut().zip(message[4 * at::PORTS..].chunks_exact(2)) {
        *port = u16::from_be_bytes([bytes[0], bytes[1]]);
    }
    match list.get(..usize::from(count)).and_then(Ports::new) {
        Some(ports) => Ok(ports),
        None => bad("ports", u32::from(count)),
    }
}

fn parameters(message: &Header, first: usize) -> Result<Parameters, DecodeError> {
    let high = |index| (word(message, index) >> 16) as u16;
    let low = |index| word(message, index) as u16;
    let parameters = Parameters {
        mtu_bytes: high(first),
        paths: low(first),
        window_packets: high(first + 1),
        message_slots: low(first + 1),
        read_slots: high(first + 2),
        keep_alive_ms: low(first + 2),
        // The field counts the channels beside the first: a sender without groups of channels sends
        // 0.
        channels: high(first + 3).saturating_add(1),
        capabilities: low(first + 3),
    };
    match parameters.fault() {
        Some(field) => bad(field, 0),
        None => Ok(parameters),
    }
}

fn cookie(message: &Header) -> [u8; 16] {
    let mut cookie = [0; 16];
    cookie.copy_from_slice(&message[4 * at::COOKIE..4 * at::COOKIE + 16]);
    cookie
}

fn key(message: &Header) -> [u8; KEY_LEN] {
    let mut key = [0; KEY_LEN];
    key.copy_from_slice(&message[4 * at::KEY..4 * at::KEY + KEY_LEN]);
    key
}

fn reason(message: &Header) -> Result<RejectReason, DecodeError> {
    match message[4 * at::REASON_PSN] {
        1 => Ok(RejectReason::Version),
        2 => Ok(RejectReason::NoResources),
        3 => Ok(RejectReason::StaleCookie),
        4 => Ok(RejectReason::Parameters),
        5 => Ok(RejectReason::Refused),
        other => bad("reject reason", u32::from(other)),
    }
}
