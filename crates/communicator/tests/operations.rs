//! Every operation and algorithm, live: bytes are compared with a plain computation.

mod ranks;

use fairway::DatapathKind;
use fairway_communicator::{
    Algorithm, Call, Communicator, Element, ElementType, Error, Kind, Message, Options, Pending,
    Piece, Reduction,
};
use ranks::{group, group_with, options};
use std::time::Duration;

/// Element `at` of the input of a rank.
fn value(rank: u32, at: usize) -> u32 {
    (at as u32).wrapping_mul(2_654_435_761).wrapping_add(rank * 40_503)
}

fn input(rank: u32, count: usize) -> Vec<u32> {
    (0..count).map(|at| value(rank, at)).collect()
}

fn sum(ranks: u32, count: usize) -> Vec<u32> {
    let element = |at| (0..ranks).fold(0u32, |sum, rank| sum.wrapping_add(value(rank, at)));
    (0..count).map(element).collect()
}

fn all_inputs(ranks: u32, count: usize) -> Vec<u32> {
    (0..ranks).flat_map(|rank| input(rank, count)).collect()
}

/// Runs every operation once, with `count` elements for each rank.
fn every_operation(group: &Communicator, count: usize) {
    let (rank, ranks) = (group.rank(), group.ranks());
    let all = count * ranks as usize;
    let what = format!("rank {rank} of {ranks}, {count} elements");
    let mut data = input(rank, count);
    group.all_reduce(&mut data, Reduction::Sum).expect("all-reduce");
    assert_eq!(data, sum(ranks, count), "all-reduce, {what}");

    let mut part = vec![0; count];
    group.reduce_scatter(&input(rank, all), &mut part, Reduction::Sum).expect("reduce-scatter");
    let start = count * rank as usize;
    assert_eq!(part, sum(ranks, all)[start..start + count], "reduce-scatter, {what}");

    let mut whole = vec![0; all];
    group.all_gather(&input(rank, count), &mut whole).expect("all-gather");
    assert_eq!(whole, all_inputs(ranks, count), "all-gather, {what}");

    let root = ranks - 1;
    let mut data = if rank == root { input(7, count) } else { vec![0; count] };
    group.broadcast(&mut data, root).expect("broadcast");
    assert_eq!(data, input(7, count), "broadcast, {what}");

    let at_root = |count| if rank == root { vec![0; count] } else { Vec::new() };
    let mut result = at_root(count);
    group.reduce(&input(rank, count), &mut result, Reduction::Sum, root).expect("reduce");
    let mut whole = at_root(all);
    group.gather(&input(rank, count), &mut whole, root).expect("gather");
    if rank == root {
        assert_eq!(result, sum(ranks, count), "reduce, {what}");
        assert_eq!(whole, all_inputs(ranks, count), "gather, {what}");
    }

    let pieces = if rank == root { input(9, all) } else { Vec::new() };
    let mut part = vec![0; count];
    group.scatter(&pieces, &mut part, root).expect("scatter");
    assert_eq!(part, input(9, all)[start..start + count], "scatter, {what}");

    let mut exchanged = vec![0; all];
    group.all_to_all(&input(rank, all), &mut exchanged).expect("all-to-all");
    let expected = (0..ranks).flat_map(|from| input(from, all)[start..start + count].to_vec());
    assert_eq!(exchanged, expected.collect::<Vec<_>>(), "all-to-all, {what}");

    // Around a ring; rank 0 sends first.
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    if ranks > 1 {
        let mut token = vec![0; count];
        if rank == 0 {
            group.send(&input(3, count), next).expect("send");
            group.receive(&mut token, before).expect("receive");
        } else {
            group.receive(&mut token, before).expect("receive");
            group.send(&token, next).expect("send");
        }
        assert_eq!(token, input(3, count), "around the ring, {what}");
    }
    group.barrier().expect("barrier");
}

#[test]
fn every_operation_gives_the_bytes_of_a_plain_computation() {
    for ranks in [1, 2, 3, 5] {
        group(ranks, &options(), |group| {
            for count in [0, 1, 2, 1000, 70_001] {
                every_operation(group, count);
            }
        });
    }
}

/// More ranks than a NIC has connections for one address by default.
#[test]
fn many_ranks_share_a_host() {
    let ranks = 70;
    let options = Options { slots: 4, slot_bytes: 4096, ..options() };
    group(ranks, &options, |group| {
        let mut data = [group.rank()];
        group.all_reduce(&mut data, Reduction::Sum).expect("all-reduce");
        assert_eq!(data, [(0..ranks).sum::<u32>()]);
    });
}

/// Ranks of which one keeps its memory to itself.
#[test]
fn operations_work_where_some_ranks_share_memory_and_others_do_not() {
    let options = |rank| {
        let mut options = options();
        if rank == 1 {
            options.context = options.context.datapath(DatapathKind::Udp);
        }
        options
    };
    for count in [100, 100_000] {
        group_with(3, options, |group| every_operation(group, count));
    }
}

#[test]
fn every_algorithm_works_with_short_and_long_buffers() {
    for algorithm in Algorithm::ALL {
        let options = Options { algorithm: Some(algorithm), ..options() };
        group(4, &options, |group| {
            for count in [1, 3000, 200_000] {
                every_operation(group, count);
            }
        });
    }
}

#[test]
fn operations_survive_loss_and_reordering() {
    let mut options = options();
    let spec = "loss=2%,reorder=16,delay=100us".parse().expect("an emulation");
    options.context = options.context.emulate(spec, 7);
    group(3, &options, |group| {
        for count in [1, 50_000] {
            every_operation(group, count);
        }
    });
}

/// Executes an all-reduce of one type in place, and one with separate buffers.
fn all_reduce_of<T: Element + PartialEq + std::fmt::Debug>(
    group: &Communicator,
    input: &[T],
    expected: &[T],
    reduction: Reduction,
) {
    let mut data = input.to_vec();
    group.all_reduce(&mut data, reduction).expect("all-reduce");
    assert_eq!(data, expected, "{} {reduction}", T::TYPE);
    let mut output = expected.to_vec();
    output.reverse();
    let bytes = size_of_val(input) as u64;
    let call = Call::AllReduce { bytes, element: T::TYPE, reduction };
    let (from, into) = (input.as_ptr().cast(), output.as_mut_ptr().cast());
    // SAFETY: both slices live until the call has ended.
    let pending = unsafe { group.start_in_background(call, (from, bytes), (into, bytes)) };
    pending.expect("the call is right").wait().expect("all-reduce");
    assert_eq!(output, expected, "{} {reduction}, separate", T::TYPE);
}

#[test]
fn reductions_of_several_types_are_those_of_their_numbers() {
    group(3, &options(), |group| {
        let rank = group.rank() as i32;
        all_reduce_of(group, &[rank as f64; 5], &[3.0; 5], Reduction::Sum);
        all_reduce_of(group, &[rank as f32; 7], &[1.0; 7], Reduction::Average);
        all_reduce_of(group, &[rank - 1; 9], &[1; 9], Reduction::Max);
        all_reduce_of(group, &[rank as i8 - 1; 3], &[-1; 3], Reduction::Min);
        all_reduce_of(group, &[rank as u64 + 1; 4], &[6; 4], Reduction::Product);
        all_reduce_of(group, &[200u8; 11], &[88; 11], Reduction::Sum);
    });
}

#[test]
fn several_calls_are_under_way_at_a_time() {
    group(3, &options(), |group| {
        let count = 20_000;
        let mut buffers: Vec<_> = (0..6).map(|at| input(group.rank() + at, count)).collect();
        let bytes = 4 * count as u64;
        let pending: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| {
                let (element, reduction) = (ElementType::U32, Reduction::Sum);
                let call = Call::AllReduce { bytes, element, reduction };
                let start = buffer.as_mut_ptr().cast::<u8>();
                // SAFETY: the buffers live until all calls have ended.
                unsafe { group.start_in_background(call, (start, bytes), (start, bytes)) }
                    .expect("the call is right")
            })
            .collect();
        for pending in pending.into_iter().rev() {
            pending.wait().expect("all-reduce");
        }
        for (at, buffer) in (0..).zip(&buffers) {
            let expected: Vec<u32> = (0..count)
                .map(|place| {
                    (0..3).fold(0u32, |sum, rank| sum.wrapping_add(value(rank + at, place)))
                })
                .collect();
            assert_eq!(*buffer, expected, "call {at}");
        }
    });
}

#[test]
fn receives_that_were_begun_first_may_end_last() {
    group(3, &options(), |group| {
        if group.rank() > 0 {
            // Rank 1 sends only after rank 2 has received a message.
            let mut word = [0u32];
            if group.rank() == 1 {
                group.receive(&mut word, 2).expect("receive");
            }
            group.send(&[group.rank()], 0).expect("send");
            if group.rank() == 2 {
                group.send(&[5u32], 1).expect("send");
            }
            return;
        }
        let mut words = [[0u32; 1]; 2];
        let [first, second] = &mut words;
        let receive = |word: &mut [u32; 1], from| {
            let piece = Piece { offset: 0, bytes: 4 };
            let receives = vec![Message { rank: from, piece }];
            let call = Call::Exchange { is_collective: false, sends: Vec::new(), receives };
            let start = word.as_mut_ptr().cast::<u8>();
            // SAFETY: the words live until both calls have ended.
            unsafe { group.start(call, (start, 0), (start, 4)) }.expect("the call is right")
        };
        let (from_one, from_two) = (receive(first, 1), receive(second, 2));
        from_two.wait().expect("receive");
        from_one.wait().expect("receive");
        assert_eq!(words, [[1], [2]]);
    });
}

/// Sends a word to a rank, or receives one from it, in the background.
fn exchange_word(group: &Communicator, with: u32, word: &mut [u32; 1], sends: bool) -> Pending {
    let message = vec![Message { rank: with, piece: Piece { offset: 0, bytes: 4 } }];
    let (sends, receives) = if sends { (message, Vec::new()) } else { (Vec::new(), message) };
    let bytes = [4 * sends.len() as u64, 4 * receives.len() as u64];
    let call = Call::Exchange { is_collective: false, sends, receives };
    let start = word.as_mut_ptr().cast::<u8>();
    // SAFETY: the callers' words live until the call has ended.
    unsafe { group.start_in_background(call, (start, bytes[0]), (start, bytes[1])) }
        .expect("the call is right")
}

#[test]
fn sends_and_receives_have_an_order_of_their_own() {
    group(3, &options(), |group| {
        let rank = group.rank();
        if rank < 2 {
            // Both send first. Rank 1 receives before the all-reduce, rank 0 after it.
            let (mut sent, mut received) = ([rank + 5], [0]);
            let send = exchange_word(group, 1 - rank, &mut sent, true);
            let early = (rank == 1).then(|| exchange_word(group, 0, &mut received, false));
            let mut sum = [rank];
            group.all_reduce(&mut sum, Reduction::Sum).expect("all-reduce");
            assert_eq!(sum, [3]);
            let receive = early.unwrap_or_else(|| exchange_word(group, 1, &mut received, false));
            assert!(receive.wait_a_while(Duration::from_secs(30)));
            receive.wait().expect("receive");
            send.wait().expect("send");
            assert_eq!(received, [6 - rank]);
        } else {
            group.all_reduce(&mut [rank], Reduction::Sum).expect("all-reduce");
        }
        // More of them than there are numbers, and only between two ranks.
        for number in 0..5000 {
            let mut word = [number];
            match rank {
                0 => group.send(&word, 1).expect("send"),
                1 => group.receive(&mut word, 0).expect("receive"),
                _ => break,
            }
            assert_eq!(word, [number]);
        }
        if rank == 0 {
            // The others are compared with this call for longer than a check takes.
            let mut word = [0];
            group.receive(&mut word, 1).expect("receive");
        } else if rank == 1 {
            let mut word = [0];
            let none = exchange_word(group, 0, &mut word, true);
            assert!(none.wait_a_while(Duration::from_secs(30)));
        }
        group.barrier().expect("ranks with different sends and receives agree");
    });
}

#[test]
fn wrong_lengths_and_roots_are_named() {
    group(2, &options(), |group| {
        let error = group.all_gather(&[1u32; 3], &mut [0; 5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the output has 20 bytes, but the operation needs 24: pass a buffer of that length"
        );
        let error = group.broadcast(&mut [0u8], 2).unwrap_err();
        assert!(matches!(error, Error::Call(_)), "{error}");
        assert!(error.to_string().contains("rank 2 is not in the group"), "{error}");
        group.barrier().expect("the group goes on");
    });
}

#[test]
fn measured_costs_are_the_same_at_all_ranks() {
    let options = Options { costs: None, ..options() };
    let costs = group(3, &options, |group| {
        every_operation(group, 1000);
        group.costs()
    });
    assert!(costs.iter().all(|other| *other == costs[0]), "{costs:?}");
    assert!(costs[0].byte_ns > 0.0 && costs[0].message_ns > 0.0, "{costs:?}");
}

#[test]
fn chosen_algorithm_can_execute_the_call() {
    group(4, &options(), |group| {
        for bytes in [4, 1 << 30] {
            let (element, reduction) = (ElementType::F32, Reduction::Sum);
            let call = Call::AllReduce { bytes, element, reduction };
            let algorithm = group.algorithm_of(&call).expect("the call is right");
            assert!(Algorithm::of(Kind::AllReduce).contains(&algorithm));
        }
        group.monitored_barrier(Duration::from_secs(30)).expect("all come");
    });
}

#[test]
fn all_to_all_refuses_lengths_without_equal_parts() {
    group(2, &options(), |group| {
        let mut output = [0u64; 4];
        let error = group.all_to_all(&[1; 3], &mut output[..3]).unwrap_err();
        assert!(matches!(error, Error::Parts { elements: 3, ranks: 2 }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("3 elements") && text.contains("2 ranks"), "{text}");
        let error = group.all_to_all(&[1; 2], &mut output).unwrap_err();
        assert!(matches!(error, Error::Length { bytes: 32, needed: 16, .. }), "{error:?}");
        assert_eq!(output, [0; 4], "nothing was received");
        // The group goes on.
        group.all_to_all(&[u64::from(group.rank()); 4], &mut output).expect("equal parts");
        assert_eq!(output, [0, 0, 1, 1]);
    });
}
