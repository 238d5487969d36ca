use super::{CongestionKind, CongestionProcessor, ControllerProxy, controller_proxy};
use crate::control::ReadyQueue;
use fairway_policy::{AckSample, CongestionControl, CreditRequest, FlowId, LossSample, PolicySpec};
use fairway_wire::{Duration, Instant};
use std::boxed::Box;
use std::format;
use std::string::String;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::vec::Vec;

const MTU: u32 = 1024;
/// Start close to the wrap of the clock, where errors in time arithmetic show.
const START: Instant = Instant::from_ps(u64::MAX - 5_000_000);

const ALL: [&str; 9] = [
    "cc=fixed:1M",
    "cc=swift",
    "cc=cubic",
    "cc=timely",
    "cc=dcqcn",
    "cc=caqm",
    "cc=eqds",
    "cc=homa",
    "cc=backpressure",
];

fn controller(name: &str) -> Box<dyn CongestionControl> {
    name.parse::<PolicySpec>().unwrap().build(MTU).congestion
}

fn rig(controller: Box<dyn CongestionControl>) -> (ControllerProxy, CongestionProcessor) {
    let mut processor = CongestionProcessor::new(2);
    let (controller_proxy, controller) =
        controller_proxy(controller, (FlowId(1), MTU), processor.ready(), START);
    processor.adopt(controller);
    (controller_proxy, processor)
}

/// The decisions that a sender uses.
fn decision(controller: &dyn CongestionControl) -> impl PartialEq + core::fmt::Debug + use<> {
    (
        controller.window_bytes(),
        controller.pacing_bytes_per_second(),
        controller.pacing_burst_bytes(),
        controller.allowance_bytes(),
        [1, 5000, 1 << 40].map(|remaining| controller.chunk_bytes(remaining)),
    )
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound
    }
}

/// A random life of a sender as controllers see it: every call, with values in their usual ranges.
struct Life {
    chance: Chance,
    now: Instant,
    backlog: u64,
    flight: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        Life { chance: Chance(seed), now: START, backlog: 0, flight: 0 }
    }

    fn ack(&mut self) -> AckSample {
        let bytes = self.chance.below(65_536).min(self.flight);
        self.flight -= bytes;
        let rtt = Duration::from_us(10 + self.chance.below(800));
        AckSample {
            now: self.now,
            acked_bytes: bytes as u32,
            acked_packets: bytes.div_ceil(1104) as u32,
            path: self.chance.below(4) as u8,
            rtt: (self.chance.below(3) > 0).then_some(rtt),
            smoothed_rtt: Duration::from_us(10 + self.chance.below(400)),
            marked_packets: self.chance.below(20).saturating_sub(17) as u32,
            bytes_in_flight: self.flight,
            cci: fairway_wire::Cci::congested(200),
            pressure: self.chance.below(30) == 0,
            window_limited: self.chance.below(2) > 0,
            endpoint_delay: (self.chance.below(4) == 0).then_some(Duration::from_us(5)),
            hops: self.chance.below(3) as u8,
        }
    }

    /// Passes one event to both controllers.
    fn step(&mut self, controller: &mut dyn CongestionControl, what: u64) {
        let now = self.now;
        match what {
            0..=5 => {
                let sample = self.ack();
                controller.on_ack(&sample);
            }
            6 | 7 => controller.on_loss(&LossSample {
                now,
                lost_bytes: self.chance.below(20_000) as u32,
                path: 1,
                smoothed_rtt: Duration::from_us(100),
                by_timeout: what == 7 && self.chance.below(3) == 0,
                sent_at: now - Duration::from_us(self.chance.below(300)),
            }),
            8 => controller.on_spurious(now, 1 + self.chance.below(4) as u32),
            9 => controller.on_credit(now, self.chance.below(100_000) as u32),
            10 => controller.on_data(now, 1000, self.chance.below(2) > 0),
            11 => self.backlog += self.chance.below(1_000_000),
            _ => {
                let bytes = self.chance.below(64_000).min(self.backlog);
                self.backlog -= bytes;
                self.flight += bytes;
                controller.on_sent(now, bytes as u32, self.backlog);
            }
        }
    }
}

/// A controller that runs after every event decides as if it were called directly.
#[test]
fn algorithm_decides_the_same_by_events_as_by_packets() {
    for name in ALL {
        for seed in 0..20 {
            let mut direct = controller(name);
            let (mut controller_proxy, mut processor) = rig(controller(name));
            let (mut one, mut other) = (Life::new(seed), Life::new(seed));
            for step in 0..400 {
                let what = one.chance.below(17);
                assert_eq!(other.chance.below(17), what);
                let after = Duration::from_us(one.chance.below(60) * one.chance.below(20));
                other.chance.0 = one.chance.0;
                (one.now, other.now) = (one.now + after, one.now + after);
                one.step(&mut *direct, what);
                other.step(&mut controller_proxy, what);
                while processor.run_one().is_some() {}
                // The data path requests credit after every event, and again when the controller
                // has run.
                let request = direct.credit_request(one.now, one.backlog);
                let first = controller_proxy.credit_request(other.now, other.backlog);
                while processor.run_one().is_some() {}
                let answer =
                    first.or_else(|| controller_proxy.credit_request(other.now, other.backlog));
                assert_eq!(answer, request, "{name}, seed {seed}, step {step}");
                let same = decision(&*direct) == decision(&controller_proxy);
                let both = (decision(&*direct), decision(&controller_proxy));
                assert!(same, "{name}, seed {seed}, step {step}, event {what}: {both:?}");
                assert_eq!(
                    direct.credit_request_at().is_some(),
                    controller_proxy.credit_request_at().is_some()
                );
            }
            assert!(processor.stats().handled >= 400, "{:?}", processor.stats());
        }
    }
}

/// However rarely a controller runs, it stays within its bounds, and changes in the same direction.
#[test]
fn controllers_process_many_events_at_once() {
    for name in ALL {
        let (mut controller_proxy, mut processor) = rig(controller(name));
        let mut life = Life::new(7);
        life.backlog = 1 << 40;
        for round in 0..200 {
            for _ in 0..life.chance.below(300) {
                life.now = life.now + Duration::from_us(3);
                let what = life.chance.below(17);
                life.step(&mut controller_proxy, what);
                controller_proxy.credit_request(life.now, life.backlog);
            }
            while processor.run_one().is_some() {}
            let window = controller_proxy.window_bytes();
            assert!((2048..=16 << 20).contains(&window), "{name}, round {round}: {window}");
            assert!(controller_proxy.pacing_bytes_per_second().is_none_or(|rate| rate > 0));
        }
        let stats = processor.stats();
        assert!(stats.collected > 5 * stats.handled, "{stats:?}");
        assert!(stats.bytes_per_event() > 0);
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

/// Records the events that it receives.
struct Scribe(Log);

impl Scribe {
    fn line(&self, line: String) {
        self.0.0.lock().unwrap().push(line);
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.line("gone".into());
    }
}

impl CongestionControl for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn window_bytes(&self) -> u64 {
        5000
    }

    fn on_ack(&mut self, sample: &AckSample) {
        let AckSample { acked_bytes, acked_packets, marked_packets, rtt, window_limited, .. } =
            sample;
        let (at, rtt) = (sample.now.since(START).as_us(), rtt.map(Duration::as_us));
        self.line(format!(
            "{at}: {acked_bytes} in {acked_packets}, {marked_packets} marked, {rtt:?}, \
             {window_limited}"
        ));
    }

    fn on_loss(&mut self, sample: &LossSample) {
        let [at, sent_at] = [sample.now, sample.sent_at].map(|at| at.since(START).as_us());
        let (bytes, timer) = (sample.lost_bytes, sample.by_timeout);
        self.line(format!("{at}: {bytes} lost, sent at {sent_at}, {timer}"));
    }

    fn on_data(&mut self, _: Instant, bytes: u32, again: bool) {
        self.line(format!("{bytes} of data, {again}"));
    }

    fn on_credit(&mut self, _: Instant, bytes: u32) {
        self.line(format!("{bytes} granted"));
    }

    fn on_sent(&mut self, _: Instant, bytes: u32, backlog: u64) {
        self.line(format!("{bytes} sent, {backlog} wait"));
    }

    fn allowance_bytes(&self) -> u64 {
        10_000
    }

    fn credit_request(&mut self, _: Instant, backlog: u64) -> Option<CreditRequest> {
        let total_bytes = backlog + 1;
        Some(CreditRequest { total_bytes, resend: backlog == 1, blocked: backlog == 2 })
    }
}

fn after_us(us: u64) -> Instant {
    START + Duration::from_us(us)
}

#[test]
fn samples_that_arrive_together_are_handed_over_as_one() {
    let log = Log::default();
    let (mut controller_proxy, mut processor) = rig(Box::new(Scribe(log.clone())));
    let ack = |us, rtt: Option<u64>| AckSample {
        now: after_us(us),
        acked_bytes: 1000,
        acked_packets: 1,
        rtt: rtt.map(Duration::from_us),
        marked_packets: u32::from(us == 2),
        window_limited: us == 1,
        ..AckSample::default()
    };
    let loss = |us, by_timeout| LossSample {
        now: after_us(us),
        lost_bytes: 100,
        by_timeout,
        sent_at: after_us(us - 1),
        ..LossSample::default()
    };
    for (us, rtt) in [(1, Some(7)), (2, Some(9)), (3, None)] {
        controller_proxy.on_ack(&ack(us, rtt));
    }
    // A loss counts from the first one on, but time never decreases.
    for (us, by_timeout) in [(4, false), (6, false), (5, true), (9, true)] {
        controller_proxy.on_loss(&loss(us, by_timeout));
    }
    controller_proxy.on_credit(after_us(9), u32::MAX);
    controller_proxy.on_credit(after_us(9), 2);
    controller_proxy.on_sent(after_us(10), 600, 90);
    controller_proxy.on_sent(after_us(11), 400, 80);
    // Bytes that the controller has not processed yet are subtracted from its allowance.
    assert_eq!(controller_proxy.allowance_bytes(), 9000);
    assert!(processor.run(5) && !processor.run(5));
    let calls = std::mem::take(&mut *log.0.lock().unwrap());
    let expected = [
        "3: 3000 in 3, 1 marked, Some(9), true",
        "4: 200 lost, sent at 5, false",
        "5: 200 lost, sent at 8, true",
        "4294967295 granted",
        "2 granted",
        "1000 sent, 80 wait",
    ];
    assert_eq!(calls, expected);
    assert_eq!(controller_proxy.allowance_bytes(), 10_000);
    let stats = *processor.stats();
    assert_eq!((stats.collected, stats.handled), (11, 5));
    assert_eq!((stats.bytes, stats.transmits), (3000, 1));
}

/// A resent credit request is not lost because of a later one.
#[test]
fn demands_come_together() {
    let (mut controller_proxy, mut processor) = rig(Box::new(Scribe(Log::default())));
    for backlog in [0, 1, 2] {
        assert_eq!(
            controller_proxy.credit_request(START, backlog),
            None,
            "the controller has not run"
        );
        controller_proxy.on_credit(START, 1);
        assert_eq!(controller_proxy.credit_request_at(), Some(START + Duration::from_us(50)));
    }
    // Only the last backlog has reached the controller.
    processor.run(10);
    let request = Some(CreditRequest { total_bytes: 3, resend: false, blocked: true });
    assert_eq!(controller_proxy.credit_request(START, 2), request);
    for backlog in [1, 5] {
        controller_proxy.state.slot(CongestionKind::Request).keep_latest(backlog);
        controller_proxy.ready.mark(FlowId(1), CongestionKind::Request);
        processor.run(10);
    }
    let request = Some(CreditRequest { total_bytes: 6, resend: true, blocked: false });
    assert_eq!(controller_proxy.credit_request(START, 2), request);
}

/// The controller was busy at the time at which it required a call, and was called for an earlier
/// time.
#[test]
fn time_that_passes_while_the_controller_is_busy_is_kept() {
    const BACKLOG: u64 = 5000;
    for name in ["cc=eqds", "cc=homa"] {
        let (mut controller_proxy, mut processor) = rig(controller(name));
        let request = |controller_proxy: &mut ControllerProxy,
                       processor: &mut CongestionProcessor,
                       now,
                       backlog| {
            let early = controller_proxy.credit_request(now, backlog);
            processor.run(10);
            early.or_else(|| controller_proxy.credit_request(now, backlog))
        };
        controller_proxy.on_loss(&LossSample {
            now: START,
            lost_bytes: 1,
            path: 0,
            smoothed_rtt: Duration::from_us(10),
            by_timeout: true,
            sent_at: START,
        });
        assert!(request(&mut controller_proxy, &mut processor, START, BACKLOG).is_some(), "{name}");
        let due = controller_proxy.credit_request_at().expect("it waits for credit");
        let before = START + due.since(START).saturating_sub(Duration::from_us(3));
        assert_eq!(controller_proxy.credit_request(before, BACKLOG + 1), None);
        assert_eq!(controller_proxy.credit_request_at(), Some(due));
        assert_eq!(
            controller_proxy.credit_request(due, BACKLOG + 1),
            None,
            "the controller has not run"
        );
        let again = controller_proxy.credit_request_at().expect("the engine looks again");
        assert!(due.is_before(again), "{name}");
        processor.run(10);
        // Whatever makes the data path call now, the controller is called for the time that was
        // due.
        assert!(
            request(&mut controller_proxy, &mut processor, due, BACKLOG + 1).is_some(),
            "{name}"
        );
        assert!(controller_proxy.credit_request_at().is_some_and(|at| due.is_before(at)), "{name}");
    }
}

#[test]
fn sent_bytes_alone_raise_an_event_once_they_suffice() {
    let log = Log::default();
    let (mut controller_proxy, mut processor) = rig(Box::new(Scribe(log.clone())));
    for packet in 0..65 {
        assert!(!processor.run(1), "packet {packet}");
        controller_proxy.on_data(START, 1024, packet % 2 > 0);
        if packet < 63 {
            continue;
        }
        processor.run(1);
    }
    assert_eq!(*log.0.lock().unwrap(), ["32768 of data, false", "32768 of data, true"]);
}

#[test]
fn controller_ends_with_its_channel_and_its_index_is_reused() {
    let log = Log::default();
    let mut processor = CongestionProcessor::new(2);
    let named = |processor: &CongestionProcessor| {
        controller_proxy(Box::new(Scribe(log.clone())), (FlowId(1), MTU), processor.ready(), START)
    };
    let lines = || std::mem::take(&mut *log.0.lock().unwrap());
    let (mut first, controller) = named(&processor);
    // Events sent before the controller was adopted are delivered at adoption.
    first.on_credit(START, 1);
    assert!(!processor.run(10));
    processor.adopt(controller);
    assert_eq!(lines(), ["1 granted"]);
    // The next channel of that index is opened before the end of the first has been processed, or
    // after.
    drop(first);
    let (mut second, controller) = named(&processor);
    second.on_credit(START, 2);
    processor.adopt(controller);
    processor.run(10);
    assert_eq!(lines(), ["gone", "2 granted"]);
    drop(second);
    let (third, controller) = named(&processor);
    processor.run(10);
    assert_eq!(lines(), ["gone"]);
    drop(third);
    // The channel ended before its controller was adopted.
    processor.adopt(controller);
    assert_eq!(lines(), ["gone"]);
}

/// Adds up the events that it receives.
#[derive(Default)]
struct Adder(u64, u64);

impl CongestionControl for Adder {
    fn name(&self) -> &'static str {
        "adder"
    }

    fn window_bytes(&self) -> u64 {
        self.0
    }

    fn on_ack(&mut self, sample: &AckSample) {
        self.0 += u64::from(sample.acked_bytes);
    }

    fn on_loss(&mut self, _: &LossSample) {}

    fn on_sent(&mut self, _: Instant, bytes: u32, _: u64) {
        self.1 += u64::from(bytes);
    }

    fn allowance_bytes(&self) -> u64 {
        (1_u64 << 40).saturating_sub(self.1)
    }
}

/// A controller on a thread of its own receives every byte's event, and no more credit is spent
/// than is available.
#[test]
fn controller_on_its_own_thread_misses_no_event() {
    const ROUNDS: u64 = 60_000;
    let (mut controller_proxy, mut processor) = rig(Box::new(Adder::default()));
    let (over, mut acked, mut sent) = (AtomicBool::new(false), 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let last = over.load(Ordering::Acquire);
                while processor.run_one().is_some() {}
                if last {
                    return;
                }
            }
        });
        for round in 0..ROUNDS {
            let sample = AckSample { acked_bytes: round as u32, ..AckSample::default() };
            controller_proxy.on_ack(&sample);
            acked += round;
            controller_proxy.on_sent(START, round as u32, 0);
            sent += round;
            let left = (1 << 40) - sent;
            let allowed = controller_proxy.allowance_bytes();
            assert!(allowed <= left, "{allowed} of {left}");
        }
        over.store(true, Ordering::Release);
    });
    assert_eq!(controller_proxy.window_bytes(), acked);
    assert_eq!(controller_proxy.allowance_bytes(), (1 << 40) - sent);
}

#[test]
fn channels_take_turns() {
    let mut processor = CongestionProcessor::new(3);
    let ready: Arc<ReadyQueue<_>> = processor.ready().clone();
    for kind in [CongestionKind::Acknowledged, CongestionKind::Lost, CongestionKind::Credit] {
        ready.mark(FlowId(0), kind);
        ready.mark(FlowId(2), kind);
    }
    let order: Vec<_> = std::iter::from_fn(|| processor.run_one()).collect();
    assert_eq!(order, [0, 2, 0, 2, 0, 2]);
}
