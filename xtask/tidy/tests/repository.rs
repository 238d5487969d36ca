//! The repository complies with `allowed.txt`: no rule is broken more often than it permits.

use fairway_tidy::{Allowed, Findings, Rule};
use std::path::Path;

#[test]
fn repository_breaks_no_rule_more_often_than_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("xtask/tidy/allowed.txt")).expect("a list");
    let allowed = Allowed::parse(&text).expect("a list of numbers");
    let findings = Findings::of(&root).expect("files that can be read");
    assert!(findings.rooms.len() > 10, "only {:?} were found", findings.rooms.keys());
    let exceeded = allowed.exceeded(&findings);
    let lines = exceeded.iter().map(|(rule, room, found, allowed)| {
        format!("{}: {room}: {found}, and {allowed} are allowed\n", rule.name())
    });
    assert!(
        exceeded.is_empty(),
        "xtask tidy --list RULE says where:\n{}",
        lines.collect::<String>()
    );
    assert_eq!(findings.amount(Rule::File, "ub"), 0);
}
