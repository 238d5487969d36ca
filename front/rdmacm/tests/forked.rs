//! Event channels and ids in a child of `fork`.

#[path = "../../verbs/tests/common/mod.rs"]
mod common;

use common::{command, compile, run};

#[test]
fn listener_in_a_forked_child_is_an_error_with_a_remedy() {
    let Some(program) = compile("forked") else { return };
    for provider in ["roce", "fairway"] {
        let mut forked = command(&program);
        forked.env("FAIRWAY_PROVIDER", provider);
        let printed = run(forked).succeeded();
        assert!(printed.contains("all fine"), "{provider}: {printed}");
        let remedy = "create channels and ids after fork() or daemon()";
        assert_eq!(printed.matches(remedy).count(), 1, "{provider}: {printed}");
    }
}
