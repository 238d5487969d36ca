//! Classes of data: a short message overtakes long ones in the switches.

use fairway_sim::{Flow, Report, Settings, Simulation};

/// Start of the short message, when the queue of its receiver's port is long.
const START_PS: u64 = 100_000_000;

/// Eight hosts send 2 MB each to host 0, and a ninth sends it 8 KB later.
fn run(settings_text: &str) -> Report {
    let mut settings = Settings::default();
    let text = format!(
        "workload incast\nnodes 16\ntopology leaf-spine\nhosts-per-leaf 8\nsenders 8\nbytes 2M\n\
         check on\nend 100ms\n{settings_text}"
    );
    settings.read(&text).expect("settings");
    let mut scenario = settings.build(1).expect("a scenario");
    let long = scenario.flows[0].clone();
    let senders: Vec<u32> = scenario.flows.iter().map(|flow| flow.source).collect();
    // A host behind the other leaf that sends nothing else.
    let source = (8..16).find(|host| !senders.contains(host)).expect("a host");
    let short = Flow { source, destination: 0, bytes: 8_192, start_ps: START_PS, ..long };
    scenario.flows.push(short);
    let mut run = Simulation::new(scenario, 1).expect("a run");
    let report = run.run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{settings_text}");
    report
}

/// Time in microseconds from the start of the short message until it was in place.
fn short_us(report: &Report) -> u64 {
    let flow = report.flows.last().expect("the short flow");
    (flow.delivered_ps.expect("delivered") - START_PS) / 1_000_000
}

const HOMA: &str = "policy cc=homa:window=128K,path=spray,loss=rack";

#[test]
fn short_message_overtakes_long_ones_in_switches_that_serve_classes() {
    let (one, all) = (short_us(&run(&format!("{HOMA}\nclasses 2"))), short_us(&run(HOMA)));
    // Four links of 1 us, and 8 KB at 400 Gb/s on each of them.
    assert!(all <= 5, "{all} us with eight classes");
    assert!(one > 10, "{one} us with one class of data");
}

#[test]
fn all_bytes_arrive_where_classes_meet_trimming_pauses_and_shared_buffers() {
    for switches in [
        "overflow trim\nqueue 50K",
        "overflow drop\nqueue 50K",
        "pfc 60K:40K",
        "shared-buffer 200K:1000\noverflow trim",
        "shared-buffer 200K:1000\npfc 60K:40K",
    ] {
        for classes in [2, 3, 8] {
            run(&format!("{HOMA}\nclasses {classes}\n{switches}"));
        }
    }
}

#[test]
fn policies_that_name_no_classes_have_the_same_result_with_any_number() {
    let digest = |classes: u32| run(&format!("classes {classes}")).digest();
    assert_eq!(digest(2), digest(8));
}
