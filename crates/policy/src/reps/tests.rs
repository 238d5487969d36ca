use super::*;
use crate::reuse::LIST;
use alloc::vec;
use alloc::vec::Vec;
use fairway_wire::Instant;

fn views(count: usize) -> Vec<PathView> {
    vec![PathView { usable: true, ..PathView::default() }; count]
}

fn choose(reps: &mut Reps, views: &[PathView], random: u32) -> usize {
    reps.choose(views, &ChunkRequest { now: Instant::ZERO, bytes: 1, random })
}

fn ack(acked_packets: u32, marked_packets: u32) -> PathAck {
    PathAck { acked_packets, marked_packets, ..PathAck::default() }
}

#[test]
fn paths_that_delivered_are_used_again_in_their_order() {
    let (mut reps, views) = (Reps::new(RepsParameters::default()), views(16));
    let first: Vec<usize> = (0..4).map(|_| choose(&mut reps, &views, 0)).collect();
    for path in [first[2], first[0], first[3]] {
        reps.on_ack(path, &ack(1, 0));
    }
    let again: Vec<usize> = (0..3).map(|_| choose(&mut reps, &views, 0)).collect();
    assert_eq!(again, [first[2], first[0], first[3]]);
    let explored = choose(&mut reps, &views, 0);
    assert!(!first.contains(&explored), "{explored} of {first:?}");
}

#[test]
fn foreseen_paths_are_those_that_are_chosen() {
    for count in [16, 12] {
        let (mut reps, views) = (Reps::new(RepsParameters::default()), views(count));
        assert_eq!(reps.foresee(count, 0), Some(0), "nothing was chosen yet");
        for random in 0..40 {
            let path = choose(&mut reps, &views, random);
            if random % 3 > 0 {
                reps.on_ack(path, &ack(1, 0));
            }
        }
        let foreseen: Vec<_> = (0..4).map(|others| reps.foresee(count, others)).collect();
        let chosen: Vec<_> = (0..4).map(|_| Some(choose(&mut reps, &views, 0))).collect();
        assert_eq!(foreseen, chosen, "{count} paths");
    }
}

#[test]
fn a_chunk_of_many_packets_is_one_entry() {
    let (mut reps, views) = (Reps::new(RepsParameters::default()), views(16));
    let path = choose(&mut reps, &views, 0);
    (0..8).for_each(|_| reps.on_ack(path, &ack(1, 0)));
    assert_eq!(choose(&mut reps, &views, 0), path);
    assert_ne!(choose(&mut reps, &views, 0), path);
    // A path that no chunk took is not in the list.
    reps.on_ack(9, &ack(1, 0));
    assert_ne!(choose(&mut reps, &views, 0), 9);
}

#[test]
fn marked_and_lost_paths_are_not_used_again() {
    let (mut reps, views) = (Reps::new(RepsParameters::default()), views(16));
    let paths: Vec<usize> = (0..3).map(|_| choose(&mut reps, &views, 0)).collect();
    reps.on_ack(paths[0], &ack(1, 1));
    reps.on_ack(paths[1], &ack(1, 0));
    reps.on_ack(paths[2], &ack(1, 0));
    reps.on_loss(paths[1], &LossSample::default());
    assert_eq!(choose(&mut reps, &views, 0), paths[2]);
    for _ in 0..12 {
        let next = choose(&mut reps, &views, 0);
        assert!(!paths.contains(&next), "{next} of {paths:?}");
    }
}

#[test]
fn paths_out_of_use_are_not_taken_from_the_list() {
    let (mut reps, mut views) = (Reps::new(RepsParameters::default()), views(4));
    let path = choose(&mut reps, &views, 0);
    reps.on_ack(path, &ack(1, 0));
    views[path].usable = false;
    assert_ne!(choose(&mut reps, &views, 0), path);
}

#[test]
fn the_list_keeps_as_many_as_it_holds() {
    let parameters = RepsParameters { explore: Explore::Random, ..Default::default() };
    let (mut reps, views) = (Reps::new(parameters), views(256));
    for number in 0..3 * LIST as u32 {
        let path = choose(&mut reps, &views, number.wrapping_mul(2_654_435_761));
        (0..3).for_each(|_| reps.on_ack(path, &ack(1, 0)));
    }
    assert!(reps.reuse.len() <= LIST);
    reps.on_ack(9999, &ack(1, 0));
}

/// An acknowledgement of one packet, so many microseconds after it left.
fn ack_after(elapsed_us: u64) -> PathAck {
    PathAck { elapsed: Some(Duration::from_us(elapsed_us)), ..ack(1, 0) }
}

#[test]
fn a_path_whose_packet_was_late_is_not_used_again() {
    for late in [Late::Avoid, Late::Ignore] {
        let parameters = RepsParameters { late, ..RepsParameters::default() };
        let (mut reps, views) = (Reps::new(parameters), views(16));
        // A mean delay of 2 us beyond 12: a packet is late after 12 + 5 + 1.5 us.
        for elapsed_us in [12, 14].into_iter().chain([14; 300]) {
            let path = choose(&mut reps, &views, 0);
            reps.on_ack(path, &ack_after(elapsed_us));
        }
        let path = choose(&mut reps, &views, 0);
        reps.on_ack(path, &ack_after(18));
        assert_eq!(choose(&mut reps, &views, 0), path);
        reps.on_ack(path, &ack_after(19));
        assert_eq!(choose(&mut reps, &views, 0) == path, late == Late::Ignore);
    }
}
