//! Statistics of a context as they are served.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use common::{Pair, TIMEOUT, builder};

/// The metrics that are served at an address.
fn metrics(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of the metric with this name of what a Jetty sends.
fn value(text: &str, name: &str, jetty: u32) -> u64 {
    let label = format!("jetty=\"{jetty}\",");
    let mut lines = text.lines().filter(|line| line.starts_with(name) && line.contains(&label));
    let line = lines.next().unwrap_or_else(|| panic!("no {name} of Jetty {jetty} in\n{text}"));
    assert!(lines.next().is_none(), "the Jetty has one sample of {name}");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// A program that pauses for longer than a flow lives without work.
#[test]
fn counters_of_flows_that_end_and_begin_again_only_grow() {
    let served = builder().prometheus("127.0.0.1:0".parse().unwrap());
    let Pair { client, server } = Pair::of(served, builder());
    let address = client.context.prometheus_addr().unwrap();
    let (local, remote) = (client.filled(10_000, 1), server.open_segment(10_000));
    let jetty = client.jetty.number();
    for round in 1..=3 {
        client.jetty.write(&client.peer, &local, remote.key(), round).unwrap();
        let _ = client.succeed();
        // The context has no other flow of this Jetty.
        while client.context.flows().iter().any(|flow| flow.jetty.value() == jetty) {
            std::thread::yield_now();
        }
        let text = metrics(address);
        let bytes = value(&text, "fairway_flow_bytes_total", jetty);
        let packets = value(&text, "fairway_flow_packets_total", jetty);
        assert!(bytes >= 10_000 * round, "{bytes} bytes after {round} rounds");
        assert!(packets >= round, "{packets} packets after {round} rounds");
    }
    client.peer.close().unwrap();
    assert!(!metrics(address).contains(&format!("jetty=\"{jetty}\"")), "the channel is gone");
}
