use super::{Memory, PowerOfTwo, PowerOfTwoParameters};
use crate::{ChunkRequest, LossSample, PathAck, PathChoice, PathView};
use fairway_wire::{Duration, Instant};

fn path(rtt_us: u64, in_flight: u32) -> PathView {
    let smoothed_rtt = Duration::from_us(rtt_us);
    PathView { smoothed_rtt, in_flight, usable: true, ..PathView::default() }
}

fn choose(paths: &[PathView], random: u32) -> usize {
    PowerOfTwo::default().choose(paths, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
}

/// A random number that draws `first` of `n`, and then number `other` of the remaining ones.
fn draw(first: u32, other: u32, n: u32) -> u32 {
    let low = ((first << 16) + 0xffff) / n;
    let high = ((other << 16) + 0xffff) / (n - 1);
    assert!(low < 1 << 16 && high < 1 << 16);
    high << 16 | low
}

#[test]
fn the_lower_round_trip_wins() {
    let paths = [path(300, 0), path(100, 50), path(200, 0)];
    assert_eq!(choose(&paths, draw(0, 0, 3)), 1, "0 against 1");
    assert_eq!(choose(&paths, draw(0, 1, 3)), 2, "0 against 2");
    assert_eq!(choose(&paths, draw(2, 1, 3)), 1, "2 against 1");
    assert_eq!(choose(&paths, draw(2, 0, 3)), 2, "2 against 0");
}

#[test]
fn the_unknown_is_tried_first() {
    let paths = [path(100, 0), path(0, 900)];
    for random in [0, u32::MAX, 0x1234_5678] {
        assert_eq!(choose(&paths, random), 1);
    }
}

#[test]
fn a_tie_goes_to_the_emptier_and_then_to_the_first_drawn() {
    let paths = [path(100, 7), path(100, 6)];
    assert_eq!(choose(&paths, draw(0, 0, 2)), 1);
    assert_eq!(choose(&paths, draw(1, 0, 2)), 1);
    let paths = [path(100, 6), path(100, 6)];
    assert_eq!(choose(&paths, draw(0, 0, 2)), 0);
    assert_eq!(choose(&paths, draw(1, 0, 2)), 1);
}

#[test]
fn only_usable_paths_are_drawn() {
    let down = PathView { usable: false, ..path(0, 0) };
    let paths = [down, path(100, 0), down, path(200, 0), down];
    for step in 0..1000u32 {
        assert_eq!(choose(&paths, step.wrapping_mul(0x9e37_79b9)), 1);
    }
    assert_eq!(choose(&[down, down, path(9, 9)], 0xffff_ffff), 2);
    assert_eq!(choose(&[down, down], 0xffff_ffff), 0);
}

#[test]
fn every_path_is_drawn_about_equally_often_when_all_are_alike() {
    let paths = [path(100, 1); 8];
    let mut counts = [0u32; 8];
    let mut random = 1u32;
    for _ in 0..80_000 {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        counts[choose(&paths, random)] += 1;
    }
    assert!(counts.iter().all(|count| (9_000..11_000).contains(count)), "{counts:?}");
}

fn with_memory() -> PowerOfTwo {
    PowerOfTwo::new(PowerOfTwoParameters { memory: Memory::On })
}

fn next(choice: &mut PowerOfTwo, paths: &[PathView], random: u32) -> usize {
    choice.choose(paths, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
}

/// An acknowledgement of one packet, so many microseconds after it left.
fn ack_after(elapsed_us: u64) -> PathAck {
    let elapsed = Some(Duration::from_us(elapsed_us));
    PathAck { acked_packets: 1, elapsed, ..PathAck::default() }
}

#[test]
fn with_memory_a_path_that_was_fast_is_taken_again() {
    let (mut choice, paths) = (with_memory(), [path(100, 0); 64]);
    let first = next(&mut choice, &paths, draw(7, 20, 64));
    let second = next(&mut choice, &paths, draw(40, 9, 64));
    choice.on_ack(second, &ack_after(10));
    choice.on_ack(first, &ack_after(14));
    // Other packets of the same chunk add nothing.
    choice.on_ack(second, &ack_after(10));
    assert_eq!(next(&mut choice, &paths, draw(60, 1, 64)), second);
    assert_eq!(next(&mut choice, &paths, draw(60, 1, 64)), first);
    assert_eq!(next(&mut choice, &paths, draw(60, 1, 64)), 60);
}

#[test]
fn with_memory_paths_that_were_slow_or_lost_packets_are_not_taken_again() {
    let (mut choice, paths) = (with_memory(), [path(100, 0); 64]);
    let chosen = [7, 40, 50].map(|first| next(&mut choice, &paths, draw(first, 20, 64)));
    choice.on_ack(chosen[0], &ack_after(10));
    choice.on_ack(chosen[1], &ack_after(21));
    choice.on_ack(chosen[2], &ack_after(10));
    choice.on_loss(chosen[2], &LossSample::default());
    assert_eq!(next(&mut choice, &paths, draw(60, 1, 64)), chosen[0]);
    assert_eq!(next(&mut choice, &paths, draw(60, 1, 64)), 60);
}

#[test]
fn with_memory_the_threshold_is_drawn_between_one_and_a_half_and_two_least_times() {
    let (mut choice, paths) = (with_memory(), [path(100, 0); 64]);
    let mut again = [0u32; 3];
    choice.times.add(Duration::from_us(100));
    for (kept, elapsed_us) in again.iter_mut().zip([149, 175, 201]) {
        for step in 0..1000u32 {
            let path = next(&mut choice, &paths, step.wrapping_mul(0x9e37_79b9));
            choice.on_ack(path, &ack_after(elapsed_us));
            *kept += u32::from(choice.reuse.take(&paths).is_some());
        }
    }
    assert_eq!((again[0], again[2]), (1000, 0));
    assert!((400..600).contains(&again[1]), "{again:?}");
}
