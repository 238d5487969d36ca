//! Channels that are opened on use, and rest: results are those of channels that are always open.

use fairway_sim::{Report, Settings, Simulation};

fn run(lines: &str, rest_from_peers: u32, cores: u32, is_traced: bool) -> Report {
    let mut settings = Settings::default();
    settings.read(&lines.replace('|', "\n")).expect("settings");
    let mut scenario = settings.build(1).expect("a scenario");
    scenario.rest_from_peers = rest_from_peers;
    let mut simulation = Simulation::new(scenario, cores).expect("a run");
    if is_traced {
        // All channels are open from the start, and none rests.
        simulation.set_trace(0);
    }
    while simulation.step() {
        if is_traced {
            simulation.take_trace(|_, _| ());
        }
    }
    simulation.report()
}

/// Everything that a run reports is the same with channels that are open from the start, opened on
/// use, and at rest whenever they may: also the events, and so the order of everything.
#[test]
fn results_do_not_depend_on_when_channels_are_open() {
    for lines in [
        "workload all-to-all|nodes 16|bytes 4K|check on",
        "workload all-to-all|nodes 16|bytes 50K|check on|queue 60K|overflow trim",
        "workload all-to-all|nodes 16|bytes 20K|check on|loss 0.02",
        "workload all-to-all|nodes 16|bytes 30K|topology dual-plane|check on",
        "workload all-to-all|nodes 16|bytes 20K|paths 4|policy path=p2c,loss=path-order",
        "workload all-to-all|nodes 16|bytes 20K|policy cc=eqds",
        "workload incast-permutation|nodes 16|bytes 100K|senders 8|pfc 50K:30K",
        "workload pairwise-alltoall|nodes 16|bytes 100K|collectives flows|check on",
    ] {
        let eager = run(lines, u32::MAX, 1, true);
        assert!(eager.is_complete(), "{lines}");
        for (rest_from_peers, cores) in [(u32::MAX, 1), (0, 1), (0, 2)] {
            let lazy = run(lines, rest_from_peers, cores, false);
            let place = format!("{lines}, rest from {rest_from_peers} peers, {cores} cores");
            assert_eq!(lazy.events, eager.events, "{place}");
            assert_eq!((lazy.acks_sent, lazy.resent), (eager.acks_sent, eager.resent), "{place}");
            assert_eq!((lazy.sent, lazy.spurious), (eager.sent, eager.spurious), "{place}");
            assert_eq!(lazy.end_ps, eager.end_ps, "{place}");
            for (one, other) in lazy.flows.iter().zip(&eager.flows) {
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{place}");
            }
        }
    }
}
