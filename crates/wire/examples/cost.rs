//! Measures the cost of encoding and decoding: `cargo run --release -p fairway-wire --example
//! cost`.
//!
//! Prints, per packet kind, the median time per call over 41 rounds, and the share of it that the
//! header check takes. Sequence numbers change with every call, so that the compiler cannot compute
//! a result once and reuse it.

use std::hint::black_box;
use std::time::Instant;

use fairway_wire::{
    Access, Ack, AckFlags, Cci, Cna, Data, JettyId, MAX_HEADER, Msn, Operation, Order,
    PROTOCOL_VERSION, Packet, PathReports, Priority, Psn, Route, Sack, ServiceMode, Tag, Target,
    TokenId, Tpn, decode, encode, header_check,
};

/// Number of different packets of each kind; they fit in the first-level cache.
const PACKETS: u32 = 64;
const REPEATS: u32 = 400;
const ROUNDS: usize = 41;

fn main() {
    let access = Access {
        address: 0x7f00_0000_1000,
        length: 1 << 20,
        token_id: TokenId::new(77),
        token_value: 0xacfe,
    };
    let write = |psn| data(psn, Operation::Write { access });
    let continuation = |psn| data(psn, Operation::Continuation);
    let target = Target { jetty: JettyId::new(3), token_value: 0xacfe, hint: 0 };
    let send = |psn| data(psn, Operation::Send { target, length: 64 });
    let response = |psn| data(psn, Operation::ReadResponse);
    let ordered = |psn| {
        let sequence = psn as u16;
        ordered(write(psn), Order { mode: ServiceMode::Rot, tag: Tag::So, sequence, ..Order::NONE })
    };
    let plain = |psn| ack(psn, AckFlags::ECHO);
    let selective = |psn| ack(psn, AckFlags::ECHO.with(AckFlags::SELECTIVE));
    println!(
        "{:<16} {:>6} {:>10} {:>10} {:>10}",
        "packet", "bytes", "encode ns", "decode ns", "check ns"
    );
    report("write", &write);
    report("learned", &continuation);
    report("send", &send);
    report("read response", &response);
    report("ordered write", &ordered);
    report("ack", &plain);
    report("selective ack", &selective);
}

fn report(name: &str, make: &dyn Fn(u32) -> Packet) {
    let route = Route {
        source: Cna::new(0x11_2233),
        destination: Cna::new(0x44_5566),
        source_tpn: Tpn::new(3),
        destination_tpn: Tpn::new(9),
        path: 17,
        priority: Priority::DATA,
        cci: Default::default(),
    };
    let packets: Vec<Packet> = (0..PACKETS).map(make).collect();
    let mut bytes = [0u8; MAX_HEADER];
    let len = encode(&route, &packets[0], 0, &mut bytes);
    let encoding = median(|| {
        for packet in &packets {
            black_box(encode(&route, black_box(packet), 0, &mut bytes));
            black_box(&bytes);
        }
    });
    let datagrams: Vec<[u8; MAX_HEADER]> = packets
        .iter()
        .map(|packet| {
            let mut bytes = [0; MAX_HEADER];
            encode(&route, packet, 0, &mut bytes);
            bytes
        })
        .collect();
    let decoding = median(|| {
        for datagram in &datagrams {
            let decoded = decode(black_box(datagram), len);
            assert!(black_box(&decoded).is_ok());
        }
    });
    let checking = median(|| {
        for datagram in &datagrams {
            black_box(header_check(PROTOCOL_VERSION, black_box(&datagram[4..len]), 0));
        }
    });
    println!("{name:<16} {len:>6} {encoding:>10.1} {decoding:>10.1} {checking:>10.1}");
}

fn median(mut round: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..REPEATS {
                round();
            }
            start.elapsed().as_nanos() as f64 / f64::from(PACKETS * REPEATS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn data(psn: u32, operation: Operation) -> Packet {
    Packet::Data(Data {
        psn: Psn::new(psn),
        message: Msn::new(psn / 64),
        index: psn % 64,
        jetty: JettyId::new(5),
        transaction: psn as u16,
        slot: 1,
        ack_request: psn.is_multiple_of(16),
        retry: false,
        last: psn % 64 == 63,
        carried: None,
        order: Order::NONE,
        operation,
    })
}

fn ordered(packet: Packet, order: Order) -> Packet {
    match packet {
        Packet::Data(data) => Packet::Data(Data { order, ..data }),
        other => other,
    }
}

fn ack(psn: u32, flags: AckFlags) -> Packet {
    let bitmap = if flags.contains(AckFlags::SELECTIVE) { [psn; 8] } else { [0; 8] };
    let sack = Sack { base: Psn::new(psn), highest: Psn::new(psn), bitmap };
    Packet::Ack(Ack {
        cumulative: Psn::new(psn),
        echo: Psn::new(psn + 3),
        start_known: Msn::new(psn / 64),
        echo_delay: 5,
        window: 4096,
        marks: 0,
        duplicates: 0,
        cci: Cci::NONE,
        flags,
        sack,
        paths: PathReports::NONE,
    })
}
