//! Payloads that the kernel puts straight into place, and what happens when the plan was wrong: with
//! one engine. (Several copy.)

mod common;

use common::{Pair, builder, bytes};
use fairway_softnic::{Builder, NicCounters, Post};

const SIZE: usize = 4 << 20;

/// Writes and reads to and fro, several at a time, and compares; what the receiver of the writes
/// counted.
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
        client.succeed();
        client.succeed();
        for (remote, data) in remote.iter().zip(&data) {
            assert!(remote.compare(0, data).unwrap(), "round {round}: written bytes differ");
            client.jetty.read(&client.peer, &back, remote.key(), 1).unwrap();
            client.succeed();
            assert!(back.compare(0, data).unwrap(), "round {round}: read bytes differ");
        }
    }
    server.context.counters().nic
}

#[test]
fn many_paths_are_planned_from_a_look() {
    let counters = bulk(builder().engines(1), builder().engines(1), 6);
    assert!(counters.plans_peeked > 0 && counters.placed_direct > 0, "{counters:?}");
}

#[test]
fn one_path_is_foretold() {
    let one = || builder().engines(1).sockets(1).paths(1);
    let counters = bulk(one(), one(), 6);
    assert!(counters.plans_guessed > 0 && counters.placed_direct > 0, "{counters:?}");
}

#[test]
fn wrong_plans_cost_a_copy_and_nothing_else() {
    for seed in 0..4 {
        for spec in ["reorder=3", "loss=1%,dup=1%", "delay=30us,jitter=20us,reorder=8,loss=1%"] {
            let worse = |seed| builder().emulate(spec.parse().unwrap(), seed).sockets(1).paths(1);
            bulk(worse(seed), worse(seed + 10), 1);
            let spread = |seed| builder().emulate(spec.parse().unwrap(), seed);
            bulk(spread(seed), spread(seed + 10), 1);
        }
    }
}
