//! Cost of the protocol per data packet: two NICs in one thread, no bytes, no network.
//!
//! Each round moves a batch of packets from one NIC to the other and the acknowledgements back.
//! The two sides are timed separately; the budget in the design is for the receiver.

use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{Cna, Duration, Ecn, Instant, JettyId, Msn, Psn};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionQueueId, JettyConfig, Limits, LocalRange, OrderRequest,
    Profile, Received, RemoteRange, Rights, SegmentId, SegmentRequest, Transmit, UbDevice, Verdict,
    Work, WorkRequest,
};

const BATCH: usize = 15;

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

/// Nanoseconds per data packet: sender, receiver.
fn measure(size: u32, paths: u32, packets: u64) -> (f64, f64) {
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
    let mut batch: Vec<Transmit> = Vec::with_capacity(BATCH);
    let mut now = Instant::ZERO;
    let (mut send_ns, mut receive_ns, mut moved) = (0, 0, 0);
    while moved < packets {
        now = now + Duration::from_us(2);
        let start = std::time::Instant::now();
        while a.nic.poll_completion(a.queue).is_some() {}
        for _ in 0..BATCH {
            if a.nic.post(now, a.jetty, &request).is_err() {
                break;
            }
        }
        while batch.len() < BATCH {
            let Some(transmit) = a.nic.poll_transmit(now) else { break };
            batch.push(transmit);
        }
        send_ns += start.elapsed().as_nanos();
        moved += batch.len() as u64;
        now = now + Duration::from_us(2);
        let start = std::time::Instant::now();
        for transmit in batch.drain(..) {
            deliver(&mut b.nic, now, &transmit);
        }
        while let Some(transmit) = b.nic.poll_transmit(now) {
            batch.push(transmit);
        }
        receive_ns += start.elapsed().as_nanos();
        let start = std::time::Instant::now();
        for transmit in batch.drain(..) {
            deliver(&mut a.nic, now, &transmit);
        }
        send_ns += start.elapsed().as_nanos();
    }
    (send_ns as f64 / moved as f64, receive_ns as f64 / moved as f64)
}

fn deliver(nic: &mut UbDevice, now: Instant, transmit: &Transmit) {
    let received = Received {
        route: transmit.route,
        packet: transmit.packet,
        payload: transmit.gather.length,
        ecn: Ecn::Capable,
        hops: 0,
    };
    if let Verdict::Place(placement) = nic.handle_packet(now, &received) {
        nic.handle_placed(now, placement.token, 0);
    }
}

fn main() {
    println!("{:<44} {:>10} {:>10}", "engine, ns per data packet", "sender", "receiver");
    for (name, size, paths) in [
        ("WRITE 1 MiB, 4096-byte packets, 16 paths", 1 << 20, 16),
        ("WRITE 1 MiB, 4096-byte packets, 1 path", 1 << 20, 1),
        ("WRITE 64 B, one packet each", 64, 16),
    ] {
        measure(size, paths, 100_000);
        let mut runs: Vec<(f64, f64)> = (0..5).map(|_| measure(size, paths, 400_000)).collect();
        runs.sort_by(|x, y| x.1.total_cmp(&y.1));
        println!("{name:<44} {:>10.1} {:>10.1}", runs[2].0, runs[2].1);
    }
}
