//! A group of ranks in memory. A seed decides which rank continues, which message arrives and which
//! write ends next.
//!
//! Checked throughout: a message's bytes do not change between its write and its arrival; a slot is
//! not written before its receiver has returned it; bytes that a rank lends do not change until
//! their receiver has read them; every message arrives at a rank that accepts it. If
//! nothing can happen and a call has not ended, the ranks wait for each other for ever.

use fairway_collectives::{
    Algorithm, Call, Content, ElementType, Header, Memory, Output, Protocol, Rank, Reduction,
    Schedule, Shape, Target, Token, Work, Write, accumulate, divide,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Deterministic random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// One call of every rank, with its buffers.
#[derive(Clone)]
pub struct Job {
    /// The call of each rank.
    pub calls: Vec<Call>,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// For each rank: the memory, and where in it input and output begin.
    pub memory: Vec<Vec<u8>>,
    pub bases: Vec<[u64; 2]>,
    pub is_in_place: bool,
}

/// A write under way.
struct Flight {
    from: usize,
    to: usize,
    job: usize,
    source: Option<Memory>,
    bytes: Vec<u8>,
    target: Target,
    header: Header,
    token: Option<Token>,
}

/// Lent bytes: job and memory of the sender, and the bytes when they were lent.
type Lent = (usize, Memory, Vec<u8>);

pub struct World {
    ranks: Vec<Rank>,
    slot_bytes: u32,
    slots: u32,
    hosts: Vec<u32>,
    pub jobs: Vec<Job>,
    /// A rank that begins a job only when no other rank can go on.
    pub late: Option<usize>,
    /// For each rank: the number of jobs that it has begun, and their works.
    works: Vec<Vec<Work>>,
    /// Those that it has not forgotten.
    unfinished: Vec<Vec<Work>>,
    /// The bytes of slots, by receiver, sender and slot.
    contents: HashMap<(usize, u32, u8), Vec<u8>>,
    occupied: HashMap<(usize, u32, u8), bool>,
    /// What a slot lends, by receiver, sender and slot.
    lent: HashMap<(usize, u32, u8), Lent>,
    flights: Vec<Flight>,
    ends: Vec<(usize, Token)>,
    random: Random,
}

impl World {
    pub fn new(jobs: Vec<Job>, slot_bytes: u32, slots: u32, hosts: &[u32], seed: u64) -> World {
        let count = jobs[0].calls.len() as u32;
        let mut ranks: Vec<_> = (0..count).map(|rank| Rank::new(rank, count, slots)).collect();
        let mut random = Random::new(seed);
        // Some ranks send through slots only, or lend, which their peers may expect or not.
        if seed.is_multiple_of(3) {
            stage(&mut ranks, &mut random);
        }
        if seed.is_multiple_of(2) {
            ranks.iter_mut().for_each(Rank::return_late);
        }
        World {
            ranks,
            slot_bytes,
            slots,
            hosts: hosts.to_vec(),
            jobs,
            late: None,
            works: vec![Vec::new(); count as usize],
            unfinished: vec![Vec::new(); count as usize],
            contents: HashMap::new(),
            occupied: HashMap::new(),
            lent: HashMap::new(),
            flights: Vec::new(),
            ends: Vec::new(),
            random,
        }
    }

    /// Runs all jobs to their end.
    pub fn run(&mut self) {
        while let Some(choice) = self.choose() {
            match choice {
                Choice::Start(rank) => self.start(rank),
                Choice::Poll(rank, output) => self.execute(rank, output),
                Choice::Arrive(at) => self.arrive(at),
                Choice::End(at) => {
                    let (rank, token) = self.ends.swap_remove(at);
                    self.ranks[rank].handle_end(token);
                }
            }
            self.finish_one();
        }
        for (rank, works) in self.works.iter().enumerate() {
            for (job, work) in works.iter().enumerate() {
                let awaited = self.ranks[rank].awaited(*work);
                assert!(
                    self.ranks[rank].is_done(*work),
                    "rank {rank} waits for {awaited:?} for ever in {} by {}",
                    self.jobs[job].calls[rank],
                    self.jobs[job].algorithm,
                );
                self.ranks[rank].finish(*work);
            }
        }
    }

    /// Lets some rank forget a call that is done.
    fn finish_one(&mut self) {
        let rank = self.random.below(self.ranks.len());
        if self.unfinished[rank].is_empty() {
            return;
        }
        let at = self.random.below(self.unfinished[rank].len());
        let work = self.unfinished[rank][at];
        if self.ranks[rank].is_done(work) {
            self.ranks[rank].finish(work);
            self.unfinished[rank].swap_remove(at);
        }
    }

    /// Chooses what happens next.
    fn choose(&mut self) -> Option<Choice> {
        let count = self.ranks.len();
        for _ in 0..4 * count {
            let rank = self.random.below(count);
            match self.random.below(4) {
                0 if self.has_jobs(rank)
                    && self.late != Some(rank)
                    && self.random.below(3) == 0 =>
                {
                    return Some(Choice::Start(rank));
                }
                1 => {
                    if let Some(output) = self.ranks[rank].poll() {
                        return Some(Choice::Poll(rank, output));
                    }
                }
                2 if !self.flights.is_empty() => {
                    return Some(Choice::Arrive(self.random.below(self.flights.len())));
                }
                3 if !self.ends.is_empty() => {
                    return Some(Choice::End(self.random.below(self.ends.len())));
                }
                _ => {}
            }
        }
        // Chance found nothing: take what there is.
        let idle = (0..count).find(|rank| self.late != Some(*rank) && self.has_jobs(*rank));
        if let Some(rank) = idle {
            return Some(Choice::Start(rank));
        }
        for rank in 0..count {
            if let Some(output) = self.ranks[rank].poll() {
                return Some(Choice::Poll(rank, output));
            }
        }
        let arrival = (!self.flights.is_empty()).then_some(Choice::Arrive(0));
        let end = arrival.or_else(|| (!self.ends.is_empty()).then_some(Choice::End(0)));
        end.or_else(|| self.late.filter(|rank| self.has_jobs(*rank)).map(Choice::Start))
    }

    /// True if there are jobs that a rank has not begun.
    fn has_jobs(&self, rank: usize) -> bool {
        self.works[rank].len() < self.jobs.len()
    }

    fn start(&mut self, rank: usize) {
        let job = &self.jobs[self.works[rank].len()];
        let call = &job.calls[rank];
        let shape = Shape {
            rank: rank as u32,
            ranks: self.ranks.len() as u32,
            slot_bytes: self.slot_bytes,
            slots: self.slots,
            is_in_place: job.is_in_place,
            hosts: &self.hosts,
        };
        let schedule = Arc::new(Schedule::new(call, job.algorithm, &shape));
        let work = self.ranks[rank].start(call, schedule, job.protocol).expect("calls agree");
        self.works[rank].push(work);
        self.unfinished[rank].push(work);
    }

    fn job_of(&self, rank: usize, work: Work) -> usize {
        self.works[rank].iter().position(|other| *other == work).expect("the work was begun")
    }

    fn read(&self, rank: usize, job: usize, memory: Memory) -> Vec<u8> {
        let (base, span) = match memory {
            Memory::Slot { from, slot, bytes } => {
                return self.contents[&(rank, from, slot)][..bytes as usize].to_vec();
            }
            Memory::Lent { from, slot, .. } => return self.read_lent(rank, from, slot),
            Memory::Input(span) => (self.jobs[job].bases[rank][0], span),
            Memory::Output(span) => (self.jobs[job].bases[rank][1], span),
        };
        let start = (base + span.offset) as usize;
        self.jobs[job].memory[rank][start..start + span.bytes as usize].to_vec()
    }

    /// The bytes that a slot lends.
    fn read_lent(&self, rank: usize, from: u32, slot: u8) -> Vec<u8> {
        let (job, source, bytes) = &self.lent[&(rank, from, slot)];
        let now = self.read(from as usize, *job, *source);
        assert_eq!(now, *bytes, "lent bytes change only after they were read");
        now
    }

    fn write(&mut self, rank: usize, job: usize, memory: Memory, bytes: &[u8]) {
        let (base, span) = match memory {
            Memory::Slot { from, slot, .. } => {
                self.contents.insert((rank, from, slot), bytes.to_vec());
                return;
            }
            Memory::Input(_) => panic!("no rank writes its input"),
            Memory::Lent { .. } => panic!("no rank writes what another one lends"),
            Memory::Output(span) => (self.jobs[job].bases[rank][1], span),
        };
        let start = (base + span.offset) as usize;
        self.jobs[job].memory[rank][start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn execute(&mut self, rank: usize, output: Output) {
        match output {
            Output::Write(Write { token, work, to, bytes, target, header }) => {
                let job = self.job_of(rank, work);
                let source = Some(bytes);
                let bytes = self.read(rank, job, bytes);
                assert!(bytes.len() <= self.slot_bytes as usize, "messages fit a slot");
                // The return of the slot ends a write of lent bytes.
                let (to, token) = (to as usize, Some(token).filter(|_| target != Target::Lent));
                let flight = Flight { from: rank, to, job, source, bytes, target, header, token };
                self.flights.push(flight);
            }
            Output::SendKey { work, to, header } => {
                let (job, to) = (self.job_of(rank, work), to as usize);
                let (source, token, target) = (None, None, Target::Slot);
                let bytes = vec![0; 8];
                let flight = Flight { from: rank, to, job, source, bytes, target, header, token };
                self.flights.push(flight);
            }
            Output::Notify { to, header } => {
                let (job, to, bytes) = (usize::MAX, to as usize, Vec::new());
                if header.content == Content::Freed {
                    // The receiver does not touch those slots any more.
                    let mask = (header.to_bits() >> 32) as u32;
                    for slot in (0..32).filter(|slot| mask & 1 << slot != 0) {
                        let was = self.occupied.insert((rank, to as u32, slot), false);
                        assert_eq!(was, Some(true), "only occupied slots are returned");
                    }
                }
                let (source, token, target) = (None, None, Target::Slot);
                let flight = Flight { from: rank, to, job, source, bytes, target, header, token };
                self.flights.push(flight);
            }
            Output::Fetch { token, work, from, slot, into } => {
                let bytes = self.read_lent(rank, from, slot);
                let job = self.job_of(rank, work);
                self.write(rank, job, into, &bytes);
                self.ranks[rank].handle_end(token);
            }
            Output::TakeKey { token, .. } => self.ranks[rank].handle_end(token),
            Output::Combine { token, work, both: [left, right], into, is_last } => {
                let job = self.job_of(rank, work);
                let mut sum = self.read(rank, job, left);
                let other = self.read(rank, job, right);
                let call = &self.jobs[job].calls[rank];
                let (element, reduction) = call.reduction().expect("the call combines");
                accumulate(element, reduction, &mut sum, &other);
                if is_last && reduction == Reduction::Average {
                    divide(element, &mut sum, self.ranks.len() as u32);
                }
                self.write(rank, job, into, &sum);
                self.ranks[rank].handle_end(token);
            }
            Output::Copy { token, work, from, into } => {
                let job = self.job_of(rank, work);
                let bytes = self.read(rank, job, from);
                self.write(rank, job, into, &bytes);
                self.ranks[rank].handle_end(token);
            }
        }
    }

    fn arrive(&mut self, at: usize) {
        let flight = self.flights.swap_remove(at);
        let Flight { from, to, job, header, .. } = flight;
        if let Some(source) = flight.source {
            let now = self.read(from, job, source);
            assert_eq!(now, flight.bytes, "bytes change only after they have arrived");
        }
        if matches!(header.content, Content::Slot | Content::Placed | Content::Key | Content::Lent)
        {
            let slot = (to, from as u32, header.slot);
            let was = self.occupied.insert(slot, true);
            assert_ne!(was, Some(true), "a slot is written only after it was returned");
        }
        match flight.target {
            Target::Slot if header.content == Content::Freed => {}
            Target::Lent => {
                let source = flight.source.expect("lent bytes are in memory");
                self.lent.insert((to, from as u32, header.slot), (job, source, flight.bytes));
            }
            Target::Slot => {
                self.contents.insert((to, from as u32, header.slot), flight.bytes);
            }
            Target::Output(offset) => {
                let start = (self.jobs[job].bases[to][1] + offset) as usize;
                let memory = &mut self.jobs[job].memory[to];
                memory[start..start + flight.bytes.len()].copy_from_slice(&flight.bytes);
            }
        }
        let bits = Header::from_bits(header.to_bits()).expect("a header that was encoded");
        self.ranks[to].handle_arrival(from as u32, bits).expect("ranks agree");
        self.ends.extend(flight.token.map(|token| (from, token)));
    }
}

/// What happens next.
enum Choice {
    Start(usize),
    Poll(usize, Output),
    Arrive(usize),
    End(usize),
}

/// Combines the elements of all inputs, in the order of the ranks.
pub fn combined(inputs: &[Vec<u8>], element: ElementType, reduction: Reduction) -> Vec<u8> {
    let mut sum = inputs[0].clone();
    inputs[1..].iter().for_each(|input| accumulate(element, reduction, &mut sum, input));
    if reduction == Reduction::Average {
        divide(element, &mut sum, inputs.len() as u32);
    }
    sum
}

/// Lets half of the ranks send through slots only, and half of the others lend their memory. Half
/// of the receivers expect the first.
fn stage(ranks: &mut [Rank], random: &mut Random) {
    for from in 0..ranks.len() {
        for to in (0..ranks.len()).filter(|to| *to != from) {
            if random.below(2) == 0 {
                ranks[from].lend_sends(to as u32, random.below(200) as u32);
            }
            if random.below(2) == 0 {
                ranks[from].stage_sends(to as u32);
                if random.below(2) == 0 {
                    ranks[to].stage_receives(from as u32);
                }
            }
        }
    }
}
