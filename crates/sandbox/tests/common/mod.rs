//! Helpers that the tests of this crate share.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use fairway_policy::CongestionControl;
use fairway_sandbox::probe::Event;
use fairway_sandbox::{Hook, Policies, Reason};

/// A module in WebAssembly's text form, of which the tests replace parts by invalid ones.
pub const TEMPLATE: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "fairway_policy_abi") (result i32) i32.const 1)
    (func (export "fairway_area") (result i32) i32.const 1024)
    (func (export "fairway_init") (result i32)
        (i64.store (i32.const 1024) (i64.const 100000))
        i32.const 0)
    (func (export "on_ack")
        (i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) (i64.const 1000))))
    (func (export "on_loss")
        (i64.store (i32.const 1024) (i64.const 50000)))
    (func (export "choose_path") (param i32) (result i32) i32.const 0)
    (;more;)
)"#;

/// Returns the template with `old`, which it must contain, replaced by `new`.
pub fn with(old: &str, new: &str) -> Vec<u8> {
    assert!(TEMPLATE.contains(old), "{old}");
    module(&TEMPLATE.replace(old, new))
}

pub fn module(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A folder that is removed when the test ends.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fairway-sandbox-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder of our own");
        Folder(path)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// Writes a file atomically, replacing one of the same name. Returns its path.
    pub fn put(&self, name: &str, bytes: &[u8]) -> String {
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(name));
        std::fs::write(&new, bytes).expect("the folder takes files");
        std::fs::rename(&new, &path).expect("a file can be renamed");
        path.to_str().expect("plain").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("it was ours");
    }
}

/// Returns the path of an example's file.
pub fn example(name: &str) -> String {
    format!("{}/../../examples/policies/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// True if modules whose item names no engine are compiled in this run.
pub fn is_compiled() -> bool {
    let template = fairway_sandbox::Module::load(&module(TEMPLATE)).expect("it is fine");
    template.engine() == fairway_sandbox::Engine::Compiled
}

pub fn policies(text: &str) -> Policies {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns a policy's decisions under a sequence of events, one number for each.
pub fn decisions(
    policy: &mut dyn CongestionControl,
    events: impl Iterator<Item = Event>,
) -> Vec<[u64; 6]> {
    let one = |event: Event| {
        let permitted = event.deliver(policy);
        [
            policy.window_bytes(),
            policy.pacing_bytes_per_second().unwrap_or(0),
            u64::from(policy.pacing_burst_bytes()),
            u64::from(policy.chunk_bytes(1 << 40)),
            u64::from(policy.chunk_bytes(5000)),
            permitted.map_or(2, u64::from),
        ]
    };
    events.map(one).collect()
}

/// What every module has; `(;more;)` stands for the hooks.
pub const BASE: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "fairway_policy_abi") (result i32) i32.const 2)
    (func (export "fairway_area") (result i32) i32.const 1024)
    (func (export "fairway_init") (result i32) (;init;) i32.const 0)
    (;more;)
)"#;

pub fn open(kinds: &[&str], hooks: &str) -> Policies {
    let folder = Folder::new();
    let file = folder.put("kind.wasm", &module(&BASE.replace("(;more;)", hooks)));
    let items: Vec<String> = kinds.iter().map(|kind| format!("{kind}={file}")).collect();
    policies(&items.join(","))
}

pub fn only_fault(policies: &Policies) -> (Hook, Reason) {
    let [report] = &policies.reports()[..] else { panic!("one module") };
    assert_eq!(report.faults, 1, "{report}");
    let (_, fault) = report.first_fault.clone().expect("a fault is reported");
    (fault.hook, fault.reason)
}

pub fn without_faults(policies: &Policies) {
    for report in policies.reports() {
        assert_eq!((report.started, report.faults), (1, 0), "{report}");
    }
}
