//! Bugs of order that are planted have to be found: `cargo test -p fairway-fabric --features
//! canary --test order_canaries`.
#![cfg(feature = "canary")]

use fairway_engine::Canary;
use fairway_fabric::order::spec::Rule;
use fairway_fabric::order::{Bounds, Failure, explore};

/// Explores `program` with a bug and gives the rule that was seen to be broken.
fn found(canary: Canary, program: &str, limits: &str) -> Option<Rule> {
    let limits: Bounds = limits.parse().unwrap();
    let bounds = Bounds { canary: Some(canary), ..limits };
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
    assert_eq!(found(Canary::StrictOvertakes, strict, plain), Some(Rule::Strict));
    let completions = "0 0R1>1.rol 0W1>1.rol.cio";
    assert_eq!(found(Canary::CompleteAtOnce, completions, plain), Some(Rule::CompletionOrder));
    let receives = "0 0S1>1.rol.rio 0S1>1.rol.rio";
    assert_eq!(found(Canary::ReceivesAtOnce, receives, plain), Some(Rule::ReceiveOrder));
    let fence = "0 0A1>1.rol 0W1>1.rol.fence";
    assert_eq!(found(Canary::IgnoreFence, fence, plain), Some(Rule::Fence));
}

#[test]
fn the_search_finds_bugs_of_channel_groups() {
    let strict = "0 0W1>1.rot.ro 0W1>1.rot.so";
    // What came by the other channel is waited for in vain.
    assert_eq!(found(Canary::TrackPerChannel, strict, "1,0,0,0,0,0,2000,16,0,2"), None);
}

#[test]
fn the_search_finds_bugs_of_the_transport() {
    let twice = found(Canary::SkipDuplicateCheck, "0 0W1>1.rol", "0,0,1,0,0,0,100");
    assert_eq!(twice, Some(Rule::ExactlyOnce));
    let early =
        found(Canary::AcknowledgeBeforePlacement, "0 0W1>1.rol 0W1>1.rol", "0,0,0,1,0,0,100");
    assert_eq!(early, Some(Rule::EffectFirst));
    assert_eq!(found(Canary::ForgetTimer, "0 0W1>1.rol", "0,1,0,0,0,0,100"), None);
}
