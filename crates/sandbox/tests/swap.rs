//! Modules that replace others while events occur.

mod common;

use common::{Folder, TEMPLATE, decisions, example, module, policies, with};
use fairway_policy::CongestionControl;
use fairway_sandbox::probe::{Event, Sequence};
use fairway_sandbox::{News, Policies, Role, SwapError};
use fairway_wire::Instant;

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(example(name)).expect("an example")
}

#[test]
fn a_swap_takes_effect_at_the_next_event_and_goes_on_from_the_window() {
    let policies = policies(&format!("cc={}", example("c/aimd.wasm")));
    let mut set = policies.build(4096);
    let mut sequence = Sequence::new(1);
    decisions(&mut *set.congestion, sequence.by_ref().take(500));
    let before = set.congestion.window_bytes();
    // Grows by 1,000 per event, starting from its predecessor's window.
    let heir = with("(i64.const 100000))\n", "(i64.load (i32.const 1024)))\n");
    policies.swap(Role::Congestion, &heir).expect("it starts");
    assert_eq!(set.congestion.window_bytes(), before, "nothing changes before the next event");
    set.congestion.on_ack(&sequence.ack());
    assert_eq!(set.congestion.window_bytes(), before + 1000);
    let [report] = &policies.reports()[..] else { panic!("one module") };
    assert_eq!((report.started, report.replaced, report.faults), (2, 1, 0));
}

#[test]
fn policy_that_does_not_start_leaves_the_old_one_running() {
    let policies = policies(&format!("cc={}:ai=64K", example("c/aimd.wasm")));
    let mut set = policies.build(4096);
    let mut twin = policies.build(4096);
    let bad = [
        b"garbage".to_vec(),
        with(
            "i32.const 0)\n    (func (export \"on_ack\")",
            "i32.const 1)\n    (func (export \"on_ack\")",
        ),
        bytes("c/p2c.wasm"),
    ];
    for bytes in &bad {
        assert!(policies.swap(Role::Congestion, bytes).is_err());
    }
    // The old module's parameters also have to be valid for the new one.
    let error = policies.swap(Role::Congestion, &bytes("rust/swift.wasm"));
    assert_eq!(error, Ok(()), "swift has ai, too");
    let error = policies.swap(Role::Congestion, &module(TEMPLATE));
    assert_eq!(error, Ok(()), "a program that does not check accepts any");
    assert!(matches!(
        policies.swap(Role::Path, &module(TEMPLATE)),
        Err(SwapError::NoModule(Role::Path))
    ));
    let windows = |policy: &mut dyn CongestionControl| decisions(policy, Sequence::new(5).take(50));
    assert_eq!(windows(&mut *set.congestion), windows(&mut *twin.congestion));
}

#[test]
fn a_new_module_ends_the_reign_of_the_fallback() {
    let folder = Folder::new();
    let body = "(i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) \
                (i64.const 1000)))";
    let file = folder.put("policy.wasm", &with(body, "unreachable"));
    let policies = policies(&format!("cc={file}"));
    let mut set = policies.build(4096);
    let sample = Sequence::new(1).ack();
    set.congestion.on_ack(&sample);
    assert_eq!(set.congestion.name(), "cubic");
    assert_eq!(policies.reload(), []);
    folder.put("policy.wasm", &module(TEMPLATE));
    let item = format!("cc=wasm:{file}");
    assert_eq!(policies.reload(), [News::Replaced(item.clone())]);
    assert_eq!(policies.reload(), [], "it has changed once");
    set.congestion.on_ack(&sample);
    assert_eq!((set.congestion.name(), set.congestion.window_bytes()), ("wasm", 101_000));
    // An unusable file changes nothing, and is reported once.
    folder.put("policy.wasm", b"half a fi");
    assert!(matches!(&policies.reload()[..], [News::Kept(of, _)] if *of == item));
    assert_eq!(policies.reload(), []);
    std::fs::remove_file(folder.path().join("policy.wasm")).expect("it is there");
    assert_eq!(policies.reload(), [], "a file that is gone changes nothing");
    set.congestion.on_ack(&sample);
    assert_eq!(set.congestion.window_bytes(), 102_000);
    folder.put("policy.wasm", &bytes("c/aimd.wasm"));
    assert_eq!(policies.reload(), [News::Replaced(item)]);
}

#[test]
fn watcher_reports_events() {
    let folder = Folder::new();
    let file = folder.put("policy.wasm", &module(TEMPLATE));
    let policies = policies(&format!("cc={file}"));
    let (report, reports) = std::sync::mpsc::channel();
    let period = std::time::Duration::from_millis(1);
    let watcher = fairway_sandbox::Watcher::start(&policies, period, move |news| {
        report.send(news.clone()).expect("the test listens");
    });
    let watcher = watcher.expect("a thread").expect("there is a module to watch");
    folder.put("policy.wasm", &bytes("c/aimd.wasm"));
    assert!(matches!(reports.recv(), Ok(News::Replaced(_))));
    folder.put(
        "policy.wasm",
        &with("(i64.add", "(i64.div_u (i64.const 0) (i64.const 0)) drop (i64.add"),
    );
    assert!(matches!(reports.recv(), Ok(News::Replaced(_))));
    let mut set = policies.build(4096);
    set.congestion.on_ack(&Sequence::new(1).ack());
    let Ok(News::Faulted(report)) = reports.recv() else { panic!("the fault is reported") };
    assert!(report.to_string().contains("on_ack trapped: division by zero"), "{report}");
    drop(watcher);
    assert!(reports.recv().is_err(), "the thread has ended");
    let built_in: Policies = "swift".parse().expect("built in");
    let none = fairway_sandbox::Watcher::start(&built_in, period, |_| ());
    assert!(matches!(none, Ok(None)), "there is nothing to watch");
}

#[test]
fn planned_modules_come_at_their_time_and_every_run_is_the_same() {
    let at = |us: u64| Instant::from_ps(us * 1_000_000);
    let planned = policies(&format!("cc={}", example("rust/swift.wasm")))
        .with_planned(at(9_000), &format!("cc={}", example("c/aimd.wasm")))
        .and_then(|p| p.with_planned(at(4_000), &format!("cc={}", example("rust/aimd.wasm"))))
        .expect("they start");
    let run = |policies: &Policies| {
        decisions(&mut *policies.build(4096).congestion, Sequence::new(2).take(2000))
    };
    let first = run(&planned);
    assert_eq!(first, run(&planned.fresh()), "two runs, the same decisions");
    let unplanned = run(&policies("cc=swift"));
    let now = |event: &Event| match event {
        Event::Ack(sample) => sample.now,
        Event::Loss(sample) => sample.now,
        Event::Spurious(now, _)
        | Event::Resend(now, _)
        | Event::Data(now, ..)
        | Event::Credit(now, _) => *now,
    };
    let changed = Sequence::new(2).position(|event| now(&event).is_at_or_after(at(4_000)));
    let changed = changed.expect("the sequence goes on");
    assert!((10..1900).contains(&changed));
    assert_eq!(first[..changed], unplanned[..changed]);
    assert_ne!(first[changed..], unplanned[changed..]);
    let [report] = &planned.reports()[..] else { panic!("one module") };
    assert_eq!((report.started, report.replaced, report.faults), (3, 2, 0));
    assert!(policies("swift").with_planned(at(1), "cc=cubic").is_err());
    let none = policies("swift").with_planned(at(1), &example("c/aimd.wasm"));
    assert!(none.is_err(), "there is no module whose place it could take");
}
