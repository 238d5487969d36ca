//! `fairway serve`, `copy` and `emulate`.

mod common;
#[path = "../../fairway/tests/common/superuser.rs"]
mod superuser;

use std::os::unix::fs::PermissionsExt;

use common::{Running, Scratch, fairway};

/// Starts a server with further arguments. By default it may fill the disk, so that tests do not
/// depend on how full that is.
fn serve(scratch: &Scratch, more: &[&str]) -> (Running, String) {
    let directory = scratch.text("in");
    let mut arguments = vec!["serve", "--dir", &directory, "--bind", "127.0.0.1:0"];
    if !more.iter().any(|argument| argument.starts_with("--keep-free")) {
        arguments.push("--keep-free=0");
    }
    arguments.extend(more);
    let server = Running::start(&arguments);
    let address = server.address();
    (server, address)
}

#[test]
fn files_arrive_whole_with_their_permissions() {
    let scratch = Scratch::new();
    let (mut server, address) = serve(&scratch, &[]);
    std::fs::create_dir(scratch.path("in/below")).expect("a directory");
    for (length, name) in [(0, "empty"), (1, "one"), (3_000_001, "below/large")] {
        let bytes = scratch.file("source", length);
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(scratch.path("source"), mode).expect("permissions");
        let target = format!("{address}/{name}");
        let ended = fairway(&["copy", &scratch.text("source"), &target]).ok();
        assert!(ended.out.contains("verified"), "{}", ended.out);
        let arrived = scratch.path("in").join(name);
        assert_eq!(std::fs::read(&arrived).expect("it is there"), bytes, "{name}");
        let mode = std::fs::metadata(&arrived).expect("it is there").permissions().mode();
        // No usual umask removes any of these.
        assert_eq!(mode & 0o7777, 0o700);
    }
    assert_eq!(scratch.served(), ["below", "empty", "one"]);
    assert_eq!(server.end(), 0);
}

#[test]
fn several_clients_copy_at_once() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &[]);
    let clients: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("file{number}");
            let bytes = scratch.file(&name, 2_000_000 + number);
            let target = format!("{address}/{name}");
            let client = Running::start(&["copy", &scratch.text(&name), &target, "--json"]);
            (client, name, bytes)
        })
        .collect();
    for (client, name, bytes) in clients {
        let row: serde_json::Value = serde_json::from_str(&client.line("verified")).expect("JSON");
        assert_eq!(row["bytes"].as_u64(), Some(bytes.len() as u64));
        let arrived = std::fs::read(scratch.path("in").join(name)).expect("it is there");
        assert!(arrived == bytes);
    }
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &[]);
    scratch.file("source", 100);
    std::fs::create_dir(scratch.path("outside")).expect("a directory");
    std::os::unix::fs::symlink(scratch.path("outside"), scratch.path("in/link")).expect("a link");
    std::os::unix::fs::symlink(scratch.path("outside/new"), scratch.path("in/file"))
        .expect("a link");
    let copy = |name: &str, more: &[&str]| {
        let (source, target) = (scratch.text("source"), format!("{address}/{name}"));
        let mut arguments = vec!["copy", &source, &target];
        arguments.extend(more);
        fairway(&arguments)
    };
    for (name, word) in [
        ("../escape", "upwards"),
        ("a/../../escape", "upwards"),
        ("..", "upwards"),
        ("/etc/escape", "absolute"),
        ("link/escape", "links are not followed"),
        ("./escape", "no file's name"),
        ("link", "exists"),
        ("missing/escape", "make it first"),
        (".fairway-4711-0.part", "choose another"),
    ] {
        copy(name, &[]).fails(1, &["refuses", word]);
    }
    // A link is replaced, never written through.
    copy("file", &["--overwrite"]).ok();
    assert!(scratch.path("in/file").symlink_metadata().expect("it is there").is_file());
    assert_eq!(std::fs::read_dir(scratch.path("outside")).expect("a directory").count(), 0);
    assert_eq!(scratch.served(), ["file", "link"]);
}

#[test]
fn existing_file_is_replaced_only_with_overwrite() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &[]);
    std::fs::write(scratch.path("in/name"), "old").expect("write");
    let bytes = scratch.file("source", 5000);
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    fairway(&["copy", &source, &target]).fails(1, &["'name' exists", "--overwrite"]);
    assert_eq!(std::fs::read(scratch.path("in/name")).expect("it is there"), b"old");
    fairway(&["copy", "--overwrite", &source, &target]).ok();
    assert_eq!(std::fs::read(scratch.path("in/name")).expect("it is there"), bytes);
    std::fs::create_dir(scratch.path("in/directory")).expect("a directory");
    let target = format!("{address}/directory");
    fairway(&["copy", "--overwrite", &source, &target]).fails(1, &["is a directory"]);
}

#[test]
fn sources_that_are_no_files_are_refused() {
    let scratch = Scratch::new();
    fairway(&["copy", &scratch.text("in"), "127.0.0.1/x"]).fails(1, &["directory", "tar"]);
    fairway(&["copy", &scratch.text("nothing"), "127.0.0.1/x"]).fails(1, &["nothing"]);
    fairway(&["copy", "/dev/null", "127.0.0.1/x"]).fails(1, &["no ordinary file"]);
    for target in ["127.0.0.1", "127.0.0.1/", "/name"] {
        fairway(&["copy", &scratch.text("in"), target]).fails(2, &[target, "write HOST"]);
    }
    fairway(&["serve", "--dir", &scratch.text("nothing")]).fails(1, &["nothing"]);
}

/// The kernel tells a length of 0 for the one, and of a page for the other, if it is there.
#[test]
fn files_of_unknown_length_arrive_whole() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &[]);
    for source in ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"] {
        let Ok(bytes) = std::fs::read(source) else { continue };
        let ended = fairway(&["copy", source, &format!("{address}/copy"), "--overwrite"]).ok();
        assert!(ended.out.contains(&format!("{} bytes", bytes.len())), "{}", ended.out);
        assert_eq!(std::fs::read(scratch.path("in/copy")).expect("it is there"), bytes);
    }
}

#[test]
fn a_killed_client_leaves_nothing() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch, &["--peer-dead", "500ms"]);
    scratch.file("source", 8_000_000);
    let target = format!("{address}/name");
    // Slow enough to be killed during the copy.
    let client =
        Running::start(&["copy", "--emulate", "rate=10M", &scratch.text("source"), &target]);
    server.line("receiving 'name'");
    assert_eq!(scratch.served().len(), 1);
    assert!(scratch.served()[0].ends_with(".part"));
    drop(client);
    server.line("'name' dropped");
    assert_eq!(scratch.served(), [""; 0]);
}

#[test]
fn clients_take_no_more_of_a_server_than_it_gives() {
    let scratch = Scratch::new();
    let (server, address) =
        serve(&scratch, &["--max-files=1", "--max-bytes=8M", "--address-share=100%"]);
    scratch.file("source", 8_000_000);
    scratch.file("small", 1000);
    scratch.file("large", 9_000_000);
    let copy = |address: &str, source: &str, name: &str| {
        fairway(&["copy", &scratch.text(source), &format!("{address}/{name}")])
    };
    copy(&address, "large", "large").fails(1, &["refuses", "--max-bytes"]);
    let target = format!("{address}/slow");
    let mut slow =
        Running::start(&["copy", "--emulate", "rate=10M", &scratch.text("source"), &target]);
    server.line("receiving 'slow'");
    copy(&address, "small", "small").fails(1, &["refuses", "at once (1)", "--max-files"]);
    // The place is released when the client has gone.
    assert_eq!(slow.end(), 1);
    slow.line("interrupted");
    // The client's farewell may be lost by the emulated network; then the server detects its end
    // after some seconds.
    server.line("'slow' dropped");
    copy(&address, "small", "small").ok();
    copy(&address, "source", "fast").ok();
    assert_eq!(scratch.served(), ["fast", "small"]);

    let (_full, address) = serve(&scratch, &["--keep-free=100%"]);
    copy(&address, "small", "none").fails(1, &["refuses", "no room", "--keep-free"]);
}

/// One address may have three quarters of the files that are received at once, and its network as
/// many if that is all that is left besides one.
#[test]
fn one_address_leaves_places_to_others() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch, &["--max-files=4"]);
    scratch.file("source", 8_000_000);
    scratch.file("small", 1000);
    let copy = |own: &str, name: &str| {
        let (source, target) = (scratch.text("small"), format!("{address}/{name}"));
        fairway(&["copy", "--bind", own, &source, &target])
    };
    let slow: Vec<_> = (0..3)
        .map(|number| {
            let (source, target) = (scratch.text("source"), format!("{address}/slow{number}"));
            let client = Running::start(&["copy", "--emulate", "rate=10M", &source, &target]);
            server.line(&format!("receiving 'slow{number}'"));
            client
        })
        .collect();
    copy("127.0.0.1", "fourth").fails(1, &["refuses", "3 files", "this address", "1 more"]);
    copy("127.0.1.1", "other").ok();
    drop(slow);
}

/// Regression test: one file could have all bytes, and keep them as long as its client liked.
#[test]
fn one_file_leaves_bytes_to_others() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch, &["--max-bytes=8M"]);
    scratch.file("source", 6_000_000);
    scratch.file("large", 7_000_000);
    scratch.file("small", 1_500_000);
    let copy = |own: &str, source: &str, name: &str| {
        let (source, target) = (scratch.text(source), format!("{address}/{name}"));
        fairway(&["copy", "--bind", own, &source, &target])
    };
    copy("127.0.0.1", "large", "large").fails(1, &["refuses", "--max-bytes", "--address-share"]);
    let (source, target) = (scratch.text("source"), format!("{address}/slow"));
    let slow = Running::start(&["copy", "--emulate", "rate=10M", &source, &target]);
    server.line("receiving 'slow'");
    copy("127.0.0.1", "small", "same").fails(1, &["refuses", "one address"]);
    copy("127.0.1.1", "small", "other").ok();
    drop(slow);
}

/// Regression test: files that an address had stored did not count, so that it could fill the disk
/// file by file.
#[test]
fn one_address_leaves_a_part_of_the_disk_to_others() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch) else { return };
    let (_server, address) = serve(&scratch, &["--keep-free=0"]);
    scratch.file("source", 400_000);
    let copy = |own: &str, name: &str| {
        let (source, target) = (scratch.text("source"), format!("{address}/{name}"));
        fairway(&["copy", "--bind", own, &source, &target])
    };
    for number in 0..7 {
        copy("127.0.0.1", &format!("file{number}")).ok();
    }
    // 2.8 of 4 MiB; 3.2 would be more than three quarters.
    copy("127.0.0.1", "eighth")
        .fails(1, &["refuses", "this address", "7 files", "--address-share"]);
    copy("127.0.1.1", "other").ok();
}

/// Regression test: a file counted again each time it was replaced.
#[test]
fn replaced_files_take_no_further_part_of_the_disk() {
    let scratch = Scratch::new();
    let Some(_disk) = SmallDisk::mount(&scratch) else { return };
    let (_server, address) = serve(&scratch, &["--keep-free=0"]);
    let bytes = scratch.file("source", 1_000_000);
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    for _ in 0..10 {
        fairway(&["copy", "--overwrite", &source, &target]).ok();
    }
    assert_eq!(std::fs::read(scratch.path("in/name")).expect("it is there"), bytes);
}

/// A file system in memory, of 4 MiB, mounted over the folder that is served.
struct SmallDisk(std::ffi::CString);

impl SmallDisk {
    /// `None`, with a line that reports it, if that is not permitted.
    fn mount(scratch: &Scratch) -> Option<SmallDisk> {
        let place = std::ffi::CString::new(scratch.text("in")).expect("a path");
        // SAFETY: strings that end.
        let mounted = unsafe {
            let (kind, options) = (c"tmpfs".as_ptr(), c"size=4M".as_ptr());
            libc::mount(kind, place.as_ptr(), kind, 0, options.cast())
        };
        if mounted != 0 {
            superuser::skip("a file system of 4 MiB");
        }
        (mounted == 0).then_some(SmallDisk(place))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // SAFETY: a string that ends.
        unsafe { libc::umount2(self.0.as_ptr(), libc::MNT_DETACH) };
    }
}

#[test]
fn an_interrupted_client_and_an_ended_server_leave_nothing() {
    let scratch = Scratch::new();
    let (mut server, address) = serve(&scratch, &[]);
    scratch.file("source", 8_000_000);
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    let arguments = ["copy", "--emulate", "rate=10M", &source, &target];
    let mut client = Running::start(&arguments);
    server.line("receiving 'name'");
    assert_eq!(client.end(), 1);
    client.line("interrupted: nothing is left");
    // Another client can copy to the same name at once, while the end of the first is being
    // detected.
    let client = Running::start(&arguments);
    server.line("receiving 'name'");
    assert_eq!(server.end(), 0);
    assert_eq!(scratch.served(), [""; 0]);
    let line = client.line("look whether it was stopped");
    assert!(line.ends_with("nothing is left on the server under that name"), "{line}");
}

#[test]
fn older_file_survives_a_copy_that_is_to_replace_it_and_fails() {
    let scratch = Scratch::new();
    let (mut server, address) = serve(&scratch, &[]);
    std::fs::write(scratch.path("in/name"), "old").expect("write");
    scratch.file("source", 8_000_000);
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    let client =
        Running::start(&["copy", "--overwrite", "--emulate", "rate=10M", &source, &target]);
    server.line("receiving 'name'");
    assert_eq!(server.end(), 0);
    assert_eq!(std::fs::read(scratch.path("in/name")).expect("it is there"), b"old");
    let line = client.line("look whether it was stopped");
    assert!(line.contains("it is as it was") && !line.contains("nothing"), "{line}");
}

/// Regression test: SIGXFSZ ended the server, and a temporary file stayed.
#[test]
fn limit_of_a_files_length_refuses_one_file_and_ends_nothing() {
    let scratch = Scratch::new();
    let script = "ulimit -f 1024; exec \"$0\" \"$@\"";
    let directory = scratch.text("in");
    let server = Running::start_by(
        std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_fairway"), "serve", "--dir", &directory])
            .args(["--bind", "127.0.0.1:0", "--keep-free=0", "--datapath=udp"]),
    );
    let address = server.address();
    scratch.file("large", 3_000_000);
    let bytes = scratch.file("small", 1000);
    let copy = |name: &str| {
        let (source, target) = (scratch.text(name), format!("{address}/{name}"));
        fairway(&["copy", "--datapath=udp", &source, &target])
    };
    copy("large").fails(1, &["refuses", "'large'", "ulimit -f", "LimitFSIZE="]);
    copy("small").ok();
    assert_eq!(std::fs::read(scratch.path("in/small")).expect("it is there"), bytes);
    assert_eq!(scratch.served(), ["small"]);
}

/// Regression test: there were never more than 64 connections, of which one address had three
/// quarters.
#[test]
fn server_has_room_for_as_many_clients_as_files() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &["--max-files=100", "--paths=1", "--sockets=1"]);
    let client = fairway::Context::builder()
        .bind(std::net::Ipv4Addr::LOCALHOST.into())
        .room_for_peers(100)
        .paths(1);
    let client = client.sockets(1).datapath(fairway::DatapathKind::Udp).build().expect("a context");
    for number in 1..=100 {
        let connected = client.connect(address.as_str(), common::DEADLINE);
        connected.unwrap_or_else(|error| panic!("connection {number}: {error}"));
    }
}

#[test]
fn a_new_server_removes_what_a_killed_one_has_left_and_nothing_else() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch, &[]);
    std::fs::create_dir(scratch.path("in/below")).expect("a directory");
    scratch.file("source", 8_000_000);
    let (source, target) = (scratch.text("source"), format!("{address}/below/name"));
    let client = Running::start(&["copy", "--emulate", "rate=10M", &source, &target]);
    server.line("receiving 'below/name'");
    let parts = || std::fs::read_dir(scratch.path("in/below")).expect("a directory").count();
    // Another server of the same directory does not remove the temporary files of this one: once it
    // has removed the file of a process that has ended, it has examined the other file, too.
    std::fs::write(scratch.path("in/below/.fairway-1-1.part"), "stale").expect("write");
    let (other, _) = serve(&scratch, &[]);
    other.line("removed");
    assert_eq!(parts(), 1);
    drop(other);
    // The server is killed instead of stopped.
    drop(server);
    drop(client);
    assert_eq!(parts(), 1);
    let (server, _) = serve(&scratch, &[]);
    server.line("removed");
    assert_eq!(parts(), 0);
}

#[test]
fn names_and_reasons_are_printed_without_control_characters() {
    let scratch = Scratch::new();
    let (server, address) = serve(&scratch, &[]);
    scratch.file("source", 100);
    let forged = "ok'\nfairway serve: 10.0.0.1:1: stored 'payroll.db\u{1b}[2J";
    let target = format!("{address}/{forged}");
    fairway(&["copy", &scratch.text("source"), &target]).ok();
    let shown = "'ok\\'\\u{a}fairway serve: 10.0.0.1:1: stored \\'payroll.db\\u{1b}[2J'";
    for line in [server.line("receiving"), server.line("stored")] {
        assert!(line.starts_with("fairway serve: 127.0.0.1:") && line.contains(shown), "{line}");
    }
    let ended = fairway(&["copy", &scratch.text("source"), &target]).fails(1, &[shown, "exists"]);
    assert!(!ended.err.contains('\u{1b}') && ended.err.lines().count() == 1, "{}", ended.err);
}

#[test]
fn a_closed_port_and_a_silent_one_are_named_with_their_remedies() {
    let scratch = Scratch::new();
    scratch.file("source", 100);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let number = silent.local_addr().expect("an address").port();
    let target = format!("127.0.0.1:{number}/x");
    let source = scratch.text("source");
    let port = format!("port {number}");
    let ports = format!("{number} to {}", number.saturating_add(3));
    let words = ["127.0.0.1", &port, "within 50ms", "firewalls", &ports, "fairway serve"];
    fairway(&["copy", "--connect-timeout", "50ms", &source, &target]).fails(1, &words);
    drop(silent);
    // An hour would be too long for this test.
    let words = ["127.0.0.1", &port, "no program listens", "start `fairway serve`"];
    fairway(&["copy", "--connect-timeout", "60m", &source, &target]).fails(1, &words);
}

#[test]
fn servers_of_all_addresses_take_both_families() {
    let scratch = Scratch::new();
    let bytes = scratch.file("source", 300_000);
    for (index, bind) in [&["--bind", "[::]:0"][..], &["--bind", "0.0.0.0:0"]].iter().enumerate() {
        let directory = scratch.text("in");
        let mut arguments = vec!["serve", "--dir", &directory, "--keep-free=0"];
        arguments.extend(*bind);
        let server = Running::start(&arguments);
        let address = server.address();
        let (_, number) = address.rsplit_once(':').expect("a port");
        // The server is reachable by IPv6 only. `localhost` has both families, and is found either
        // way.
        let hosts =
            if index == 0 { &["localhost", "127.0.0.1", "[::1]"][..] } else { &["localhost"] };
        for host in hosts {
            let target = format!("{host}:{number}/name");
            fairway(&["copy", "--overwrite", &scratch.text("source"), &target]).ok();
            assert!(std::fs::read(scratch.path("in/name")).expect("it is there") == bytes);
        }
    }
}

#[test]
fn a_copy_over_bad_paths_is_identical() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &["--emulate", "loss=1%"]);
    let bytes = scratch.file("source", 5_000_000);
    let spec = "loss=1%,dup=1%,reorder=16,delay=100us,jitter=50us";
    let (source, target) = (scratch.text("source"), format!("{address}/name"));
    fairway(&["copy", "--emulate", spec, &source, &target]).ok();
    assert!(std::fs::read(scratch.path("in/name")).expect("it is there") == bytes);
}

#[test]
fn a_copy_through_the_relay_is_identical() {
    let scratch = Scratch::new();
    let (_server, address) = serve(&scratch, &["--sockets", "1"]);
    let (_, port) = address.rsplit_once(':').expect("a port");
    // A server reports its port to its clients, so the relay uses the same port at another address.
    let mut relay = Running::start(&[
        "emulate",
        "--listen",
        "127.0.0.2",
        "--to",
        &address,
        "--spec",
        "loss=1%,dup=1%",
        "--json",
    ]);
    assert_eq!(relay.address(), format!("127.0.0.2:{port}"));
    let bytes = scratch.file("source", 8_000_000);
    let (source, target) = (scratch.text("source"), format!("127.0.0.2:{port}/name"));
    fairway(&["copy", "--bind", "127.0.0.1", &source, &target]).ok();
    assert!(std::fs::read(scratch.path("in/name")).expect("it is there") == bytes);
    assert_eq!(relay.end(), 0);
    let counters: serde_json::Value = serde_json::from_str(&relay.line("forward")).expect("JSON");
    assert!(counters["forward"].as_u64() > Some(900), "{counters}");
    assert!(counters["lost"].as_u64() > Some(0), "{counters}");
}
