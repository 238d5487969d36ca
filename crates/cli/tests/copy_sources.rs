//! `fairway copy`: sources that change, permissions, and signals.

mod common;

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{DEADLINE, Running, Scratch, ended_within, fairway};

fn serve(scratch: &Scratch) -> (Running, String) {
    let directory = scratch.text("in");
    let server =
        Running::start(&["serve", "--dir", &directory, "--bind", "127.0.0.1:0", "--keep-free=0"]);
    let address = server.address();
    (server, address)
}

/// Regression test: signals were ignored until the attempt to connect had ended.
#[test]
fn signal_ends_a_client_that_waits_for_its_server() {
    let scratch = Scratch::new();
    scratch.file("source", 100);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        silent.set_read_timeout(Some(DEADLINE)).expect("a time");
        let target = format!("{}/x", silent.local_addr().expect("an address"));
        // An hour would be too long for this test.
        let mut client =
            Running::start(&["copy", "--connect-timeout", "60m", &scratch.text("source"), &target]);
        silent.recv_from(&mut [0; 4096]).expect("a request to connect");
        let process = libc::pid_t::try_from(client.child.id()).expect("a process number");
        // SAFETY: plain numbers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
        let status = ended_within(&mut client.child, DEADLINE).expect("it ends at once");
        assert_eq!(status.signal(), Some(signal));
    }
}

/// Regression test: the copy of a file that grows, as a log does, failed every time.
#[test]
fn file_that_grows_is_copied_as_long_as_it_was_at_the_start() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch);
    let bytes = scratch.file("log", 300_000);
    let source = scratch.path("log");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = std::fs::OpenOptions::new().append(true).open(&source).expect("a file");
            while !is_over.load(Ordering::Acquire) {
                log.write_all(b"a line\n").expect("space");
            }
        });
        let ended = fairway(&["copy", &scratch.text("log"), &format!("{address}/log")]);
        is_over.store(true, Ordering::Release);
        ended.ok();
    });
    let arrived = std::fs::read(scratch.path("in/log")).expect("it is there");
    assert!(arrived.len() >= bytes.len() && arrived[..bytes.len()] == bytes);
    let now = std::fs::read(&source).expect("it is there");
    assert!(arrived.len() < now.len() && now[..arrived.len()] == arrived);
}

#[test]
fn file_that_becomes_shorter_is_refused() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch);
    scratch.file("source", 8_000_000);
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    let client = Running::start(&["copy", "--emulate", "rate=10M", &source, &target]);
    server.line("receiving 'name'");
    let file = std::fs::OpenOptions::new().write(true).open(&source).expect("a file");
    file.set_len(1000).expect("it can be cut");
    // Where this is noticed depends on how much of the file has left.
    let line = client.line("shorter");
    assert!(line.contains("nothing is left on the server"), "{line}");
    server.line("'name' dropped");
    assert_eq!(scratch.served(), [""; 0]);
}

/// Regression test: a file had the permissions of its source, whatever the server's umask.
#[test]
fn umask_of_the_server_removes_permissions() {
    let scratch = Scratch::new();
    let directory = scratch.text("in");
    let script = "umask 027; exec \"$0\" \"$@\"";
    let server = Running::start_by(
        Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_fairway"), "serve", "--dir", &directory])
            .args(["--bind", "127.0.0.1:0", "--keep-free=0"]),
    );
    let address = server.address();
    scratch.file("source", 1000);
    for (given, kept) in [(0o777, 0o750), (0o666, 0o640), (0o400, 0o400)] {
        let mode = std::fs::Permissions::from_mode(given);
        std::fs::set_permissions(scratch.path("source"), mode).expect("permissions");
        let target = format!("{address}/{given:o}");
        fairway(&["copy", &scratch.text("source"), &target]).ok();
        let arrived = scratch.path("in").join(format!("{given:o}"));
        let mode = std::fs::metadata(&arrived).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, kept, "{given:o}");
    }
}
