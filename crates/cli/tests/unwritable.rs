//! Commands whose standard error cannot be written: it is full, or its reader has ended.

mod common;

use std::fs::{File, OpenOptions};
use std::process::{Command, Stdio};

use common::{Running, Scratch};

/// Standard errors that take nothing.
fn unwritable() -> [Stdio; 2] {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("a device");
    let (reader, closed) = std::io::pipe().expect("a pipe");
    drop(reader);
    [full.into(), closed.into()]
}

fn code(arguments: &[&str], err: Stdio) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    let command = command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(err).status().expect("it starts").code()
}

#[test]
fn failures_have_their_exit_status_without_standard_error() {
    let [scenario, incast] = ["nowhere.scenario", "incast"];
    for (arguments, expected) in [
        (&["copy", "/nothing/at/all", "127.0.0.1/x"][..], 1),
        (&["copy", "/nothing/at/all", "127.0.0.1"], 2),
        (&["sim", scenario], 2),
        (&["sim", incast, "--nodes", "16", "--senders", "16"], 2),
        (&["perf", "fetch"], 2),
    ] {
        for err in unwritable() {
            assert_eq!(code(arguments, err), Some(expected), "{arguments:?}");
        }
    }
}

/// Regression test: the note about the statistics ended the command before the copy.
#[test]
fn file_is_copied_without_standard_error() {
    let scratch = Scratch::new();
    let directory = scratch.text("in");
    let server =
        Running::start(&["serve", "--dir", &directory, "--bind", "127.0.0.1:0", "--keep-free=0"]);
    let target = format!("{}/name", server.address());
    let bytes = scratch.file("source", 3000);
    for err in unwritable() {
        let arguments = ["copy", "--overwrite", "--stats", &scratch.text("source"), &target];
        assert_eq!(code(&arguments, err), Some(0));
        assert_eq!(std::fs::read(scratch.path("in/name")).expect("it is there"), bytes);
        File::create(scratch.path("in/name")).expect("it can be emptied");
    }
}
