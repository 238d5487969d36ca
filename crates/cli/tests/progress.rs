//! Progress of long runs on a pseudo-terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

/// Runs the tool with a terminal as its standard error, and returns what it wrote there.
fn shown(arguments: &[&str]) -> String {
    let (mut master, mut slave) = (-1, -1);
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: there is room for two descriptors; the size is read.
    let opened = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), &raw const size)
    };
    assert_eq!(opened, 0, "a pseudo-terminal");
    // SAFETY: just opened for us.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
    command.args(arguments).env("TERM", "xterm");
    let mut tool = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(slave))
        .spawn()
        .expect("it starts");
    // The command holds the other end, too.
    drop(command);
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    // A terminal that no program has open any more is an error to read.
    while let Ok(count @ 1..) = master.read(&mut bytes) {
        text.extend_from_slice(&bytes[..count]);
    }
    assert!(tool.wait().expect("a child").success());
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn runs_of_a_simulation_are_counted() {
    let base = ["sim", "incast", "--nodes=8", "--bytes=4K"];
    let seeds = shown(&[&base[..], &["--seeds=3"]].concat());
    assert!(seeds.contains("0 of 3 runs"), "{seeds:?}");
    let sweep = shown(&["sim", "incast", "--nodes=8", "--sweep=bytes=4K,8K"]);
    assert!(sweep.contains("0 of 2 runs"), "{sweep:?}");
    assert_eq!(shown(&[&base[..], &["--seeds=3", "--json"]].concat()), "");
    let one = shown(&base);
    assert!(one.contains("0%") && !one.contains("runs"), "{one:?}");
}

#[test]
fn run_of_the_nic_model_shows_its_progress() {
    let text = shown(&["nic", "--ops", "1000"]);
    assert!(text.contains("0%") && text.contains("operations"), "{text:?}");
    assert_eq!(shown(&["nic", "--ops", "1000", "--json"]), "");
}
