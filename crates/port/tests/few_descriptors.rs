//! A relay that has few file descriptors. Their limit is one of the whole process, so these tests
//! have a file of their own, and run one after the other.

use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairway_port::{Relay, RelayConfig, RelayCounters, descriptors};

/// Number of clients, each of which has a port of its own.
const CLIENTS: usize = 40;

static LIMIT: Mutex<()> = Mutex::new(());

/// Sets the maximum number of descriptors of this process.
fn set_limit(descriptors: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` outlives the calls.
    let result = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = descriptors;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    socket
}

/// The lowest descriptor that is free. If the limit is that number, no more can be opened.
fn next() -> u64 {
    File::open("/dev/null").expect("a file").as_raw_fd() as u64
}

/// Lets each client send a packet by a relay to `target`, and the first client another one at the
/// end. Returns the number of packets that came before that one, and the relay's counters.
fn relay_all(limit: impl Fn(u64) -> u64, idle_after: Duration) -> (usize, RelayCounters) {
    let before = descriptors().expect("Linux reports them").0;
    let target = socket();
    let clients: Vec<_> = (0..CLIENTS).map(|_| socket()).collect();
    set_limit(limit(descriptors().expect("Linux reports them").1));
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut relay = Relay::bind(RelayConfig {
        routes: vec![(any, target.local_addr().expect("an address"))],
        spec: Default::default(),
        seed: 1,
        flows_max: 4096,
        idle_after,
        buffer_bytes: 1 << 16,
    })
    .expect("a relay");
    let (listen, bell) = (relay.local_addrs()[0], relay.doorbell());
    let stop = AtomicBool::new(false);
    let came = std::thread::scope(|scope| {
        let running = scope.spawn(|| relay.run(&stop));
        let receive = || {
            let mut room = [0; 16];
            let (length, _) = target.recv_from(&mut room).expect("the relay passes packets on");
            room[..length].to_vec()
        };
        let send = |client: usize, text: &[u8]| {
            clients[client].send_to(text, listen).expect("sent");
        };
        send(0, b"first");
        assert_eq!(receive(), b"first");
        if idle_after > Duration::ZERO {
            // No socket can be opened from now on.
            set_limit(next());
        }
        (1..CLIENTS).for_each(|client| send(client, b"more"));
        send(0, b"last");
        let came = std::iter::repeat_with(receive).take_while(|text| text != b"last").count();
        stop.store(true, Ordering::Release);
        bell.ring();
        running.join().expect("no panic").expect("the relay goes on");
        came
    });
    set_limit(before);
    (came, relay.counters())
}

#[test]
fn packets_of_flows_without_a_socket_are_turned_away() {
    let _one = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let (came, counters) = relay_all(|open| open + 200, Duration::from_secs(600));
    assert_eq!(came, 0);
    assert_eq!((counters.forward, counters.turned_away), (2, CLIENTS as u64 - 1));
}

#[test]
fn idle_flows_make_room_before_the_descriptors_are_used_up() {
    let _one = LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let (came, counters) = relay_all(|open| open + 30, Duration::ZERO);
    assert_eq!(came, CLIENTS - 1);
    assert_eq!((counters.forward, counters.turned_away), (CLIENTS as u64 + 1, 0));
}
