//! A relay in front of a server, which loses packets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fairway_port::{Doorbell, Relay, RelayConfig};

/// A relay that runs until it is dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    doorbell: Doorbell,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.doorbell.ring();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A relay in front of all ports of a server, at the same numbers. It numbers a packet's path by
/// route and by client, in order of appearance: that of client `c` to port `p` is `c` times the
/// number of ports, plus `p`.
pub fn relay(ports: &[SocketAddr], spec: &str) -> Running {
    let front = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let mut relay = Relay::bind(RelayConfig {
        routes: ports.iter().map(|to| (SocketAddr::new(front, to.port()), *to)).collect(),
        spec: spec.parse().unwrap(),
        seed: 1,
        flows_max: 1024,
        idle_after: Duration::from_secs(60),
        buffer_bytes: 1 << 20,
    })
    .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (doorbell, watched) = (relay.doorbell(), stop.clone());
    let thread = std::thread::spawn(move || relay.run(&watched).unwrap());
    Running { stop, doorbell, thread: Some(thread) }
}
