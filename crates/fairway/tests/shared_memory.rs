//! The datapath over shared memory: every kind of operation between processes and within one, the
//! choice of the datapath, and peers that are killed or belong to another user.

mod common;
#[path = "common/superuser.rs"]
mod superuser;

use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Pair, Side, TIMEOUT, builder, bytes, content, dead_after, event_of_peer, exercise};
use fairway::{
    Context, DatapathKind, Error, Event, Memory, PortCounters, Rights, SegmentKey, Status,
};

/// Two contexts that reach each other through memory alone.
fn pair() -> Pair {
    Pair::of(builder().datapath(DatapathKind::Shm), builder().datapath(DatapathKind::Shm))
}

fn port(side: &Side) -> PortCounters {
    side.context.counters().port
}

#[test]
fn all_operations_work_through_memory_without_a_packet_on_the_network() {
    let pair = pair();
    exercise(&pair);
    let (sent, received) = (port(&pair.client), port(&pair.server));
    assert_eq!(sent.packets_sent, sent.packets_sent_in_memory);
    assert!(sent.packets_sent_in_memory > 150, "{sent:?}");
    assert!(received.packets_received_in_memory > 150, "{received:?}");
    assert_eq!(sent.send_calls, 0, "nothing was sent by a system call");
}

#[test]
fn default_chooses_memory_on_this_host_and_udp_is_used_if_one_side_demands_it() {
    let write = |pair: &Pair| {
        let local = pair.client.filled(100_000, 7);
        let remote = pair.server.open_segment(100_000);
        for _ in 0..20 {
            pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
            let _ = pair.client.succeed();
        }
        assert!(remote.compare(0, &content(&local)).unwrap());
        port(&pair.client)
    };
    let auto = || builder().datapath(DatapathKind::Auto);
    let counters = write(&Pair::of(auto(), auto()));
    assert!(counters.packets_sent_in_memory > 150, "{counters:?}");
    let counters = write(&Pair::of(auto(), builder().datapath(DatapathKind::Udp)));
    assert_eq!(counters.packets_sent_in_memory, 0, "{counters:?}");
    let counters = write(&Pair::of(builder().datapath(DatapathKind::Udp), auto()));
    assert_eq!(counters.packets_sent_in_memory, 0, "{counters:?}");
    let impaired = auto().emulate("delay=10us".parse().unwrap(), 1);
    let counters = write(&Pair::of(impaired, auto()));
    assert_eq!(counters.packets_sent_in_memory, 0, "an emulated network has no memory");
}

#[test]
fn memory_alone_does_not_reach_a_peer_that_uses_udp() {
    let server = builder().datapath(DatapathKind::Udp).build().unwrap();
    let client = builder().datapath(DatapathKind::Shm).build().unwrap();
    let failed = client.connect(server.local_addrs()[0], Duration::from_millis(300));
    assert!(matches!(failed, Err(Error::NoSharedMemory { .. })), "{failed:?}");
    let reason = client.counters().last_error.expect("the reason is counted");
    assert!(reason.contains("shared memory does not reach it"), "{reason}");
    // A server whose datapath is memory alone cannot answer a client that uses UDP.
    let failed = server.connect(client.local_addrs()[0], Duration::from_millis(300));
    assert!(matches!(failed, Err(Error::Unanswered { .. })), "{failed:?}");
}

/// Packets take memory only once both sides have attached, so the first request of a client is
/// lost. The one that is answered comes from another port than its first.
#[test]
fn first_port_of_a_client_is_proven_although_neither_side_sends_anything() {
    let silent = || builder().datapath(DatapathKind::Shm).profile(dead_after(3_600_000));
    let pair = Pair::of(silent(), silent());
    let first = pair.client.context.local_addrs()[0];
    let start = Instant::now();
    while pair.server.peer.address() != first {
        pair.client.context.poll();
        pair.server.context.poll();
        assert!(start.elapsed() < TIMEOUT, "still {:?}", pair.server.peer.address());
    }
}

#[test]
fn context_connects_to_itself_through_memory() {
    let context = builder().datapath(DatapathKind::Shm).build().unwrap();
    let peer = context.connect(context.local_addrs()[0], TIMEOUT).unwrap();
    let local = context.register(Memory::from_vec(bytes(70_000, 3)), Rights::NONE).unwrap();
    let remote = context.register(Memory::zeroed(70_000).unwrap(), Rights::WRITE).unwrap();
    let jetty = context.create_jetty(Default::default()).unwrap();
    jetty.write(&peer, &local, remote.key(), 1).unwrap();
    assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    assert!(remote.compare(0, &bytes(70_000, 3)).unwrap());
}

#[test]
fn many_peers_share_one_context() {
    const PEERS: usize = 10;
    let server = builder().datapath(DatapathKind::Shm).build().unwrap();
    let address = server.local_addrs()[0];
    let remote = server.register(Memory::zeroed(PEERS << 16).unwrap(), Rights::WRITE).unwrap();
    let key = remote.key();
    std::thread::scope(|scope| {
        for number in 0..PEERS {
            scope.spawn(move || {
                let context = builder().datapath(DatapathKind::Shm).build().unwrap();
                let peer = context.connect(address, TIMEOUT).unwrap();
                let jetty = context.create_jetty(Default::default()).unwrap();
                let memory = Memory::from_vec(bytes(1 << 16, number as u64));
                let local = context.register(memory, Rights::NONE).unwrap();
                let room = key.at((number << 16) as u64);
                for round in 0..50 {
                    jetty.write(&peer, &local, room, round).unwrap();
                    assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
                }
            });
        }
    });
    for number in 0..PEERS {
        assert!(remote.compare((number << 16) as u64, &bytes(1 << 16, number as u64)).unwrap());
    }
}

#[test]
fn peer_that_uses_udp_is_served_while_another_one_keeps_memory_busy() {
    // With several engines each has a thread, and no thread of the program polls.
    let server = builder().engines(1).datapath(DatapathKind::Auto).build().unwrap();
    let connect = |datapath| {
        let client = builder().engines(1).datapath(datapath).build().unwrap();
        let peer = client.connect(server.local_addrs()[0], TIMEOUT).unwrap();
        common::side(client, peer)
    };
    let clients = [connect(DatapathKind::Shm), connect(DatapathKind::Udp)];
    let room = server.register(Memory::zeroed(64).unwrap(), Rights::READ_WRITE).unwrap();
    let locals = [0, 1].map(|at: usize| clients[at].filled(8, at as u64));
    let mut done = [0; 2];
    let mut found = Vec::new();
    let start = std::time::Instant::now();
    while done[1] < 200 {
        for (at, client) in clients.iter().enumerate() {
            if client.jetty.outstanding() == 0 {
                let to = room.key().at(8 * at as u64);
                client.jetty.write(&client.peer, &locals[at], to, at as u64).unwrap();
            }
            client.jetty.poll(&mut found);
        }
        // Only threads that poll receive packets while they do.
        server.poll();
        for completion in found.drain(..) {
            assert_eq!(completion.status, Status::Success);
            done[completion.id.value() as usize] += 1;
        }
        assert!(start.elapsed() < TIMEOUT, "{done:?}");
    }
    assert!(done[0] > 200, "memory was busy meanwhile: {done:?}");
}

#[test]
fn idle_contexts_do_not_spin() {
    let pair = pair();
    let local = pair.client.filled(4096, 1);
    let remote = pair.server.open_segment(4096);
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 1).unwrap();
    let _ = pair.client.succeed();
    pair.assert_idle();
    pair.client.jetty.write(&pair.client.peer, &local, remote.key(), 2).unwrap();
    let _ = pair.client.succeed();
}

const CHILD: &str = "FAIRWAY_TEST_SHARED_MEMORY";

/// A process with a context that serves memory until it is killed.
struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    address: SocketAddr,
    key: SegmentKey,
}

impl Other {
    fn start(user: Option<u32>) -> Other {
        Other::start_as("serve", user)
    }

    fn start_as(task: &str, user: Option<u32>) -> Other {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_other_process", "--ignored", "--nocapture"]);
        command.env(CHILD, task).stdout(Stdio::piped()).stdin(Stdio::piped());
        if let Some(user) = user {
            use std::os::unix::process::CommandExt;
            command.uid(user);
        }
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let served = await_line(&mut lines, "serves ");
        let (address, key) = served.split_once(' ').expect("an address and a key");
        Other { child, lines, address: address.parse().unwrap(), key: key.parse().unwrap() }
    }
}

/// Reads lines until one contains `text`, and returns what follows it there.
fn await_line(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) -> String {
    let rest = |line: std::io::Result<String>| {
        line.unwrap().split_once(text).map(|(_, rest)| rest.to_owned())
    };
    lines.find_map(rest).unwrap_or_else(|| panic!("the process ended without '{text}'"))
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "run by other tests of this file"]
fn the_other_process() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let context = builder().datapath(DatapathKind::Auto).build().unwrap();
    let memory = Memory::zeroed(1 << 20).unwrap();
    let segment = context.register(memory, Rights::ALL).unwrap();
    println!("serves {} {}", context.local_addrs()[0], segment.key());
    if std::env::var(CHILD).as_deref() == Ok("fork") {
        // The child gets a copy of the connection by which the client's memory is shared.
        let is_attached = || context.counters().port.packets_received_in_memory > 0;
        while !is_attached() {
            std::thread::yield_now();
        }
        // SAFETY: the child uses nothing of this process, and ends by itself.
        unsafe {
            if libc::fork() == 0 {
                libc::sleep(20);
                libc::_exit(0);
            }
        }
        println!("forked ");
    }
    // The parent keeps the input open for as long as it lives.
    let _ = std::io::read_to_string(std::io::stdin());
}

/// A client that notices within a second that its peer is gone.
fn client() -> Context {
    let profile = dead_after(1000);
    builder().datapath(DatapathKind::Auto).profile(profile).build().unwrap()
}

#[test]
fn killed_process_is_noticed_and_another_one_is_reached() {
    let mut other = Other::start(None);
    let context = client();
    let peer = context.connect(other.address, TIMEOUT).unwrap();
    let jetty = context.create_jetty(Default::default()).unwrap();
    let local = context.register(Memory::from_vec(bytes(1 << 20, 5)), Rights::NONE).unwrap();
    for round in 0..20 {
        jetty.write(&peer, &local, other.key, round).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    assert!(context.counters().port.packets_sent_in_memory > 1000);
    // Killed in the middle of a stream of WRITEs.
    for round in 0..8 {
        jetty.write(&peer, &local, other.key, round).unwrap();
    }
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let mut failed = 0;
    for _ in 0..8 {
        failed += u32::from(jetty.wait(TIMEOUT).unwrap().status != Status::Success);
    }
    let event = event_of_peer(&context);
    assert!(matches!(event, Event::PeerDead(_)), "{event:?}; {failed} WRITEs failed");

    let next = Other::start(None);
    let peer = context.connect(next.address, TIMEOUT).unwrap();
    let before = context.counters().port.packets_sent_in_memory;
    // Packets take the sockets until both processes have attached memory.
    for round in 0..20 {
        jetty.write(&peer, &local, next.key, round).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    assert!(context.counters().port.packets_sent_in_memory > before + 1000);
}

#[test]
fn killed_process_is_noticed_although_its_child_keeps_the_connection_open() {
    let mut other = Other::start_as("fork", None);
    let context = client();
    let peer = context.connect(other.address, TIMEOUT).unwrap();
    let jetty = context.create_jetty(Default::default()).unwrap();
    let local = context.register(Memory::from_vec(bytes(1 << 16, 5)), Rights::NONE).unwrap();
    while context.counters().port.packets_sent_in_memory == 0 {
        jetty.write(&peer, &local, other.key, 1).unwrap();
        assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    await_line(&mut other.lines, "forked ");
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    let before = context.counters().port;
    jetty.write(&peer, &local, other.key, 2).unwrap();
    assert_ne!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    let after = context.counters().port;
    // Unless the process is watched, all packets go into memory until the peer counts as dead.
    assert!(after.send_calls > before.send_calls, "no packet took the sockets: {after:?}");
}

#[test]
fn stopped_process_delays_no_packets_to_others() {
    let (stopped, other) = (Other::start(None), Other::start(None));
    // More may be in flight than a ring holds, and the stopped process does not count as dead
    // before the test has failed.
    let builder = builder().datapath(DatapathKind::Auto).policy_named("cc=fixed:4M");
    let context = builder.profile(dead_after(600_000)).build().unwrap();
    let local = context.register(Memory::from_vec(bytes(1 << 20, 5)), Rights::NONE).unwrap();
    let (blocked, free) = (
        context.create_jetty(Default::default()).unwrap(),
        context.create_jetty(Default::default()).unwrap(),
    );
    let to_stopped = context.connect(stopped.address, TIMEOUT).unwrap();
    let to_other = context.connect(other.address, TIMEOUT).unwrap();
    while context.counters().port.packets_sent_in_memory == 0 {
        blocked.write(&to_stopped, &local, stopped.key, 0).unwrap();
        assert_eq!(blocked.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    // SAFETY: the process was started here and is not reaped yet.
    assert_eq!(unsafe { libc::kill(stopped.child.id() as i32, libc::SIGSTOP) }, 0);
    for round in 0..16 {
        blocked.write(&to_stopped, &local, stopped.key, round).unwrap();
    }
    while context.counters().port.packets_dropped_in_memory == 0 {
        free.write(&to_other, &local, other.key, 1).unwrap();
        assert_eq!(free.wait(TIMEOUT).unwrap().status, Status::Success);
    }
    for round in 0..20 {
        free.write(&to_other, &local, other.key, round).unwrap();
        assert_eq!(free.wait(TIMEOUT).unwrap().status, Status::Success);
    }
}

#[test]
fn process_of_another_user_is_reached_by_udp_alone() {
    // SAFETY: has no conditions.
    if unsafe { libc::geteuid() } != 0 {
        return superuser::skip("a process of another user");
    }
    const NOBODY: u32 = 65_534;
    let other = Other::start(Some(NOBODY));
    let context = client();
    let peer = context.connect(other.address, TIMEOUT).unwrap();
    let jetty = context.create_jetty(Default::default()).unwrap();
    let local = context.register(Memory::from_vec(bytes(1 << 20, 5)), Rights::NONE).unwrap();
    jetty.write(&peer, &local, other.key, 1).unwrap();
    assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
    assert_eq!(context.counters().port.packets_sent_in_memory, 0);
}
