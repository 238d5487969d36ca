//! Ranks of one host that read long messages from the memory of their senders.
#![cfg(target_os = "linux")]

mod ranks;

use fairway_communicator::{
    Call, Communicator, Error, Failure, Message, Options, Piece, Reduction,
};
use ranks::{group, options};

/// Messages from 4 KiB on are lent, and several are needed for a call.
fn lending() -> Options {
    Options { lend_from: 4096, slot_bytes: 8192, ..options() }
}

fn value(rank: u32, at: usize) -> u32 {
    (at as u32).wrapping_mul(2_654_435_761).wrapping_add(rank * 40_503)
}

fn input(rank: u32, count: usize) -> Vec<u32> {
    (0..count).map(|at| value(rank, at)).collect()
}

/// Runs the operations that lend, with `count` elements for each rank, twice: buffers are returned
/// when nothing reads them any more, and are changed then.
fn operations(group: &Communicator, count: usize) {
    let (rank, ranks) = (group.rank(), group.ranks());
    let all = count * ranks as usize;
    let own = count * rank as usize..count * (rank as usize + 1);
    let mut mine = input(rank, all);
    for round in 0..2 {
        let expected = |from: u32, at: usize| value(from, at).wrapping_add(round);
        let sum = |at| (0..ranks).fold(0u32, |sum, from| sum.wrapping_add(expected(from, at)));
        let sums: Vec<_> = (0..all).map(sum).collect();

        let mut part = vec![0; count];
        group.reduce_scatter(&mine, &mut part, Reduction::Sum).expect("reduce-scatter");
        assert_eq!(part, sums[own.clone()], "reduce-scatter, rank {rank}");

        let mut data = mine.clone();
        group.all_reduce(&mut data, Reduction::Sum).expect("all-reduce");
        assert_eq!(data, sums, "all-reduce, rank {rank}");

        let mut exchanged = vec![0; all];
        group.all_to_all(&mine, &mut exchanged).expect("all-to-all");
        let parts = (0..ranks).flat_map(|from| own.clone().map(move |at| expected(from, at)));
        assert_eq!(exchanged, parts.collect::<Vec<_>>(), "all-to-all, rank {rank}");

        let mut whole = vec![0; all];
        group.all_gather(&mine[..count], &mut whole).expect("all-gather");
        let parts = (0..ranks).flat_map(|from| (0..count).map(move |at| expected(from, at)));
        assert_eq!(whole, parts.collect::<Vec<_>>(), "all-gather, rank {rank}");

        let mut data = mine.clone();
        group.broadcast(&mut data, 1).expect("broadcast");
        assert_eq!(data, (0..all).map(|at| expected(1, at)).collect::<Vec<_>>(), "broadcast");

        mine.iter_mut().for_each(|value| *value = value.wrapping_add(1));
    }
}

#[test]
fn operations_give_the_bytes_of_a_plain_computation() {
    for ranks in [2, 3, 5] {
        // The last one has messages of the largest length, and a rest.
        for count in [900, 5_000, 1_100_000] {
            if count < 1_000_000 || ranks < 5 {
                group(ranks, &lending(), |group| operations(group, count));
            }
        }
    }
}

#[test]
fn exchange_of_long_and_short_messages_lends_the_long_ones() {
    group(3, &lending(), |group| {
        let (rank, next) = (group.rank(), (group.rank() + 1) % 3);
        let before = (rank + 2) % 3;
        // To the next rank a long message, an empty one and a short one.
        let pieces = [(0, 400_000), (400_000, 0), (400_000, 12)];
        let messages = |with: u32| {
            let message = |&(offset, bytes): &(u64, u64)| Message {
                rank: with,
                piece: Piece { offset, bytes },
            };
            pieces.iter().map(message).collect()
        };
        let call = Call::Exchange {
            is_collective: true,
            sends: messages(next),
            receives: messages(before),
        };
        let sent = input(rank, 100_003);
        let mut received = vec![0u32; 100_003];
        let bytes = 4 * 100_003;
        // SAFETY: both buffers live until the call has ended, and nothing else uses them.
        let pending = unsafe {
            group.start(call, (sent.as_ptr().cast(), bytes), (received.as_mut_ptr().cast(), bytes))
        };
        pending.expect("it begins").wait().expect("it ends");
        assert_eq!(received, input(before, 100_003));
    });
}

#[test]
fn memory_that_is_missing_ends_the_group_with_an_error() {
    const BYTES: usize = 1 << 20;
    let failures = group(3, &options(), |group| {
        let mut output = vec![0u8; BYTES];
        let result = if group.rank() == 0 {
            // SAFETY: a new mapping, without access.
            let missing = unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::mmap(std::ptr::null_mut(), BYTES, libc::PROT_NONE, flags, -1, 0)
            };
            assert_ne!(missing, libc::MAP_FAILED);
            let buffer = (missing.cast::<u8>(), BYTES as u64);
            let call = Call::Broadcast { bytes: BYTES as u64, root: 0 };
            // SAFETY: the root only lends its buffer, and the kernel finds that it is not there.
            unsafe { group.start(call, (buffer.0, buffer.1), buffer) }
                .and_then(|pending| pending.wait())
        } else {
            group.broadcast(&mut output, 0)
        };
        match result {
            Err(Error::Failed(failure @ Failure::Aborted { .. })) => failure.to_string(),
            other => panic!("the buffer is not there, but {other:?}"),
        }
    });
    let names_buffer = |text: &&String| text.contains("the buffer of rank 0 could not be copied");
    assert!(failures.iter().any(|text| names_buffer(&text)), "{failures:#?}");
    assert!(failures.iter().all(|text| text.contains("has given up")), "{failures:#?}");
}

#[test]
fn rank_that_gives_up_while_others_read_ends_their_calls() {
    // Rank 2 never comes, so the root's buffer stays lent until it gives up.
    let failures = group(3, &options(), |group| {
        let mut data = vec![group.rank() as u8; 1 << 20];
        if group.rank() == 2 {
            let result = loop {
                match group.failure() {
                    Some(failure) => break failure.to_string(),
                    None if group.barrier().is_err() => {}
                    None => panic!("the others call a broadcast"),
                }
            };
            return result;
        }
        match group.broadcast(&mut data, 0) {
            Err(error) => error.to_string(),
            // The bytes of the root may have been read before.
            Ok(()) if group.rank() == 1 => {
                assert!(data.iter().all(|byte| *byte == 0), "the bytes are those of the root");
                group.barrier().expect_err("the group is over").to_string()
            }
            Ok(()) => panic!("rank 2 has not read the bytes"),
        }
    });
    assert!(failures.iter().all(|text| text.contains("rank 2")), "{failures:#?}");
}
