//! Sets of programs to explore.

use super::bounds::Bounds;
use super::explore::{Exploration, Failing, explore, sample};
use super::program::{Kind, Operation, Program, Token};
use fairway_device::random::Random;
use fairway_ub::wire::{ServiceMode, Tag};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The modes in which order can be requested.
pub const MODES: [ServiceMode; 3] = [ServiceMode::Roi, ServiceMode::Rot, ServiceMode::Rol];
const TAGS: [Tag; 3] = [Tag::No, Tag::Ro, Tag::So];

/// All programs of one length over one alphabet, by number.
#[derive(Clone, Debug)]
pub struct Space {
    /// Name of the space.
    pub name: &'static str,
    /// The operations to choose from; their Jetty is ignored.
    pub alphabet: Vec<Operation>,
    /// Number of operations of each program.
    pub length: usize,
    /// Nodes of the Jetties.
    pub jetties: Vec<usize>,
}

impl Space {
    /// Number of programs.
    pub fn count(&self) -> u64 {
        let words = (self.alphabet.len() as u64).pow(self.length as u32);
        words * self.deals()
    }

    /// Number of ways to assign the operations to one or two Jetties. The first operation always
    /// belongs to the first Jetty, because Jetties of one node are interchangeable.
    fn deals(&self) -> u64 {
        if self.jetties.len() > 1 { 1 << (self.length - 1) } else { 1 }
    }

    /// Returns the program with this number.
    pub fn program(&self, number: u64) -> Program {
        let (deal, mut word) = (number % self.deals(), number / self.deals());
        let puts = self.alphabet.len() as u64;
        let mut operations = Vec::with_capacity(self.length);
        for place in 0..self.length {
            let operation = self.alphabet[(word % puts) as usize];
            word /= puts;
            let jetty = if place == 0 { 0 } else { deal >> (place - 1) & 1 };
            operations.push(operation.of(jetty as usize));
        }
        Program { jetties: self.jetties.clone(), operations, dead: None }
    }
}

/// True if a fence or strict tag of the program has nothing to wait for. Shorter programs cover
/// such a program.
pub fn asks_in_vain(program: &Program) -> bool {
    let operations = &program.operations;
    operations.iter().enumerate().any(|(at, operation)| {
        let earlier = || operations[..at].iter().filter(|other| other.jetty == operation.jetty);
        let fence = operation.order.fence && !earlier().any(Operation::is_fetching);
        let order = operation.order.complete_in_order && earlier().count() == 0;
        fence || order
    })
}

/// All operations of one packet and WRITEs of two, with every mode, tag, fence and completion
/// order, and the unreliable operations.
pub fn everything() -> Vec<Operation> {
    let kinds = [Kind::Write(1), Kind::Write(2), Kind::Read(1), Kind::Atomic, Kind::Send(1)];
    let mut alphabet = Vec::new();
    for kind in kinds {
        for (mode, tag) in MODES.into_iter().flat_map(|mode| TAGS.map(|tag| (mode, tag))) {
            for flags in 0..8 {
                let mut operation = Operation::new(kind).tagged(mode, tag);
                operation.order.fence = flags & 1 != 0;
                operation.order.complete_in_order = flags & 2 != 0;
                operation.order.receive_in_order = flags & 4 != 0;
                if flags < 4 || operation.consumes_receive() {
                    alphabet.push(operation);
                }
            }
        }
    }
    for kind in [Kind::Write(1), Kind::Send(1)] {
        alphabet.push(Operation::new(kind).tagged(ServiceMode::Uno, Tag::No));
    }
    alphabet
}

/// Operations with tags in `modes`, and with a fence or completion in order where nothing else is
/// requested.
pub fn medium(modes: &[ServiceMode]) -> Vec<Operation> {
    let mut alphabet = plain(modes, &[Kind::Write(1), Kind::Read(1), Kind::Send(1)]);
    for &mode in modes {
        alphabet.push(Operation::new(Kind::Atomic).tagged(mode, Tag::Ro));
        alphabet.push(Operation::new(Kind::Write(2)).tagged(mode, Tag::So));
        alphabet.push(Operation::new(Kind::Write(1)).tagged(mode, Tag::No).fenced());
        alphabet.push(Operation::new(Kind::Send(1)).tagged(mode, Tag::No).in_order());
        alphabet.push(Operation::new(Kind::Send(1)).tagged(mode, Tag::So).in_order());
    }
    alphabet.push(Operation::new(Kind::Write(1)).tagged(ServiceMode::Uno, Tag::No));
    alphabet
}

/// Operations with every tag in every one of `modes`, for every one of `kinds`.
pub fn plain(modes: &[ServiceMode], kinds: &[Kind]) -> Vec<Operation> {
    let tagged =
        |kind: Kind, mode: ServiceMode| TAGS.map(|tag| Operation::new(kind).tagged(mode, tag));
    let of_kind = |&kind: &Kind| modes.iter().flat_map(move |&mode| tagged(kind, mode));
    kinds.iter().flat_map(of_kind).collect()
}

/// Repeats the operations for node 1 and node 2.
pub fn to_two_nodes(alphabet: &[Operation]) -> Vec<Operation> {
    alphabet.iter().flat_map(|operation| [operation.to(1), operation.to(2)]).collect()
}

/// A random program of at most `most` operations of any kind.
pub fn drawn(seed: u64, most: u64) -> Program {
    let mut random = Random::fork(seed, 0x6F72_6465);
    let alphabet = everything();
    let jetties = if random.chance(150) { vec![0, 2] } else { vec![0, 0] };
    let two_targets = jetties[1] == 0 && random.chance(250);
    let mode = random.chance(500).then(|| random.pick(&MODES));
    let count = random.range(2, most);
    let operations = (0..count).map(|_| {
        let mut operation = random.pick(&alphabet);
        if let Some(mode) = mode.filter(|_| operation.is_reliable()) {
            operation.order.mode = mode;
        }
        operation.jetty = usize::from(random.chance(250));
        operation.node = if two_targets && random.chance(500) { 2 } else { 1 };
        operation.kind = match operation.kind {
            Kind::Read(_) if random.chance(200) => Kind::Read(2),
            Kind::Send(_) if operation.is_reliable() && random.chance(200) => Kind::Send(2),
            Kind::Send(_) if operation.is_reliable() && random.chance(300) => Kind::WriteImmediate,
            kind => kind,
        };
        operation.signaled = !random.chance(100);
        if operation.is_reliable() && random.chance(30) {
            operation.token = Token::Wrong;
        }
        operation
    });
    let operations = operations.collect();
    let dead = (two_targets && random.chance(200)).then_some(2);
    Program { operations, jetties, dead }
}

/// Result of searching many programs.
#[derive(Debug, Default)]
pub struct Findings {
    /// Extent of the search.
    pub sum: Exploration,
    /// Programs that were skipped.
    pub skipped: u64,
    /// The first failures.
    pub failing: Vec<Failing>,
}

/// Number of failures after which a search ends.
const ENOUGH: usize = 5;

/// Explores every `stride`th program of a space, on `threads` threads.
pub fn search(
    space: &Space,
    bounds: &Bounds,
    stride: u64,
    threads: usize,
    skip: fn(&Program) -> bool,
) -> Findings {
    let count = space.count().div_ceil(stride);
    many(count, threads, |number| {
        let program = space.program(number * stride);
        if skip(&program) { None } else { Some(explore(&program, bounds)) }
    })
}

/// Explores `count` random programs with `runs` random schedules each.
pub fn search_drawn(
    seeds: std::ops::Range<u64>,
    most: u64,
    bounds: &Bounds,
    runs: u64,
    threads: usize,
) -> Findings {
    many(seeds.end - seeds.start, threads, |number| {
        let seed = seeds.start + number;
        Some(sample(&drawn(seed, most), bounds, seed, runs))
    })
}

type Outcome = Option<Result<Exploration, Box<Failing>>>;

fn many(count: u64, threads: usize, one: impl Fn(u64) -> Outcome + Sync) -> Findings {
    let next = AtomicU64::new(0);
    let findings = Mutex::new(Findings::default());
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return;
        }
        let outcome = one(number);
        let mut findings = findings.lock().expect("no thread has panicked");
        match outcome {
            None => findings.skipped += 1,
            Some(Ok(sum)) => findings.sum.add(&sum),
            Some(Err(failing)) => {
                findings.failing.push(*failing);
                if findings.failing.len() >= ENOUGH {
                    next.store(count, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        (0..threads.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    findings.into_inner().expect("no thread has panicked")
}
