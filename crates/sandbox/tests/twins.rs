//! The same congestion control, built in and as a module, or in two languages, decides the same.

mod common;

use common::{decisions, example, policies};
use fairway_policy::PathView;
use fairway_sandbox::probe::Sequence;

/// Checks that two specifications decide the same under thousands of events of several seeds.
fn same(one: &str, other: &str) {
    let mut windows = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let mtu = if seed % 2 == 0 { 4096 } else { 1024 };
        let (one_set, other_set) = (policies(one), policies(other));
        let first = decisions(&mut *one_set.build(mtu).congestion, Sequence::new(seed).take(3000));
        let second =
            decisions(&mut *other_set.build(mtu).congestion, Sequence::new(seed).take(3000));
        for (n, (a, b)) in first.iter().zip(&second).enumerate() {
            assert_eq!(a, b, "{one} and {other}: event {n} of seed {seed}");
        }
        windows.extend(first.iter().map(|decision| decision[0]));
        for report in one_set.reports().iter().chain(&other_set.reports()) {
            assert_eq!((report.faults, report.started), (0, 1), "{report}");
        }
    }
    assert!(windows.len() > 100, "the sequences move the window");
}

#[test]
fn swift_as_a_module_is_the_built_in_swift() {
    let file = example("rust/swift.wasm");
    same(&format!("cc={file}"), "cc=swift");
    let parameters = "target=200us:range=50us:hop=3us:endpoint=70us:fsmin=32K:fsmax=2M:ai=64K:min=128K:max=4M:initial=1M:loss=5";
    same(&format!("cc=wasm:{file}:{parameters}"), &format!("cc=swift:{parameters}"));
}

#[test]
fn same_policy_in_c_and_rust_decides_the_same() {
    let (c, rust) = (example("c/aimd.wasm"), example("rust/aimd.wasm"));
    same(&format!("cc={c}"), &format!("cc={rust}"));
    let parameters = "target=150us:ai=100K:beta=300:min=10K:max=2M:initial=64K";
    same(&format!("cc={c}:{parameters}"), &format!("cc={rust}:{parameters}"));
}

#[test]
fn power_of_two_in_c_is_the_built_in_one() {
    let module = policies(&format!("path={}", example("c/p2c.wasm")));
    let built_in = policies("path=p2c");
    for count in [1, 2, 3, 16, 255, 256] {
        let (mut one, mut other) = (module.build(4096).path, built_in.build(4096).path);
        let mut sequence = Sequence::new(count as u64);
        let mut paths = vec![PathView::default(); count];
        for n in 0..1000 {
            let request = sequence.chunk(&mut paths);
            let chosen = (one.choose(&paths, &request), other.choose(&paths, &request));
            assert_eq!(chosen.0, chosen.1, "chunk {n} over {count} paths");
        }
    }
    assert_eq!(module.reports()[0].faults, 0);
}

#[test]
fn wrong_parameters_are_refused_in_the_modules_own_words() {
    let cases = [
        ("rust/swift.wasm", "target=5", "swift takes target"),
        ("rust/swift.wasm", "bogus=1", "swift takes target"),
        ("c/aimd.wasm", "beta=1001", "aimd takes target"),
        ("c/aimd.wasm", "target", "aimd takes target"),
        ("rust/aimd.wasm", "beta=1001", "aimd takes target"),
        ("c/aimd.wasm", "max=9999999999999999", "aimd takes target"),
        ("rust/aimd.wasm", "max=9999999999999999", "aimd takes target"),
    ];
    for (file, parameters, words) in cases {
        let text = format!("cc={}:{parameters}", example(file));
        let error = text.parse::<fairway_sandbox::Policies>().expect_err(&text).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn specifications_come_back_as_text() {
    let file = example("c/aimd.wasm");
    let p2c = example("c/p2c.wasm");
    let both = policies(&format!("path=wasm:{p2c},{file}:ai=1K,loss=sack"));
    let text = both.to_string();
    assert!(text.starts_with(&format!("cc=wasm:{file}:ai=1K,path=wasm:{p2c},loss=sack")), "{text}");
    assert_eq!(policies(&text).to_string(), text);
    assert_eq!(
        policies("p2c,cubic"),
        "p2c,cubic".parse::<fairway_policy::PolicySpec>().unwrap().into()
    );
}
