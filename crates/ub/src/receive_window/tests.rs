//! Compares the window with the simplest model: a set of PSNs.

use super::*;
use crate::random::Random;
use alloc::collections::BTreeSet;

/// The PSNs that have arrived, as distances from `first`.
struct Model {
    first: Psn,
    arrived: BTreeSet<u32>,
}

impl Model {
    fn base(&self) -> u32 {
        (0..).find(|distance| !self.arrived.contains(distance)).unwrap()
    }
}

fn run(seed: u64, window: u32, spread: u64, pool_blocks: u32) -> u64 {
    let mut random = Random::new(seed);
    let first = Psn::new(Psn::SPACE - 1 - (random.number() % 300) as u32);
    let mut pool = Pool::new(pool_blocks);
    let mut real = ReceiveWindow::new(first, window);
    let mut model = Model { first, arrived: BTreeSet::new() };
    let mut exhausted = 0;
    for _ in 0..1_500 {
        let base = model.base();
        let distance = (u64::from(base) + random.number() % spread).saturating_sub(3) as u32;
        let psn = model.first.plus(distance);
        let expected = if model.arrived.contains(&distance) {
            Err(Unrecorded::Arrived)
        } else if distance - base >= real.capacity() {
            Err(Unrecorded::BeyondWindow)
        } else {
            Ok(())
        };
        assert_eq!(real.has_arrived(psn, &pool), expected == Err(Unrecorded::Arrived));
        match real.admit(psn, &mut pool) {
            Err(Unrecorded::PoolExhausted) => {
                assert_eq!(expected, Ok(()));
                exhausted += 1;
                // The oldest gap always has a bit in the node of the base: fill it.
                continue;
            }
            result => assert_eq!(result, expected, "seed {seed}, distance {distance}"),
        }
        if expected.is_ok() {
            if random.number().is_multiple_of(8) {
                real.withdraw(psn, &mut pool);
                continue;
            }
            real.record(psn, &mut pool);
            model.arrived.insert(distance);
        }
        check(&real, &model, &pool, &mut random);
    }
    real.clear(&mut pool);
    assert_eq!(pool.in_use(), 0);
    exhausted
}

fn check(real: &ReceiveWindow, model: &Model, pool: &Pool<u16>, random: &mut Random) {
    let base = model.base();
    assert_eq!(real.base(), model.first.plus(base));
    let end = model.arrived.last().map_or(0, |last| last + 1);
    assert_eq!(real.end(), model.first.plus(end));
    let from = base + (random.number() % 40) as u32;
    let map = real.map(model.first.plus(from), pool);
    for bit in 0..SACK_BITS {
        let set = map[(bit / 32) as usize] >> (bit % 32) & 1 == 1;
        assert_eq!(set, model.arrived.contains(&(from + bit)), "bit {bit} from {from}");
    }
    // Blocks in use: at most one per 16 PSNs of the window, and none that is full or empty.
    let mut partial = BTreeSet::new();
    for distance in base..end {
        let block = model.first.plus(distance).value() / BLOCK_PSNS;
        let all = (0..BLOCK_PSNS).all(|inside| {
            let psn = Psn::new(block * BLOCK_PSNS + inside);
            let distance = psn.distance_from(model.first);
            distance < base as i32 || model.arrived.contains(&(distance as u32))
        });
        if !all {
            partial.insert(block);
        }
    }
    assert!(pool.in_use() <= partial.len() as u32 + 1, "{} blocks", pool.in_use());
}

#[test]
fn agrees_with_a_set_of_psns() {
    for seed in 0..6 {
        assert_eq!(run(seed, 128, 20, 64), 0);
        assert_eq!(run(seed, 512, 600, 64), 0);
        assert_eq!(run(seed, 4096, 300, 300), 0);
    }
}

#[test]
fn an_exhausted_pool_is_reported_and_hurts_nothing() {
    let exhausted: u64 = (0..4).map(|seed| run(seed, 512, 400, 3)).sum();
    assert!(exhausted > 0);
}

#[test]
fn one_loss_costs_two_blocks_and_not_a_window() {
    let mut pool = Pool::new(64);
    let mut window = ReceiveWindow::new(Psn::new(0), 1024);
    for psn in (0..900).filter(|&psn| psn != 5).map(Psn::new) {
        window.admit(psn, &mut pool).unwrap();
        window.record(psn, &mut pool);
        assert!(pool.in_use() <= 2, "{} blocks at {psn:?}", pool.in_use());
    }
    assert_eq!(window.base(), Psn::new(5));
    window.admit(Psn::new(5), &mut pool).unwrap();
    window.record(Psn::new(5), &mut pool);
    assert_eq!(window.base(), Psn::new(900));
}

#[test]
fn window_without_free_blocks_is_as_long_as_what_can_be_recorded() {
    let mut pool = Pool::new(2);
    let mut window = ReceiveWindow::new(Psn::new(5), 1024);
    assert_eq!(window.recordable(&pool), window.capacity());
    let record = |window: &mut ReceiveWindow, pool: &mut Pool<u16>, psn| {
        window.admit(Psn::new(psn), pool).map(|()| window.record(Psn::new(psn), pool))
    };
    record(&mut window, &mut pool, 20).unwrap();
    assert_eq!(window.recordable(&pool), window.capacity(), "a block is left");
    record(&mut window, &mut pool, 300).unwrap();
    // The second block of PSNs has a record, and the third has none.
    assert_eq!(window.recordable(&pool), 32 - 5);
    assert_eq!(record(&mut window, &mut pool, 32), Err(Unrecorded::PoolExhausted));
    for psn in 5..32 {
        assert!(psn == 20 || record(&mut window, &mut pool, psn).is_ok(), "{psn}");
    }
    // The base has moved, and its block is part of the window.
    assert_eq!(window.base(), Psn::new(32));
    assert_eq!(window.recordable(&pool), window.capacity());
    // The window is never empty.
    let empty = Pool::new(0);
    assert_eq!(ReceiveWindow::new(Psn::new(15), 128).recordable(&empty), 1);
    assert_eq!(ReceiveWindow::new(Psn::new(16), 128).recordable(&empty), 16);
}

#[test]
fn default_pool_holds_the_sparsest_windows_of_all_channels() {
    let limits = crate::Limits::default();
    let mut pool = Pool::new(limits.bitmap_blocks.min(BLOCKS_MAX));
    let blocks = limits.receive_window() / BLOCK_PSNS;
    for channel in 0..limits.channels {
        let mut window = ReceiveWindow::new(Psn::new(0), limits.window_packets);
        for block in 1..blocks {
            let psn = Psn::new(block * BLOCK_PSNS);
            let admitted = window.admit(psn, &mut pool);
            assert_eq!(admitted, Ok(()), "channel {channel}, PSN {psn:?}");
        }
    }
}
