use super::*;
use alloc::vec::Vec;
use fairway_wire::{Duration, Instant};

fn views(count: usize) -> Vec<PathView> {
    vec![PathView { usable: true, ..PathView::default() }; count]
}

fn choose(bitmap: &mut Bitmap, views: &[PathView], random: u32) -> usize {
    bitmap.choose(views, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
}

fn round(bitmap: &mut Bitmap, views: &[PathView], random: u32) -> Vec<usize> {
    views.iter().map(|_| choose(bitmap, views, random)).collect()
}

fn mark() -> PathAck {
    PathAck { acked_packets: 1, marked_packets: 1, ..PathAck::default() }
}

fn loss(by_timeout: bool) -> LossSample {
    LossSample { by_timeout, smoothed_rtt: Duration::from_us(10), ..LossSample::default() }
}

#[test]
fn paths_take_turns_in_an_order_that_changes() {
    for count in [8, 6] {
        let (mut bitmap, views) = (Bitmap::new(), views(count));
        let mut orders = Vec::new();
        for random in [0, 3, 5] {
            let mut order = round(&mut bitmap, &views, random);
            orders.push(order.clone());
            order.sort_unstable();
            assert_eq!(order, (0..count).collect::<Vec<_>>());
        }
        assert_ne!(orders[0], orders[1]);
        assert_ne!(orders[1], orders[2]);
    }
}

#[test]
fn marks_losses_and_time_outs_cost_one_four_and_fifteen_turns() {
    for (missed, punish) in [(1, 0), (4, 1), (15, 2)] {
        let (mut bitmap, views) = (Bitmap::new(), views(4));
        match punish {
            0 => bitmap.on_ack(2, &mark()),
            1 => bitmap.on_loss(2, &loss(false)),
            // More does not add up.
            _ => (0..9).for_each(|_| bitmap.on_loss(2, &loss(true))),
        }
        // While a path misses its turn, the other three are a round.
        let before: usize = (0..3 * missed).filter(|_| choose(&mut bitmap, &views, 0) == 2).count();
        assert_eq!(before, 0, "{missed}");
        let after = (0..4).filter(|_| choose(&mut bitmap, &views, 0) == 2).count();
        assert_eq!(after, 1, "{missed}");
    }
}

#[test]
fn some_path_is_taken_if_all_are_marked() {
    let (mut bitmap, views) = (Bitmap::new(), views(4));
    (0..4).for_each(|path| bitmap.on_loss(path, &loss(true)));
    let chosen = round(&mut bitmap, &views, 0);
    assert!(chosen.iter().all(|path| *path < 4));
    bitmap.on_ack(9999, &mark());
}

#[test]
fn paths_out_of_use_are_passed_over() {
    let (mut bitmap, mut views) = (Bitmap::new(), views(4));
    views[1].usable = false;
    assert!((0..20).all(|_| choose(&mut bitmap, &views, 7) != 1));
}
