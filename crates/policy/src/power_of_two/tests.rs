use super::PowerOfTwo;
use crate::{ChunkRequest, PathChoice, PathView};
use fairway_wire::{Duration, Instant};

fn path(rtt_us: u64, in_flight: u32) -> PathView {
    let smoothed_rtt = Duration::from_us(rtt_us);
    PathView { smoothed_rtt, in_flight, usable: true, ..PathView::default() }
}

fn choose(paths: &[PathView], random: u32) -> usize {
    PowerOfTwo.choose(paths, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
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
