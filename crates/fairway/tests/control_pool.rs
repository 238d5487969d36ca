//! A pool of control threads: channels are steered to them, all bytes arrive, all threads end.

mod common;

use std::time::Instant;

use common::{TIMEOUT, builder, content};
use fairway::{Event, JettyOptions, Memory, Rights};

const THREADS: u32 = 4;
const FLOWS: usize = 64;
const SIZE: usize = 40_009;

/// Number of control threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("fairway-ctl")).count()
}

/// The only test of this file, because it counts threads of the process.
#[test]
fn pool_of_four_threads_carries_sixty_four_channels_and_ends() {
    // With several engines a connection has several channels, and a context has 64 at most.
    let both = || builder().engines(1).policy_named("cc=swift").control_threads(THREADS);
    let (server, client) = (both().build().unwrap(), both().build().unwrap());
    #[cfg(target_os = "linux")]
    let begun = Instant::now();
    #[cfg(target_os = "linux")]
    while threads() < 2 * THREADS as usize {
        assert!(begun.elapsed() < TIMEOUT, "{} threads", threads());
    }
    let mut flows = Vec::new();
    for number in 0..FLOWS {
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        let Event::Connected(_) = common::event_of_peer(&server) else { panic!("no connection") };
        let jetty = client.create_jetty(JettyOptions::default()).unwrap();
        let from = Memory::from_vec(common::bytes(SIZE, number as u64));
        let from = client.register(from, Rights::READ_WRITE).unwrap();
        let to = server.register(Memory::zeroed(SIZE).unwrap(), Rights::READ_WRITE).unwrap();
        flows.push((peer, jetty, from, to));
    }
    for round in 0..3 {
        for (peer, jetty, from, to) in &flows {
            jetty.write(peer, from, to.key(), round).unwrap();
        }
        for (_, jetty, _, _) in &flows {
            let completion = jetty.wait(TIMEOUT).unwrap();
            assert_eq!(completion.status, fairway::Status::Success, "{completion:?}");
        }
    }
    for (number, (_, _, from, to)) in flows.iter().enumerate() {
        assert!(content(from) == content(to), "flow {number} wrote its bytes");
    }
    let begun = Instant::now();
    loop {
        // Acknowledged bytes of all channels reach the controllers of all threads.
        let stats = client.congestion_stats().unwrap();
        if stats.bytes >= (3 * FLOWS * SIZE) as u64 {
            assert!(stats.collected >= stats.handled, "{stats:?}");
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{stats:?}");
    }
    assert!(builder().control_threads(65).build().is_err(), "at most 64 threads");
    drop((flows, client, server));
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 0, "control threads that outlive their contexts");
}
