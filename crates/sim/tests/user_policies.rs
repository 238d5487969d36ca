//! User-supplied policies in the simulator: the same file makes the same decisions every time.

use fairway_sim::{Report, Settings, Simulation};

fn example(name: &str) -> String {
    format!("{}/../../examples/policies/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs an incast with losses. Returns its report and the policies' reports.
fn run(lines: &str, parts: u32) -> (Report, Vec<String>) {
    let mut settings = Settings::default();
    let base = "workload incast\nnodes 16\nsenders 15\nbytes 1M\npaths 8\ncheck on\nqueue 64K\n\
                chunk policy\n";
    settings.read(&format!("{base}{lines}")).expect("good settings");
    let scenario = settings.build(7).expect("a scenario");
    let policies = scenario.policy.clone().expect("policies are set");
    let mut simulation = Simulation::new(scenario, parts).expect("a run");
    let report = simulation.run(u32::MAX, |_| ());
    assert!(report.is_complete(), "every byte is placed, once");
    (report, policies.reports().iter().map(ToString::to_string).collect())
}

const SWIFT: &str = "swift:target=20us:range=10us:ai=16K:min=8K:max=512K:initial=256K";

fn as_module() -> String {
    let parameters = SWIFT.trim_start_matches("swift");
    format!("policy cc={}{parameters},path={}\n", example("rust/swift.wasm"), example("c/p2c.wasm"))
}

#[test]
fn a_module_decides_as_the_built_in_policy_does_in_the_same_world() {
    let (built_in, _) = run(&format!("policy cc={SWIFT},path=p2c\n"), 1);
    let (module, reports) = run(&as_module(), 1);
    assert_eq!(module.digest(), built_in.digest(), "the same run, packet by packet");
    assert!(built_in.resent > 0, "the run has losses to react to");
    for report in &reports {
        assert!(report.contains("30 started, 0 of them in place of another, no fault"), "{report}");
    }
}

#[test]
fn a_swap_at_a_simulated_time_is_the_same_in_every_run_and_on_any_cores() {
    let swap = format!("policy-swap 60us:cc={}\n", example("c/aimd.wasm"));
    // AIMD is given the parameters of the module that it replaces, and does not accept `range`.
    let first = format!("policy cc={}:target=20us:max=512K\n", example("rust/swift.wasm"));
    let (unswapped, _) = run(&first, 1);
    let swapped = format!("{first}{swap}");
    let (one, reports) = run(&swapped, 1);
    let (again, _) = run(&swapped, 1);
    let (parted, parted_reports) = run(&swapped, 3);
    assert_eq!(one.digest(), again.digest());
    assert_eq!(one.digest(), parted.digest());
    assert_ne!(one.digest(), unswapped.digest(), "the swap has made a difference");
    assert_eq!(reports, parted_reports);
    assert!(reports[0].ends_with("of them in place of another, no fault"), "{}", reports[0]);
    assert!(!reports[0].contains(" 30 started, 0 of them"), "{}", reports[0]);
}

#[test]
fn faulty_policy_is_named_in_the_error() {
    let mut settings = Settings::default();
    let error = settings.set("policy", &format!("cc={}:x=1", example("c/aimd.wasm")));
    assert!(error.expect_err("no such parameter").to_string().contains("aimd takes target"));
    settings.set("policy", "cc=cubic").expect("built in");
    settings.set("policy-swap", &format!("1us:cc={}", example("c/aimd.wasm"))).expect("read later");
    assert!(
        settings.build(1).expect_err("nothing to replace").to_string().contains("cc is no module")
    );
    assert!(settings.set("policy-swap", "cc=./x.wasm").is_err(), "when?");
}
