//! Packets of the peer that no `RoceDevice` has sent. All are legal: the decoder accepts each of
//! them.

use fairway_roce::{Received, Transport};
use fairway_ub::wire::roce::{
    Aeth, AtomicEth, Bth, Credits, Deth, MAX_HEADER, NakCode, Operation, Packet, ReadFragment,
    Reth, RnrTimer, SendFragment, Service, Syndrome, Tail, WriteFragment, datagram_len, decode,
    encode,
};
use fairway_ub::wire::{Ecn, Msn, Psn, Qpn};

use super::side::{BASE, MTU, Q_KEY};
use super::{HERE, PEER, Pair};
use crate::script::Script;

/// Changes some header bytes of a packet; `None` if the result is not a packet.
pub(super) fn change(received: &Received, script: &mut Script<'_>) -> Option<Received> {
    let mut bytes = [0; MAX_HEADER];
    let payload = received.payload as usize;
    let length = encode(&received.packet, payload, &mut bytes);
    for _ in 0..=script.below(4) {
        let at = usize::from(script.byte());
        if at < length {
            bytes[at] ^= script.byte();
        }
    }
    decoded(&bytes[..length], datagram_len(&received.packet, payload))
}

fn decoded(header: &[u8], datagram_len: usize) -> Option<Received> {
    let decoded = decode(header, datagram_len).ok()?;
    let payload = decoded.payload_len as u32;
    Some(Received { source: 1, packet: decoded.packet, payload, ecn: Ecn::Congested })
}

/// Returns a packet of any kind that the transport supports, and sometimes of another kind.
pub(super) fn any(pair: &mut Pair<'_>) -> Option<Received> {
    let here = &pair.sides[HERE];
    let (destination, keys) = (here.pair, here.keys);
    let service = match here.transport {
        Transport::Rc => Service::Rc,
        Transport::Uc | Transport::Ud => Service::Uc,
    };
    let is_datagram = here.transport == Transport::Ud;
    let last_psn = pair.last_psn;
    let script = &mut pair.script;
    let code = script.byte();
    let operation = if is_datagram && code & 15 != 15 {
        let deth = Deth { q_key: Q_KEY, source: Qpn::new(2) };
        Operation::Datagram { deth, immediate: (code & 16 != 0).then_some(1) }
    } else {
        operation(code, service, &keys, script)
    };
    // Responses have the sequence numbers of their requests.
    let base = if operation.is_response() { last_psn[HERE] } else { last_psn[PEER] };
    let flags = script.byte();
    let bth = Bth {
        destination,
        psn: near(script, base),
        solicited: flags & 1 != 0,
        fecn: flags & 2 != 0,
        becn: flags & 4 != 0,
        ack_request: flags & 8 != 0,
        ..Bth::default()
    };
    let payload = if operation.carries_payload() {
        script.pick(&[MTU, 8, 0, MTU, 5, MTU - 1, 2 * MTU])
    } else {
        0
    };
    let packet = Packet { bth, operation };
    let mut bytes = [0; MAX_HEADER];
    let length = encode(&packet, payload as usize, &mut bytes);
    decoded(&bytes[..length], datagram_len(&packet, payload as usize))
}

fn near(script: &mut Script<'_>, psn: Psn) -> Psn {
    match script.byte() {
        byte @ 0..=127 => psn.plus(u32::from(byte & 15)),
        byte @ 128..=223 => psn.minus(u32::from(byte & 15)),
        _ => psn.plus(script.number()),
    }
}

fn operation(code: u8, service: Service, keys: &[u32; 4], script: &mut Script<'_>) -> Operation {
    let immediate = (code & 16 != 0).then_some(1);
    let is_reliable = service == Service::Rc;
    let tail = match code >> 6 {
        0 | 1 => Tail::Nothing,
        2 => Tail::Immediate(1),
        _ if is_reliable => Tail::Invalidate(keys[script.below(3) as usize]),
        _ => Tail::Nothing,
    };
    let send = |fragment| Operation::Send { service, fragment };
    let write = |fragment| Operation::Write { service, fragment };
    match code & 15 {
        0 => send(SendFragment::First),
        1 => send(SendFragment::Middle),
        2 => send(SendFragment::Last(tail)),
        3 => send(SendFragment::Only(tail)),
        4 => write(WriteFragment::First(reth(keys, script))),
        5 => write(WriteFragment::Middle),
        6 => write(WriteFragment::Last(immediate)),
        7 => write(WriteFragment::Only(reth(keys, script), immediate)),
        8 => Operation::ReadRequest(reth(keys, script)),
        9 => Operation::ReadResponse(match code >> 4 & 3 {
            0 => ReadFragment::First(aeth(script)),
            1 => ReadFragment::Middle,
            2 => ReadFragment::Last(aeth(script)),
            _ => ReadFragment::Only(aeth(script)),
        }),
        10 | 11 => Operation::Acknowledge(aeth(script)),
        12 => Operation::AtomicAcknowledge { aeth: aeth(script), original: script.long() },
        13 => Operation::FetchAdd(atomic(keys, script)),
        14 => Operation::CompareSwap(atomic(keys, script)),
        _ => Operation::Cnp,
    }
}

fn place(keys: &[u32; 4], script: &mut Script<'_>) -> (u64, u32) {
    let code = script.byte();
    let r_key = match code & 7 {
        0 => script.number(),
        1 => keys[1],
        2 => keys[2],
        3 => keys[0] ^ 1,
        _ => keys[0],
    };
    let offset = match code >> 3 & 3 {
        0 | 1 => u64::from(script.byte()) * 8,
        2 => 2048 - u64::from(script.byte()),
        _ => script.long(),
    };
    (BASE.wrapping_add(offset), r_key)
}

fn reth(keys: &[u32; 4], script: &mut Script<'_>) -> Reth {
    let (address, r_key) = place(keys, script);
    let length = match script.byte() {
        255 => script.number(),
        code => [MTU, 8, 3 * MTU, 0, MTU + 5, 2 * MTU][usize::from(code) % 6],
    };
    Reth { address, r_key, length }
}

fn atomic(keys: &[u32; 4], script: &mut Script<'_>) -> AtomicEth {
    let (address, r_key) = place(keys, script);
    AtomicEth { address, r_key, swap_or_add: 1, compare: 0 }
}

fn aeth(script: &mut Script<'_>) -> Aeth {
    let code = script.byte();
    let syndrome = match code & 7 {
        0..=3 => Syndrome::Ack(Credits::from_code(code >> 3)),
        4 | 5 => Syndrome::RnrNak(RnrTimer::from_code(code >> 3)),
        6 => Syndrome::Nak(NakCode::PsnSequence),
        _ => Syndrome::Nak(
            [NakCode::InvalidRequest, NakCode::RemoteAccess, NakCode::RemoteOperational]
                [usize::from(code >> 3) % 3],
        ),
    };
    Aeth { syndrome, msn: Msn::new(script.number()) }
}
