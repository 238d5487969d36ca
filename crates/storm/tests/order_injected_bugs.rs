//! Injected bugs of order have to be found: `cargo test -p fairway-storm --features injected-bugs
//! --test order_injected_bugs`.
#![cfg(feature = "injected-bugs")]

use fairway_storm::order::spec::Rule;
use fairway_storm::order::{Bounds, Failure, explore};
use fairway_ub::InjectedBug;

/// Explores `program` with an injected bug. Returns the rule that was violated.
fn found(bug: InjectedBug, program: &str, limits: &str) -> Option<Rule> {
    let limits: Bounds = limits.parse().unwrap();
    let bounds = Bounds { bug: Some(bug), ..limits };
    let failing = explore(&program.parse().unwrap(), &bounds).expect_err("the bug is seen");
    explore(&program.parse().unwrap(), &limits).expect("without the bug nothing is wrong");
    match failing.failure {
        Failure::Rule(violation) => Some(violation.rule),
        _ => None,
    }
}

#[test]
fn the_search_finds_bugs_of_order() {
    let plain = "1,0,0,0,0,0,2000";
    let strict = "0 0W1>1.rot.ro 0W1>1.rot.so";
    assert_eq!(found(InjectedBug::StrictOvertakes, strict, plain), Some(Rule::Strict));
    let completions = "0 0R1>1.rol 0W1>1.rol.cio";
    assert_eq!(found(InjectedBug::CompleteAtOnce, completions, plain), Some(Rule::CompletionOrder));
    let receives = "0 0S1>1.rol.rio 0S1>1.rol.rio";
    assert_eq!(found(InjectedBug::ReceivesAtOnce, receives, plain), Some(Rule::ReceiveOrder));
    let fence = "0 0A1>1.rol 0W1>1.rol.fence";
    assert_eq!(found(InjectedBug::IgnoreFence, fence, plain), Some(Rule::Fence));
}

#[test]
fn the_search_finds_bugs_of_channel_groups() {
    let strict = "0 0W1>1.rot.ro 0W1>1.rot.so";
    // An operation that used the other channel is waited for forever.
    assert_eq!(found(InjectedBug::TrackPerChannel, strict, "1,0,0,0,0,0,2000,16,0,2"), None);
}

#[test]
fn the_search_finds_bugs_of_the_transport() {
    let twice = found(InjectedBug::SkipDuplicateCheck, "0 0W1>1.rol", "0,0,1,0,0,0,100");
    assert_eq!(twice, Some(Rule::ExactlyOnce));
    let early =
        found(InjectedBug::AcknowledgeBeforePlacement, "0 0W1>1.rol 0W1>1.rol", "0,0,0,1,0,0,100");
    assert_eq!(early, Some(Rule::EffectFirst));
    assert_eq!(found(InjectedBug::ForgetTimer, "0 0W1>1.rol", "0,1,0,0,0,0,100"), None);
}
