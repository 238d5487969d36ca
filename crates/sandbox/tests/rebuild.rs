//! The examples' modules match their sources: rebuilt, where the tools are installed, they decide
//! the same. (Their exact bytes depend on the compiler's version.)

mod common;

use std::process::Command;

use common::{Folder, decisions, example, policies};
use fairway_policy::{FlowId, PathView, RateRegisters, Share};
use fairway_sandbox::probe::Sequence;

/// Checks that two files of a scheduler set the same rates and quanta.
fn same_scheduler(one: &str, other: &str) {
    let build = |file: &str| policies(&format!("sched=wasm:{file}")).scheduler_of_nic(8);
    let (mut first, mut second) = (build(one).expect("a module"), build(other).expect("a module"));
    let mut sequence = Sequence::new(13);
    let (own, new) = (RateRegisters::new(8), RateRegisters::new(8));
    for n in 0..600 {
        let (flow, sample) = (FlowId(n % 8), sequence.transmit());
        let share = Share { weight: 1 + n as u16 % 3, ..Share::default() };
        for (scheduler, rates) in [(&mut first, &own), (&mut second, &new)] {
            match n {
                0..8 => scheduler.flow_started(sample.now, flow, share, rates),
                590.. => scheduler.flow_ended(sample.now, flow, rates),
                _ => scheduler.on_transmit(flow, &sample, rates),
            }
        }
        assert_eq!(own.get(flow), new.get(flow), "{one}");
        assert_eq!(first.quantum_bytes(flow), second.quantum_bytes(flow), "{one}");
    }
}

/// Checks that two files of a channel's policy decide the same.
fn same(label: &str, one: &str, other: &str) {
    let build = |file: &str| policies(&format!("{label}=wasm:{file}")).build(4096);
    let (mut first, mut second) = (build(one), build(other));
    let events = || Sequence::new(11).take(2000);
    let windows = decisions(&mut *first.congestion, events());
    assert_eq!(windows, decisions(&mut *second.congestion, events()), "{one}");
    let mut paths = [PathView::default(); 64];
    let mut sequence = Sequence::new(12);
    for _ in 0..500 {
        let request = sequence.chunk(&mut paths);
        assert_eq!(first.path.choose(&paths, &request), second.path.choose(&paths, &request));
        let evidence = sequence.evidence();
        assert_eq!(first.loss.is_lost(&evidence), second.loss.is_lost(&evidence), "{one}");
    }
}

#[test]
fn those_in_c() {
    let there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let clang = ["clang", "clang-19", "clang-16", "clang-15", "clang-14"].into_iter().find(there);
    let linker = ["wasm-ld", "wasm-ld-19", "wasm-ld-16", "wasm-ld-15", "wasm-ld-14"];
    let (Some(clang), Some(_)) = (clang, linker.into_iter().find(there)) else {
        eprintln!("skipped: there is no clang with lld");
        return;
    };
    let folder = Folder::new();
    for (name, label) in [("aimd", "cc"), ("p2c", "path")] {
        let built = folder.path().join(format!("{name}.wasm"));
        let status = Command::new(clang)
            .args(["--target=wasm32", "-O2", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra"])
            .args(["-Werror", "-Wl,--no-entry,--strip-all,-z,stack-size=8192", "-o"])
            .arg(&built)
            .arg(example(&format!("c/{name}.c")))
            .status()
            .expect("clang runs");
        assert!(status.success(), "{name}.c compiles");
        same(label, &example(&format!("c/{name}.wasm")), built.to_str().expect("plain"));
    }
}

#[test]
fn those_in_rust() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("rustc runs");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
    let library = format!("{}/lib/rustlib/wasm32-unknown-unknown", sysroot.trim());
    if !std::path::Path::new(&library).exists() {
        eprintln!("skipped: rustup target add wasm32-unknown-unknown");
        return;
    }
    let folder = Folder::new();
    let built = folder.path().join("target");
    // Compiler flags for this machine do not apply to the target.
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--examples", "--offline", "--quiet", "--target-dir"])
        .arg(&built)
        .current_dir(example("rust"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the examples compile");
    for (name, label) in [
        ("aimd", "cc"),
        ("swift", "cc"),
        ("eqds", "cc"),
        ("mprdma", "path"),
        ("reps", "path"),
        ("rack", "loss"),
        ("filling", "sched"),
        ("drr", "sched"),
    ] {
        let new = built.join(format!("wasm32-unknown-unknown/release/examples/{name}.wasm"));
        let (old, new) = (example(&format!("rust/{name}.wasm")), new.to_str().expect("plain"));
        match label {
            "sched" => same_scheduler(&old, new),
            _ => same(label, &old, new),
        }
    }
}
