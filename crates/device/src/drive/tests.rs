//! The order in which a driver calls its device, checked by a device that follows a script.

use super::*;
use crate::contract::{Placement, VerdictOf};
use crate::scatter::ScatterList;
use crate::values::{LocalRange, SegmentId};
use fairway_wire::AtomicOperator;
use std::collections::VecDeque;
use std::vec;

/// The verdict of a scripted packet.
type Judgement = Verdict<Placement<ScatterList, u32>, Request<u32>, &'static str>;

/// A device that returns scripted values. A packet is the number of a verdict.
#[derive(Debug, Default)]
struct Script {
    judgements: Vec<Option<Judgement>>,
    recalls: VecDeque<u32>,
    answers: VecDeque<u32>,
    executions: VecDeque<Execution<u32>>,
    events: VecDeque<u32>,
    /// Each of these adds an event when it is taken.
    own: VecDeque<u32>,
    completions: [VecDeque<u32>; 2],
    transmits: [VecDeque<u32>; 3],
    /// Packets in the order in which they were passed in.
    handed_in: Vec<(u32, bool)>,
    due: Option<Instant>,
}

impl Device for Script {
    type Received = (u32, bool);
    type Target = ScatterList;
    type Token = u32;
    type OwnVerdict = Request<u32>;
    type DropReason = &'static str;
    type Execution = Execution<u32>;
    type Transmit = u32;
    type Completion = u32;
    type Event = u32;

    fn handle_packet(&mut self, _now: Instant, received: &(u32, bool)) -> VerdictOf<Self> {
        self.handed_in.push(*received);
        assert!(self.answers.is_empty(), "answers leave first");
        self.judgements[received.0 as usize].take().unwrap_or(Verdict::Done)
    }
    fn handle_placed(&mut self, _now: Instant, _token: u32, _old: u64) {}
    fn handle_unplaced(&mut self, _now: Instant, _token: u32) {}
    fn handle_ungathered(&mut self, _transmit: &u32) {}
    fn handle_timeout(&mut self, _now: Instant) {
        self.due = None;
    }
    fn poll_transmit(&mut self, _now: Instant) -> Option<u32> {
        self.transmits[0].pop_front()
    }
    fn poll_execution(&mut self) -> Option<Execution<u32>> {
        self.executions.pop_front()
    }
    fn poll_completion(&mut self, queue: CompletionQueueId) -> Option<u32> {
        self.completions[queue.index()].pop_front()
    }
    fn poll_event(&mut self) -> Option<u32> {
        self.events.pop_front()
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

impl Driven for Script {
    type OwnOutput = u32;

    fn poll_own_output(&mut self) -> Option<u32> {
        let own = self.own.pop_front()?;
        self.events.push_back(100 + own);
        Some(own)
    }
    fn poll_answer(&mut self, _received: &(u32, bool)) -> Option<u32> {
        self.answers.pop_front()
    }
    fn poll_replay(&mut self) -> Option<u32> {
        self.recalls.pop_front()
    }
    fn unmarked(received: &(u32, bool)) -> (u32, bool) {
        (received.0, false)
    }
    fn engines(&self) -> u32 {
        3
    }
    fn poll_engine(&mut self, _now: Instant, engine: u32) -> Option<u32> {
        self.transmits[engine as usize].pop_front()
    }
}

const NOW: Instant = Instant::ZERO;

fn range(segment: u32, offset: u64, length: u32) -> LocalRange {
    LocalRange { segment: SegmentId::new(segment), offset, length }
}

fn list(ranges: &[LocalRange]) -> ScatterList {
    ScatterList::new(ranges).expect("few ranges")
}

#[test]
fn kept_packet_is_handed_in_without_its_mark_and_before_executions() {
    let target = list(&[range(0, 0, 1)]);
    let copy = Execution::Copy { from: range(0, 0, 1), to: range(1, 0, 1), token: 9 };
    let script = Script {
        judgements: vec![Some(Verdict::Own(Request::Buffer(1))), Some(Verdict::Drop("old"))],
        executions: VecDeque::from([copy]),
        ..Script::default()
    };
    let mut driver = Driver::new(script, 2);
    assert_eq!(driver.handle_packet(NOW, &(0, true), || 'a'), Outcome::Done);
    let dropped = driver.handle_packet(NOW, &(1, true), || unreachable!("it has no place"));
    assert_eq!(dropped, Outcome::Dropped("old"));
    driver.device.judgements[0] = Some(Verdict::Place(Placement { target, token: 7 }));
    // An empty place is skipped.
    driver.device.recalls = VecDeque::from([0, 1]);
    let access = driver.poll_access(NOW);
    assert_eq!(access, Some(Access::Place { target, payload: 'a', token: 7 }));
    assert_eq!(driver.device.handed_in, [(0, true), (1, true), (0, false)]);
    assert_eq!(driver.poll_access(NOW).map(|access| access.token()), Some(9));
    assert_eq!(driver.poll_access(NOW), None);
}

#[test]
fn answers_are_sent_before_a_packet_takes_effect() {
    let script = Script {
        judgements: vec![Some(Verdict::Own(Request::Buffer(0)))],
        answers: VecDeque::from([5, 6]),
        ..Script::default()
    };
    let mut driver = Driver::new(script, 1);
    let mut sent = Vec::new();
    let outcome = driver.handle_packet_after_answers(
        NOW,
        &(0, false),
        || (),
        |sends| {
            sent.push(sends);
        },
    );
    assert_eq!((outcome, &sent[..]), (Outcome::Done, &[5, 6][..]));
    driver.device.recalls.push_back(0);
    driver.device.answers.push_back(7);
    assert_eq!(driver.poll_access_after_answers(NOW, |sends| sent.push(sends)), None);
    assert_eq!(sent, [5, 6, 7]);
}

#[test]
fn outputs_come_by_kind_and_an_event_they_cause_stays() {
    let script = Script {
        events: VecDeque::from([1, 2]),
        own: VecDeque::from([3]),
        completions: [VecDeque::from([4]), VecDeque::from([5, 6])],
        ..Script::default()
    };
    let mut driver = Driver::<_, ()>::new(script, 0);
    let queues = [1, 0].map(CompletionQueueId::new);
    let outputs: Vec<_> = driver.outputs(&queues).collect();
    use Output::{Completion, Event, Own};
    let expected = [Event(1), Event(2), Own(3), Completion(5), Completion(6), Completion(4)];
    assert_eq!(outputs, expected);
    assert_eq!(driver.outputs(&queues).collect::<Vec<_>>(), [Event(103)]);
}

#[test]
fn every_engine_is_tried_from_the_first_on() {
    let transmits = [VecDeque::from([1]), VecDeque::from([2]), VecDeque::new()];
    let mut driver = Driver::<_, ()>::new(Script { transmits, ..Script::default() }, 0);
    assert_eq!(
        [2, 2, 1].map(|first| driver.poll_transmit_from(NOW, first)),
        [Some(1), Some(2), None]
    );
}

#[test]
fn timeout_is_handled_only_when_it_is_due() {
    let due = Some(Instant::from_ns(2));
    let mut driver = Driver::<_, ()>::new(Script { due, ..Script::default() }, 0);
    assert!(!driver.handle_time(Instant::from_ns(1)));
    assert!(driver.handle_time(Instant::from_ns(2)));
    assert_eq!(driver.poll_timeout(), None);
}

/// Two segments.
struct Bytes([Vec<u8>; 2]);

impl Memory for Bytes {
    type Error = LocalRange;

    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], LocalRange> {
        let (start, end) = (range.offset as usize, range.offset as usize + range.length as usize);
        let segment = self.0.get_mut(range.segment.index());
        segment.and_then(|bytes| bytes.get_mut(start..end)).ok_or(*range)
    }
}

type Plain = Access<ScatterList, u32, Vec<u8>>;

#[test]
fn accesses_change_the_bytes_they_name_and_no_other() {
    let mut memory = Bytes([vec![0; 8], vec![0xEE; 10]]);
    let target = list(&[range(0, 6, 2), range(0, 0, 3)]);
    let place: Plain = Access::Place { target, payload: vec![1, 2, 3, 4, 5], token: 0 };
    assert_eq!(place.carry_out(&mut memory), Ok(0));
    assert_eq!(memory.0[0], [3, 4, 5, 0, 0, 0, 1, 2]);
    let copy: Plain = Access::Copy { from: range(0, 0, 2), to: range(1, 8, 2), token: 0 };
    assert_eq!(copy.ranges(), [range(1, 8, 2)]);
    assert_eq!(copy.carry_out(&mut memory), Ok(0));
    let target = list(&[range(1, 0, 8)]);
    let store: Plain = Access::Store { target, value: 0x0102_0304, token: 0 };
    assert_eq!(store.carry_out(&mut memory), Ok(0));
    assert_eq!(memory.0[1], [4, 3, 2, 1, 0, 0, 0, 0, 3, 4]);
    let atomic: Plain = Access::Atomic(AtomicExecution {
        target: range(1, 0, 4),
        operator: AtomicOperator::Add,
        operand: 0xFFFF_FFFF,
        compare: 0,
        token: 0,
    });
    assert_eq!(atomic.carry_out(&mut memory), Ok(0x0102_0304));
    assert_eq!(memory.0[1], [3, 3, 2, 1, 0, 0, 0, 0, 3, 4]);
}

#[test]
fn missing_range_is_an_error() {
    let mut memory = Bytes([vec![0; 8], vec![]]);
    let target = list(&[range(0, 0, 1), range(1, 0, 1)]);
    let place: Plain = Access::Place { target, payload: vec![1, 2], token: 0 };
    assert_eq!(place.carry_out(&mut memory), Err(range(1, 0, 1)));
}

#[test]
#[should_panic(expected = "2 bytes of a payload have no place")]
fn payload_longer_than_its_ranges_panics() {
    let mut memory = Bytes([vec![0; 8], vec![]]);
    let target = list(&[range(0, 0, 1)]);
    let place: Plain = Access::Place { target, payload: vec![1, 2, 3], token: 0 };
    let _ = place.carry_out(&mut memory);
}
