//! Every algorithm of every call, compared byte for byte with a plain computation.

mod world;

use fairway_collectives::{
    Algorithm, Call, ElementType, Header, Kind, Message, Output, Piece, Protocol, Rank, RankError,
    Reduction, Schedule, Shape,
};
use std::sync::Arc;
use world::{Job, Random, World, combined};

const GROUPS: [u32; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17];
const KINDS: [Kind; 9] = [
    Kind::AllReduce,
    Kind::ReduceScatter,
    Kind::AllGather,
    Kind::Broadcast,
    Kind::Reduce,
    Kind::Gather,
    Kind::Scatter,
    Kind::Exchange,
    Kind::Barrier,
];

const PROTOCOLS: [Protocol; 3] = [Protocol::Staged, Protocol::Direct, Protocol::Lent];

/// A call of every rank, with inputs, and the outputs to expect.
struct Case {
    calls: Vec<Call>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    (0..length).map(|_| random.below(256) as u8).collect()
}

/// Lengths of pieces, some of them empty.
fn pieces(random: &mut Random, ranks: u32, element: u64, longest: usize) -> Vec<u64> {
    (0..ranks).map(|_| element * random.below(longest / element as usize + 1) as u64).collect()
}

fn cut(whole: &[u8], pieces: &[u64]) -> Vec<Vec<u8>> {
    let mut rest = whole;
    let take = |bytes: &u64| {
        let (piece, after) = rest.split_at(*bytes as usize);
        rest = after;
        piece.to_vec()
    };
    pieces.iter().map(take).collect()
}

/// Messages between all pairs of some ranks.
fn exchange(random: &mut Random, ranks: u32, longest: usize) -> Case {
    let is_collective = random.below(2) == 0;
    let mut sends = vec![Vec::new(); ranks as usize];
    let mut receives = sends.clone();
    let mut inputs = vec![Vec::new(); ranks as usize];
    let mut outputs = inputs.clone();
    for from in 0..ranks {
        for to in 0..ranks {
            for _ in 0..random.below(3) {
                let data = bytes(random, random_length(longest));
                let piece = |buffer: &Vec<u8>| Piece {
                    offset: buffer.len() as u64,
                    bytes: data.len() as u64,
                };
                let (input, output) = (&mut inputs[from as usize], &mut outputs[to as usize]);
                sends[from as usize].push(Message { rank: to, piece: piece(input) });
                receives[to as usize].push(Message { rank: from, piece: piece(output) });
                input.extend(&data);
                output.extend(&data);
            }
        }
    }
    let both = sends.into_iter().zip(receives);
    let calls = both.map(|(sends, receives)| Call::Exchange { is_collective, sends, receives });
    Case { calls: calls.collect(), inputs, outputs }
}

fn random_length(longest: usize) -> u64 {
    longest as u64
}

fn case(kind: Kind, ranks: u32, longest: usize, random: &mut Random) -> Case {
    let element = ElementType::ALL[4 + random.below(6)];
    let reduction = Reduction::ALL[random.below(5)];
    let size = element.bytes();
    let length = size * random.below(longest / size as usize + 1) as u64;
    let root = random.below(ranks as usize) as u32;
    let count = ranks as usize;
    let equal = |random: &mut Random, length| -> Vec<Vec<u8>> {
        (0..count).map(|_| bytes(random, length)).collect()
    };
    let at_root = |value: Vec<u8>| {
        let mut outputs = vec![Vec::new(); count];
        outputs[root as usize] = value;
        outputs
    };
    let (call, inputs, outputs) = match kind {
        Kind::AllReduce => {
            let inputs = equal(random, length);
            let outputs = vec![combined(&inputs, element, reduction); count];
            (Call::AllReduce { bytes: length, element, reduction }, inputs, outputs)
        }
        Kind::ReduceScatter => {
            let pieces = pieces(random, ranks, size, longest);
            let inputs = equal(random, pieces.iter().sum());
            let outputs = cut(&combined(&inputs, element, reduction), &pieces);
            (Call::ReduceScatter { pieces, element, reduction }, inputs, outputs)
        }
        Kind::AllGather | Kind::Gather => {
            let pieces = pieces(random, ranks, 1, longest);
            let inputs: Vec<_> = pieces.iter().map(|length| bytes(random, *length)).collect();
            let whole = inputs.concat();
            if kind == Kind::Gather {
                (Call::Gather { pieces, root }, inputs, at_root(whole))
            } else {
                (Call::AllGather { pieces }, inputs, vec![whole; count])
            }
        }
        Kind::Broadcast => {
            let data = bytes(random, length);
            let inputs = at_root(data.clone());
            (Call::Broadcast { bytes: length, root }, inputs, vec![data; count])
        }
        Kind::Reduce => {
            let inputs = equal(random, length);
            let outputs = at_root(combined(&inputs, element, reduction));
            (Call::Reduce { bytes: length, element, reduction, root }, inputs, outputs)
        }
        Kind::Scatter => {
            let pieces = pieces(random, ranks, 1, longest);
            let data = bytes(random, pieces.iter().sum());
            let outputs = cut(&data, &pieces);
            (Call::Scatter { pieces, root }, at_root(data), outputs)
        }
        Kind::Exchange => return exchange(random, ranks, longest / 3),
        Kind::Barrier => (Call::Barrier, vec![Vec::new(); count], vec![Vec::new(); count]),
    };
    Case { calls: vec![call; count], inputs, outputs }
}

/// Lays out the buffers of a case. In place, one buffer holds both.
fn job(case: &Case, algorithm: Algorithm, protocol: Protocol, is_in_place: bool) -> Job {
    let ranks = case.calls.len();
    let mut memory = Vec::new();
    let mut bases = Vec::new();
    for rank in 0..ranks {
        let (input, output) = (&case.inputs[rank], &case.outputs[rank]);
        let shorter = |pieces: &[u64]| pieces[..rank].iter().sum::<u64>();
        let [mut input_at, mut output_at] = [0, 0];
        if is_in_place {
            match &case.calls[rank] {
                Call::AllGather { pieces } | Call::Gather { pieces, .. } => {
                    input_at = if output.is_empty() { 0 } else { shorter(pieces) };
                }
                Call::ReduceScatter { pieces, .. } | Call::Scatter { pieces, .. } => {
                    output_at = if input.is_empty() { 0 } else { shorter(pieces) };
                }
                _ => {}
            }
        } else {
            output_at = input.len() as u64;
        }
        let end = (input_at + input.len() as u64).max(output_at + output.len() as u64);
        let mut buffer = vec![0xee; end as usize];
        buffer[input_at as usize..][..input.len()].copy_from_slice(input);
        memory.push(buffer);
        bases.push([input_at, output_at]);
    }
    Job { calls: case.calls.clone(), algorithm, protocol, memory, bases, is_in_place }
}

fn check(job: &Job, case: &Case, what: &str) {
    for (rank, output) in case.outputs.iter().enumerate() {
        let start = job.bases[rank][1] as usize;
        let found = &job.memory[rank][start..start + output.len()];
        assert_eq!(found, output, "{what}: rank {rank} of {}", case.outputs.len());
        let (input, start) = (&case.inputs[rank], job.bases[rank][0] as usize);
        if !job.is_in_place {
            assert_eq!(&job.memory[rank][start..start + input.len()], input, "{what}: its input");
        }
    }
}

fn hosts_of(ranks: u32, random: &mut Random) -> Vec<u32> {
    match random.below(3) {
        0 => Vec::new(),
        1 => (0..ranks).map(|rank| rank / 3).collect(),
        _ => (0..ranks).map(|_| random.below(3) as u32).collect(),
    }
}

#[test]
fn every_algorithm_gives_the_bytes_of_a_plain_computation() {
    let mut seed = 0;
    for kind in KINDS {
        for algorithm in Algorithm::of(kind) {
            for ranks in GROUPS {
                for round in 0..9 {
                    seed += 1;
                    let mut random = Random::new(seed);
                    let longest = [0, 40, 300, 900][random.below(4)];
                    let case = case(kind, ranks, longest, &mut random);
                    let protocol = PROTOCOLS[round as usize % 3];
                    let is_in_place = kind != Kind::Exchange && random.below(2) == 0;
                    let job = job(&case, *algorithm, protocol, is_in_place);
                    let hosts = hosts_of(ranks, &mut random);
                    let (slot_bytes, slots) =
                        ([8, 24, 64, 1024][random.below(4)], [4, 5, 8, 32][random.below(4)]);
                    let what = format!("seed {seed}: {kind:?} by {algorithm}, {protocol:?}");
                    let mut world = World::new(vec![job], slot_bytes, slots, &hosts, seed);
                    world.run();
                    check(&world.jobs[0], &case, &what);
                }
            }
        }
    }
}

#[test]
fn several_calls_at_a_time_do_not_mix() {
    for seed in 0..150 {
        let mut random = Random::new(seed + 10_000);
        let ranks = 1 + random.below(6) as u32;
        let mut cases = Vec::new();
        let mut jobs = Vec::new();
        for _ in 0..2 + random.below(6) {
            let kind = KINDS[random.below(KINDS.len())];
            let case = case(kind, ranks, 300, &mut random);
            let able = Algorithm::of(kind);
            let protocol = PROTOCOLS[random.below(3)];
            jobs.push(job(&case, able[random.below(able.len())], protocol, false));
            cases.push(case);
        }
        let mut world = World::new(jobs, [16, 64][random.below(2)], 4, &[], seed);
        world.run();
        for (job, case) in world.jobs.iter().zip(&cases) {
            check(job, case, &format!("seed {seed}"));
        }
    }
}

#[test]
fn late_rank_takes_part_after_thousands_of_calls_without_messages_for_it() {
    // More than the numbers that a header has for calls.
    const CALLS: usize = 5000;
    for kind in [Kind::AllReduce, Kind::AllGather, Kind::Broadcast, Kind::Exchange] {
        for late in [0, 2] {
            let mut random = Random::new(7);
            // An exchange is one between the other two ranks.
            let without = match kind {
                Kind::Exchange => exchange_without(late),
                _ => case(kind, 3, 0, &mut random),
            };
            let protocol = PROTOCOLS[late];
            let algorithm = Algorithm::of(kind)[0];
            let mut jobs = vec![job(&without, algorithm, protocol, false); CALLS];
            let last = case(Kind::AllReduce, 3, 300, &mut random);
            jobs.push(job(&last, Algorithm::Ring, protocol, false));
            let mut world = World::new(jobs, 64, 4, &[], 1);
            world.late = Some(late);
            world.run();
            check(&world.jobs[CALLS], &last, &format!("{kind:?}, rank {late} is late"));
        }
    }
}

/// An exchange of one byte between the other two of three ranks.
fn exchange_without(rank: usize) -> Case {
    let piece = Piece { offset: 0, bytes: 1 };
    let message = |with: u32| vec![Message { rank: with, piece }];
    let [first, second] = if rank == 0 { [1, 2] } else { [0, 1] };
    let messages = |own: u32| match own {
        _ if own == first => message(second),
        _ if own == second => message(first),
        _ => Vec::new(),
    };
    let call = |own: u32| Call::Exchange {
        is_collective: true,
        sends: messages(own),
        receives: messages(own),
    };
    let bytes = |own: u32| if own as usize == rank { Vec::new() } else { vec![7] };
    Case {
        calls: (0..3).map(call).collect(),
        inputs: (0..3).map(bytes).collect(),
        outputs: (0..3).map(bytes).collect(),
    }
}

/// The first message of the last of these calls at rank 1 of two, after the others.
fn first_message(rank: &mut Rank, calls: &[(Call, &str)]) -> Option<Header> {
    for (call, label) in calls {
        start(rank, 1, call, label);
    }
    std::iter::from_fn(|| rank.poll()).find_map(|output| match output {
        Output::Write(write) => Some(write.header),
        _ => None,
    })
}

fn start(rank: &mut Rank, own: u32, call: &Call, label: &str) {
    let shape =
        Shape { rank: own, ranks: 2, slot_bytes: 64, slots: 4, is_in_place: false, hosts: &[0, 1] };
    if !label.is_empty() {
        rank.label_next(label);
    }
    let schedule = Arc::new(Schedule::new(call, Algorithm::of(call.kind())[0], &shape));
    rank.start(call, schedule, Protocol::Staged).expect("no message has come");
}

#[test]
fn call_without_messages_and_label_are_compared_with_the_next_message() {
    let (element, reduction) = (ElementType::I32, Reduction::Sum);
    let empty = Call::AllReduce { bytes: 0, element, reduction };
    let short = Call::AllReduce { bytes: 8, element, reduction };
    let gather = Call::AllGather { pieces: vec![0, 0] };
    let order = [(empty.clone(), ""), (short.clone(), "bor")];
    let other_call = [(gather, ""), (short.clone(), "bor")];
    let other_label = [(empty.clone(), ""), (short.clone(), "band")];
    let missing = [(short, "bor")];
    let mismatch = Err(RankError::Mismatch { peer: 1 });
    for (calls, expected) in [
        (&order[..], Ok(())),
        (&other_call[..], mismatch),
        (&other_label[..], mismatch),
        (&missing[..], mismatch),
    ] {
        let (mut first, mut second) = (Rank::new(0, 2, 4), Rank::new(1, 2, 4));
        let header = first_message(&mut second, calls).expect("the last call has messages");
        order.iter().for_each(|(call, label)| start(&mut first, 0, call, label));
        assert_eq!(first.handle_arrival(1, header), expected, "{calls:?}");
    }
}

#[test]
fn floating_point_results_are_the_same_bits_at_every_rank() {
    for algorithm in Algorithm::of(Kind::AllReduce) {
        for ranks in [3u32, 4, 7, 8] {
            let mut random = Random::new(u64::from(ranks));
            let (element, reduction) = (ElementType::F32, Reduction::Sum);
            let value = |random: &mut Random| (random.below(1 << 24) as f32).sqrt() - 1000.0;
            let input = |random: &mut Random| -> Vec<u8> {
                (0..100).flat_map(|_| value(random).to_ne_bytes()).collect()
            };
            let inputs: Vec<_> = (0..ranks).map(|_| input(&mut random)).collect();
            let call = Call::AllReduce { bytes: 400, element, reduction };
            let outputs = vec![combined(&inputs, element, reduction); ranks as usize];
            let case = Case { calls: vec![call; ranks as usize], inputs, outputs };
            let job = job(&case, *algorithm, Protocol::Staged, true);
            let mut world = World::new(vec![job], 64, 4, &[], 1);
            world.run();
            let results = &world.jobs[0].memory;
            for result in results {
                assert_eq!(result, &results[0], "{algorithm}, {ranks} ranks");
            }
            for (sum, plain) in
                results[0].as_chunks::<4>().0.iter().zip(case.outputs[0].as_chunks::<4>().0)
            {
                let (sum, plain) = (f32::from_ne_bytes(*sum), f32::from_ne_bytes(*plain));
                assert!((sum - plain).abs() < 0.1, "{sum} is about {plain}");
            }
        }
    }
}

#[test]
fn calls_of_impossible_lengths_fit_no_buffer() {
    let pieces = vec![u64::MAX, 8, 8];
    let call = Call::AllGather { pieces };
    assert_eq!((call.input_bytes(1), call.output_bytes(1)), (8, u64::MAX));
    let piece = Piece { offset: u64::MAX, bytes: 2 };
    let sends = vec![Message { rank: 1, piece }];
    let call = Call::Exchange { is_collective: false, sends, receives: Vec::new() };
    assert_eq!(call.input_bytes(0), u64::MAX);
    assert!(call.to_string().contains("sends 2 bytes"), "{call}");
}

#[test]
fn message_that_is_longer_than_a_slot_is_refused() {
    let call = Call::Broadcast { bytes: 1000, root: 1 };
    let begin = |rank: u32, slot_bytes: u32| {
        // A schedule for longer messages than the slots of the receiver hold.
        let shape = Shape {
            rank,
            ranks: 2,
            slot_bytes: 4096,
            slots: 4,
            is_in_place: false,
            hosts: &[0, 1],
        };
        let schedule = Arc::new(Schedule::new(&call, Algorithm::Direct, &shape));
        let mut rank = Rank::new(rank, 2, 4);
        rank.bound_slots(slot_bytes);
        rank.start(&call, schedule, Protocol::Staged).expect("no message has come");
        rank
    };
    let mut root = begin(1, 4096);
    let mut outputs = std::iter::from_fn(|| root.poll());
    let header = outputs.find_map(|output| match output {
        Output::Write(write) => Some(write.header),
        _ => None,
    });
    let header = header.expect("the root sends");
    assert_eq!(begin(0, 1000).handle_arrival(1, header), Ok(()));
    assert_eq!(begin(0, 999).handle_arrival(1, header), Err(RankError::Invalid { peer: 1 }));
}
