//! What an event of the control framework costs, with and without coalescing (SCR Figure 10c).
//!
//! `cargo run --release -p fairway-device --example event_cost` prints nanoseconds per event that
//! was sent to the framework: adding it to its slot, announcing it, and the controller's part.
//! `event_cost SIGNAL FLOWS COALESCING EVENTS` runs one case a single time, so that a tool can
//! count its instructions: all of them are in `measured_events` (`repro/scr.py --only fig10c`).
//!
//! | signal | coalesced as | controller |
//! |---|---|---|
//! | `tx` | bytes are added up; `coverage`: until the scheduler's threshold | water-filling |
//! | `credit` | the latest total is kept | the sender of EQDS |
//! | `host` | the latest reading of the bus is kept | back-pressure |

use std::sync::Arc;
use std::time::Instant as Clock;

use fairway_device::control::{
    Cursor, EventKind, EventQueue, Kind, Multiplexer, Processor, ReadyQueue, Slot,
};
use fairway_policy::{
    AckSample, CongestionControl, Eager, FlowId, PolicySpec, RateRegisters, Scheduler,
};
use fairway_wire::{Duration, Instant};

const PACKET_BYTES: u32 = 4096;
/// Time between two packets at 100 Gb/s.
const PACKET_TIME: Duration = Duration::from_ns(328);
/// Delay of the host's bus from which on flows are slowed down, in nanoseconds.
const BUS_BUSY_NS: u64 = 950;
const FLOWS: [u32; 5] = [1, 16, 64, 256, 1024];

/// How events of a flow become one event of its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coalescing {
    /// The controller is run for every event.
    Off,
    /// The thread comes when so many events of each flow wait, and takes them together.
    Waiting(u32),
    /// The thread comes after every event, but an event is announced only if the flow has sent as
    /// much as the scheduler asks for.
    Coverage,
}

impl Coalescing {
    fn read(text: &str) -> Option<Coalescing> {
        match text {
            "off" => Some(Coalescing::Off),
            "coverage" => Some(Coalescing::Coverage),
            number => number.parse().ok().filter(|n| *n > 0).map(Coalescing::Waiting),
        }
    }

    /// Events of each flow between two visits of the thread.
    fn waiting(self) -> u32 {
        match self {
            Coalescing::Waiting(events) => events,
            Coalescing::Off | Coalescing::Coverage => 1,
        }
    }
}

/// Events of one signal, and what handles them.
trait Signal {
    /// Adds an event of a flow to its slot, and announces it.
    fn add(&mut self, flow: FlowId);
    /// Runs the controller for all announced events.
    fn handle(&mut self, now: Instant);
    /// How often the controller was run.
    fn transmits(&self) -> u64;
}

/// Transmit events, as the data path adds them.
struct Transmits {
    queue: Arc<EventQueue>,
    processor: Processor,
    /// By flow: bytes that were not announced.
    unannounced: Vec<u32>,
}

impl Transmits {
    /// The value of a transmit event's slot if the flow has more to send.
    const BACKLOGGED: u64 = 1;

    fn new(flows: u32, coalescing: Coalescing) -> Transmits {
        let spec: PolicySpec = "sched=water-filling:line=100Gbps".parse().expect("it is built in");
        let scheduler: Box<dyn Scheduler> = match coalescing {
            Coalescing::Coverage => spec.build_scheduler(flows),
            _ => Box::new(Eager(spec.build_scheduler(flows))),
        };
        let (queue, rates) =
            (Arc::new(EventQueue::new(flows)), Arc::new(RateRegisters::new(flows)));
        let mut processor = Processor::new(scheduler, queue.clone(), rates);
        for flow in (0..flows).map(FlowId) {
            // A tenant of weight 1, with a flow of weight 1.
            queue.slot(flow, Kind::Share).keep_latest(1 << 16 | 1);
            queue.slot(flow, Kind::Life).keep_latest(1);
            queue.mark(flow, Kind::Life);
        }
        processor.run(Instant::ZERO, u32::MAX);
        Transmits { queue, processor, unannounced: vec![0; flows as usize] }
    }
}

impl Signal for Transmits {
    fn add(&mut self, flow: FlowId) {
        let slot = self.queue.slot(flow, Kind::Transmit);
        slot.accumulate_with(PACKET_BYTES.into(), Self::BACKLOGGED);
        let unannounced = &mut self.unannounced[flow.index()];
        *unannounced += PACKET_BYTES;
        if *unannounced >= self.queue.threshold() {
            *unannounced = 0;
            self.queue.mark(flow, Kind::Transmit);
        }
    }

    fn handle(&mut self, now: Instant) {
        self.processor.run(now, u32::MAX);
    }

    fn transmits(&self) -> u64 {
        self.processor.stats().transmits
    }
}

/// The one kind of events of a signal whose latest value is kept.
#[derive(Clone, Copy)]
struct Latest;

impl EventKind for Latest {
    const ALL: &'static [Latest] = &[Latest];

    fn index(self) -> usize {
        0
    }
}

/// Hands the value before and the latest one to a congestion control.
type Law = fn(&mut dyn CongestionControl, Instant, [u64; 2]);

/// A signal of which the latest value is kept, and a congestion control of each flow.
struct Values {
    slots: Vec<(Slot, Cursor)>,
    ready: ReadyQueue<Latest>,
    multiplexer: Multiplexer<Latest>,
    controllers: Vec<Box<dyn CongestionControl>>,
    /// By flow: the rate or window that the data path reads.
    registers: Vec<u64>,
    /// By flow: the value before.
    before: Vec<u64>,
    added: u64,
    handled: u64,
    law: Law,
    /// The next value of a flow, from the one before and the number of events so far.
    next: fn(u64, u64) -> u64,
}

impl Values {
    fn new(flows: u32, policy: &str, law: Law, next: fn(u64, u64) -> u64) -> Values {
        let spec: PolicySpec = policy.parse().expect("it is built in");
        Values {
            slots: (0..flows).map(|_| Default::default()).collect(),
            ready: ReadyQueue::new(flows),
            multiplexer: Multiplexer::new(flows),
            controllers: (0..flows).map(|_| spec.build(PACKET_BYTES).congestion).collect(),
            registers: vec![0; flows as usize],
            before: vec![0; flows as usize],
            added: 0,
            handled: 0,
            law,
            next,
        }
    }

    /// Credit of the peer: the total that it has granted.
    fn credit(flows: u32) -> Values {
        let law: Law = |controller, now, [before, total]| {
            controller.on_credit(now, (total - before) as u32);
        };
        Values::new(flows, "cc=eqds", law, |before, _| before + u64::from(PACKET_BYTES))
    }

    /// Delay of the host's bus in nanoseconds, between 600 and 1,000.
    fn host(flows: u32) -> Values {
        let law: Law = |controller, now, [_, delay_ns]| {
            controller.on_ack(&AckSample {
                now,
                pressure: delay_ns >= BUS_BUSY_NS,
                smoothed_rtt: Duration::from_us(10),
                ..AckSample::default()
            });
        };
        let next = |_, added: u64| 600 + (added.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 400;
        Values::new(flows, "cc=backpressure", law, next)
    }
}

impl Signal for Values {
    fn add(&mut self, flow: FlowId) {
        let slot = &self.slots[flow.index()].0;
        slot.keep_latest((self.next)(slot.latest(), self.added));
        self.added += 1;
        self.ready.mark(flow, Latest);
    }

    fn handle(&mut self, now: Instant) {
        while let Some((flow, Latest)) = self.multiplexer.next(&self.ready) {
            let (slot, cursor) = &mut self.slots[flow.index()];
            let Some(seen) = slot.peek(cursor) else { continue };
            slot.take(cursor, &seen);
            self.handled += 1;
            let controller = &mut *self.controllers[flow.index()];
            let before = std::mem::replace(&mut self.before[flow.index()], seen.value);
            (self.law)(controller, now, [before, seen.value]);
            self.registers[flow.index()] =
                controller.pacing_bytes_per_second().unwrap_or_else(|| controller.window_bytes());
        }
    }

    fn transmits(&self) -> u64 {
        self.handled
    }
}

/// A signal of a number of flows, ready to run.
struct Case {
    signal: Box<dyn Signal>,
    flows: u32,
    coalescing: Coalescing,
    now: Instant,
}

impl Case {
    fn new(name: &str, flows: u32, coalescing: Coalescing) -> Option<Case> {
        let signal: Box<dyn Signal> = match (name, coalescing) {
            ("tx", _) => Box::new(Transmits::new(flows, coalescing)),
            (_, Coalescing::Coverage) => return None,
            ("credit", _) => Box::new(Values::credit(flows)),
            ("host", _) => Box::new(Values::host(flows)),
            _ => return None,
        };
        let mut case = Case { signal, flows, coalescing, now: Instant::from_ps(1) };
        // Until rates have settled.
        case.run(u64::from(flows) * 256 + 4096);
        Some(case)
    }

    /// Sends at least this many events; returns how many.
    fn run(&mut self, events: u64) -> u64 {
        let (mut sent, waiting) = (0, self.coalescing.waiting());
        while sent < events {
            for _ in 0..waiting {
                for flow in (0..self.flows).map(FlowId) {
                    self.now = self.now + PACKET_TIME;
                    self.signal.add(flow);
                    if waiting == 1 {
                        self.signal.handle(self.now);
                    }
                }
            }
            if waiting > 1 {
                self.signal.handle(self.now);
            }
            sent += u64::from(waiting) * u64::from(self.flows);
        }
        sent
    }
}

/// Where a tool counts instructions.
#[inline(never)]
fn measured_events(case: &mut Case, events: u64) -> u64 {
    case.run(events)
}

/// Nanoseconds per event: the median of short runs.
fn time(case: &mut Case) -> f64 {
    let mut means: Vec<f64> = (0..61)
        .map(|_| {
            let begin = Clock::now();
            let sent = measured_events(case, 8192);
            begin.elapsed().as_nanos() as f64 / sent as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means[means.len() / 2]
}

fn table() {
    println!("Nanoseconds per event:\n");
    println!(
        "| signal | flows | off | 4 waiting | 16 waiting | coverage |\n|---|---|---|---|---|---|"
    );
    for name in ["tx", "credit", "host"] {
        for flows in FLOWS {
            let cells = ["off", "4", "16", "coverage"].map(|kind| {
                let coalescing = Coalescing::read(kind).expect("one of ours");
                let case = Case::new(name, flows, coalescing);
                case.map_or(String::from("–"), |mut case| format!("{:.1}", time(&mut case)))
            });
            println!("| {name} | {flows} | {} |", cells.join(" | "));
        }
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.is_empty() {
        return table();
    }
    let parsed = match &words[..] {
        [name, flows, coalescing, events] => {
            let flows = flows.parse().ok().filter(|flows| (1..=1 << 20).contains(flows));
            let kind = flows.zip(Coalescing::read(coalescing));
            let case = kind.and_then(|(flows, coalescing)| Case::new(name, flows, coalescing));
            case.zip(events.parse().ok())
        }
        _ => None,
    };
    let Some((mut case, events)) = parsed else {
        eprintln!("usage: event_cost [tx|credit|host FLOWS off|coverage|WAITING EVENTS]");
        std::process::exit(2);
    };
    let before = case.signal.transmits();
    let sent = measured_events(&mut case, events);
    println!("{{\"events\": {sent}, \"handled\": {}}}", case.signal.transmits() - before);
}
