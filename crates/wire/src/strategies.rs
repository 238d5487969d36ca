//! Proptest strategies for every value that the codec can carry.

use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

use crate::*;

pub fn route() -> impl Strategy<Value = Route> {
    let last = (any::<u8>(), 0..Priority::COUNT, cci());
    (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), last).prop_map(
        |(source, destination, source_tpn, destination_tpn, (path, level, cci))| Route {
            source: Cna::new(source),
            destination: Cna::new(destination),
            source_tpn: Tpn::new(source_tpn),
            destination_tpn: Tpn::new(destination_tpn),
            path,
            priority: Priority::new(level),
            cci,
        },
    )
}

fn cci() -> impl Strategy<Value = Cci> {
    any::<u16>().prop_map(Cci::from_bits)
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

fn target() -> impl Strategy<Value = Target> {
    (jetty(), any::<u32>(), any::<u8>()).prop_map(|(jetty, token_value, hint)| Target {
        jetty,
        token_value,
        hint,
    })
}

/// The operations that a data packet and a datagram may both carry.
fn message() -> impl Strategy<Value = Operation> {
    prop_oneof![
        access().prop_map(|access| Operation::Write { access }),
        (access(), target(), any::<u64>()).prop_map(|(access, target, immediate)| {
            Operation::WriteImmediate { access, target, immediate }
        }),
        (target(), any::<u32>()).prop_map(|(target, length)| Operation::Send { target, length }),
        (target(), any::<u32>(), any::<u64>()).prop_map(|(target, length, immediate)| {
            Operation::SendImmediate { target, length, immediate }
        }),
    ]
}

fn atomic() -> impl Strategy<Value = Operation> {
    let operator = proptest::sample::select(AtomicOperator::ALL.to_vec());
    (access(), any::<bool>(), operator, any::<u64>(), any::<u64>()).prop_map(
        |(access, long, operator, operand, compare)| {
            let access = Access { length: if long { 8 } else { 4 }, ..access };
            let operand = if operator == AtomicOperator::Load { 0 } else { operand };
            let compare = if operator == AtomicOperator::CompareSwap { compare } else { 0 };
            Operation::Atomic { access, operator, operand, compare }
        },
    )
}

fn put() -> impl Strategy<Value = Put> {
    let place = (any::<u64>(), any::<u64>());
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<[bool; 2]>());
    (place, counts, any::<u32>(), any::<Option<u32>>()).prop_map(|(place, counts, key, epoch)| {
        Put {
            mailbox: place.0,
            offset: place.1,
            sequence: counts.0,
            before: counts.1,
            length: counts.2,
            key,
            epoch: epoch.unwrap_or(0),
            named: epoch.is_some(),
            oldest: counts.3[0],
            follows: counts.3[1],
        }
    })
}

fn get() -> impl Strategy<Value = Get> {
    (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>(), any::<Option<u32>>()).prop_map(
        |(mailbox, offset, length, key, epoch)| {
            let named = epoch.is_some();
            Get { mailbox, offset, length, key, epoch: epoch.unwrap_or(0), named }
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    (access(), any::<u32>(), any::<u32>()).prop_map(|(access, before, whole)| Part {
        access,
        before,
        whole,
    })
}

/// The operations that may require an order.
fn request() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => message(),
        1 => access().prop_map(|access| Operation::Read { access }),
        1 => part().prop_map(Operation::WritePart),
        1 => part().prop_map(Operation::ReadPart),
        2 => atomic(),
        1 => put().prop_map(Operation::Put),
        1 => get().prop_map(Operation::Get),
        1 => Just(Operation::Abandon),
        1 => (any::<u64>(), any::<u32>())
            .prop_map(|(mailbox, sequence)| Operation::AbandonPut { mailbox, sequence }),
    ]
}

/// The operations that never require an order.
fn unordered() -> impl Strategy<Value = Operation> {
    prop_oneof![
        Just(Operation::Continuation),
        Just(Operation::ReadResponse),
        any::<u64>().prop_map(|value| Operation::AtomicResponse { value }),
        done(),
    ]
}

/// A TAACK. One that refuses its transaction reports no others.
fn done() -> impl Strategy<Value = Operation> {
    let pairs = vec(any::<(u8, u16)>(), 0..=EXECUTED_MAX);
    (proptest::option::of(refusal()), any::<u16>(), pairs).prop_map(
        |(refusal, retry_after_us, pairs)| {
            let mut others = Executed::NONE;
            for (slot, transaction) in pairs {
                assert!(refusal.is_some() || others.push(slot, transaction));
            }
            Operation::Done { refusal, retry_after_us, others }
        },
    )
}

fn order() -> impl Strategy<Value = Order> {
    let mode = prop_oneof![Just(ServiceMode::Roi), Just(ServiceMode::Rot), Just(ServiceMode::Rol)];
    let tag = prop_oneof![Just(Tag::No), Just(Tag::Ro), Just(Tag::So), Just(Tag::Mo)];
    let numbers = (any::<u16>(), any::<u16>(), any::<u8>());
    (mode, tag, any::<bool>(), numbers).prop_map(|(mode, tag, in_order, numbers)| Order {
        mode,
        tag,
        in_order,
        sequence: if tag == Tag::No { 0 } else { numbers.0 },
        receive_sequence: if in_order { numbers.1 } else { 0 },
        request_slot: if mode == ServiceMode::Rol { 0 } else { numbers.2 },
    })
}

pub fn data() -> impl Strategy<Value = Data> {
    let numbers = (psn(), msn(), any::<u32>(), jetty(), any::<u16>(), any::<u8>());
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let requested = prop_oneof![
        1 => (request(), Just(Order::NONE)),
        2 => (request(), order()),
        1 => (unordered(), Just(Order::NONE)),
    ];
    let carried = proptest::option::weighted(0.2, carried_ack());
    let all = (numbers, flags, requested, carried);
    all.prop_map(|(numbers, flags, (operation, order), carried)| Data {
        psn: numbers.0,
        message: numbers.1,
        index: numbers.2,
        jetty: numbers.3,
        transaction: numbers.4,
        slot: numbers.5,
        ack_request: flags.0,
        retry: flags.1,
        last: flags.2,
        carried,
        order,
        operation,
    })
}

fn carried_ack() -> impl Strategy<Value = CarriedAck> {
    let flags = any::<u8>().prop_map(AckFlags::from_bits);
    (psn(), flags, any::<u16>(), any::<u16>()).prop_map(|(cumulative, flags, delay, window)| {
        CarriedAck::new(cumulative, flags, delay, window)
    })
}

fn datagram() -> impl Strategy<Value = Datagram> {
    let all = (any::<u64>(), jetty(), any::<u16>(), message());
    all.prop_map(|(number, jetty, transaction, operation)| Datagram {
        number,
        jetty,
        transaction,
        operation,
    })
}

fn bypass() -> impl Strategy<Value = Bypass> {
    let access =
        || (access(), 1..=BYPASS_BYTES).prop_map(|(access, length)| Access { length, ..access });
    let refusal = || proptest::option::of(refusal());
    let operation = prop_oneof![
        access().prop_map(|access| BypassOperation::Load { access }),
        access().prop_map(|access| BypassOperation::Store { access }),
        refusal().prop_map(|refusal| BypassOperation::LoadResponse { refusal }),
        refusal().prop_map(|refusal| BypassOperation::StoreDone { refusal }),
    ];
    (any::<u32>(), any::<u32>(), jetty(), operation)
        .prop_map(|(number, oldest, jetty, operation)| Bypass { number, oldest, jetty, operation })
}

/// An acknowledgement; its `sack` is empty unless the acknowledgement is selective.
pub fn ack() -> impl Strategy<Value = Ack> {
    let numbers = (psn(), psn(), msn(), any::<u16>(), any::<u16>());
    let bytes = (any::<u8>(), any::<u8>(), cci(), any::<u8>());
    let sack = (psn(), psn(), any::<[u32; 8]>());
    (numbers, bytes, sack, path_reports()).prop_map(|(numbers, bytes, sack, paths)| {
        let flags = AckFlags::from_bits(bytes.3);
        let (base, highest, bitmap) = sack;
        let selective = flags.contains(AckFlags::SELECTIVE);
        Ack {
            cumulative: numbers.0,
            echo: numbers.1,
            start_known: numbers.2,
            echo_delay: numbers.3,
            window: numbers.4,
            marks: bytes.0,
            duplicates: bytes.1,
            cci: bytes.2,
            flags,
            sack: if selective { Sack { base, highest, bitmap } } else { Sack::default() },
            paths,
        }
    })
}

fn path_reports() -> impl Strategy<Value = PathReports> {
    let report = (-2048i16..=2047, any::<bool>(), 0..=PathReport::MARKS_MAX, any::<u16>());
    let report =
        report.prop_map(|(offset, retry, marks, delay)| PathReport { offset, retry, marks, delay });
    proptest::collection::vec(report, 0..=PATH_REPORTS_MAX).prop_map(|reports| {
        let mut all = PathReports::NONE;
        for report in reports {
            assert!(all.push(report));
        }
        all
    })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    let all = [
        Refusal::ReceiverNotReady,
        Refusal::OutOfOrder,
        Refusal::Access,
        Refusal::Rights,
        Refusal::NoJetty,
        Refusal::Length,
        Refusal::Operation,
        Refusal::Misaligned,
        Refusal::Resources,
        Refusal::NoMailbox,
        Refusal::Epoch,
    ];
    proptest::sample::select(all.to_vec())
}

pub fn packet() -> impl Strategy<Value = Packet> {
    let trimmed = any::<bool>().prop_map(|retry| Refusal::Trimmed { retry });
    let reason = prop_oneof![refusal(), trimmed];
    let nak =
        (psn(), msn(), reason, any::<u16>()).prop_map(|(psn, message, reason, retry_after_us)| {
            Packet::Nak(Nak { psn, message, reason, retry_after_us })
        });
    let void = (psn(), msn(), any::<bool>())
        .prop_map(|(psn, message, ack_request)| Packet::Void(Void { psn, message, ack_request }));
    let demand = (0..=CREDIT_MAX, any::<bool>(), any::<bool>()).prop_map(
        |(total_bytes, resend, blocked)| {
            Packet::CreditRequest(CreditRequest { total_bytes, resend, blocked })
        },
    );
    let credit =
        (0..=CREDIT_MAX, 0..Priority::CONTROL.number()).prop_map(|(total_bytes, class)| {
            Packet::Credit(Credit { total_bytes, class: Priority::of_data(class) })
        });
    let turn_ns = proptest::option::of(any::<u32>());
    let probe = (0..=Probe::NUMBER_MAX, turn_ns)
        .prop_map(|(number, turn_ns)| Packet::Probe(Probe { number, turn_ns }));
    let close =
        (psn(), any::<bool>()).prop_map(|(next, answer)| Packet::Close(Close { next, answer }));
    let retire = (any::<u32>().prop_map(Tpn::new), any::<bool>())
        .prop_map(|(channel, answer)| Packet::Retire(Retire { channel, answer }));
    prop_oneof![
        6 => data().prop_map(Packet::Data),
        1 => datagram().prop_map(Packet::Datagram),
        2 => bypass().prop_map(Packet::Bypass),
        3 => ack().prop_map(Packet::Ack),
        1 => nak,
        1 => void,
        2 => prop_oneof![close, retire],
        1 => demand,
        1 => credit,
        1 => probe,
    ]
}

fn versions() -> impl Strategy<Value = Versions> {
    (1..=255u8, 1..=255u8)
        .prop_map(|(a, b)| Versions::new(a.min(b), a.max(b)).expect("an ordered pair"))
}

pub fn parameters() -> impl Strategy<Value = Parameters> {
    let slots = (0..=SLOTS_MAX, 0..=SLOTS_MAX);
    let rest = (any::<u16>(), 1..=GROUP_MAX, any::<u16>());
    (1..=u16::MAX, 1..=PATHS_MAX, 1..=u16::MAX, slots, rest).prop_map(
        |(mtu_bytes, paths, window_packets, slots, rest)| Parameters {
            mtu_bytes,
            paths,
            window_packets,
            message_slots: slots.0,
            read_slots: slots.1,
            keep_alive_ms: rest.0,
            channels: rest.1,
            capabilities: rest.2,
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
    let joins = (any::<u32>(), 1..GROUP_MAX as u8)
        .prop_map(|(leader, number)| Joins { leader: Tpn::new(leader), number });
    (versions(), any::<u64>(), endpoint(), parameters(), proptest::option::of(joins)).prop_map(
        |(versions, nonce, client, requested, joins)| Hello {
            versions,
            nonce,
            client,
            requested,
            joins,
        },
    )
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
    let welcome =
        (any::<u64>(), any::<[u8; 16]>(), parameters()).prop_map(move |(nonce, cookie, offer)| {
            SetupMessage::Welcome(Welcome { version, nonce, cookie, offer })
        });
    let key = any::<[u8; KEY_LEN]>;
    let confirm = (hello(), any::<[u8; 16]>(), parameters(), key()).prop_map(
        move |(hello, cookie, agreed, key)| {
            SetupMessage::Confirm(Confirm { hello, version, cookie, agreed, key })
        },
    );
    let accept = (any::<u64>(), endpoint(), parameters(), key()).prop_map(
        move |(nonce, server, agreed, key)| {
            SetupMessage::Accept(Accept { version, nonce, server, agreed, key })
        },
    );
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
