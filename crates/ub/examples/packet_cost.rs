//! Cost of the protocol per data packet: two NICs in one thread, no bytes, no network.
//!
//! Each round moves a batch of packets from one NIC to the other and the acknowledgements back.
//! The two sides are timed separately, and so is the codec, through which all packets go; the
//! budget in the design is for the receiver.
//!
//! `packet_cost CASE PACKETS` runs one case, by its number, once, for tools that count
//! instructions.

use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{
    Cna, Decoded, Duration, Ecn, Instant, JettyId, MAX_HEADER, Msn, Psn, decode, encode,
};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionQueueId, JettyConfig, Limits, LocalRange, OrderRequest,
    Profile, Received, RemoteRange, Rights, SegmentId, SegmentRequest, Transmit, UbDevice, Verdict,
    Work, WorkRequest,
};

const BATCH: usize = 15;

/// Name, bytes of an operation, paths.
const CASES: [(&str, u32, u32); 3] = [
    ("WRITE 1 MiB, 4096-byte packets, 16 paths", 1 << 20, 16),
    ("WRITE 1 MiB, 4096-byte packets, 1 path", 1 << 20, 1),
    ("WRITE 64 B, one packet each", 64, 16),
];

struct Side {
    nic: UbDevice,
    channel: ChannelId,
    jetty: JettyId,
    queue: CompletionQueueId,
    segment: SegmentId,
}

fn sides(mtu: u32, paths: u32) -> [Side; 2] {
    let limits = Limits::default();
    let now = Instant::ZERO;
    let mut nics =
        [1, 2].map(|n| UbDevice::new(Cna::new(n), &limits, &Profile::default(), u64::from(n)));
    let channels = [0, 1].map(|n: usize| nics[n].reserve_channel().expect("a channel"));
    let mut number = 0;
    nics.map(|mut nic| {
        let me = number;
        number += 1;
        let config = ChannelConfig {
            leader: None,
            engine: 0,
            remote: Cna::new(2 - me as u32),
            remote_tpn: channels[1 - me].tpn(),
            first_psn: Psn::new(0),
            remote_first_psn: Psn::new(0),
            first_message: Msn::new(0),
            unreliable: true,
            bypass: true,
            parts: true,
            retires: true,
            carried_acks: true,
            mtu,
            paths,
            remote_window: limits.receive_window(),
            remote_message_slots: 64,
            remote_read_slots: 64,
            policy: PolicySpec::default().build(mtu),
        };
        nic.open_channel(now, channels[me], config).expect("it opens");
        let queue = nic.create_completion_queue(4096).expect("a queue");
        let jetty = nic.create_jetty(&JettyConfig::new(queue, queue)).expect("a Jetty");
        let segment = nic
            .register(&SegmentRequest {
                address: 0,
                length: 1 << 30,
                rights: Rights::READ_WRITE,
                token_value: 1,
            })
            .expect("a segment");
        Side { nic, channel: channels[me], jetty, queue, segment }
    })
}

/// Nanoseconds per data packet.
struct Cost {
    sender: f64,
    receiver: f64,
    codec: f64,
}

fn measure(size: u32, paths: u32, packets: u64) -> Cost {
    let [mut a, mut b] = sides(4096, paths);
    let remote = RemoteRange { token_id: b.segment.token_id(), token_value: 1, address: 0 };
    let local = LocalRange { segment: a.segment, offset: 0, length: size };
    let request = WorkRequest {
        id: 0,
        channel: a.channel,
        work: Work::Write { remote },
        local,
        signaled: true,
        order: OrderRequest::default(),
    };
    let mut sent: Vec<Transmit> = Vec::with_capacity(BATCH);
    let mut arriving: Vec<Received> = Vec::with_capacity(BATCH);
    let mut now = Instant::ZERO;
    let (mut sender, mut receiver, mut codec, mut moved) = (0, 0, 0, 0);
    while moved < packets {
        now = now + Duration::from_us(2);
        let start = std::time::Instant::now();
        while a.nic.poll_completion(a.queue).is_some() {}
        for _ in 0..BATCH {
            if a.nic.post(now, a.jetty, &request).is_err() {
                break;
            }
        }
        while sent.len() < BATCH {
            let Some(transmit) = a.nic.poll_transmit(now) else { break };
            sent.push(transmit);
        }
        sender += start.elapsed().as_nanos();
        moved += sent.len() as u64;
        codec += carry(&mut sent, &mut arriving);
        now = now + Duration::from_us(2);
        let start = std::time::Instant::now();
        arriving.drain(..).for_each(|received| deliver(&mut b.nic, now, &received));
        while let Some(transmit) = b.nic.poll_transmit(now) {
            sent.push(transmit);
        }
        receiver += start.elapsed().as_nanos();
        codec += carry(&mut sent, &mut arriving);
        let start = std::time::Instant::now();
        arriving.drain(..).for_each(|received| deliver(&mut a.nic, now, &received));
        sender += start.elapsed().as_nanos();
    }
    let [sender, receiver, codec] = [sender, receiver, codec].map(|ns| ns as f64 / moved as f64);
    Cost { sender, receiver, codec }
}

/// Encodes and decodes the packets that were sent. Returns the nanoseconds that it took.
fn carry(sent: &mut Vec<Transmit>, arriving: &mut Vec<Received>) -> u128 {
    let start = std::time::Instant::now();
    for transmit in sent.drain(..) {
        let payload = transmit.gather.length;
        let mut bytes = [0; MAX_HEADER];
        let length = encode(&transmit.route, &transmit.packet, payload as usize, &mut bytes);
        let datagram = length + payload as usize;
        let decoded = decode(std::hint::black_box(&bytes), datagram).expect("a packet");
        let Decoded::Packet { route, packet, .. } = decoded else { panic!("a set-up message") };
        arriving.push(Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 });
    }
    start.elapsed().as_nanos()
}

fn deliver(nic: &mut UbDevice, now: Instant, received: &Received) {
    if let Verdict::Place(placement) = nic.handle_packet(now, received) {
        nic.handle_placed(now, placement.token, 0);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [case, packets] = &arguments[..] {
        let case: usize = case.parse().expect("the number of a case");
        let (_, size, paths) = CASES[case];
        measure(size, paths, packets.parse().expect("a number of packets"));
        return;
    }
    let heads = ["engine, ns per data packet", "sender", "receiver", "codec"];
    println!("{:<44} {:>10} {:>10} {:>10}", heads[0], heads[1], heads[2], heads[3]);
    for (name, size, paths) in CASES {
        measure(size, paths, 100_000);
        let mut runs: Vec<Cost> = (0..5).map(|_| measure(size, paths, 400_000)).collect();
        runs.sort_by(|x, y| x.receiver.total_cmp(&y.receiver));
        let Cost { sender, receiver, codec } = runs[2];
        println!("{name:<44} {sender:>10.1} {receiver:>10.1} {codec:>10.1}");
    }
}
