//! Several processes of one host, and one that is killed.

use crate::namespaces::Namespaces;
use crate::node::{Node, content, options, own_options, patient};
use fairway_softnic::engine::roce::{Peer, Reliability, RemoteAddress, Status, Transport, Work};
use fairway_softnic::engine::wire::{Duration, Qpn};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};

/// Where a child is to be, by address. Without it there is no child.
const CHILD: &str = "FAIRWAY_TEST_CHILD";

/// Another process with a carrier, whose application does nothing.
struct Other {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    queue_pair: Qpn,
    r_key: u32,
}

impl Other {
    fn start(ip: &str) -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::another_process", "--nocapture", "--ignored"])
            .env(CHILD, ip)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap());
        let mut other = Other { process, lines, queue_pair: Qpn::new(0), r_key: 0 };
        let words = other.line();
        other.queue_pair = Qpn::new(words[0]);
        other.r_key = words[1];
        other
    }

    /// The next line of the child's that begins with a colon: its numbers.
    fn line(&mut self) -> Vec<u32> {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child ended");
            // The test harness of the child writes to the same line.
            if let Some((_, words)) = line.trim().split_once("child: ") {
                return words.split(' ').map(|word| word.parse().unwrap()).collect();
            }
        }
    }

    fn connect(&mut self, from: IpAddr, queue_pair: Qpn) {
        let stdin = self.process.stdin.as_mut().unwrap();
        writeln!(stdin, "{from} {}", queue_pair.value()).unwrap();
        self.line();
    }

    fn remote(&self, address: u64) -> RemoteAddress {
        RemoteAddress { address: crate::node::BASE + address, r_key: self.r_key }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
#[ignore = "the other process of other tests"]
fn another_process() {
    let Ok(ip) = std::env::var(CHILD) else { return };
    let node = Node::new(&options(&ip));
    let pair = node.queue_pair(Transport::Rc);
    println!("child: {} {}", pair.value(), node.region.r_key);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (from, number) = line.split_once(' ').unwrap();
        let gid = from.parse::<IpAddr>().unwrap().into();
        let peer = node.peer(gid, Qpn::new(number.parse().unwrap()));
        node.connect(pair, peer, patient());
        println!("child: 1");
    }
}

fn write_and_read_back(here: &Node, pair: Qpn, other: &Other, seed: u64) {
    let bytes = content(seed, 200_000);
    here.memory.write(0, &bytes);
    let remote = other.remote(0);
    here.post(pair, 1, Work::Write { remote, immediate: None }, here.local(0, 200_000));
    here.post(pair, 2, Work::Read { remote }, here.local(400_000, 200_000));
    here.sent(1);
    here.sent(2);
    assert!(here.memory.read(400_000, 200_000) == bytes);
}

#[test]
fn a_killed_process_is_given_up() {
    let own = own_options();
    let mut other = Other::start(&own.addresses[0].to_string());
    let here = Node::new(&own);
    let pair = here.queue_pair(Transport::Rc);
    let gid = here.carrier.gids()[0];
    let patience = Reliability { timeout: Duration::from_us(4000), ..Reliability::default() };
    let peer = Peer { queue_pair: other.queue_pair, ..here.peer(gid, pair) };
    here.connect(pair, peer, patience);
    other.connect(gid.ip(), pair);
    write_and_read_back(&here, pair, &other, 1);
    other.process.kill().unwrap();
    other.process.wait().unwrap();
    let work = Work::Write { remote: other.remote(0), immediate: None };
    here.post(pair, 1, work, here.local(0, 64));
    assert_eq!(here.next(here.sends).status, Status::RetryExceeded);
    // Its slot is free again, for somebody whose queue pair has nothing to do with it.
    let again = Other::start(&own.addresses[0].to_string());
    assert_eq!(again.queue_pair.value() >> 16, other.queue_pair.value() >> 16);
}

#[test]
fn processes_of_one_host_share_the_port_of_roce() {
    let Some(spaces) = Namespaces::new("share") else {
        println!("SKIPPED: network namespaces need the superuser and the ip tool");
        return;
    };
    let mut others = [0, 1].map(|_| spaces.inside(1, || Other::start("10.77.0.2")));
    let here = spaces.inside(0, || Node::new(&options("10.77.0.1")));
    let gid = IpAddr::from([10, 77, 0, 2]).into();
    for (seed, other) in others.iter_mut().enumerate() {
        let pair = here.queue_pair(Transport::Rc);
        let peer = spaces.inside(0, || here.peer(gid, other.queue_pair));
        here.connect(pair, peer, patient());
        other.connect([10, 77, 0, 1].into(), pair);
        // The kernel gives all our packets to one of them, who hands the other's on.
        write_and_read_back(&here, pair, other, seed as u64);
    }
    assert_ne!(others[0].queue_pair.value() >> 16, others[1].queue_pair.value() >> 16);
}
