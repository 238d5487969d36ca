//! How fast it is. Nothing is asserted but the bytes: run with `--ignored --nocapture`.

use std::time::Instant;

use crate::node::{EMPTY, Node, Pair, content, options};
use fairway_softnic::engine::roce::{Reliability, Status, Transport, Work};
use fairway_softnic::engine::wire::roce::Tail;
use fairway_softnic::verbs::{CarrierKind, CarrierOptions};

const SEND: Work = Work::Send { tail: Tail::Nothing };

/// What both sides together have had of the CPU, in microseconds: on a busy machine this means more
/// than the time it took.
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum();
    ticks * 10_000.0
}

/// Polls the receiver, in a thread of its own, as a program would.
fn stream(pair: &Pair, what: &str, work: Work, length: u32, count: u64) {
    let [here, there] = &pair.nodes;
    let depth = 64;
    let receives = matches!(work, Work::Send { .. });
    let (start, cpu) = (Instant::now(), cpu_us());
    std::thread::scope(|scope| {
        if receives {
            (0..depth).for_each(|id| there.receive(pair.pairs[1], id, 0, length));
            scope.spawn(|| {
                let mut done = 0;
                let mut out = [EMPTY; 16];
                while done < count {
                    let got = there.carrier.poll(there.receives, &mut out);
                    for completion in &out[..got] {
                        assert_eq!(completion.status, Status::Success);
                        done += 1;
                        if done + depth <= count {
                            there.receive(pair.pairs[1], done, 0, length);
                        }
                    }
                }
            });
        }
        let (mut posted, mut done) = (0, 0);
        let mut out = [EMPTY; 16];
        while done < count {
            while posted < count && posted - done < depth {
                pair.post(0, posted, work, here.local(0, length));
                posted += 1;
            }
            let got = here.carrier.poll(here.sends, &mut out);
            assert!(out[..got].iter().all(|completion| completion.status == Status::Success));
            done += got as u64;
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let bytes = f64::from(length) * count as f64;
    let (rate, cpu) = (count as f64 / seconds, (cpu_us() - cpu) / count as f64);
    println!("{what:>24}: {rate:9.0}/s {:6.2} GB/s {cpu:7.2} us of CPU", bytes / seconds / 1e9);
}

fn ping(pair: &Pair, length: u32, count: u64) {
    let [here, there] = &pair.nodes;
    let start = Instant::now();
    for id in 0..count {
        for n in 0..2 {
            let (from, to) = if n == 0 { (here, there) } else { (there, here) };
            to.receive(pair.pairs[1 - n], id, 4096, length);
            from.post(pair.pairs[n], id, SEND, from.local(0, length));
            to.received(id);
            from.sent(id);
        }
    }
    let us = start.elapsed().as_secs_f64() * 1e6 / count as f64;
    println!("{:>24}: {us:6.2} us", format!("SEND {length} there and back"));
}

#[test]
#[ignore = "it measures"]
fn figures() {
    let wide = CarrierOptions { mtu: 4096, ..options("127.0.0.1") };
    let both = [wide.clone(), wide];
    let pair = Pair::with(Transport::Rc, both, 1 << 21, Reliability::default());
    let [here, there]: &[Node; 2] = &pair.nodes;
    let bytes = content(1, 1 << 20);
    here.memory.write(0, &bytes);
    println!("{:?}", CarrierKind::Fairway);
    let write = Work::Write { remote: there.remote(0), immediate: None };
    stream(&pair, "WRITE 64 KiB", write, 65_536, 10_000);
    stream(&pair, "WRITE 1 MiB", write, 1 << 20, 500);
    assert!(there.memory.read(0, 1 << 20) == bytes);
    stream(&pair, "WRITE 8", write, 8, 100_000);
    stream(&pair, "SEND 64 KiB", SEND, 65_536, 2_000);
    assert!(there.memory.read(0, 65_536) == bytes[..65_536]);
    stream(&pair, "SEND 8", SEND, 8, 50_000);
    stream(&pair, "READ 64 KiB", Work::Read { remote: there.remote(0) }, 65_536, 5_000);
    ping(&pair, 8, 5_000);
}
