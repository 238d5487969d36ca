use proptest::prelude::*;

use crate::emulate::spec::{Clause, Conditions, Settings, Spec, Window};

fn parse(text: &str) -> Spec {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_setting_is_understood() {
    let text = "delay=50us, jitter=1.5ms, loss=1%, reorder=64, dup=0.1%, rate=10G, queue=256K, \
                ecn=64KiB, longest=1500, blackhole@2s..3s, blackhole@5s..";
    let expected = Conditions {
        delay_ns: 50_000,
        jitter_ns: 1_500_000,
        loss: 10_000_000,
        reorder: 64,
        duplication: 1_000_000,
        rate: Some(10_000_000_000),
        queue_bytes: 256 * 1024,
        ecn_bytes: Some(64 * 1024),
        longest: Some(1500),
        blackholes: vec![
            Window { from_ns: 2_000_000_000, until_ns: 3_000_000_000 },
            Window { from_ns: 5_000_000_000, until_ns: u64::MAX },
        ],
    };
    assert_eq!(parse(text).for_path(7), expected);
    assert!(!expected.is_clean());
}

#[test]
fn later_entries_refine_earlier_ones() {
    let spec = parse("*:delay=10us;1:loss=0.05;2:blackhole@0s..5s;1:delay=1ms");
    assert_eq!((spec.for_path(0).delay_ns, spec.for_path(0).loss), (10_000, 0));
    assert_eq!((spec.for_path(1).delay_ns, spec.for_path(1).loss), (1_000_000, 50_000_000));
    assert_eq!(spec.for_path(2).blackholes.len(), 1);
    assert!(parse("").for_path(0).is_clean());
    assert!(parse("0:loss=1%").for_path(1).is_clean());
    assert!(!parse("0:loss=1%").for_path(0).is_clean());
}

#[test]
fn equal_values_in_any_notation() {
    assert_eq!(parse("loss=1%"), parse("*:loss=0.01"));
    assert_eq!(parse("rate=10G"), parse("rate=10000Mbit"));
    assert_eq!(parse("rate=2.5Gbps"), parse("rate=2500000000"));
    assert_eq!(parse("queue=1M"), parse("queue=1024KB"));
    assert_eq!(parse("delay=0"), parse("delay=0ns"));
}

#[test]
fn errors_name_the_bad_value_and_what_is_accepted() {
    for (text, bad, accepted) in [
        ("delay=50", "'50'", "a time such as 50us"),
        ("delay=5 parsecs", "'5 parsecs'", "a time such as 50us"),
        ("loss=101%", "'101%'", "percentage"),
        ("loss=-1%", "'-1%'", "fraction"),
        ("loss=2", "'2'", "fraction"),
        ("reorder=many", "'many'", "number of packets"),
        ("rate=0", "'0'", "bits per second"),
        ("queue=1X", "'1X'", "bytes"),
        ("blackhole@3s..2s", "'3s..2s'", "ending after it starts"),
        ("blackhole@3s", "'3s'", "2s..3s"),
        ("x:loss=1%", "'x'", "path number or *"),
        ("colour=blue", "'colour'", "delay=, jitter="),
        ("loss", "'loss'", "delay=, jitter="),
        ("loss=1%,", "''", "delay=, jitter="),
        ("delay=99999999999999999999s", "'99999999999999999999s'", "time"),
        ("delay=.5s", "'.5s'", "time"),
        ("delay=1.s", "'1.s'", "time"),
    ] {
        let error = text.parse::<Spec>().expect_err(text).to_string();
        assert!(error.contains(bad) && error.contains(accepted), "{text}: {error}");
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let fraction = || proptest::option::of(0u32..=1_000_000_000);
    let number = || proptest::option::of(0u64..=1 << 50);
    let rate = proptest::option::of(1u64..=1_000_000_000_000_000);
    let window = (0u64..1 << 40, 1u64..1 << 40, any::<bool>()).prop_map(|(from_ns, len, open)| {
        Window { from_ns, until_ns: if open { u64::MAX } else { from_ns + len } }
    });
    let blackholes = proptest::collection::vec(window, 0..3);
    let reorder = proptest::option::of(0u32..65_536);
    let all = (number(), number(), fraction(), reorder, fraction(), rate, number(), number());
    (all, number(), blackholes).prop_filter_map(
        "at least one setting",
        |(all, longest, blackholes)| {
            let settings = Settings {
                delay_ns: all.0,
                jitter_ns: all.1,
                loss: all.2,
                reorder: all.3,
                duplication: all.4,
                rate: all.5,
                queue_bytes: all.6,
                ecn_bytes: all.7,
                longest,
                blackholes,
            };
            (settings != Settings::default()).then_some(settings)
        },
    )
}

proptest! {
    #[test]
    fn displayed_specification_parses_to_the_same(
        clauses in proptest::collection::vec((proptest::option::of(0usize..300), settings()), 0..5)
    ) {
        let clauses: Vec<Clause> =
            clauses.into_iter().map(|(path, settings)| Clause { path, settings }).collect();
        let spec = Spec { clauses };
        prop_assert_eq!(spec.to_string().parse::<Spec>(), Ok(spec));
    }

    #[test]
    fn any_text_gives_a_specification_or_an_error(text in "[0-9a-z=,;:*@.%]{0,40}") {
        let _ = text.parse::<Spec>();
    }
}

#[test]
fn setting_that_is_given_twice_for_the_same_paths_is_refused() {
    for text in ["loss=1%,loss=2%", "1:delay=1us;2:rate=1G,delay=1us, rate =2G"] {
        let error = text.parse::<Spec>().expect_err("it is given twice").to_string();
        assert!(error.contains("once for the same paths"), "{error}");
    }
    for text in ["loss=1%;1:loss=2%", "blackhole@1s..2s,blackhole@3s..4s"] {
        assert!(text.parse::<Spec>().is_ok(), "{text}");
    }
}
