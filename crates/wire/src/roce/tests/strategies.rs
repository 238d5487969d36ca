//! Proptest strategies for every RoCEv2 packet value and for the headers around it.

use proptest::prelude::*;

use crate::roce::*;
use crate::{Msn, Psn, Qpn};

fn bth() -> impl Strategy<Value = Bth> {
    let flags = any::<[bool; 5]>();
    (any::<u32>(), any::<u32>(), any::<u16>(), flags).prop_map(|(qpn, psn, p_key, flags)| {
        let [solicited, migrated, fecn, becn, ack_request] = flags;
        let (destination, psn) = (Qpn::new(qpn), Psn::new(psn));
        Bth { destination, psn, p_key, solicited, migrated, fecn, becn, ack_request }
    })
}

fn reth() -> impl Strategy<Value = Reth> {
    (any::<u64>(), any::<u32>(), any::<u32>()).prop_map(|(address, r_key, length)| Reth {
        address,
        r_key,
        length,
    })
}

fn aeth() -> impl Strategy<Value = Aeth> {
    let syndromes: std::vec::Vec<Syndrome> = (0..=127).filter_map(Syndrome::from_byte).collect();
    (proptest::sample::select(syndromes), any::<u32>())
        .prop_map(|(syndrome, msn)| Aeth { syndrome, msn: Msn::new(msn) })
}

fn atomic() -> impl Strategy<Value = AtomicEth> {
    (any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(
        |(address, r_key, swap_or_add, compare)| AtomicEth { address, r_key, swap_or_add, compare },
    )
}

fn service() -> impl Strategy<Value = Service> {
    prop_oneof![Just(Service::Rc), Just(Service::Uc)]
}

fn tail() -> impl Strategy<Value = Tail> {
    prop_oneof![Just(Tail::Nothing), any::<u32>().prop_map(Tail::Immediate)]
}

fn send() -> impl Strategy<Value = Operation> {
    let fragment = prop_oneof![
        Just(SendFragment::First),
        Just(SendFragment::Middle),
        tail().prop_map(SendFragment::Last),
        tail().prop_map(SendFragment::Only),
    ];
    let invalidate = (any::<bool>(), any::<u32>()).prop_map(|(last, key)| {
        let tail = Tail::Invalidate(key);
        let fragment = if last { SendFragment::Last(tail) } else { SendFragment::Only(tail) };
        Operation::Send { service: Service::Rc, fragment }
    });
    let both =
        (service(), fragment).prop_map(|(service, fragment)| Operation::Send { service, fragment });
    prop_oneof![3 => both, 1 => invalidate]
}

fn write() -> impl Strategy<Value = Operation> {
    let fragment = prop_oneof![
        reth().prop_map(WriteFragment::First),
        Just(WriteFragment::Middle),
        any::<Option<u32>>().prop_map(WriteFragment::Last),
        (reth(), any::<Option<u32>>()).prop_map(|(reth, imm)| WriteFragment::Only(reth, imm)),
    ];
    (service(), fragment).prop_map(|(service, fragment)| Operation::Write { service, fragment })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        send(),
        write(),
        reth().prop_map(Operation::ReadRequest),
        prop_oneof![
            aeth().prop_map(ReadFragment::First),
            Just(ReadFragment::Middle),
            aeth().prop_map(ReadFragment::Last),
            aeth().prop_map(ReadFragment::Only),
        ]
        .prop_map(Operation::ReadResponse),
        aeth().prop_map(Operation::Acknowledge),
        (aeth(), any::<u64>())
            .prop_map(|(aeth, original)| Operation::AtomicAcknowledge { aeth, original }),
        atomic().prop_map(Operation::CompareSwap),
        atomic().prop_map(Operation::FetchAdd),
        (any::<u32>(), any::<u32>(), any::<Option<u32>>()).prop_map(
            |(q_key, source, immediate)| {
                Operation::Datagram { deth: Deth { q_key, source: Qpn::new(source) }, immediate }
            }
        ),
        Just(Operation::Cnp),
    ]
}

pub fn packet() -> impl Strategy<Value = Packet> {
    (bth(), operation()).prop_map(|(bth, operation)| Packet { bth, operation })
}

pub fn outer() -> impl Strategy<Value = Outer> {
    let v4 = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<bool>()).prop_map(
        |(source, destination, identification, whole)| Network::V4 {
            source,
            destination,
            identification,
            fragment: if whole { 0x4000 } else { 0 },
        },
    );
    let v6 = (any::<[u8; 16]>(), any::<[u8; 16]>())
        .prop_map(|(source, destination)| Network::V6 { source, destination });
    (prop_oneof![v4, v6], any::<u16>(), any::<u16>()).prop_map(
        |(network, source_port, destination_port)| Outer { network, source_port, destination_port },
    )
}
