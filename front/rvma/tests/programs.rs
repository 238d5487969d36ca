//! C programs against an installed copy of the library: every call, and both examples.

mod common;

use common::{Installed, Linking, run, skip};
use std::process::Command;
use std::sync::OnceLock;

const PROGRAMS: &[&str] = &[
    "tests/c/basics.c",
    "tests/c/windows.c",
    "tests/c/threads.c",
    "tests/c/cancelled.c",
    "tests/c/peers.c",
    "examples/halo.c",
    "examples/server.c",
];

const SANITIZER: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// The installed copy that all these programs are compiled against.
fn installed() -> Option<&'static Installed> {
    static INSTALLED: OnceLock<Option<Installed>> = OnceLock::new();
    INSTALLED.get_or_init(|| Installed::new("rvma-programs")).as_ref()
}

fn compile_and_run(variant: &str, linking: Linking, extra: &[&str]) {
    let Some(installed) = installed() else { return };
    for source in PROGRAMS {
        let program = installed.compile(source, variant, linking, extra);
        run(&program);
        // Programs with the static library are large.
        std::fs::remove_file(program).expect("the program is there");
    }
}

#[test]
fn programs_run_with_the_shared_library() {
    compile_and_run("shared", Linking::Shared, &[]);
}

#[test]
fn programs_run_with_the_static_library() {
    compile_and_run("static", Linking::Static, &[]);
}

#[test]
fn programs_run_under_address_sanitizer() {
    if can_sanitize() {
        compile_and_run("asan", Linking::Shared, SANITIZER);
    }
}

#[test]
fn programs_run_under_address_sanitizer_with_the_static_library() {
    if can_sanitize() {
        compile_and_run("asan-static", Linking::Static, SANITIZER);
    }
}

/// AddressSanitizer checks the application's memory in the library's system calls, so the library
/// really does not access memory that the programs above have freed.
#[test]
fn the_sanitizer_finds_an_injected_bug() {
    let Some(installed) = can_sanitize().then(installed).flatten() else { return };
    let program = installed.compile("tests/c/injected.c", "asan", Linking::Shared, SANITIZER);
    for freed in ["buffer", "source"] {
        let result = Command::new(&program).arg(freed).output().expect("the program starts");
        let report = String::from_utf8_lossy(&result.stderr);
        let found = !result.status.success() && report.contains("heap-use-after-free");
        assert!(found, "{freed}: {report}");
    }
}

fn can_sanitize() -> bool {
    let library = Command::new("cc").arg("-print-file-name=libasan.so").output();
    // The compiler prints a path if the library exists, and the bare name if not.
    let there = library.is_ok_and(|answer| answer.stdout.starts_with(b"/"));
    if !there {
        skip("tests under AddressSanitizer: the C compiler has none");
    }
    there
}
