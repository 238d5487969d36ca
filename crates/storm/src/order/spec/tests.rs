//! Histories written by hand: correct ones that have to pass, and wrong ones that must not.

use super::super::clock::Clock;
use super::super::freedom::Freedom;
use super::*;

/// Writes a history of a program, with the values that a correct memory would return.
struct Script {
    program: Program,
    memories: Vec<Vec<u8>>,
    values: Vec<(u64, Vec<u8>)>,
    whats: Vec<What>,
}

impl Script {
    /// Starts a history in which every operation is posted.
    fn new(program: &str) -> Script {
        let program: Program = program.parse().unwrap();
        let count = program.operations.len();
        let whats = (0..count).map(|op| What::Posted { op }).collect();
        let memories = vec![vec![0; SHARED_BYTES]; NODES];
        Script { program, memories, values: vec![(0, Vec::new()); count], whats }
    }

    /// Operation `op` takes effect.
    fn effect(self, op: usize) -> Script {
        let length = self.program.operations[op].bytes();
        self.part(op, 0, length)
    }

    /// Some bytes of operation `op` take effect.
    fn part(mut self, op: usize, at: usize, length: usize) -> Script {
        let operation = &self.program.operations[op];
        let memory = &mut self.memories[operation.node];
        let what = match operation.kind {
            Kind::Read(_) => {
                let bytes = memory[at..at + length].to_vec();
                self.values[op].1.extend_from_slice(&bytes);
                What::Gathered { op, at, bytes }
            }
            Kind::Atomic => {
                let old = word(memory);
                self.values[op].0 = old;
                let new = old + self.program.operand(op);
                memory[..8].copy_from_slice(&new.to_le_bytes());
                What::Executed { op, old }
            }
            kind => {
                if !matches!(kind, Kind::Send(_)) {
                    memory[at..at + length]
                        .copy_from_slice(&self.program.payload(op)[at..at + length]);
                }
                What::Placed { op, at, length }
            }
        };
        self.whats.push(what);
        self
    }

    /// Operation `op` completes with success.
    fn done(self, op: usize) -> Script {
        let (value, bytes) = self.values[op].clone();
        self.say(What::Completed { op, success: true, value, bytes })
    }

    /// Operation `op` is given up.
    fn failed(self, op: usize) -> Script {
        self.say(What::Completed { op, success: false, value: 0, bytes: Vec::new() })
    }

    /// The receive of operation `op` completes.
    fn received(self, op: usize) -> Script {
        self.say(What::Received { op })
    }

    /// The operations take effect and complete, one after the other.
    fn all(mut self, operations: &[usize]) -> Script {
        for &op in operations {
            self = self.effect(op).done(op);
        }
        self
    }

    fn say(mut self, what: What) -> Script {
        self.whats.push(what);
        self
    }

    fn passes(&self) {
        check(&self.program, &History::in_order(self.whats.clone())).unwrap();
    }

    /// Checks that the history breaks `rule`, by these two operations.
    fn breaks(&self, rule: Rule, first: usize, second: usize) {
        let broken = check(&self.program, &History::in_order(self.whats.clone())).unwrap_err();
        assert_eq!((broken.rule, broken.first, broken.second), (rule, first, second), "{broken}");
    }
}

#[test]
fn strict_waits_for_relaxed_and_strict() {
    for mode in ["roi", "rot", "rol"] {
        for first in ["ro", "so"] {
            let program = format!("0 0W1>1.rol.{first} 0W1>1.{mode}.so");
            Script::new(&program).all(&[0, 1]).passes();
            Script::new(&program).all(&[1, 0]).breaks(Rule::Strict, 0, 1);
        }
        let program = format!("0,0 0W1>1.rot 0W1>1.{mode}.so 1W1>1.rot.so 0W1>1.rot.ro");
        Script::new(&program).all(&[3, 2, 1, 0]).passes();
    }
}

#[test]
fn strict_waits_for_the_last_byte_and_holds_its_first() {
    let program = "0 0W2>1.rot.ro 0W2>1.rot.so";
    let good = Script::new(program).part(0, 32, 32).part(0, 0, 32).part(1, 32, 32).part(1, 0, 32);
    good.done(0).done(1).passes();
    let bad = Script::new(program).part(0, 32, 32).part(1, 32, 32).part(0, 0, 32).part(1, 0, 32);
    bad.done(0).done(1).breaks(Rule::Strict, 0, 1);
}

#[test]
fn strict_does_not_wait_for_what_was_given_up() {
    let program = "0 0W2>1.rot.so.wrong 0W1>1.rot.so";
    Script::new(program).all(&[1]).failed(0).passes();
    Script::new("0 0W1>1.rot.so 0W1>1.rot.so").all(&[1]).failed(0).breaks(Rule::Refusal, 0, 0);
}

#[test]
fn strict_waits_for_other_nodes_by_way_of_messages() {
    // Both histories have the right order in real time, but only in one of them the reverse order
    // would have been impossible.
    let program: Program = "0 0W1>1.rot.ro 0W1>2.rot.so".parse().unwrap();
    let history = |has_message: bool| {
        let mut clocks = [Clock::default(); NODES];
        let mut events = Vec::new();
        let mut say = |node: usize, clocks: &mut [Clock; NODES], what| {
            let at = events.len() as u64;
            events.push(Event { at, clock: clocks[node].tick(node), what });
        };
        say(0, &mut clocks, What::Posted { op: 0 });
        say(0, &mut clocks, What::Posted { op: 1 });
        let posted = clocks[0];
        clocks[1].merge(&posted);
        say(1, &mut clocks, What::Placed { op: 0, at: 0, length: 32 });
        let placed = clocks[1];
        clocks[2].merge(if has_message { &placed } else { &posted });
        say(2, &mut clocks, What::Placed { op: 1, at: 0, length: 32 });
        let both = [placed, clocks[2]];
        both.iter().for_each(|clock| clocks[0].merge(clock));
        for op in 0..2 {
            let what = What::Completed { op, success: true, value: 0, bytes: Vec::new() };
            say(0, &mut clocks, what);
        }
        History::new(events)
    };
    check(&program, &history(true)).unwrap();
    assert_eq!(check(&program, &history(false)).unwrap_err().rule, Rule::Strict);
}

#[test]
fn a_fence_waits_for_completions_of_reads_and_atomics() {
    for first in ["R1", "A1"] {
        let program = format!("0 0{first}>1.rol 0W1>1.rol.fence 0W1>1.rol");
        Script::new(&program).all(&[2, 0, 1]).passes();
        Script::new(&program).effect(0).effect(1).done(0).done(1).all(&[2]).breaks(
            Rule::Fence,
            0,
            1,
        );
    }
    Script::new("0 0W1>1.rol.so 0W1>1.rol.fence").all(&[1, 0]).passes();
}

#[test]
fn later_operation_requests_completion_in_order() {
    let program = "0,0 0W1>1.rol 0W1>1.rol.cio 0W1>1.rol 1W1>1.rol";
    Script::new(program).all(&[3, 2, 0, 1]).passes();
    Script::new(program).all(&[3, 2, 1, 0]).breaks(Rule::CompletionOrder, 0, 1);
    // An operation without a completion is not waited for.
    Script::new("0 0W1>1.rol.quiet 0W1>1.rol.cio").all(&[1]).effect(0).passes();
}

#[test]
fn receives_in_order_are_those_of_one_jetty_to_one_node() {
    let program = "0,0 0S1>1.rot.rio 0S1>1.rot 0S1>1.rot.rio 1S1>1.rot.rio 0S1>2.rot.rio";
    let sent = |script: Script| (0..5).fold(script, |script, op| script.effect(op).done(op));
    let good = sent(Script::new(program)).received(4).received(3).received(1);
    good.received(0).received(2).passes();
    let bad = sent(Script::new(program)).received(4).received(3).received(2);
    bad.received(0).received(1).breaks(Rule::ReceiveOrder, 0, 2);
}

#[test]
fn everything_happens_exactly_once() {
    let program = "0 0W1>1.rol 0A1>1.rol 0S1>1.rol 0W1>1.uno 0S1>1.uno";
    let most = || Script::new(program).all(&[0, 1, 2]).done(3).done(4);
    most().received(2).passes();
    most().received(2).effect(3).passes();
    most().breaks(Rule::ExactlyOnce, 2, 2);
    most().received(2).received(2).breaks(Rule::ExactlyOnce, 2, 2);
    most().received(2).effect(1).breaks(Rule::ExactlyOnce, 1, 1);
    most().received(2).effect(0).breaks(Rule::ExactlyOnce, 0, 0);
    most().received(2).done(0).breaks(Rule::ExactlyOnce, 0, 0);
    most().received(2).effect(3).effect(3).breaks(Rule::ExactlyOnce, 3, 3);
    most().received(2).received(4).breaks(Rule::ExactlyOnce, 4, 4);
    Script::new("0 0W1>1.rol").breaks(Rule::ExactlyOnce, 0, 0);
    Script::new("0 0W2>1.rol").part(0, 0, 32).done(0).breaks(Rule::ExactlyOnce, 0, 0);
    Script::new("0 0W1>1.rol.quiet").effect(0).done(0).breaks(Rule::ExactlyOnce, 0, 0);
}

#[test]
fn completion_comes_after_effect() {
    for program in ["0 0W1>1.rol", "0 0A1>1.roi"] {
        Script::new(program).done(0).effect(0).breaks(Rule::EffectFirst, 0, 0);
    }
    Script::new("0 0W1>1.uno").done(0).effect(0).passes();
    let program = "0 0S2>1.rot";
    Script::new(program).part(0, 0, 32).received(0).part(0, 32, 32).done(0).breaks(
        Rule::EffectFirst,
        0,
        0,
    );
}

#[test]
fn values_are_those_of_the_memory() {
    let program = "0 0W1>1.rol 0R1>1.rol 0A1>1.rol 0A1>1.rol";
    Script::new(program).all(&[0, 2, 1, 3]).passes();
    let nothing = || vec![0; 32];
    let stale = Script::new(program).all(&[0, 2, 3]);
    let stale = stale.say(What::Gathered { op: 1, at: 0, bytes: nothing() });
    let whole = What::Completed { op: 1, success: true, value: 0, bytes: nothing() };
    stale.say(whole.clone()).breaks(Rule::Values, 1, 1);
    let wrong = Script::new(program).all(&[0, 2, 3]).effect(1).say(whole);
    wrong.breaks(Rule::Values, 1, 1);
    let extra = What::Completed { op: 3, success: true, value: 0, bytes: Vec::new() };
    Script::new(program).all(&[0, 1, 2]).effect(3).say(extra).breaks(Rule::Values, 3, 3);
    let found = What::Executed { op: 3, old: 1 << 24 };
    Script::new(program).all(&[0, 1, 2]).say(found).done(3).breaks(Rule::Values, 3, 3);
}

#[test]
fn a_strict_read_of_a_copy_taken_too_early() {
    // The response was lost, and the initiator received the bytes that were read at the second try.
    let program = "0 0R1>1.rot.so 0W1>1.rot.so";
    Script::new(program).effect(0).effect(1).done(0).done(1).passes();
    Script::new(program).effect(1).effect(0).done(0).done(1).breaks(Rule::Strict, 0, 1);
}

/// Observes one successful run for each order of effects. Returns the pairs not seen reversed.
fn freedom(program: &str, orders: &[&[usize]]) -> Vec<(usize, usize)> {
    let parsed: Program = program.parse().unwrap();
    let mut freedom = Freedom::new(&parsed);
    for order in orders {
        let script = Script::new(program).all(order);
        script.passes();
        freedom.observe(&History::in_order(script.whats));
    }
    freedom.missing()
}

#[test]
fn operations_without_order_do_not_wait() {
    let program = "0 0W1>1.rot.so 0W1>1.rot.ro 0W1>1.rot.so";
    assert_eq!(freedom(program, &[&[0, 1, 2]]), [(0, 1)]);
    assert_eq!(freedom(program, &[&[1, 0, 2]]), []);
    // An engine that executes one operation after the other.
    let program = "0,0 0W1>1.rol 0R1>1.rol 1W1>1.rol.so";
    assert_eq!(freedom(program, &[&[0, 1, 2]]), [(0, 1), (0, 2), (1, 2)]);
    assert_eq!(freedom(program, &[&[2, 1, 0]]), []);
}

#[test]
fn order_by_way_of_a_third_is_order() {
    let program = "0 0R1>1.rot 0W1>1.rot.so.fence 0W1>1.rot.so";
    assert_eq!(freedom(program, &[&[0, 1, 2]]), []);
}

#[test]
fn a_fence_behind_a_completion_in_order_waits_for_what_that_waits_for() {
    assert_eq!(freedom("0 0W1>1.rol 0R1>1.rol.cio 0W1>1.rol.fence", &[&[0, 1, 2]]), [(0, 1)]);
}

// ---- what defects of an earlier implementation would look like (tests/order_defects.rs) ----

#[test]
fn d9_a_tracker_that_takes_two_nodes_for_one() {
    // Node 2 has a Jetty of the same number, whose relaxed operation is counted instead of node
    // 0's.
    let program = "0,2 0W1>1.rot.ro 1W1>1.rot.ro 0W1>1.rot.so";
    Script::new(program).all(&[1, 2, 0]).breaks(Rule::Strict, 0, 2);
    // Or a strict operation waits for the other node's relaxed one.
    let program = "0,2 0W1>1.rot.ro 1W1>1.rot.so";
    assert_eq!(freedom(program, &[&[0, 1]]), [(0, 1)]);
}

#[test]
fn d14_a_scan_that_comes_round_too_late() {
    let program = "0,0 0W1>1.roi 1W1>1.roi";
    assert_eq!(freedom(program, &[&[0, 1], &[0, 1]]), [(0, 1)]);
}

#[test]
fn d15_a_full_queue_that_drops() {
    let program = "0 0W2>1.roi.so 0W2>1.roi.so";
    Script::new(program).all(&[0]).breaks(Rule::ExactlyOnce, 1, 1);
    Script::new(program).all(&[0]).part(1, 0, 32).breaks(Rule::ExactlyOnce, 1, 1);
}

#[test]
fn d16_a_strict_one_that_overtakes_a_queued_strict_one() {
    let program = "0 0W1>1.roi.ro 0W1>1.roi.so 0W1>1.roi.so";
    Script::new(program).all(&[0, 2, 1]).breaks(Rule::Strict, 1, 2);
}

#[test]
fn d17_a_strict_one_after_one_without_a_tag_waits_for_ever() {
    let program = "0 0W1>1.rot.ro 0W1>1.rot 0W1>1.rot.so";
    Script::new(program).all(&[0, 1]).breaks(Rule::ExactlyOnce, 2, 2);
}

#[test]
fn d18_arrivals_4_3_2_wait_for_each_other() {
    let program = "0 0W1>1.rot.so 0W1>1.rot.so 0W1>1.rot.so 0W1>1.rot.so";
    Script::new(program).all(&[0]).breaks(Rule::ExactlyOnce, 1, 1);
    Script::new(program).all(&[0, 1, 3, 2]).breaks(Rule::Strict, 2, 3);
}

#[test]
fn d19_completions_without_order_that_are_never_counted() {
    let program = "0 0W1>1.rot 0W1>1.rot.cio";
    Script::new(program).all(&[0]).effect(1).breaks(Rule::ExactlyOnce, 1, 1);
    let program = "0 0S1>1.rot 0S1>1.rot.rio";
    Script::new(program).all(&[0, 1]).received(0).breaks(Rule::ExactlyOnce, 1, 1);
}

#[test]
fn d22_reads_without_an_answer() {
    let program = "0 0R1>1.rol 0A1>1.rol";
    Script::new(program).all(&[0]).effect(1).breaks(Rule::ExactlyOnce, 1, 1);
    Script::new(program).effect(0).all(&[1]).breaks(Rule::ExactlyOnce, 0, 0);
}

#[test]
fn d23_an_answer_that_is_taken_for_a_request() {
    // The sequence number equals that of an earlier request, so one of the two is dropped as a
    // duplicate.
    let program = "0,1 0R1>1.rol 1W1>0.rol";
    let lost = Script::new(program).all(&[0]).done(1);
    lost.breaks(Rule::ExactlyOnce, 1, 1);
    // Or the response is placed with the other operation's bytes.
    let bytes = vec![0x20; 32];
    let taken = Script::new(program).all(&[1]).effect(0);
    let wrong = What::Completed { op: 0, success: true, value: 0, bytes };
    taken.say(wrong).breaks(Rule::Values, 0, 0);
}

#[test]
fn d30_unreliable_packets_that_pass_the_order_gate() {
    // Unreliable packets are made to wait.
    let program = "0 0W1>1.rot.so 0W1>1.uno";
    assert_eq!(freedom(program, &[&[0, 1]]), [(0, 1)]);
    // Or they are counted, and an operation that waits for others is executed too early.
    let program = "0 0W1>1.rot.ro 0W1>1.uno 0W1>1.rot.so";
    Script::new(program).all(&[1, 2, 0]).breaks(Rule::Strict, 0, 2);
}

#[test]
fn d7_read_and_atomic_see_earlier_writes() {
    let program = "0 0W1>1.rot.so 0R1>1.rot.so 0A1>1.rot.so";
    Script::new(program).all(&[0, 1, 2]).passes();
    let bytes = vec![0; 32];
    let blind = Script::new(program).all(&[0]).say(What::Gathered { op: 1, at: 0, bytes });
    blind.done(1).all(&[2]).breaks(Rule::Values, 1, 1);
    let blind = Script::new(program).all(&[0, 1]).say(What::Executed { op: 2, old: 0 });
    blind.done(2).breaks(Rule::Values, 2, 2);
}

#[test]
fn d25_a_wrong_secret_that_succeeds() {
    let program = "0 0W1>1.rol.wrong";
    Script::new(program).failed(0).passes();
    Script::new(program).done(0).breaks(Rule::Refusal, 0, 0);
    Script::new(program).effect(0).failed(0).breaks(Rule::Refusal, 0, 0);
}
