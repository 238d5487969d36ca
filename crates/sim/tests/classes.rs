//! Classes of data: a short message overtakes long ones in the switches.

use fairway_sim::{Flow, Report, Settings, Simulation};

/// Starts of short messages in microseconds. The queue of their receiver's port rises and falls all
/// the time, so that a single message may find it short.
const STARTS_US: [u64; 8] = [60, 80, 100, 120, 140, 160, 180, 200];
const PICOSECONDS_PER_US: u64 = 1_000_000;

/// Eight hosts send 2 MB each to host 0, and a ninth sends it 8 KB later.
fn run(settings_text: &str, start_us: u64) -> Report {
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
    let short = Flow {
        source,
        destination: 0,
        bytes: 8_192,
        start_ps: start_us * PICOSECONDS_PER_US,
        ..long
    };
    scenario.flows.push(short);
    let mut run = Simulation::new(scenario, 1).expect("a run");
    let report = run.run(u32::MAX, |_| ());
    assert!(report.is_complete(), "{settings_text}");
    report
}

/// Times in microseconds from the start of a short message until it was in place.
fn short_us(settings_text: &str) -> [u64; STARTS_US.len()] {
    STARTS_US.map(|start_us| {
        let report = run(settings_text, start_us);
        let flow = report.flows.last().expect("the short flow");
        flow.delivered_ps.expect("delivered") / PICOSECONDS_PER_US - start_us
    })
}

const HOMA: &str = "policy cc=homa:window=128K,path=spray,loss=rack";

#[test]
fn short_message_overtakes_long_ones_in_switches_that_serve_classes() {
    let (mut one, all) = (short_us(&format!("{HOMA}\nclasses 2")), short_us(HOMA));
    println!("{one:?} us with one class of data, {all:?} with eight");
    // Four links of 1 us, and 8 KB at 400 Gb/s on each of them.
    assert!(all.iter().all(|&us| us <= 5), "{all:?} us with eight classes");
    // Without classes a short message waits for the queue, which takes another 8 us if it is full.
    one.sort_unstable();
    assert!(one[one.len() / 2] > 10, "{one:?} us with one class of data");
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
            run(&format!("{HOMA}\nclasses {classes}\n{switches}"), 100);
        }
    }
}

#[test]
fn policies_that_name_no_classes_have_the_same_result_with_any_number() {
    let digest = |classes: u32| run(&format!("classes {classes}"), 100).digest();
    assert_eq!(digest(2), digest(8));
}
