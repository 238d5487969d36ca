//! Constants at their limits: a run is either refused with an error that names them, or completes.

use fairway_nicmodel::{
    CachePolicy, Config, Constants, Dispatching, Stack, Verb, WorkloadKind, constants::ALL, run,
};

fn configs() -> Vec<Config> {
    let base = Config { ops: 40, keys: 64, ..Config::default() };
    let chase = WorkloadKind::PointerChase;
    let (verb, cache) = (Verb::Load, CachePolicy::WriteThrough);
    let fanout = WorkloadKind::Fanout { dispatch: Dispatching::Turn, shared: false };
    vec![
        base.clone(),
        Config { stack: Stack::RoceDma, ..base.clone() },
        Config { stack: Stack::Coherent, verb, workload: chase, hosts: 3, ..base.clone() },
        Config { stack: Stack::UbLdst, verb, workload: chase, cache, ..base.clone() },
        Config { workload: WorkloadKind::Setup, ..base.clone() },
        Config { workload: fanout, verb: Verb::Send, remote_jetties: 4, ..base },
    ]
}

#[test]
fn every_constant_may_be_at_its_ends() {
    for constant in ALL {
        for value in [0.0, 1e-3, 1.0, 1e6] {
            for mut config in configs() {
                config.constants.set(constant.name, value).expect("within what all may be");
                if let Err(error) = run(&config) {
                    assert!(!error.to_string().is_empty(), "{}={value}", constant.name);
                }
            }
        }
    }
}

#[test]
fn impossible_constants_are_refused_by_name() {
    let mut constants = Constants::default();
    let error = constants.set("link_gbps", 1e13).expect_err("too much").to_string();
    assert!(error.contains("link_gbps=10000000000000"), "{error}");
    for (name, value) in [
        ("link_gbps", 0.0),
        ("kernel_workers", 0.0),
        ("kernel_workers", 1e9),
        ("directory_entries", 1e9),
        ("directory_ways", 1e6),
        ("prefetch_lines", 1e6),
        ("import_calls", 1e6),
        ("membus_ns", 1e10),
        ("rto_us", 0.0),
    ] {
        let mut config = Config::default();
        config.constants.set(name, value).expect("within what all may be");
        let error = run(&config).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("is possible"), "{error}");
    }
}
