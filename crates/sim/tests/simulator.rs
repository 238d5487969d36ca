//! Compares the simulator with results computed by hand, and with itself.

use fairway_sim::topology::Network;
use fairway_sim::traffic::{self, After, Flow};
use fairway_sim::{Clos, FRAME_BYTES, Marking, Overflow, Report, Routing, Scenario, Simulation};
use fairway_ub::Profile;
use fairway_ub::policy::{PathSpec, PolicySpec};
use fairway_ub::wire::{
    Access, Ack, AckFlags, Cci, Data, JettyId, Msn, Operation, Order, Packet, PathReport,
    PathReports, Psn, Sack, header_len,
};

const US: u64 = 1_000_000;
/// Time of a byte at 400 Gb/s.
const PS_PER_BYTE: u64 = 20;

fn tree(hosts: u32) -> Network {
    Clos::three_tiers(hosts, 1).expect("a tree").build(400_000, US)
}

/// Makes a scenario with every check on.
fn scenario(network: Network, flows: Vec<Flow>) -> Scenario {
    Scenario { check: true, ..Scenario::new(network, flows) }
}

/// Runs to the end: everything is delivered, and every packet is accounted for.
fn run(scenario: Scenario) -> Report {
    let report = Simulation::new(scenario, 1).expect("a run").run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{} us: not complete", report.end_ps / US);
    conserved(&report);
    report
}

fn conserved(report: &Report) {
    let accounted = report.delivered
        + report.delivered_trimmed
        + report.dropped
        + report.lost_on_links
        + report.in_flight;
    assert_eq!(report.sent, accounted, "packets sent, and what became of them");
}

/// Times on the wire of a WRITE packet of 4,096 bytes and of the acknowledgement of so many
/// packets. Those of a large message take a path each, and all but the last, which is echoed, are
/// reported; those of a small message take one path.
fn wire_times(packets: u32) -> (u64, u64) {
    let mut paths = PathReports::NONE;
    if packets * 4096 > Profile::default().small_message_bytes {
        while paths.len() + 1 < packets as usize && paths.push(PathReport::default()) {}
    }
    let operation = Operation::Write { access: Access::default() };
    let data = Packet::Data(Data {
        psn: Psn::new(0),
        message: Msn::new(0),
        index: 0,
        jetty: JettyId::new(1),
        transaction: 0,
        slot: 0,
        ack_request: false,
        retry: false,
        last: false,
        carried: None,
        order: Order::NONE,
        operation,
    });
    let ack = Packet::Ack(Ack {
        cumulative: Psn::new(0),
        echo: Psn::new(0),
        start_known: Msn::new(0),
        echo_delay: 0,
        window: 0,
        marks: 0,
        duplicates: 0,
        cci: Cci::NONE,
        flags: AckFlags::ECHO.with(AckFlags::START_KNOWN),
        sack: Sack::default(),
        paths,
    });
    let bytes = |packet| header_len(packet) as u64 + u64::from(FRAME_BYTES);
    (PS_PER_BYTE * (bytes(&data) + 4096), PS_PER_BYTE * bytes(&ack))
}

#[test]
fn one_flow_on_an_idle_path_takes_the_time_of_the_formula() {
    // Under the same leaf, in the same pod, and across the core.
    for (destination, links) in [(1, 2), (2, 4), (5, 6), (15, 6)] {
        for packets in [1, 2, 8] {
            let (data, ack) = wire_times(packets);
            let flows = vec![Flow::new(0, destination, 4096 * packets)];
            let report = run(scenario(tree(16), flows));
            let flow = report.flows[0];
            let delivered = u64::from(packets) * data + (links - 1) * data + links * US;
            assert_eq!(flow.delivered_ps, Some(delivered), "{packets} over {links}");
            let completed = delivered + links * (ack + US);
            assert_eq!(flow.completed_ps, Some(completed), "{packets} over {links}");
            assert_eq!(report.sent, report.data_sent + report.acks_sent);
            assert!(report.in_flight > 0 || report.packet_hops == links * report.sent);
        }
    }
}

/// With cut-through, a packet is received whole only once, at its destination; likewise its
/// acknowledgement.
#[test]
fn switches_that_cut_through_wait_for_no_packet() {
    let (data, ack) = wire_times(8);
    for (destination, links) in [(1, 2), (15, 6)] {
        let mut scenario = scenario(tree(16), vec![Flow::new(0, destination, 4096 * 8)]);
        scenario.cut_through = true;
        let flow = run(scenario).flows[0];
        assert_eq!(flow.delivered_ps, Some(8 * data + links * US));
        assert_eq!(flow.completed_ps, Some(8 * data + links * US + ack + links * US));
    }
}

#[test]
fn a_late_flow_begins_when_it_is_to() {
    let flows = vec![Flow { start_ps: 77 * US + 5, ..Flow::new(3, 9, 4096) }];
    let report = run(scenario(tree(16), flows));
    let (data, _) = wire_times(1);
    assert_eq!(report.flows[0].started_ps, Some(77 * US + 5));
    assert_eq!(report.flows[0].delivered_ps, Some(77 * US + 5 + 6 * (data + US)));
}

#[test]
fn flows_that_share_a_link_share_its_rate() {
    let go = |flows| {
        let mut scenario = scenario(tree(16), flows);
        scenario.queue.bytes = 1 << 30;
        scenario.policy = Some("cc=fixed:1M".parse().expect("a policy"));
        run(scenario)
    };
    let alone = go(vec![Flow::new(4, 0, 4 << 20)]).completion_ps().expect("complete");
    let report = go(vec![Flow::new(4, 0, 4 << 20), Flow::new(8, 0, 4 << 20)]);
    for flow in &report.flows {
        let time = flow.completed_ps.expect("complete");
        assert!((alone * 180 / 100..alone * 205 / 100).contains(&time), "{time} beside {alone}");
    }
}

#[test]
fn an_incast_drains_at_the_rate_of_its_link() {
    let leaf = Clos::two_tiers(16, Some(16), 1).expect("a leaf").build(400_000, US);
    let mut incast = scenario(leaf, traffic::incast(16, 15, 64 * 1024, 1));
    incast.queue.bytes = 1 << 30;
    incast.queue.marking = Marking::Off;
    incast.policy = Some("cc=fixed:1M".parse().expect("a policy"));
    let network = incast.network.clone();
    let report = run(incast);
    // The port to host 0 is always busy from the first packet on.
    let last_link = network.links[network.first_port[0] as usize].reverse;
    let port = &report.ports[last_link as usize];
    let (data, _) = wire_times(1);
    let last = report.flows.iter().filter_map(|flow| flow.delivered_ps).max();
    assert_eq!(last, Some(data + US + port.bytes * PS_PER_BYTE + US));
    assert!(port.longest_bytes > 10 * 64 * 1024);
    assert_eq!((report.dropped, report.resent), (0, 0));
}

/// A receiver that grants credit receives at its link's rate, and no switch drops anything; without
/// credit, the same queue overflows.
#[test]
fn credit_keeps_an_incast_from_overflowing_the_last_queue() {
    let outcome = |policy: &str| {
        let mut incast = scenario(tree(16), traffic::incast(16, 8, 4 << 20, 1));
        incast.queue.bytes = 1 << 20;
        incast.paths = 16;
        incast.policy = Some(policy.parse().expect("a policy"));
        run(incast)
    };
    let report = outcome("cc=eqds:line=400Gbps:window=64K");
    assert_eq!((report.dropped, report.resent), (0, 0));
    let last = report.flows.iter().filter_map(|flow| flow.delivered_ps).max().expect("an end");
    let (data, _) = wire_times(1);
    let line = 8 * 1024 * data;
    assert!(last < line + line / 10, "{} us of {}", last / US, line / US);
    assert!(outcome("cc=fixed:1M").dropped > 0);
}

#[test]
fn every_workload_delivers_every_byte_once() {
    let matrix = "Nodes 16\n0->3 start 0 size 100000 recv_done_trigger 1\n\
                  3->7 trigger 1 size 50000 send_done_trigger 2\n9->1 trigger 2 size 7\n";
    let workloads = [
        traffic::permutation(16, 1_000_001, 1),
        traffic::incast(16, 15, 200_000, 1),
        traffic::outcast(16, 15, 200_000, 1),
        traffic::all_to_all(16, 50_000),
        traffic::incast_and_permutation(16, 15, 300_000, 2, 1),
        traffic::parse_matrix(matrix).expect("a matrix").1,
    ];
    for flows in workloads {
        let bytes: u64 = flows.iter().map(|flow| u64::from(flow.bytes)).sum();
        let mut scenario = scenario(tree(16), flows);
        scenario.paths = 16;
        let mut simulation = Simulation::new(scenario, 1).expect("a run");
        let report = simulation.run(u32::MAX, |_| ());
        assert!(report.is_complete());
        assert_eq!(simulation.progress().placed_bytes, bytes);
        conserved(&report);
    }
}

#[test]
fn triggers_keep_their_order() {
    let matrix = "Nodes 16\n0->3 start 0 size 100000 recv_done_trigger 1\n\
                  3->7 trigger 1 size 50000 send_done_trigger 2\n9->1 trigger 2 size 7\n";
    let report = run(scenario(tree(16), traffic::parse_matrix(matrix).expect("a matrix").1));
    assert_eq!(report.flows[1].started_ps, report.flows[0].delivered_ps);
    // Flow 1 does not end at host 9, which is therefore notified at the end of that microsecond.
    let placed_ps = report.flows[1].completed_ps.expect("complete").div_ceil(US) * US;
    assert_eq!(report.flows[2].started_ps, Some(placed_ps));
}

#[test]
fn overflowing_packets_are_dropped_or_trimmed_and_retransmitted() {
    for overflow in [Overflow::Drop, Overflow::Trim] {
        let mut incast = scenario(tree(16), traffic::incast(16, 15, 1 << 20, 1));
        incast.queue.bytes = 20 * 4200;
        incast.queue.overflow = overflow;
        incast.queue.marking = Marking::Off;
        let report = run(incast);
        assert!(report.resent > 0);
        match overflow {
            Overflow::Drop => assert!(report.dropped > 0 && report.trims() == 0),
            Overflow::Trim => {
                assert!(report.trims() > 0);
                assert_eq!(report.trims(), report.delivered_trimmed + report.dropped);
                // A header reports the loss: no host waits for a time-out, and few packets are
                // sent again because others were faster.
                assert_eq!(report.timeouts, 0);
                assert!(report.spurious * 20 < report.resent, "{} spurious", report.spurious);
            }
        }
    }
}

/// With one packet in a hundred lost in either direction, everything arrives.
#[test]
fn packets_lost_at_random_are_retransmitted() {
    let build = |chance| {
        let mut scenario = scenario(tree(16), traffic::permutation(16, 4 << 20, 1));
        scenario.loss = chance;
        scenario
    };
    let report = run(build(u32::MAX / 100));
    let share = report.lost_on_links as f64 / report.sent as f64;
    assert!((0.008..0.012).contains(&share), "{share}");
    assert!(report.resent > 0 && report.dropped == 0);
    assert_eq!(run(build(0)).lost_on_links, 0);
}

/// In a ring, consecutive messages of a host reuse message records, most often the same one. A
/// packet that identifies its message only by that record is sent only if the receiver has recorded
/// the message.
#[test]
fn retransmitted_packets_are_recognised_by_the_receiver() {
    for seed in 1..4 {
        let ring = traffic::Collective::RingAllReduce;
        let mut scenario = scenario(tree(16), traffic::collective(ring, 16, 8 << 20, None));
        (scenario.loss, scenario.seed) = (u32::MAX / 1000, seed);
        let report = run(scenario);
        assert!(report.lost_on_links > 50, "{} lost", report.lost_on_links);
        let (resent, lost) = (report.resent, report.lost_on_links);
        assert!(resent <= lost, "{resent} sent again for {lost} lost, acknowledgements included");
    }
}

/// A pair's channels share its paths, and all channels are used.
#[test]
fn channels_of_a_pair_share_messages_and_paths() {
    let uplinks = |split, pieces, part_bytes| {
        let network = tree(128);
        let flow = Flow::new(0, 127, 8 << 20);
        let flows = traffic::in_pieces(&[flow], pieces);
        let mut scenario = scenario(network.clone(), flows);
        (scenario.split, scenario.paths) = (split, 8);
        scenario.profile = Some(scenario.timing().part_bytes(part_bytes));
        let report = run(scenario);
        let leaf = network.links[network.first_port[0] as usize].to;
        let up = network.ports_of(leaf).filter(|port| network.links[*port as usize].to >= 128);
        up.filter(|port| report.ports[*port as usize].bytes > 100_000).count()
    };
    // Eight paths use nearly all of four uplinks, and a quarter of the paths use fewer.
    let all = uplinks(1, 1, 0);
    assert_eq!(uplinks(4, 32, 0), all);
    assert!(uplinks(4, 1, 0) < all, "an undivided message goes by one channel");
    assert_eq!(uplinks(4, 1, 256 << 10), all, "a divided one goes by all");
}

/// Routings with little randomness keep the load of a leaf's upward ports nearly equal; one path
/// per flow does not. Every routing uses every port.
#[test]
fn routings_differ_as_they_should() {
    let spread = |routing, paths| {
        let network = tree(128);
        let mut scenario = scenario(network.clone(), traffic::permutation(128, 1 << 20, 5));
        (scenario.routing, scenario.paths) = (routing, paths);
        // Chunks over paths in turn, whatever they deliver.
        scenario.chunk = Some(32 * 1024);
        let spray = PolicySpec { path: PathSpec::Spray, ..scenario.default_policy() };
        scenario.policy = Some(spray.into());
        let report = run(scenario);
        let up = |port: &usize| {
            let link = network.links[*port];
            (128..160).contains(&link.from) && link.to >= 160
        };
        let data = (0..network.links.len()).filter(up).map(|port| report.ports[port].bytes);
        let data: Vec<u64> = data.collect();
        (
            data.iter().copied().min(),
            data.iter().copied().max(),
            report.completion_ps().expect("complete"),
        )
    };
    let (_, _, one_path) = spread(Routing::Ecmp, 1);
    let (least, most, ecmp) = spread(Routing::Ecmp, 256);
    assert!(least > Some(0) && ecmp < one_path, "{ecmp} {one_path}");
    for routing in [Routing::Spray, Routing::Adaptive, Routing::Source] {
        let (low, high, time) = spread(routing, 256);
        assert!(low > least && high < most, "{routing:?}: {low:?} to {high:?}");
        assert!(time < one_path, "{routing:?}");
    }
}

#[test]
fn marks_slow_senders_before_anything_is_lost() {
    let incast = |marking| {
        let mut scenario = scenario(tree(16), traffic::incast(16, 8, 2 << 20, 1));
        scenario.queue.marking = marking;
        scenario.queue.bytes = 8 << 20;
        scenario.policy = Some("cc=caqm:ai=1,path=spray".parse().expect("a policy"));
        run(scenario)
    };
    let marked = incast(Marking::Threshold { bytes: 100_000 });
    let longest = |report: &Report| report.ports.iter().map(|port| port.longest_bytes).max();
    assert!(marked.marks() > 0);
    assert!(longest(&marked) < longest(&incast(Marking::Off)));
}

/// The results for a seed never change, on any machine, in any run.
#[test]
fn a_seed_gives_the_same_run_every_time() {
    let build = |seed| {
        let mut scenario = scenario(tree(16), traffic::permutation(16, 500_000, seed));
        scenario.seed = seed;
        scenario
    };
    let first = run(build(1));
    assert_eq!(first, run(build(1)));
    assert_ne!(first.digest(), run(build(2)).digest());
}

/// The number of partitions, which may run on as many cores, changes nothing.
#[test]
fn partitions_do_not_change_the_result() {
    for routing in [Routing::Ecmp, Routing::Adaptive, Routing::Spray] {
        let build = || {
            let flows = traffic::incast_and_permutation(54, 20, 300_000, 1, 3);
            let mut scenario = scenario(tree(54), flows);
            scenario.routing = routing;
            scenario
        };
        let alone = run(build());
        for parts in [2, 3, 6] {
            let mut simulation = Simulation::new(build(), parts).expect("a run");
            assert_eq!(simulation.run(u32::MAX, |_| ()), alone, "{parts} parts");
        }
    }
}

/// A run that is cut short has no completion, although one of its flows has.
#[test]
fn run_that_is_cut_short_has_no_completion_and_the_rate_of_its_length() {
    let flows = || vec![Flow::new(0, 1, 4096), Flow::new(0, 15, 64 << 20)];
    let short = Scenario { end_ps: 100 * US, ..scenario(tree(16), flows()) };
    let report = Simulation::new(short, 1).expect("a run").run(u32::MAX, |_| ());
    assert!(report.flows[0].completed_ps.is_some() && report.flows[1].completed_ps.is_none());
    assert_eq!(report.completion_ps(), None);
    let megabits = report.goodput_mbps().expect("flows");
    assert!((megabits - 4096.0 * 8e6 / report.end_ps as f64).abs() < 1e-9, "{megabits}");
    let report = run(scenario(tree(16), flows()));
    assert_eq!(report.completion_ps(), report.flows[1].completed_ps);
}

/// Two flows that wait for each other have no event at all.
#[test]
fn run_without_events_reports_what_its_flows_wait_for() {
    let after = |flow| vec![After { flow, delivered: true }];
    let flows = [1, 0].map(|flow| Flow { after: after(flow), ..Flow::new(flow, 1 - flow, 4096) });
    let mut run = Simulation::new(scenario(tree(2), flows.into()), 1).expect("a run");
    assert!(!run.run(u32::MAX, |_| ()).is_complete());
    let shortfall = run.shortfall().expect("two flows");
    let text = shortfall.to_string();
    assert!(shortfall.is_idle && !text.contains("more --end"), "{text}");
    assert!(text.contains("Flow 0, 1 to 0, waits for flow 1. "), "{text}");
    assert!(text.contains("Nothing is left to happen"), "{text}");
}
