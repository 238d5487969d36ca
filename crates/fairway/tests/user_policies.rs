//! User-written policies on live traffic, replaced and broken while it runs.

mod common;

use std::path::PathBuf;

use common::{Pair, builder, content};
use fairway::{Policies, PolicyNews, PolicyRole};

fn example(name: &str) -> String {
    format!("{}/../../examples/policies/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A file in the folder of temporary files that is removed when the test ends.
struct File(PathBuf);

impl File {
    fn of(name: &str, from: &str) -> File {
        let name = format!("fairway-{}-{name}", std::process::id());
        let file = File(std::env::temp_dir().join(name));
        file.put(&std::fs::read(example(from)).unwrap());
        file
    }

    /// Replaces the file atomically, as `fairway policy put` does.
    fn put(&self, bytes: &[u8]) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(&new, &self.0).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).unwrap();
    }
}

/// A module that starts, and traps at the first acknowledgement or loss.
const TRAP: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "fairway_policy_abi") (result i32) i32.const 1)
    (func (export "fairway_area") (result i32) i32.const 1024)
    (func (export "fairway_init") (result i32) i32.const 0)
    (func (export "on_ack") unreachable)
    (func (export "on_loss") unreachable)
)"#;

const SIZE: usize = 2_000_003;

/// Executes WRITEs of different bytes to different places, with `change` after the first, then
/// compares every byte.
fn exercise(pair: &Pair, seed: u64, change: impl Fn()) {
    let client = &pair.client;
    let count = 12;
    let mine: Vec<_> = (0..count).map(|n| client.filled(SIZE, seed + n)).collect();
    let theirs: Vec<_> = (0..count).map(|_| pair.server.open_segment(SIZE)).collect();
    for (id, (from, to)) in mine.iter().zip(&theirs).enumerate() {
        if id == 4 {
            // Some operations have completed, some are under way, and some have not been posted.
            let _ = client.succeed();
            change();
        }
        client.jetty.write(&client.peer, from, to.key(), id as u64).unwrap();
    }
    for _ in 1..count {
        let _ = client.succeed();
    }
    for (from, to) in mine.iter().zip(&theirs) {
        assert!(content(from) == content(to), "the bytes are those that were written");
    }
}

fn report(policies: &Policies, role: PolicyRole) -> fairway::PolicyReport {
    let label = format!("{}=", role.label());
    let mut reports = policies.reports().into_iter();
    reports.find(|report| report.item.starts_with(&label)).expect("there is one")
}

#[test]
fn modules_are_replaced_while_traffic_runs_and_no_byte_suffers() {
    let file = File::of("swapped.wasm", "c/aimd.wasm");
    let names = format!("cc=wasm:{}:max=4M,path={}", file.0.display(), example("c/p2c.wasm"));
    let worse = |seed| builder().emulate("delay=50us,loss=1%,reorder=16".parse().unwrap(), seed);
    let pair = Pair::of(worse(1).policy_named(&names), worse(2));
    let policies = pair.client.context.policies();
    exercise(&pair, 0, || {
        let bytes = std::fs::read(example("rust/swift.wasm")).unwrap();
        policies.swap(PolicyRole::Congestion, &bytes).unwrap();
    });
    let after = report(&policies, PolicyRole::Congestion);
    assert!(after.replaced >= 1 && after.faults == 0, "{after}");
    assert!(after.started > after.replaced, "{after}");
    // Bytes that are not a module change nothing.
    exercise(&pair, 100, || {
        assert!(policies.swap(PolicyRole::Congestion, b"no module").is_err());
    });
    let path = report(&policies, PolicyRole::Path);
    assert!(path.started >= 1 && path.replaced == 0 && path.faults == 0, "{path}");
    // A module traps at its first event: Swift, which is built in, takes over, and the bytes
    // arrive.
    exercise(&pair, 200, || {
        policies.swap(PolicyRole::Congestion, &wat::parse_str(TRAP).unwrap()).unwrap();
    });
    let fault = report(&policies, PolicyRole::Congestion);
    assert!(fault.faults >= 1, "{fault}");
    assert!(fault.to_string().contains("trapped"), "{fault}");
}

#[test]
fn the_files_of_policies_that_come_later_are_watched_too() {
    let file = File::of("later.wasm", "c/aimd.wasm");
    let pair = Pair::of(builder(), builder());
    let named = |item: String| item.parse::<Policies>().unwrap();
    let policies = named(format!("cc={}", file.0.display()));
    pair.client.context.set_policy(policies.clone()).unwrap();
    assert_eq!(pair.client.context.policies(), policies);
    file.put(&wat::parse_str(TRAP).unwrap());
    // The watching thread has processed the new file once no change is left to detect.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let is_trap = || {
        let mut set = policies.build(4096);
        let sample = fairway_policy::LossSample::default();
        set.congestion.on_loss(&sample);
        report(&policies, PolicyRole::Congestion).faults > 0
    };
    while !is_trap() {
        assert!(std::time::Instant::now() < end, "the file was not read again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn a_changed_file_is_taken_while_traffic_runs() {
    let file = File::of("changed.wasm", "c/aimd.wasm");
    let names = format!("cc={}", file.0.display());
    // Only this test watches the file.
    let client = builder().engines(1).progress_thread(false).policy_named(&names);
    let pair = Pair::of(client, builder().engines(1));
    let policies = pair.client.context.policies();
    exercise(&pair, 0, || {
        assert_eq!(policies.reload(), []);
        file.put(&std::fs::read(example("rust/aimd.wasm")).unwrap());
        assert!(matches!(policies.reload()[..], [PolicyNews::Replaced(_)]));
    });
    let after = report(&policies, PolicyRole::Congestion);
    assert_eq!((after.started, after.replaced, after.faults), (2, 1, 0));
}

#[test]
fn policy_that_does_not_load_fails_the_builder_with_the_reason() {
    let error = builder().policy_named(&format!("cc={}:gain=2", example("c/aimd.wasm"))).build();
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("aimd takes target"), "{error}");
}
