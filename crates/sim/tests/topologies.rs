//! Networks other than fat trees, and events of networks: pauses, failures, shared buffers.

use fairway_sim::traffic::{self, Collective, Flow};
use fairway_sim::{
    Change, Clos, Direct, Marking, Network, Overflow, Pfc, Report, Routing, Scenario, SharedBuffer,
    Simulation, Wiring,
};

const US: u64 = 1_000_000;

fn tree(hosts: u32) -> Network {
    Clos::three_tiers(hosts, 1).expect("a tree").build(400_000, US)
}

fn direct(hosts_per_switch: u32, wiring: Wiring) -> Network {
    Direct { hosts_per_switch, wiring }.build(400_000, US / 2)
}

fn dragonfly() -> Network {
    direct(2, Wiring::Dragonfly { switches: 4, global: 2, groups: 9 })
}

fn scenario(network: Network, flows: Vec<Flow>) -> Scenario {
    Scenario { check: true, paths: 16, ..Scenario::new(network, flows) }
}

fn run(scenario: Scenario) -> Report {
    run_in(scenario, 1)
}

fn run_in(scenario: Scenario, parts: u32) -> Report {
    let report = Simulation::new(scenario, parts).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{} us: not complete", report.end_ps / US);
    let lost = report.dropped + report.lost_on_links;
    let accounted = report.delivered + report.delivered_trimmed + lost + report.in_flight;
    assert_eq!(report.sent, accounted, "packets sent, and what became of them");
    report
}

#[test]
fn every_network_carries_a_permutation_by_every_routing() {
    let networks = [
        direct(1, Wiring::Torus([4, 4, 1])),
        direct(2, Wiring::Torus([3, 2, 3])),
        direct(2, Wiring::HyperX([3, 4, 1])),
        dragonfly(),
    ];
    for network in networks {
        for (_, routing) in Routing::NAMES {
            let flows = traffic::permutation(network.hosts, 200_000, 2);
            let mut scenario = scenario(network.clone(), flows);
            scenario.routing = routing;
            run(scenario);
        }
    }
}

/// Between adjacent groups of a dragonfly, the short way has one link, and UGAL finds the detours.
#[test]
fn detours_help_where_the_short_way_is_narrow() {
    let flows = || (0..8).map(|host| Flow::new(host, host + 8, 1 << 20)).collect();
    let time = |routing| {
        let mut scenario = scenario(dragonfly(), flows());
        scenario.routing = routing;
        scenario.paths = 256;
        // The median is compared because the slowest flow ends only when its congestion control has
        // recovered from losses (retransmissions wait for room in the window), which does not
        // depend on routing.
        run(scenario).completion_times().p50
    };
    let short = time(Routing::Dimension);
    for routing in [Routing::Valiant, Routing::Ugal] {
        assert!(time(routing) * 10 < short * 7, "{routing:?}: {} beside {short}", time(routing));
    }
}

/// Alone on the network, a packet takes the short way and no detour.
#[test]
fn ugal_takes_no_detour_without_need() {
    let hops = |routing| {
        let mut scenario = scenario(dragonfly(), vec![Flow::new(0, 8, 4096)]);
        scenario.routing = routing;
        run(scenario).flows[0].delivered_ps
    };
    assert_eq!(hops(Routing::Ugal), hops(Routing::Dimension));
    assert!(hops(Routing::Ugal) <= hops(Routing::Valiant));
}

fn incast_beside_permutation(pfc: Option<Pfc>) -> Report {
    let flows = traffic::incast_and_permutation(16, 15, 1 << 20, 2, 1);
    let mut scenario = scenario(tree(16), flows);
    scenario.queue.marking = Marking::Off;
    scenario.queue.pfc = pfc;
    scenario.paths = 1;
    if pfc.is_some() {
        scenario.queue.bytes = 1 << 30;
    }
    run(scenario)
}

/// PFC loses nothing, but pauses spread: flows outside the incast wait for it, too.
#[test]
fn pauses_lose_nothing_and_hurt_others() {
    let pfc = Pfc { pause_bytes: 200_000, resume_bytes: 150_000 };
    let (paused, dropping) =
        (incast_beside_permutation(Some(pfc)), incast_beside_permutation(None));
    assert!(paused.pauses() > 0 && paused.dropped == 0 && dropping.pauses() == 0);
    let victims = |report: &Report| {
        let flows = report.flows.iter().filter(|flow| flow.destination != 0);
        let mut times: Vec<u64> = flows.filter_map(|flow| flow.completion_time_ps()).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    assert!(victims(&paused) > victims(&dropping), "{} {}", victims(&paused), victims(&dropping));
    // The bytes from one link exceed the threshold by no more than was in flight.
    let under_way = 2 * 50_000 + 3 * 4300;
    let most = paused.ports.iter().map(|port| port.longest_bytes).max();
    assert!(most < Some(4 * (200_000 + under_way)), "{most:?}");
    let waited: u64 = paused.ports.iter().map(|port| port.paused_ps).sum();
    assert!(waited > 100 * US);
}

#[test]
fn ports_share_a_buffer() {
    let most = |bytes| {
        let mut scenario = scenario(tree(16), traffic::incast(16, 15, 300_000, 1));
        scenario.queue.shared = Some(SharedBuffer { bytes, permille: 1000 });
        scenario.queue.marking = Marking::Off;
        let report = run(scenario);
        (report.ports.iter().map(|port| port.longest_bytes).max().expect("ports"), report.dropped)
    };
    let ((small, lost), (large, _)) = (most(400_000), most(2_000_000));
    // With alpha 1 a single queue gets half of the buffer.
    assert!(small <= 210_000 && lost > 0, "{small} {lost}");
    assert!((small + 1..=1_010_000).contains(&large), "{large}");
}

/// Host 0's leaf has two uplinks; one fails, and later recovers.
#[test]
fn a_failed_link_is_passed_by() {
    let network = tree(16);
    let leaf = network.links[network.first_port[0] as usize].to;
    let uplink = network.ports_of(leaf).last().expect("uplinks");
    let back = network.links[uplink as usize].reverse;
    let cut = |until: Option<u64>| {
        let mut scenario = scenario(network.clone(), vec![Flow::new(0, 15, 8 << 20)]);
        for link in [uplink, back] {
            scenario.changes.push(Change { at_ps: 30 * US, link, megabits: 0 });
            if let Some(at_ps) = until {
                scenario.changes.push(Change { at_ps, link, megabits: 400_000 });
            }
        }
        let report = run(scenario);
        (report.ports[uplink as usize].packets, report)
    };
    let (alone, report) = cut(None);
    assert!(alone > 0, "used until it failed");
    // Packets queued for the failed link, and packets on it in the other direction, are lost and
    // retransmitted.
    assert!(report.completion_ps().expect("complete") < 2_000 * US);
    let (both, _) = cut(Some(60 * US));
    assert!(both > alone, "{both} after it came back, {alone} before");
}

#[test]
fn a_slower_link_is_slower() {
    let network = tree(16);
    let time = |megabits| {
        let mut scenario = scenario(network.clone(), vec![Flow::new(0, 1, 4 << 20)]);
        if megabits > 0 {
            scenario.changes.push(Change { at_ps: 0, link: network.first_port[0], megabits });
        }
        run(scenario).completion_ps().expect("complete")
    };
    let (full, quarter) = (time(0), time(100_000));
    assert!((full * 38 / 10..full * 42 / 10).contains(&quarter), "{full} {quarter}");
}

#[test]
fn collectives_take_as_long_as_their_steps() {
    for kind in [
        Collective::RingAllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::TreeAllReduce,
    ] {
        let flows = traffic::collective(kind, 8, 1 << 20, None);
        let network = Clos::two_tiers(8, Some(8), 1).expect("a leaf").build(400_000, US);
        let report = run(scenario(network, flows));
        if kind != Collective::TreeAllReduce {
            // Steps are sequential: two links, and 32 packets of 4,096 bytes each.
            let steps = if kind == Collective::RingAllReduce { 14 } else { 7 };
            let step = 2 * US + 33 * 84_000;
            let time = report.completion_ps().expect("complete");
            assert!((steps * step * 98 / 100..steps * step + 4 * US).contains(&time), "{time}");
        }
    }
}

#[test]
fn flows_begin_when_they_are_to() {
    let sizes = traffic::Sizes::named("websearch").expect("a distribution");
    let flows = traffic::poisson(16, 200, &sizes, 30, 400_000, 1);
    let report = run(scenario(tree(16), flows.clone()));
    for (flow, result) in flows.iter().zip(&report.flows) {
        assert!(result.started_ps >= Some(flow.start_ps));
    }
}

/// With pauses, failures and detours, the results are the same on any number of cores.
#[test]
fn partitions_do_not_change_the_result() {
    let build = |network: &Network, routing, pfc| {
        let flows = traffic::incast_and_permutation(network.hosts, 9, 150_000, 1, 3);
        let mut scenario = scenario(network.clone(), flows);
        scenario.routing = routing;
        scenario.queue.pfc = pfc;
        scenario.queue.shared = Some(SharedBuffer { bytes: 1 << 20, permille: 500 });
        scenario.queue.overflow = Overflow::Trim;
        scenario.changes.push(Change { at_ps: 9 * US, link: network.hosts + 9, megabits: 25_000 });
        scenario
    };
    let pfc = Some(Pfc { pause_bytes: 60_000, resume_bytes: 50_000 });
    for (network, routing) in [
        (dragonfly(), Routing::Ugal),
        (direct(2, Wiring::Torus([4, 4, 1])), Routing::Dimension),
        (tree(54), Routing::Adaptive),
    ] {
        for pfc in [None, pfc] {
            let alone = run_in(build(&network, routing, pfc), 1);
            for parts in [2, 5] {
                assert_eq!(run_in(build(&network, routing, pfc), parts), alone, "{parts}");
            }
        }
    }
}
