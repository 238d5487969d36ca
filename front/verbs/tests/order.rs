//! Memory of a reliable connection changes in the order of posting; a C program of this repository
//! checks it.

mod common;

use common::{alone, command, compile, run};

/// Runs every test of the program with a provider, and with these additional environment variables.
fn keeps_order(provider: &str, variables: &[(&str, &str)], arguments: &[&str]) {
    // The lock is held while compiling, because a program that is being linked can't be run.
    let _alone = alone();
    let Some(program) = compile("order") else { return };
    let mut order = command(program);
    order.env("FAIRWAY_PROVIDER", provider).envs(variables.iter().copied()).args(arguments);
    let text = run(order).succeeded();
    assert!(text.contains("all fine"), "{provider} {variables:?}: {text}");
}

#[test]
fn roce_keeps_the_order_of_posting() {
    keeps_order("roce", &[], &["-n", "100"]);
}

#[test]
fn roce_keeps_the_order_of_posting_where_packets_are_lost() {
    let lossy = [("FAIRWAY_EMULATE", "loss=1%")];
    keeps_order("roce", &lossy, &["-n", "2", "waw"]);
    keeps_order("roce", &lossy, &["-n", "60", "flag", "atomic", "read8", "read64", "self64"]);
}

#[test]
fn roce_keeps_the_order_of_posting_where_packets_are_taken_out_of_order() {
    for emulate in ["", "loss=1%", "reorder=16"] {
        let variables = [("FAIRWAY_OUT_OF_ORDER", "1"), ("FAIRWAY_EMULATE", emulate)];
        keeps_order("roce", &variables, &["-n", "10"]);
    }
}

/// With relaxed ordering memory may change in any order, but everything arrives.
#[test]
fn roce_takes_relaxed_ordering() {
    let variables = [("FAIRWAY_OUT_OF_ORDER", "1"), ("FAIRWAY_EMULATE", "loss=1%")];
    keeps_order("roce", &variables, &["-r", "-n", "10"]);
}

#[test]
fn fairway_keeps_the_order_of_posting() {
    keeps_order("fairway", &[], &["-n", "100"]);
    keeps_order("fairway", &[("FAIRWAY_EMULATE", "loss=1%")], &["-n", "30"]);
}

/// UCX requests relaxed ordering on some processors, and Open MPI relies on the order of its READs.
#[test]
fn reads_from_relaxed_memory_over_fairway_return_the_bytes_of_their_turn() {
    let reads = ["read8", "read64", "self8", "self64"];
    let _alone = alone();
    let Some(program) = compile("order") else { return };
    for emulate in ["", "reorder=16"] {
        let mut order = command(&program);
        order.env("FAIRWAY_PROVIDER", "fairway").env("FAIRWAY_EMULATE", emulate);
        order.args(["-r", "-n", "60"]).args(reads);
        let text = run(order).succeeded();
        for read in reads {
            let in_order = text.contains(&format!("{read}: 0 of 60 out of order"));
            assert!(in_order, "{emulate}: {text}");
        }
    }
}
