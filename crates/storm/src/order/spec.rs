//! The rules of order (UB §7.3), as a check of one finished run.
//!
//! "Before" means before in every run with arbitrary message delays, not only in the observed one
//! ([`Event::is_before`]). So a single run reveals the errors of all runs that differ from it only
//! in the order of independent events.

use super::clock::NODES;
use super::history::{Event, History, What};
use super::program::{Kind, Operation, Program, SHARED_BYTES, Token};
use std::fmt;

/// A rule of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A strict operation takes effect only after every earlier relaxed or strict one of its Jetty,
    /// whatever their modes and targets, unless the earlier one was given up.
    Strict,
    /// A fenced operation takes effect only after every earlier READ and atomic of its Jetty has
    /// completed.
    Fence,
    /// An operation that completes in order completes after every earlier one of its Jetty.
    CompletionOrder,
    /// Receives that must complete in order do so, among those of one Jetty at one node.
    ReceiveOrder,
    /// Every operation takes effect, and completes, exactly once.
    ExactlyOnce,
    /// Nothing takes effect before it is posted, or completes before it has taken effect.
    EffectFirst,
    /// An atomic or READ returns what the memory held.
    Values,
    /// An operation with the wrong secret fails without an effect, and one to a dead node fails;
    /// any other succeeds.
    Refusal,
    /// Where no rule demands an order, the later operation may take effect first.
    Freedom,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The operation that should have come first, or the only one concerned.
    pub first: usize,
    /// The operation that came too early, or the only one concerned.
    pub second: usize,
    /// Description of the violation.
    pub why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = (self.first, self.second);
        write!(f, "{:?}: operations {first} and {second}: {}", self.rule, self.why)
    }
}

/// Observed events of one operation.
#[derive(Default)]
struct Seen<'a> {
    posted: Option<&'a Event>,
    effects: Vec<&'a Event>,
    completed: Vec<&'a Event>,
    received: Vec<&'a Event>,
}

impl Seen<'_> {
    fn has_failed(&self) -> bool {
        self.completed
            .iter()
            .any(|event| matches!(event.what, What::Completed { success: false, .. }))
    }
}

/// True if a rule requires that `earlier` takes effect before `later`, both of one program, given
/// that `earlier` was posted first.
pub fn orders(earlier: &Operation, later: &Operation) -> bool {
    earlier.jetty == later.jetty
        && (later.is_strict() && earlier.is_awaited() || later.order.fence && earlier.is_fetching())
}

/// Checks a finished run.
///
/// # Errors
/// Returns the first violation.
pub fn check(program: &Program, history: &History) -> Result<(), Violation> {
    let seen = gather(program, history);
    for later in 0..program.operations.len() {
        refusal(program, &seen, later)?;
        exactly_once(program, &seen, later)?;
        effect_first(program, &seen, later)?;
        for earlier in 0..later {
            if program.operations[earlier].jetty == program.operations[later].jetty {
                strict(program, &seen, earlier, later)?;
                fence(program, &seen, earlier, later)?;
                completion_order(program, &seen, earlier, later)?;
                receive_order(program, &seen, earlier, later)?;
            }
        }
    }
    replay(program, history)?;
    results(program, &seen)
}

fn gather<'a>(program: &Program, history: &'a History) -> Vec<Seen<'a>> {
    let mut seen: Vec<Seen<'a>> = program.operations.iter().map(|_| Seen::default()).collect();
    for event in history.events() {
        let of = &mut seen[event.what.op()];
        match event.what {
            What::Posted { .. } => of.posted = Some(event),
            What::Completed { .. } => of.completed.push(event),
            What::Received { .. } => of.received.push(event),
            _ => of.effects.push(event),
        }
    }
    seen
}

fn broken(rule: Rule, first: usize, second: usize, why: impl Into<String>) -> Violation {
    Violation { rule, first, second, why: why.into() }
}

/// Returns an event of `later` with an event of `earlier` that does not precede it, if there is
/// one.
fn overtaken<'a>(earlier: &[&'a Event], later: &[&'a Event]) -> Option<(&'a Event, &'a Event)> {
    let pairs = earlier.iter().flat_map(|first| later.iter().map(move |second| (*first, *second)));
    pairs.into_iter().find(|(first, second)| !first.is_before(second))
}

fn strict(
    program: &Program,
    seen: &[Seen<'_>],
    earlier: usize,
    later: usize,
) -> Result<(), Violation> {
    let demanded =
        program.operations[later].is_strict() && program.operations[earlier].is_awaited();
    if !demanded || seen[earlier].has_failed() {
        return Ok(());
    }
    match overtaken(&seen[earlier].effects, &seen[later].effects) {
        None => Ok(()),
        Some((first, second)) => {
            let why = format!("{second} does not wait for {first}");
            Err(broken(Rule::Strict, earlier, later, why))
        }
    }
}

fn fence(
    program: &Program,
    seen: &[Seen<'_>],
    earlier: usize,
    later: usize,
) -> Result<(), Violation> {
    if !program.operations[later].order.fence || !program.operations[earlier].is_fetching() {
        return Ok(());
    }
    // Of an operation without a completion, only the effects can be observed.
    let ends = match &seen[earlier].completed {
        none if none.is_empty() => &seen[earlier].effects,
        completed => completed,
    };
    match overtaken(ends, &seen[later].effects) {
        None => Ok(()),
        Some((first, second)) => {
            Err(broken(Rule::Fence, earlier, later, format!("{second} does not wait for {first}")))
        }
    }
}

fn completion_order(
    program: &Program,
    seen: &[Seen<'_>],
    earlier: usize,
    later: usize,
) -> Result<(), Violation> {
    if !program.operations[later].order.complete_in_order {
        return Ok(());
    }
    match overtaken(&seen[earlier].completed, &seen[later].completed) {
        None => Ok(()),
        Some((first, second)) => {
            let why = format!("{second} comes before {first}");
            Err(broken(Rule::CompletionOrder, earlier, later, why))
        }
    }
}

fn receive_order(
    program: &Program,
    seen: &[Seen<'_>],
    earlier: usize,
    later: usize,
) -> Result<(), Violation> {
    let (first, second) = (&program.operations[earlier], &program.operations[later]);
    let both = first.order.receive_in_order && second.order.receive_in_order;
    if !both || first.node != second.node {
        return Ok(());
    }
    match overtaken(&seen[earlier].received, &seen[later].received) {
        None => Ok(()),
        Some((first, second)) => {
            let why = format!("{second} comes before {first}");
            Err(broken(Rule::ReceiveOrder, earlier, later, why))
        }
    }
}

fn refusal(program: &Program, seen: &[Seen<'_>], op: usize) -> Result<(), Violation> {
    let operation = &program.operations[op];
    let of = &seen[op];
    let why = match (program.is_doomed(op), of.has_failed()) {
        _ if operation.token == Token::Wrong && !of.effects.is_empty() => {
            "the secret is wrong, and it took effect"
        }
        (true, false) if !of.completed.is_empty() => "it cannot have succeeded, and it did",
        (false, true) => "nothing is wrong with it, and it failed",
        _ => return Ok(()),
    };
    Err(broken(Rule::Refusal, op, op, why))
}

fn exactly_once(program: &Program, seen: &[Seen<'_>], op: usize) -> Result<(), Violation> {
    let operation = &program.operations[op];
    let of = &seen[op];
    let wrong = |why: String| Err(broken(Rule::ExactlyOnce, op, op, why));
    let failed = of.has_failed();
    // An operation that must fail generates a completion, signaled or not.
    let fails = failed || program.is_doomed(op);
    let wanted = usize::from(operation.signaled || fails);
    if of.completed.len() != wanted {
        return wrong(format!("{} completions instead of {wanted}", of.completed.len()));
    }
    let must = operation.is_reliable() && !fails;
    let received = of.received.len();
    let most = usize::from(operation.consumes_receive() && !failed);
    if received > most || (must && received < most) {
        return wrong(format!("{received} receive completions instead of {most}"));
    }
    let counts = covered(operation, &of.effects);
    if let Some(at) = counts.iter().position(|count| *count > 1 || (must && *count == 0)) {
        return wrong(format!("byte {at} took effect {} times", counts[at]));
    }
    if received > 0 && counts.contains(&0) {
        return wrong(String::from("a receive completed without all of its bytes"));
    }
    Ok(())
}

/// Returns how often each byte of an operation took effect.
fn covered(operation: &Operation, effects: &[&Event]) -> Vec<u32> {
    let mut counts = vec![0; operation.bytes()];
    for event in effects {
        let (at, length) = match &event.what {
            What::Placed { at, length, .. } => (*at, *length),
            What::Gathered { at, bytes, .. } => (*at, bytes.len()),
            _ => (0, counts.len()),
        };
        counts[at..at + length].iter_mut().for_each(|count| *count += 1);
    }
    counts
}

fn effect_first(program: &Program, seen: &[Seen<'_>], op: usize) -> Result<(), Violation> {
    let of = &seen[op];
    let posted: Vec<&Event> = of.posted.into_iter().collect();
    let wrong = |(first, second): (&Event, &Event)| {
        Err(broken(Rule::EffectFirst, op, op, format!("{second} does not wait for {first}")))
    };
    if let Some(pair) = overtaken(&posted, &of.effects) {
        return wrong(pair);
    }
    if let Some(pair) = overtaken(&of.effects, &of.received) {
        return wrong(pair);
    }
    // A UNO operation completes when it has been sent, and one that was given up may complete at
    // any time.
    if !program.operations[op].is_reliable() || of.has_failed() {
        return Ok(());
    }
    match overtaken(&of.effects, &of.completed) {
        Some(pair) => wrong(pair),
        None => Ok(()),
    }
}

/// Returns the memory of every node after all events of `history`.
///
/// # Errors
/// If an operation returned what the memory did not hold.
pub fn replay(program: &Program, history: &History) -> Result<Vec<Vec<u8>>, Violation> {
    let mut memories = vec![vec![0; SHARED_BYTES]; NODES];
    for event in history.events() {
        let op = event.what.op();
        let operation = &program.operations[op];
        let memory = &mut memories[operation.node];
        match &event.what {
            What::Placed { at, length, .. } if !matches!(operation.kind, Kind::Send(_)) => {
                let range = *at..at + length;
                memory[range.clone()].copy_from_slice(&program.payload(op)[range]);
            }
            What::Executed { old, .. } => {
                let held = word(memory);
                if held != *old {
                    let why = format!("it found {old:#018x} where {held:#018x} was");
                    return Err(broken(Rule::Values, op, op, why));
                }
                let new = held.wrapping_add(program.operand(op));
                memory[..8].copy_from_slice(&new.to_le_bytes());
            }
            What::Gathered { at, bytes, .. } if memory[*at..at + bytes.len()] != bytes[..] => {
                let why = format!("it took {bytes:02x?} where {memory:02x?} was");
                return Err(broken(Rule::Values, op, op, why));
            }
            _ => {}
        }
    }
    Ok(memories)
}

fn word(memory: &[u8]) -> u64 {
    memory[..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Checks that the initiator received the values that were read at the target.
fn results(program: &Program, seen: &[Seen<'_>]) -> Result<(), Violation> {
    for (op, of) in seen.iter().enumerate() {
        let Some(Event { what: What::Completed { success: true, value, bytes, .. }, .. }) =
            of.completed.first()
        else {
            continue;
        };
        let mut found = vec![0; program.operations[op].bytes()];
        for effect in &of.effects {
            match &effect.what {
                What::Executed { old, .. } if old != value => {
                    let why = format!("it brought {value:#018x} and found {old:#018x}");
                    return Err(broken(Rule::Values, op, op, why));
                }
                What::Gathered { at, bytes, .. } => {
                    found[*at..at + bytes.len()].copy_from_slice(bytes);
                }
                _ => {}
            }
        }
        if matches!(program.operations[op].kind, Kind::Read(_)) && *bytes != found {
            let why = format!("it brought {bytes:02x?} and took {found:02x?}");
            return Err(broken(Rule::Values, op, op, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
