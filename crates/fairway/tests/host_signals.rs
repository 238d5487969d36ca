//! Signals that reach the NIC without a call: hints in shared memory, and shortages of the host.

mod common;

use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Pair, TIMEOUT, builder};
use fairway::{
    Completion, Context, Error, HostPressure, HostResource, Jetty, JettyOptions, Memory, Rights,
    Segment, Status,
};

#[test]
fn a_hint_is_a_store_into_shared_memory() {
    let pair = Pair::of(builder().policy_named("sched=drr"), builder());
    let client = &pair.client;
    let words = client.open_segment(64);
    client.jetty.set_hint_word(&words, 8).unwrap();
    let (from, to) = (client.filled(4096, 1), pair.server.open_segment(4096));
    let handled = || client.context.scheduler_stats().unwrap().collected;
    let turn = |id| {
        client.jetty.write(&client.peer, &from, to.key(), id).unwrap();
        let _ = client.succeed();
    };
    turn(0);
    words.atomic_u64(8).unwrap().store(7, Ordering::Release);
    let before = handled();
    // The store alone is an event. The next poll detects it, and the scheduler receives it with the
    // packets of that poll.
    turn(1);
    assert!(handled() > before);
    // The word may be dropped: its last value stays.
    drop(words.into_memory().unwrap());
    turn(2);
}

#[test]
fn a_word_that_cannot_be_is_refused() {
    let pair = Pair::new();
    let jetty = &pair.client.jetty;
    let words = pair.client.open_segment(16);
    assert!(matches!(jetty.set_hint_word(&words, 9), Err(Error::OutOfBounds { .. })));
    assert!(matches!(jetty.set_hint_word(&words, 4), Err(Error::Parameter { .. })));
    let foreign = pair.server.open_segment(16);
    assert!(matches!(jetty.set_hint_word(&foreign, 0), Err(Error::Foreign { .. })));
    // A Jetty that is dropped removes its word.
    let other = pair.client.context.create_jetty(JettyOptions::default()).unwrap();
    other.set_hint_word(&words, 8).unwrap();
    drop(other);
    words.into_memory().unwrap();
}

/// On the real host: whatever its state, the watch starts, reports, and ends with its context.
#[cfg(target_os = "linux")]
#[test]
fn the_host_is_watched() {
    let options = HostPressure {
        cpu_percent: Some(100),
        transmit_queue_percent: Some(100),
        period: Duration::from_millis(1),
        ..HostPressure::NOTHING
    };
    let watched = || builder().host_pressure(Some(options));
    let pair = Pair::of(watched(), watched());
    let (from, to) = (pair.client.filled(100_000, 1), pair.server.open_segment(100_000));
    for id in 0..20 {
        pair.client.jetty.write(&pair.client.peer, &from, to.key(), id).unwrap();
        let _ = pair.client.succeed();
    }
    let begun = Instant::now();
    let signals = loop {
        match pair.server.context.host_signals() {
            Some(signals) => break signals,
            None => assert!(begun.elapsed() < TIMEOUT, "it never reports pressure"),
        }
    };
    let watched: Vec<HostResource> = signals.all().map(|(resource, _)| resource).collect();
    assert_eq!(watched, [HostResource::Cpu, HostResource::TransmitQueue]);
    assert!(Pair::new().client.context.host_signals().is_none(), "no resource is watched");
}

/// A server that reads nothing from its socket while strangers fill it, and then notifies its peer.
#[cfg(target_os = "linux")]
#[test]
fn full_receive_queue_is_reported_to_peers() {
    let options = HostPressure {
        receive_queue_percent: Some(50),
        period: Duration::from_millis(200),
        ..HostPressure::NOTHING
    };
    let server = Context::builder()
        .bind(Ipv4Addr::LOCALHOST.into())
        .sockets(1)
        .buffer_bytes(64 * 1024)
        .progress_thread(false)
        .host_pressure(Some(options))
        .build()
        .unwrap();
    let address = server.local_addrs()[0];
    let client = Context::builder().bind(Ipv4Addr::LOCALHOST.into()).build().unwrap();
    let (stalls, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !ends.load(Ordering::Acquire) {
                if stalls.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                } else {
                    server.poll();
                }
            }
        });
        // The other thread ends whatever happens here.
        let judged = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let peer = client.connect(address, TIMEOUT).unwrap();
            let jetty = client.create_jetty(JettyOptions::default()).unwrap();
            let segment = |rights| server.register(Memory::zeroed(4096).unwrap(), rights).unwrap();
            let to = segment(Rights::READ_WRITE);
            let from = client.register(Memory::zeroed(4096).unwrap(), Rights::NONE).unwrap();
            let received = || client.counters().engine.pressure_received;
            let write = || {
                jetty.write(&peer, &from, to.key(), 1).unwrap();
                assert_eq!(jetty.wait(TIMEOUT).unwrap().status, Status::Success);
            };
            write();
            assert_eq!((received(), server.is_under_pressure()), (0, false));
            let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let begun = Instant::now();
            // One notification may be too few: a period may end between the pressure and the
            // answer.
            while received() == 0 {
                assert!(begun.elapsed() < TIMEOUT, "the peer is never notified");
                stalls.store(true, Ordering::Release);
                while !server.is_under_pressure() {
                    assert!(begun.elapsed() < TIMEOUT, "the full queue is not reported");
                    let _ = stranger.send_to(&[0; 1000], address);
                }
                let reading = server.host_signals().unwrap().get(HostResource::ReceiveQueue);
                assert!(reading.unwrap().is_short && reading.unwrap().percent >= 50);
                stalls.store(false, Ordering::Release);
                write();
            }
            while server.is_under_pressure() {
                assert!(begun.elapsed() < TIMEOUT, "the queue is empty, and the pressure stays");
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = received();
            write();
            assert_eq!(received(), before);
        }));
        ends.store(true, Ordering::Release);
        judged.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn signal_that_the_host_lacks_is_an_error_when_requested() {
    let bus = HostPressure { pcie_percent: Some(10), ..HostPressure::NOTHING };
    // The build succeeds if there is a NIC that reports its bus.
    if let Err(error) = builder().host_pressure(Some(bus)).build() {
        assert!(error.to_string().contains("leave pcie out"), "{error}");
    }
}

/// Two Jetties that each have more to send than the NIC allows.
struct Rivals<'a> {
    client: &'a common::Side,
    jetties: [&'a Jetty; 2],
    from: Segment,
    to: Segment,
    done: Vec<Completion>,
}

const MESSAGE: usize = 64 * 1024;
/// Messages of each that are under way: far more than the window allows.
const WAITING: u64 = 32;

impl<'a> Rivals<'a> {
    fn new(pair: &'a Pair, other: &'a Jetty) -> Rivals<'a> {
        let client = &pair.client;
        let (from, to) = (client.filled(MESSAGE, 1), pair.server.open_segment(MESSAGE));
        let jetties = [&client.jetty, other];
        let rivals = Rivals { client, jetties, from, to, done: Vec::new() };
        (0..2 * WAITING).for_each(|number| rivals.post(number as usize % 2));
        rivals
    }

    fn post(&self, rival: usize) {
        let jetty = self.jetties[rival];
        jetty.write(&self.client.peer, &self.from, self.to.key(), rival as u64).unwrap();
    }

    /// Counts the messages that each completed, until the first has completed `messages` more or
    /// both together ten times that.
    fn run(&mut self, messages: u64) -> [u64; 2] {
        let mut sent = [0, 0];
        let begun = Instant::now();
        while sent[0] < messages && sent[0] + sent[1] < 10 * messages {
            assert!(begun.elapsed() < TIMEOUT, "{sent:?}");
            for (rival, sent) in sent.iter_mut().enumerate() {
                self.jetties[rival].poll(&mut self.done);
                for completion in std::mem::take(&mut self.done) {
                    assert_eq!(completion.status, Status::Success);
                    *sent += 1;
                    self.post(rival);
                }
            }
        }
        sent
    }

    /// Waits until the ratio of the first one's messages to the second's is in `wanted`. That may
    /// take several attempts: on a busy machine either may run out of messages.
    fn settle(&mut self, wanted: Range<f64>) {
        let begun = Instant::now();
        loop {
            let [first, second] = self.run(500);
            let ratio = first as f64 / second.max(1) as f64;
            if wanted.contains(&ratio) {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{ratio} instead of {wanted:?}");
        }
    }
}

#[test]
fn a_hint_is_a_weight_for_a_scheduler_that_heeds_it() {
    let client = builder().policy_named("cc=fixed:256K,sched=drr:hints=weight");
    let pair = Pair::of(client, builder());
    let words = pair.client.open_segment(8);
    pair.client.jetty.set_hint_word(&words, 0).unwrap();
    let word = || words.atomic_u64(0).unwrap();
    let other = pair.client.context.create_jetty(JettyOptions::default()).unwrap();
    let mut rivals = Rivals::new(&pair, &other);
    rivals.settle(0.7..1.4);
    word().store(4, Ordering::Release);
    rivals.settle(2.0..6.0);
    // A flow that requests everything gets no more than it posts, and leaves the other its turns.
    word().store(u64::MAX, Ordering::Release);
    rivals.settle(0.8..f64::INFINITY);
    assert!(rivals.run(4000)[1] > 0, "the other one starves");
    // The flow has no hint again.
    word().store(0, Ordering::Release);
    rivals.settle(0.7..1.4);
}
