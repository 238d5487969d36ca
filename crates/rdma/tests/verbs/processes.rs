//! Another process of this host, including one that is killed.

use crate::node::{Node, content, options, own_options, patient};
use fairway_roce::{Reliability, RemoteAddress, Status, Transport, Work};
use fairway_ub::wire::roce::Tail;
use fairway_ub::wire::{Duration, Qpn};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Environment variable with the address of the child. Without it the process is not a child.
const CHILD: &str = "FAIRWAY_TEST_CHILD";

/// Held by tests in which a process is to get the slot of one that has ended.
static SLOTS: Mutex<()> = Mutex::new(());

fn slots() -> MutexGuard<'static, ()> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Another process with a provider, whose application does nothing.
pub struct Other {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    pub queue_pair: Qpn,
    r_key: u32,
}

impl Other {
    pub fn start(ip: &str) -> Other {
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

    /// Reads the numbers in the child's next line with a colon.
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

    pub fn connect(&mut self, from: IpAddr, queue_pair: Qpn) {
        let stdin = self.process.stdin.as_mut().unwrap();
        writeln!(stdin, "{from} {}", queue_pair.value()).unwrap();
        self.line();
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the process was started here and is not reaped yet.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, signal) }, 0);
    }

    /// Stops the process, and waits until it has stopped.
    fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: likewise; the call stores a number.
        let waited =
            unsafe { libc::waitpid(self.process.id() as i32, &mut status, libc::WUNTRACED) };
        assert!(waited > 0 && libc::WIFSTOPPED(status), "{status:x}");
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

pub fn write_and_read_back(here: &Node, pair: Qpn, other: &Other, seed: u64) {
    let bytes = content(seed, 200_000);
    here.memory.write(0, &bytes);
    let remote = other.remote(0);
    here.post(pair, 1, Work::Write { remote, immediate: None }, here.local(0, 200_000));
    here.post(pair, 2, Work::Read { remote }, here.local(400_000, 200_000));
    here.sent(1);
    here.sent(2);
    assert!(here.memory.read(400_000, 200_000) == bytes);
}

/// Returns a queue pair of `here` that is connected to the other process.
fn joined(here: &Node, other: &mut Other) -> Qpn {
    let pair = here.queue_pair(Transport::Rc);
    let gid = here.provider.gids()[0];
    let timeout = Reliability { timeout: Duration::from_us(4000), ..Reliability::default() };
    here.connect(pair, here.peer(gid, other.queue_pair), timeout);
    other.connect(gid.ip(), pair);
    pair
}

#[test]
fn killed_peer_fails_operations_and_its_restart_is_a_new_peer() {
    const POSTED: u64 = 40;
    let _slots = slots();
    let own = own_options();
    let address = own.addresses[0].to_string();
    let mut other = Other::start(&address);
    let here = Node::new(&own);
    let pair = joined(&here, &mut other);
    write_and_read_back(&here, pair, &other, 1);
    // The other process is killed while many operations are under way.
    let remote = other.remote(0);
    for id in 0..POSTED {
        let write = Work::Write { remote, immediate: None };
        let work = if id % 2 == 0 { write } else { Work::Read { remote } };
        here.post(pair, id, work, here.local(0, 400_000));
    }
    here.sent(0);
    other.process.kill().unwrap();
    other.process.wait().unwrap();
    // The process that has its slot now receives no requests in its place, and is connected at
    // once.
    let mut again = Other::start(&address);
    assert_eq!(again.queue_pair.value() >> 16, other.queue_pair.value() >> 16);
    let mut failed = None;
    for id in 1..POSTED {
        let done = here.next(here.sends);
        let expected = match (failed, done.status) {
            (None, Status::Success) => Status::Success,
            (None, _) => *failed.insert(Status::RetryExceeded),
            (Some(_), _) => Status::Flushed,
        };
        assert_eq!((done.id, done.status), (id, expected));
    }
    assert!(failed.is_some());
    let pair = joined(&here, &mut again);
    write_and_read_back(&here, pair, &again, 2);
}

/// The connection of the process before it still seems to work, but no process receives there.
#[test]
fn a_connection_to_a_process_that_was_started_again_works_at_once() {
    let _slots = slots();
    let own = own_options();
    let here = Node::new(&own);
    for seed in 0..4 {
        let mut other = Other::start(&own.addresses[0].to_string());
        let pair = joined(&here, &mut other);
        write_and_read_back(&here, pair, &other, seed);
    }
}

/// Two processes are silent when operations to them are posted; then the first one continues. False
/// if the operation to it completes before the other process counts as dead.
fn is_delayed_by_a_stopped_process() -> bool {
    let own = own_options();
    let address = own.addresses[0].to_string();
    let here = Node::new(&own);
    let gid = here.provider.gids()[0];
    let mut others = [Other::start(&address), Other::start(&address)];
    let pairs = others.each_mut().map(|other| {
        // A message to a queue pair that does not exist makes the channel to the process.
        let nobody = Qpn::new(other.queue_pair.value() + 1);
        let first = here.queue_pair(Transport::Uc);
        here.connect(first, here.peer(gid, nobody), patient());
        here.post(first, 0, Work::Send { tail: Tail::Nothing }, here.local(0, 8));
        here.sent(0);
        let pair = here.queue_pair(Transport::Rc);
        other.connect(gid.ip(), pair);
        other.stop();
        here.connect(pair, here.peer(gid, other.queue_pair), patient());
        pair
    });
    let channels = here.provider.channels();
    for (id, other) in others.iter().enumerate() {
        let work = Work::Write { remote: other.remote(0), immediate: None };
        here.post(pairs[id], id as u64, work, here.local(0, 64));
    }
    others[0].signal(libc::SIGCONT);
    let done = here.next(here.sends);
    (done.id, done.status) != (0, Status::Success) || here.provider.channels() != channels
}

/// On a busy machine even a process that continues may be silent until the other one is dead.
#[test]
fn operations_to_a_stopped_process_delay_none_to_others() {
    assert!((0..5).any(|_| !is_delayed_by_a_stopped_process()));
}

#[test]
fn peer_killed_while_idle_is_noticed_by_the_next_operation() {
    let own = own_options();
    let mut other = Other::start(&own.addresses[0].to_string());
    let here = Node::new(&own);
    let pair = joined(&here, &mut other);
    write_and_read_back(&here, pair, &other, 1);
    other.process.kill().unwrap();
    other.process.wait().unwrap();
    let work = Work::Write { remote: other.remote(0), immediate: None };
    here.post(pair, 1, work, here.local(0, 64));
    assert_eq!(here.next(here.sends).status, Status::RetryExceeded);
}
