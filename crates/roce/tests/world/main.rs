//! Tests of two RoCE devices on a hostile network, with real bytes: loss, duplication, reordering,
//! corruption, and slow placements. Everything is drawn from a seed, which a failure prints.

#[cfg(feature = "injected-bugs")]
mod injected_bugs;
mod model;
mod node;
mod plan;
mod world;

use fairway_roce::Status;
use plan::{Relaxed, Traffic};
use world::{Faults, World};

/// Runs a seed to its end, and checks everything.
fn run(seed: u64, faults: Faults, traffic: Traffic) -> World {
    println!("seed {seed}, {faults:?}, {traffic:?}");
    let mut world = World::new(seed, faults, traffic);
    world.run();
    world.check();
    world
}

#[test]
fn a_clean_network_needs_no_packet_twice() {
    for seed in 0..20 {
        let world = run(seed, Faults::NONE, Traffic::RELIABLE);
        for node in &world.nodes {
            assert_eq!(node.host().counters().timeouts, 0);
            // Only a receiver that is not ready causes retransmissions.
            if node.host().counters().rnr_naks_received == 0 {
                assert_eq!(node.host().counters().resent_packets, 0);
            }
        }
    }
}

#[test]
fn every_byte_arrives_once_whatever_the_network_does() {
    let (mut lost, mut corrupted, mut duplicates, mut gaps, mut implied) = (0, 0, 0, 0, 0);
    for seed in 100..400 {
        let world = run(seed, Faults::of(seed), Traffic::RELIABLE);
        (lost, corrupted) = (lost + world.lost, corrupted + world.corrupted);
        for node in &world.nodes {
            let counters = node.host().counters();
            duplicates += counters.duplicate_requests;
            gaps += counters.out_of_sequence;
            implied += counters.implied_naks;
        }
    }
    // The network did cause faults.
    assert!(lost > 1000 && corrupted > 100, "{lost} lost, {corrupted} corrupted");
    assert!(duplicates > 1000 && gaps > 1000 && implied > 10, "{duplicates} {gaps} {implied}");
}

/// A late packet may make the requester repeat what has been answered.
#[test]
fn atomics_survive_a_network_that_only_reorders() {
    let mut duplicates = 0;
    for seed in 500..540 {
        let reordering = 50 + 5 * (seed % 40);
        let shuffled = Faults { reordering, blocked: 500, placement_ns: 4_000, ..Faults::NONE };
        let world = run(seed, shuffled, Traffic::ATOMICS);
        let counters = world.nodes.iter().map(|node| node.host().counters());
        duplicates += counters.map(|counters| counters.duplicate_requests).sum::<u64>();
    }
    assert!(duplicates > 1000, "{duplicates}");
}

/// Each node has one queue pair, whose gate a turn or a rate shuts again and again.
#[test]
fn every_byte_arrives_once_under_any_scheduler() {
    let schedulers = [
        "sched=drr:quantum=1500",
        "sched=static:line=400Mbps",
        "sched=water-filling:line=1Gbps:floor=0:start=10Mbps",
        "sched=static:line=auto",
    ];
    let kinds = [Traffic::RELIABLE, Traffic::OVERLAPPING_OUT_OF_ORDER, Traffic::SLOW_RECEIVER];
    for (seed, scheduler) in (400..640).zip(schedulers.into_iter().cycle()) {
        let kind = kinds[seed as usize / schedulers.len() % kinds.len()];
        run(seed, Faults::of(seed), Traffic { scheduler: Some(scheduler), ..kind });
    }
}

#[test]
fn a_receiver_that_is_slow_is_waited_for() {
    let mut refused = 0;
    for seed in 1000..1040 {
        let world = run(seed, Faults::of(seed), Traffic::SLOW_RECEIVER);
        refused += world.nodes.iter().map(|node| node.host().counters().rnr_naks_sent).sum::<u64>();
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn unreliable_messages_arrive_whole_or_not_at_all() {
    let (mut arrived, mut posted) = (0, 0);
    for seed in 2000..2060 {
        let world = run(seed, Faults::of(seed), Traffic::UNRELIABLE);
        arrived += world.received();
        posted += world.posted();
    }
    assert!(arrived > 0 && arrived < posted, "{arrived} of {posted}");
}

#[test]
fn on_a_clean_network_unreliable_messages_all_arrive() {
    for seed in 3000..3010 {
        let world = run(seed, Faults::NONE, Traffic::UNRELIABLE);
        assert_eq!(world.received(), world.posted());
    }
}

#[test]
fn a_dead_peer_is_noticed_and_everything_completes() {
    for seed in 4000..4020 {
        let mut world = World::new(seed, Faults::NONE, Traffic::RELIABLE);
        println!("seed {seed}");
        world.kill_after(seed % 40);
        world.run();
        let node = &world.nodes[0];
        assert_eq!(node.completed(), node.posted(), "everything posted completes");
        let failed = node.statuses().filter(|status| *status != Status::Success).count();
        let timed_out = node.statuses().filter(|status| *status == Status::RetryExceeded).count();
        assert!(failed > 0 && timed_out == 1, "one fails, the rest is flushed");
        assert_eq!(node.host().in_use(), [0; 3]);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let twice = [0, 1].map(|_| run(777, Faults::of(777), Traffic::RELIABLE));
    assert_eq!(twice[0].fingerprint, twice[1].fingerprint);
    assert_ne!(twice[0].fingerprint, run(778, Faults::of(778), Traffic::RELIABLE).fingerprint);
}

#[test]
fn every_byte_arrives_once_when_packets_are_placed_as_they_come() {
    let mut early = 0;
    for seed in 5000..5120 {
        let traffic =
            if seed % 3 == 0 { Traffic::BULK_OUT_OF_ORDER } else { Traffic::OUT_OF_ORDER };
        let world = run(seed, Faults::of(seed), traffic);
        early += world.nodes.iter().map(|node| node.host().counters().placed_early).sum::<u64>();
    }
    assert!(early > 1000, "{early}");
}

#[test]
fn every_byte_arrives_once_when_writes_are_split() {
    let kinds = [
        Traffic::RELIABLE,
        Traffic::BULK,
        Traffic::OUT_OF_ORDER,
        Traffic::BULK_OUT_OF_ORDER,
        Traffic::OVERLAPPING_OUT_OF_ORDER,
        Traffic::SLOW_RECEIVER,
    ];
    for (seed, kind) in (9000..9120).zip(kinds.into_iter().cycle()) {
        // Where nothing is lost, all of them are split.
        let faults = match seed % 4 {
            0 => Faults { loss: 0, reordering: 0, ..Faults::of(seed) },
            _ => Faults::of(seed),
        };
        run(seed, faults, Traffic { split_writes: true, ..kind });
    }
}

#[test]
fn reordering_costs_go_back_n_dear_and_placement_out_of_order_nothing() {
    let shuffled = Faults { reordering: 100, ..Faults::NONE };
    for seed in 6000..6004 {
        let resent = [Traffic::BULK, Traffic::BULK_OUT_OF_ORDER].map(|traffic| {
            let world = run(seed, shuffled, traffic);
            world.nodes.iter().map(|node| node.host().counters().resent_packets).sum::<u64>()
        });
        assert!(resent[0] > 100 && resent[1] * 10 < resent[0], "resent: {resent:?}");
    }
}

/// Numbers of retransmitted packets, of probes among them, and of time-outs.
fn again(world: &World) -> (u64, u64, u64) {
    let counters = world.nodes.iter().map(|node| node.host().counters());
    counters.fold((0, 0, 0), |(resent, probes, timeouts), counters| {
        let (probes, timeouts) = (probes + counters.probes, timeouts + counters.timeouts);
        (resent + counters.resent_packets, probes, timeouts)
    })
}

#[test]
fn lost_packets_are_retransmitted_and_few_others() {
    for traffic in [Traffic::LONG, Traffic::LONG_SENDS] {
        let (mut lost, mut resent, mut sent) = (0, 0, 0);
        for seed in 7000..7010 {
            let world = run(seed, Faults { loss: 10, ..Faults::NONE }, traffic);
            let (again, probes, timeouts) = again(&world);
            println!("{} lost, {again} resent, {probes} probes", world.lost);
            assert_eq!(timeouts, 0, "a loss is known long before a time-out");
            (lost, resent) = (lost + world.lost, resent + again);
            sent += world.nodes.iter().map(|node| node.host().counters().sent_packets).sum::<u64>();
        }
        // Lost acknowledgements count as losses, and probes also retransmit packets that were not
        // lost.
        assert!(lost > 100 && resent * 10 < lost * 15, "{lost} of {sent} lost, {resent} resent");
    }
}

#[test]
fn late_packets_are_hardly_ever_retransmitted() {
    for traffic in [Traffic::LONG, Traffic::LONG_SENDS] {
        for seed in 7100..7104 {
            let shuffled = Faults { reordering: 125, ..Faults::NONE };
            let world = run(seed, shuffled, traffic);
            let (again, _, timeouts) = again(&world);
            let early: u64 = world
                .nodes
                .iter()
                .map(|node| node.host().counters().placed_early + node.host().counters().kept_early)
                .sum();
            println!("{early} early, {again} resent");
            assert!(early > 500 && again * 50 < early && timeouts == 0, "{early} {again}");
        }
    }
}

#[test]
fn with_losses_and_reordering_at_once_every_byte_arrives() {
    for traffic in [Traffic::LONG, Traffic::LONG_SENDS] {
        for seed in 7200..7206 {
            let faults = Faults { loss: 10, reordering: 125, placement_ns: 2000, ..Faults::NONE };
            let (again, _, timeouts) = again(&run(seed, faults, traffic));
            println!("{again} resent");
            assert_eq!(timeouts, 0);
        }
    }
}

#[test]
fn memory_changes_in_the_order_of_posting_whatever_the_network_does() {
    for traffic in [Traffic::OVERLAPPING, Traffic::OVERLAPPING_OUT_OF_ORDER] {
        for seed in 8000..8150 {
            run(seed, Faults::of(seed), traffic);
        }
    }
}

/// Other requesters send operations that overlap a READ without waiting for its answer.
#[test]
fn a_read_gets_the_bytes_of_its_turn_also_if_the_requester_does_not_wait() {
    let (mut refused, mut sent) = (0, 0);
    for traffic in [Traffic::OVERLAPPING, Traffic::OVERLAPPING_OUT_OF_ORDER] {
        let traffic = Traffic { relaxed: Relaxed::Sender, ..traffic };
        for seed in 8200..8260 {
            // Without losses no READ is requested again.
            let Faults { placement_ns, blocked, .. } = Faults::of(seed);
            let world = run(seed, Faults { placement_ns, blocked, ..Faults::NONE }, traffic);
            let counters = world.nodes[0].host().counters();
            refused += counters.sequence_naks_received;
            sent += counters.sent_packets;
        }
    }
    assert!(refused > 50 && refused * 10 < sent, "{refused} refused of {sent}");
}

/// The order violations of runs in which both sides allow any order.
fn violations(seeds: std::ops::Range<u64>, traffic: Traffic) -> Vec<String> {
    let traffic = Traffic { relaxed: Relaxed::Both, ..traffic };
    let worlds = seeds.map(|seed| {
        println!("seed {seed}, {traffic:?}");
        let mut world = World::new(seed, Faults::of(seed), traffic);
        world.run();
        world
    });
    worlds.flat_map(|world| world.nodes.map(|node| node.violations).concat()).collect()
}

/// Without order the same checks fail, which proves that they would detect its absence.
#[test]
fn relaxed_order_shows_disorder() {
    let in_order = violations(8300..8310, Traffic::OVERLAPPING);
    let reads = in_order.iter().filter(|text| text.starts_with("Read")).count();
    assert!(reads > 5, "READs get the bytes of later operations: {in_order:?}");
    let out_of_order = violations(8320..8330, Traffic::OVERLAPPING_OUT_OF_ORDER);
    let placed = out_of_order.iter().filter(|text| text.contains("changed during")).count();
    assert!(placed > 100, "bytes change before their turn: {out_of_order:?}");
}

#[test]
fn relaxed_order_keeps_the_bytes_of_the_last_write() {
    let mut early = 0;
    for seed in 8400..8410 {
        let relaxed = Traffic { relaxed: Relaxed::Both, ..Traffic::BULK_OUT_OF_ORDER };
        let mut world =
            World::new(seed, Faults::of(seed), Traffic { overlapping: true, ..relaxed });
        println!("seed {seed}");
        world.run();
        world.check_memory();
        early += world.nodes.iter().map(|node| node.host().counters().placed_early).sum::<u64>();
    }
    assert!(early > 100, "{early}");
}
