use super::*;
use fairway_wire::Duration;

/// Four paths with rounds of one round trip, 100 us, on a clock that wraps in 500 us.
struct Bench {
    plb: Plb,
    paths: [PathView; 4],
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let smoothed_rtt = Duration::from_us(100);
        let path = PathView { smoothed_rtt, usable: true, ..PathView::default() };
        let now = Instant::from_ps(0) - Duration::from_us(500);
        Bench { plb: Plb::new(PlbParameters::default()), paths: [path; 4], now }
    }

    fn choose(&mut self, random: u32) -> usize {
        let request = ChunkRequest { now: self.now, bytes: 1, random };
        self.plb.choose(&self.paths, &request)
    }

    /// A round trip in which, of ten packets, `marked` were marked and `lost` were lost; then a
    /// choice.
    fn round(&mut self, marked: u64, lost: u64) -> usize {
        let path = &mut self.paths[self.plb.path];
        path.sent += 10;
        path.marked += marked;
        path.lost += lost;
        self.now = self.now + path.smoothed_rtt;
        self.choose(0)
    }

    /// Keeps packets in flight on every path.
    fn keep_busy(&mut self) {
        for path in &mut self.paths {
            path.in_flight += 1;
            path.sent += 1;
        }
    }
}

#[test]
fn path_is_kept_while_fewer_than_half_are_marked() {
    let mut bench = Bench::new();
    let first = bench.choose(u32::MAX);
    assert_eq!(first, 3);
    for _ in 0..100 {
        assert_eq!(bench.round(4, 0), first);
    }
}

#[test]
fn when_busy_it_moves_after_twelve_congested_rounds() {
    let mut bench = Bench::new();
    bench.keep_busy();
    assert_eq!(bench.choose(u32::MAX), 3);
    // The first round of a path is not judged.
    for round in 0..12 {
        assert_eq!(bench.round(5, 0), 3, "{round}");
    }
    assert_eq!(bench.round(5, 0), 0);
    for round in 0..12 {
        assert_eq!(bench.round(5, 0), 0, "{round}");
    }
    assert_eq!(bench.round(5, 0), 1, "the first of the others");
}

#[test]
fn when_idle_it_moves_after_three() {
    let mut bench = Bench::new();
    bench.choose(u32::MAX);
    for round in 0..3 {
        assert_eq!(bench.round(10, 0), 3, "{round}");
    }
    assert_eq!(bench.round(10, 0), 0);
}

#[test]
fn one_good_round_begins_the_count_again() {
    let mut bench = Bench::new();
    bench.choose(u32::MAX);
    bench.round(0, 0);
    for _ in 0..20 {
        for marked in [5, 5, 0] {
            assert_eq!(bench.round(marked, 0), 3);
        }
    }
}

#[test]
fn lost_packets_count_as_marked() {
    let mut bench = Bench::new();
    bench.choose(u32::MAX);
    for _ in 0..3 {
        assert_eq!(bench.round(2, 3), 3);
    }
    assert_eq!(bench.round(2, 3), 0);
    for _ in 0..10 {
        assert_eq!(bench.round(1, 3), 0);
    }
}

#[test]
fn a_round_is_a_round_trip_with_news() {
    let mut bench = Bench::new();
    bench.choose(u32::MAX);
    bench.round(10, 0);
    bench.round(10, 0);
    // Time without packets is not a round, and all packets within a round trip are in one round.
    for _ in 0..10 {
        bench.now = bench.now + Duration::from_us(100);
        assert_eq!(bench.choose(0), 3);
    }
    bench.paths[3].sent += 1000;
    bench.paths[3].marked += 1000;
    assert_eq!(bench.choose(0), 3);
    assert_eq!(bench.plb.congested_rounds, 2);
    for _ in 0..10 {
        bench.paths[3].sent += 10;
        bench.paths[3].marked += 10;
        bench.now = bench.now + Duration::from_us(9);
        assert_eq!(bench.choose(0), 3);
    }
    assert_eq!(bench.plb.congested_rounds, 2);
    bench.now = bench.now + Duration::from_us(10);
    assert_eq!(bench.choose(0), 0);
}

#[test]
fn a_path_that_fails_is_left_at_once_for_a_usable_one() {
    let mut bench = Bench::new();
    bench.choose(u32::MAX);
    bench.paths[3].usable = false;
    bench.paths[0].usable = false;
    assert_eq!(bench.choose(0), 1);
    bench.paths[1].usable = false;
    assert_eq!(bench.choose(0), 2);
    bench.paths[2].usable = false;
    assert_eq!(bench.choose(0), 2, "none is usable");
    assert_eq!(bench.round(10, 0), 2);
}

#[test]
fn the_first_path_is_drawn() {
    for (random, path) in [(0, 0), (1 << 30, 1), (1 << 31, 2), (u32::MAX, 3)] {
        assert_eq!(Bench::new().choose(random), path);
    }
    let request = ChunkRequest { now: Instant::ZERO, bytes: 1, random: 7 };
    let mut alone = Plb::new(PlbParameters::default());
    assert_eq!(alone.choose(&[PathView::default()], &request), 0);
}
