//! A scheduler divides a device among its queue pairs by the weights of their service levels.

use crate::node::{Node, content, own_options, patient};
use fairway_rdma::ProviderOptions;
use fairway_roce::{Completion, Status, Transport, Work};
use std::time::{Duration, Instant};

/// Weights of the service levels of both queue pairs, and lengths of their messages.
const WEIGHTS: [u64; 2] = [1, 3];
const LENGTHS: [u32; 2] = [4096, 65_536];
/// Messages that each queue pair has posted.
const DEPTH: u32 = 8;
const TIME: Duration = Duration::from_millis(500);

/// Bytes that two queue pairs WRITE or READ in a time, with a scheduler at the sender of the data
/// whose line of 80 Mb/s is much less than the host's own rate.
fn bytes(reads: bool) -> [u64; 2] {
    let plain = own_options();
    let scheduled = ProviderOptions {
        policy: Some("sched=static:line=80Mbps".to_owned()),
        service_levels: "0=1,3=3".parse().unwrap(),
        ..plain.clone()
    };
    let options = if reads { [plain, scheduled] } else { [scheduled, plain] };
    let nodes = options.map(|options| Node::new(&options));
    let [here, there] = &nodes;
    let pairs = [0, 3].map(|level| {
        let pair = [here, there].map(|node| node.queue_pair(Transport::Rc));
        for n in 0..2 {
            let peer = nodes[n].peer(nodes[1 - n].provider.gids()[0], pair[1 - n]);
            nodes[n].connect(pair[n], peer, patient());
            nodes[n].provider.set_service_level(pair[n], level);
        }
        pair
    });
    here.memory.write(0, &content(1, LENGTHS[1] as usize));
    let post = |n: usize| {
        let remote = there.remote(0);
        let work =
            if reads { Work::Read { remote } } else { Work::Write { remote, immediate: None } };
        here.post(pairs[n][0], n as u64, work, here.local(0, LENGTHS[n]));
    };
    (0..2 * DEPTH).for_each(|count| post(count as usize % 2));
    let (mut bytes, start) = ([0; 2], Instant::now());
    let mut done = [Completion::EMPTY; 8];
    while start.elapsed() < TIME {
        let count = here.provider.poll(here.sends, &mut done);
        for completion in &done[..count] {
            assert_eq!(completion.status, Status::Success);
            let n = completion.id as usize;
            bytes[n] += u64::from(LENGTHS[n]);
            post(n);
        }
        std::thread::yield_now();
    }
    bytes
}

fn assert_shares(bytes: [u64; 2]) {
    // 10 MB/s in all, headers included, and what was posted at the start.
    assert!(bytes[0] + bytes[1] < 6_000_000, "{bytes:?}");
    assert!(bytes[0] > 200_000, "{bytes:?}");
    let ratio = bytes[1] as f64 / bytes[0] as f64 / (WEIGHTS[1] / WEIGHTS[0]) as f64;
    assert!((0.75..1.33).contains(&ratio), "{bytes:?}");
}

#[test]
fn writes_have_the_weights_of_their_service_levels() {
    assert_shares(bytes(false));
}

#[test]
fn answers_to_reads_have_the_weights_of_their_service_levels() {
    assert_shares(bytes(true));
}
