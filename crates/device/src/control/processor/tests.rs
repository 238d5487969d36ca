use super::{Processor, share_value};
use crate::control::{EventQueue, Kind, Steering};
use fairway_policy::{FlowId, RateRegisters, Scheduler, Share, TransmitSample};
use fairway_wire::Instant;
use std::boxed::Box;
use std::string::String;
use std::sync::{Arc, Mutex};
use std::vec::Vec;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn line(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records the events that it receives.
struct Scribe(Log, u32);

impl Scheduler for Scribe {
    fn name(&self) -> &'static str {
        "scribe"
    }

    fn flow_started(&mut self, _: Instant, flow: FlowId, share: Share, rates: &RateRegisters) {
        rates.set(flow, 1000);
        self.0.line(format!("{} starts, tenant {}", flow.0, share.tenant));
    }

    fn flow_ended(&mut self, _: Instant, flow: FlowId, _: &RateRegisters) {
        self.0.line(format!("{} ends", flow.0));
    }

    fn share_changed(&mut self, _: Instant, flow: FlowId, share: Share, _: &RateRegisters) {
        self.0.line(format!("{} weighs {}", flow.0, share.weight));
    }

    fn on_transmit(&mut self, flow: FlowId, sample: &TransmitSample, _: &RateRegisters) {
        let TransmitSample { bytes, events, backlogged, .. } = sample;
        self.0.line(format!("{} sent {bytes} in {events}, {backlogged}", flow.0));
    }

    fn on_hint(&mut self, _: Instant, flow: FlowId, hint: u64, _: &RateRegisters) {
        self.0.line(format!("{} hints {hint}", flow.0));
    }

    fn quantum_bytes(&self, flow: FlowId) -> Option<u32> {
        Some(100 + flow.0)
    }

    fn event_bytes(&self) -> u32 {
        self.1
    }
}

fn rig(event_bytes: u32) -> (Arc<EventQueue>, Arc<RateRegisters>, Processor, Log) {
    let (queue, rates) = (Arc::new(EventQueue::new(4)), Arc::new(RateRegisters::new(4)));
    let log = Log::default();
    let controller = Box::new(Scribe(log.clone(), event_bytes));
    let processor = Processor::new(controller, queue.clone(), rates.clone());
    (queue, rates, processor, log)
}

fn notify(queue: &EventQueue, flow: u32, kind: Kind, value: u64) {
    queue.slot(FlowId(flow), kind).keep_latest(value);
    queue.mark(FlowId(flow), kind);
}

fn sent(queue: &EventQueue, flow: u32, bytes: u64) {
    queue.slot(FlowId(flow), Kind::Transmit).accumulate_with(bytes, 1);
    queue.mark(FlowId(flow), Kind::Transmit);
}

#[test]
fn a_flow_lives_sends_and_ends() {
    let (queue, rates, mut processor, log) = rig(0);
    let share = Share { tenant: 9, weight: 3, tenant_weight: 1 };
    notify(&queue, 2, Kind::Share, share_value(share));
    notify(&queue, 2, Kind::Life, 1);
    sent(&queue, 2, 100);
    sent(&queue, 2, 50);
    assert!(!processor.run(Instant::ZERO, 100));
    assert_eq!(log.take(), ["2 starts, tenant 9", "2 weighs 3", "2 sent 150 in 2, true"]);
    assert_eq!((rates.get(FlowId(2)), rates.quantum(FlowId(2))), (1000, Some(102)));
    notify(&queue, 2, Kind::Hint, 77);
    notify(&queue, 2, Kind::Life, 2);
    processor.run(Instant::ZERO, 100);
    // The flow had ended when the hint was read.
    assert_eq!(log.take(), ["2 ends"]);
    assert_eq!(rates.get(FlowId(2)), RateRegisters::UNLIMITED);
    let stats = processor.stats();
    assert_eq!((stats.bytes, stats.transmits, stats.bytes_per_event()), (150, 1, 150));
    assert_eq!((stats.collected, stats.handled), (6, 5));
}

#[test]
fn end_and_begin_that_arrive_together_are_both_handed_over() {
    let (queue, _, mut processor, log) = rig(0);
    notify(&queue, 0, Kind::Life, 1);
    processor.run(Instant::ZERO, 1);
    notify(&queue, 0, Kind::Life, 2);
    notify(&queue, 0, Kind::Life, 3);
    processor.run(Instant::ZERO, 1);
    assert_eq!(log.take(), ["0 starts, tenant 0", "0 ends", "0 starts, tenant 0"]);
}

#[test]
fn too_little_is_left_to_grow() {
    let (queue, _, mut processor, log) = rig(1000);
    notify(&queue, 1, Kind::Life, 1);
    for _ in 0..3 {
        sent(&queue, 1, 400);
        processor.run(Instant::ZERO, 100);
    }
    assert_eq!(log.take(), ["1 starts, tenant 0", "1 sent 1200 in 3, true"]);
    assert_eq!(processor.stats().early, 2);
    // The event that a flow has nothing more to send is delivered at once.
    sent(&queue, 1, 10);
    queue.slot(FlowId(1), Kind::Transmit).accumulate_with(0, 0);
    processor.run(Instant::ZERO, 100);
    assert_eq!(log.take(), ["1 sent 10 in 2, false"]);
}

#[test]
fn a_budget_is_kept() {
    let (queue, _, mut processor, log) = rig(0);
    for flow in 0..4 {
        notify(&queue, flow, Kind::Life, 1);
    }
    assert!(processor.run(Instant::ZERO, 3));
    assert_eq!(log.take().len(), 3);
    assert!(!processor.run(Instant::ZERO, 3));
}

/// Threads are free at different times: each takes its own flows' events, one at a time, and no
/// event is lost or handled by another thread.
#[test]
fn thread_handles_the_events_of_its_own_flows_only() {
    let (log, queue) = (Log::default(), Arc::new(EventQueue::new(6)));
    let rates = Arc::new(RateRegisters::new(6));
    let mut processor = Processor::new(Box::new(Scribe(log.clone(), 0)), queue.clone(), rates);
    processor.steer(Steering::new(2));
    let send = |flow: u32, bytes: u64| {
        queue.slot(FlowId(flow), Kind::Transmit).accumulate_with(bytes, 1);
        queue.mark(FlowId(flow), Kind::Transmit);
    };
    for flow in 0..3 {
        queue.slot(FlowId(flow), Kind::Life).keep_latest(1);
        queue.mark(FlowId(flow), Kind::Life);
    }
    let mut announced = Vec::new();
    processor.collect(|thread| announced.push(thread));
    assert_eq!(announced, [0, 1, 0]);
    while processor.run_one(Instant::ZERO, 0) {}
    assert_eq!(log.take(), ["0 starts, tenant 0", "2 starts, tenant 0"]);
    assert!(processor.has_pending(1) && !processor.has_pending(0));
    while processor.run_one(Instant::ZERO, 1) {}
    assert_eq!(log.take(), ["1 starts, tenant 0"]);
    (0..3).for_each(|flow| send(flow, 10));
    processor.collect(|_| {});
    assert!(processor.run_one(Instant::ZERO, 0));
    // The rest of the flow's events accumulate while its thread is busy.
    (0..3).for_each(|flow| send(flow, 5));
    assert!(processor.run(Instant::ZERO, 2));
    assert!(!processor.run(Instant::ZERO, 9));
    let mut lines = log.take();
    lines.sort_unstable();
    let expected = [
        "0 sent 10 in 1, true",
        "0 sent 5 in 1, true",
        "1 sent 15 in 2, true",
        "2 sent 15 in 2, true",
    ];
    assert_eq!(lines, expected);
}
