//! Payloads are copied into place in any order of arrival, by one engine and by several.

mod common;

use common::{Pair, builder, bytes};
use fairway::{Builder, NicCounters};

const SIZE: usize = 4 << 20;

/// Writes and reads in both directions, several at a time, and compares. Returns the counters of
/// the WRITEs' receiver.
fn bulk(client: Builder, server: Builder, rounds: u64) -> NicCounters {
    let pair = Pair::of(client, server);
    let (client, server) = (&pair.client, &pair.server);
    let remote = [server.open_segment(SIZE), server.open_segment(SIZE)];
    let back = client.open_segment(SIZE);
    for round in 0..rounds {
        let data = [bytes(SIZE, 2 * round), bytes(SIZE, 2 * round + 1)];
        let local = [client.filled(SIZE, 2 * round), client.filled(SIZE, 2 * round + 1)];
        for (local, remote) in local.iter().zip(&remote) {
            client.jetty.write(&client.peer, local, remote.key(), 0).unwrap();
        }
        let _ = client.succeed();
        let _ = client.succeed();
        for (remote, data) in remote.iter().zip(&data) {
            assert!(remote.compare(0, data).unwrap(), "round {round}: written bytes differ");
            client.jetty.read(&client.peer, &back, remote.key(), 1).unwrap();
            let _ = client.succeed();
            assert!(back.compare(0, data).unwrap(), "round {round}: read bytes differ");
        }
    }
    server.context.counters().nic
}

#[test]
fn every_byte_is_copied_once_without_impairments() {
    for engines in [1, 2] {
        let rounds = 3;
        let counters = bulk(builder().engines(engines), builder().engines(engines), rounds);
        let written = 2 * rounds * SIZE as u64;
        assert!((written..written + written / 4).contains(&counters.bytes_copied), "{counters:?}");
    }
}

#[test]
fn any_order_of_packets_gives_the_same_bytes() {
    for seed in 0..4 {
        for spec in ["reorder=3", "loss=1%,dup=1%", "delay=30us,jitter=20us,reorder=8,loss=1%"] {
            let worse = |seed| builder().emulate(spec.parse().unwrap(), seed).sockets(1).paths(1);
            bulk(worse(seed), worse(seed + 10), 1);
            let spread = |seed| builder().emulate(spec.parse().unwrap(), seed);
            bulk(spread(seed), spread(seed + 10), 1);
        }
    }
}
