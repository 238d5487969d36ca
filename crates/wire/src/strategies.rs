//! Every value the codec can carry, for property tests.

use proptest::prelude::*;
use std::vec::Vec;

use crate::*;

pub fn route() -> impl Strategy<Value = Route> {
    (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u8>()).prop_map(
        |(source, destination, source_tpn, destination_tpn, path)| Route {
            source: Cna::new(source),
            destination: Cna::new(destination),
            source_tpn: Tpn::new(source_tpn),
            destination_tpn: Tpn::new(destination_tpn),
            path,
        },
    )
}

fn psn() -> impl Strategy<Value = Psn> {
    any::<u32>().prop_map(Psn::new)
}

fn msn() -> impl Strategy<Value = Msn> {
    any::<u32>().prop_map(Msn::new)
}

fn jetty() -> impl Strategy<Value = JettyId> {
    any::<u32>().prop_map(JettyId::new)
}

fn access() -> impl Strategy<Value = Access> {
    (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
        |(address, length, token_id, token_value)| Access {
            address,
            length,
            token_id: TokenId::new(token_id),
            token_value,
        },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        access().prop_map(|access| Operation::Write { access }),
        access().prop_map(|access| Operation::Read { access }),
        (access(), jetty(), any::<u64>()).prop_map(|(access, target, immediate)| {
            Operation::WriteImmediate { access, target, immediate }
        }),
        (jetty(), any::<u32>()).prop_map(|(target, length)| Operation::Send { target, length }),
        (jetty(), any::<u32>(), any::<u64>()).prop_map(|(target, length, immediate)| {
            Operation::SendImmediate { target, length, immediate }
        }),
        Just(Operation::Learned),
        Just(Operation::ReadResponse),
    ]
}

pub fn data() -> impl Strategy<Value = Data> {
    let numbers = (psn(), msn(), any::<u32>(), jetty(), any::<u16>(), any::<u8>());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (numbers, flags, operation()).prop_map(|(numbers, flags, operation)| Data {
        psn: numbers.0,
        message: numbers.1,
        index: numbers.2,
        jetty: numbers.3,
        transaction: numbers.4,
        slot: numbers.5,
        ack_request: flags.0,
        retry: flags.1,
        last: flags.2,
        operation,
    })
}

/// An acknowledgement; its `sack` is empty unless it is selective.
pub fn ack() -> impl Strategy<Value = Ack> {
    let numbers = (psn(), psn(), msn(), any::<u16>(), any::<u16>());
    let bytes = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u8>());
    let sack = (psn(), psn(), any::<[u32; 8]>());
    (numbers, bytes, sack).prop_map(|(numbers, bytes, sack)| {
        let flags = AckFlags::from_bits(bytes.3);
        let (base, highest, bitmap) = sack;
        let selective = flags.contains(AckFlags::SELECTIVE);
        Ack {
            cumulative: numbers.0,
            echo: numbers.1,
            learned: numbers.2,
            echo_delay: numbers.3,
            window: numbers.4,
            marks: bytes.0,
            duplicates: bytes.1,
            hint: bytes.2,
            flags,
            sack: if selective { Sack { base, highest, bitmap } } else { Sack::default() },
        }
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        Just(Refusal::ReceiverNotReady),
        Just(Refusal::Access),
        Just(Refusal::Rights),
        Just(Refusal::NoJetty),
        Just(Refusal::Length),
        Just(Refusal::Operation),
    ]
}

pub fn packet() -> impl Strategy<Value = Packet> {
    let nak = (psn(), msn(), refusal(), any::<u16>()).prop_map(
        |(psn, message, reason, retry_after_us)| {
            Packet::Nak(Nak { psn, message, reason, retry_after_us })
        },
    );
    let void = (psn(), msn(), any::<bool>())
        .prop_map(|(psn, message, ack_request)| Packet::Void(Void { psn, message, ack_request }));
    prop_oneof![
        4 => data().prop_map(Packet::Data),
        3 => ack().prop_map(Packet::Ack),
        1 => nak,
        1 => void,
        1 => any::<bool>().prop_map(|answer| Packet::Close(Close { answer })),
    ]
}

fn versions() -> impl Strategy<Value = Versions> {
    (1..=255u8, 1..=255u8)
        .prop_map(|(a, b)| Versions::new(a.min(b), a.max(b)).expect("an ordered pair"))
}

pub fn parameters() -> impl Strategy<Value = Parameters> {
    let slots = (0..=SLOTS_MAX, 0..=SLOTS_MAX);
    let rest = (any::<u16>(), any::<u32>());
    (1..=u16::MAX, 1..=PATHS_MAX, 1..=u16::MAX, slots, rest).prop_map(
        |(mtu_bytes, paths, window_packets, slots, rest)| Parameters {
            mtu_bytes,
            paths,
            window_packets,
            message_slots: slots.0,
            read_slots: slots.1,
            keep_alive_ms: rest.0,
            capabilities: rest.1,
        },
    )
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let ports = proptest::collection::vec(1..=u16::MAX, 1..=PORTS_MAX);
    (any::<u32>(), psn(), ports).prop_map(|(tpn, initial_psn, ports): (_, _, Vec<u16>)| Endpoint {
        tpn: Tpn::new(tpn),
        initial_psn,
        ports: Ports::new(&ports).expect("a legal list"),
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    (versions(), any::<u64>(), endpoint(), parameters())
        .prop_map(|(versions, nonce, client, wish)| Hello { versions, nonce, client, wish })
}

fn reject_reason() -> impl Strategy<Value = RejectReason> {
    prop_oneof![
        Just(RejectReason::Version),
        Just(RejectReason::NoResources),
        Just(RejectReason::StaleCookie),
        Just(RejectReason::Parameters),
        Just(RejectReason::Refused),
    ]
}

pub fn setup() -> impl Strategy<Value = Setup> {
    let version = PROTOCOL_VERSION;
    let welcome = (any::<u64>(), any::<[u8; 16]>(), endpoint(), parameters()).prop_map(
        move |(nonce, cookie, server, offer)| {
            SetupMessage::Welcome(Welcome { version, nonce, cookie, server, offer })
        },
    );
    let confirm = (hello(), any::<[u8; 16]>(), any::<u32>(), parameters()).prop_map(
        move |(hello, cookie, tpn, agreed)| {
            let server_tpn = Tpn::new(tpn);
            SetupMessage::Confirm(Confirm { hello, version, cookie, server_tpn, agreed })
        },
    );
    let accept =
        (any::<u64>(), endpoint(), parameters()).prop_map(move |(nonce, server, agreed)| {
            SetupMessage::Accept(Accept { version, nonce, server, agreed })
        });
    let reject =
        (versions(), any::<u64>(), reject_reason()).prop_map(|(versions, nonce, reason)| {
            SetupMessage::Reject(Reject { versions, nonce, reason })
        });
    let message =
        prop_oneof![hello().prop_map(SetupMessage::Hello), welcome, confirm, accept, reject];
    (any::<u32>(), any::<u32>(), message).prop_map(|(source, destination, message)| Setup {
        source: Cna::new(source),
        destination: Cna::new(destination),
        message,
    })
}
