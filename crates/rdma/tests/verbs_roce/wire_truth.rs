//! Packets on the wire conform to what others expect: every ICRC is right for the real IP headers,
//! and another program's dissector decodes every packet.

use crate::namespaces::{Namespaces, Sniffer, capture_file};
use crate::node::{Node, Pair, Q_KEY, content, options, patient};
use fairway_rdma::{ProviderOptions, ROCE_PORT};
use fairway_roce::{Transport, Work};
use fairway_ub::wire::roce::{self, Icrc, Network, Operation, Outer, Tail};
use std::collections::BTreeMap;
use std::process::Command;

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// Statistics of one capture.
#[derive(Default)]
struct Seen {
    frames: Vec<Vec<u8>>,
    /// Packets with an identification that is not 0: those that the kernel has cut from a train.
    numbered: usize,
    kinds: BTreeMap<&'static str, usize>,
}

/// Creates nodes in two namespaces, and a connection between them.
fn pair(
    spaces: &Namespaces,
    transport: Transport,
    make: impl Fn(usize) -> ProviderOptions + Sync,
) -> Pair {
    let nodes = [0, 1].map(|n: usize| spaces.inside(n, || Node::new(&make(n))));
    let pairs = [0, 1].map(|n: usize| nodes[n].queue_pair(transport));
    for n in 0..2 {
        spaces.inside(n, || {
            let peer = nodes[n].peer(nodes[1 - n].provider.gids()[0], pairs[1 - n]);
            nodes[n].connect(pairs[n], peer, patient());
        });
    }
    Pair { nodes, pairs }
}

fn traffic(spaces: &Namespaces, make: impl Fn(usize) -> ProviderOptions + Sync) {
    let connected = pair(spaces, Transport::Rc, &make);
    let [here, there] = &connected.nodes;
    let bytes = content(1, 50_001);
    here.memory.write(0, &bytes);
    let post = |id, work, local| connected.post(0, id, work, local);
    post(1, Work::Write { remote: there.remote(0), immediate: None }, here.local(0, 50_001));
    here.sent(1);
    assert_eq!(there.memory.read(0, 50_001), bytes);
    post(2, Work::Read { remote: there.remote(0) }, here.local(100_000, 50_001));
    here.sent(2);
    assert_eq!(here.memory.read(100_000, 50_001), bytes);
    there.receive(connected.pairs[1], 3, 0, 9000);
    post(3, SEND, here.local(0, 8999));
    here.sent(3);
    post(4, Work::FetchAdd { remote: there.remote(64), add: 1 }, here.local(64, 8));
    here.sent(4);
    let remote = there.remote(72);
    post(5, Work::CompareSwap { remote, compare: 0, swap: 9 }, here.local(64, 8));
    here.sent(5);

    drop(connected);
    let unreliable = pair(spaces, Transport::Uc, &make);
    let [here, there] = &unreliable.nodes;
    there.receive(unreliable.pairs[1], 1, 0, 9000);
    unreliable.post(0, 1, SEND, here.local(0, 8999));
    there.received(1);

    drop(unreliable);
    let datagrams = pair(spaces, Transport::Ud, &make);
    let [here, there] = &datagrams.nodes;
    there.receive(datagrams.pairs[1], 1, 0, 1040);
    let gid = there.provider.gids()[0];
    let to = spaces.inside(0, || here.peer(gid, datagrams.pairs[1]));
    let work = Work::Datagram { to, q_key: Q_KEY, immediate: Some(7) };
    datagrams.post(0, 1, work, here.local(0, 999));
    there.received(1);
    spaces.inside(0, || here.provider.send_management(to.address, &[5; 256]).unwrap());
    there.recorder.until(|calls| calls.management.pop());
}

/// Checks every frame.
fn inspect(frames: Vec<Vec<u8>>) -> Seen {
    let mut seen = Seen::default();
    for frame in frames {
        let Ok(enclosed) = Outer::parse(&frame[14..]) else { continue };
        if enclosed.outer.destination_port != ROCE_PORT {
            continue;
        }
        let datagram = enclosed.datagram;
        assert!(datagram.len() < 1500, "a train that was not cut: {} bytes", datagram.len());
        assert!(Icrc::verify(&enclosed.outer, datagram), "a wrong ICRC: {:?}", enclosed.outer);
        if let Network::V4 { identification, .. } = enclosed.outer.network {
            seen.numbered += usize::from(identification != 0);
        }
        let packet = roce::decode(datagram, datagram.len()).unwrap().packet;
        *seen.kinds.entry(kind(&packet.operation)).or_default() += 1;
        seen.frames.push(frame);
    }
    seen
}

fn kind(operation: &Operation) -> &'static str {
    match operation {
        Operation::Send { service: roce::Service::Uc, .. } => "SEND over UC",
        Operation::Send { .. } => "SEND",
        Operation::Write { .. } => "WRITE",
        Operation::ReadRequest(_) => "READ request",
        Operation::ReadResponse(_) => "READ response",
        Operation::Acknowledge(_) => "ACK",
        Operation::AtomicAcknowledge { .. } => "atomic ACK",
        Operation::CompareSwap(_) => "CAS",
        Operation::FetchAdd(_) => "FADD",
        Operation::Datagram { .. } => "UD",
        Operation::Cnp => "CNP",
    }
}

/// Checks a capture with another program, which must find an opcode in every packet, and nothing
/// malformed.
fn dissect(label: &str, seen: &Seen) -> bool {
    let path = std::env::temp_dir().join(format!("fairway-{label}-{}.pcap", std::process::id()));
    std::fs::write(&path, capture_file(&seen.frames)).unwrap();
    let fields = ["-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed"];
    let output = Command::new("tshark").arg("-r").arg(&path).args(fields).output();
    std::fs::remove_file(&path).unwrap();
    let Ok(output) = output.ok().filter(|output| output.status.success()).ok_or(()) else {
        return false;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), seen.frames.len());
    for line in lines {
        assert!(line.trim().parse::<u8>().is_ok(), "no opcode, or malformed: {line:?}");
    }
    true
}

fn captured(label: &str, make: impl Fn(usize) -> ProviderOptions + Sync) -> Option<Seen> {
    let Some(spaces) = Namespaces::new(label) else {
        crate::superuser::skip("hosts in network namespaces");
        return None;
    };
    if !spaces.cut_trains() {
        println!("SKIPPED: a virtual interface that cuts trains needs the ethtool tool");
        return None;
    }
    let sniffer = spaces.inside(1, Sniffer::new);
    traffic(&spaces, make);
    let seen = inspect(sniffer.frames());
    println!("{label}: {:?}, {} of them numbered", seen.kinds, seen.numbered);
    assert_eq!(seen.kinds.len(), 10, "of every kind but CNP: {:?}", seen.kinds);
    if !dissect(label, &seen) {
        println!("SKIPPED: the dissector needs the tshark tool");
    }
    Some(seen)
}

#[test]
fn every_icrc_is_right_over_ipv4_when_the_kernel_cuts_trains() {
    let seen = captured("cut", |n| options(&format!("10.77.0.{}", n + 1)));
    assert!(seen.is_none_or(|seen| seen.numbered > 50), "trains were cut");
}

#[test]
fn every_icrc_is_right_over_ipv4_packet_by_packet() {
    let make =
        |n| ProviderOptions { segmentation: false, ..options(&format!("10.77.0.{}", n + 1)) };
    let seen = captured("one", make);
    assert!(seen.is_none_or(|seen| seen.numbered == 0), "nothing was cut");
}

#[test]
fn every_icrc_is_right_over_ipv6() {
    captured("six", |n| options(&format!("fd77::{}", n + 1)));
}
