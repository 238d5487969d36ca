//! Several contexts of a program that share memory and nothing else: one for each core.

mod common;

use std::time::Duration;

use common::{Side, TIMEOUT, builder, bytes, content, event_of_peer, side};
use fairway::{DatapathKind, Event, Memory, Rights, Segment};

/// Number of contexts of the server, and of clients.
const CONTEXTS: usize = 3;
/// Number of atomic operations of each client.
const ADDITIONS: u64 = 500;
const LENGTH: usize = 1 << 20;

/// The ends of a connection between a context of the server and a client.
struct Connection {
    client: Side,
    server: Side,
    /// The server's memory, as registered with its context.
    memory: Segment,
}

/// Connects a client to each of several contexts, with which the same memory is registered.
fn connections(datapath: DatapathKind, shares: Vec<Memory>) -> Vec<Connection> {
    let connect = |share: Memory| {
        let [server, client] = [(); 2].map(|()| builder().datapath(datapath).build().unwrap());
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        let Event::Connected(back) = event_of_peer(&server) else { panic!("another event") };
        let (client, server) = (side(client, peer), side(server, back));
        let memory = server.context.register(share, Rights::ALL).unwrap();
        Connection { client, server, memory }
    };
    shares.into_iter().map(connect).collect()
}

/// Every client writes a part of the memory through one context, and all add to the same word at
/// the same time.
#[test]
fn contexts_that_share_memory_serve_the_same_bytes() {
    for datapath in [DatapathKind::Udp, DatapathKind::Shm] {
        let shares = Memory::zeroed(LENGTH).unwrap().shares(CONTEXTS);
        let connections = connections(datapath, shares);
        let part = LENGTH / (CONTEXTS + 1);
        std::thread::scope(|scope| {
            for (at, Connection { client, memory, .. }) in connections.iter().enumerate() {
                scope.spawn(move || {
                    let local = client.filled(part, at as u64 + 1);
                    let to = memory.key().at((part * (at + 1)) as u64);
                    client.jetty.write(&client.peer, &local, to, 1).unwrap();
                    let _ = client.succeed();
                    for _ in 0..ADDITIONS {
                        let word = memory.key().at(8).word64();
                        client.jetty.fetch_add(&client.peer, word, 1, 2).unwrap();
                        let _ = client.succeed();
                    }
                });
            }
        });
        // Whichever context is asked, all have the bytes of every client.
        for connection in &connections {
            let seen = content(&connection.memory);
            for at in 0..CONTEXTS {
                let written = &seen[part * (at + 1)..part * (at + 2)];
                assert!(written == bytes(part, at as u64 + 1), "part {at} by {datapath:?}");
            }
            let sum = u64::from_le_bytes(seen[8..16].try_into().unwrap());
            assert_eq!(sum, CONTEXTS as u64 * ADDITIONS, "by {datapath:?}");
        }
    }
}

/// The memory outlives the context with which it was registered first.
#[test]
fn memory_stays_until_its_last_context_ends() {
    let connections = connections(DatapathKind::Udp, Memory::from_vec(vec![7; LENGTH]).shares(2));
    let [first, last] = <[_; 2]>::try_from(connections).ok().unwrap();
    let Connection { client, server, memory } = first;
    drop((client, memory));
    server.context.shutdown(Duration::from_secs(5)).unwrap();
    drop(server);
    let Connection { client, memory, .. } = &last;
    let back = client.open_segment(LENGTH);
    client.jetty.read(&client.peer, &back, memory.key(), 1).unwrap();
    let _ = client.succeed();
    assert!(content(&back).iter().all(|byte| *byte == 7));
}
