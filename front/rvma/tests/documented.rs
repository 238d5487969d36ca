//! The C programs that the README and rvma(7) print. They are compiled with warnings as errors, and
//! the receiver and the sender are run as they are printed, except that HOST is this host, and
//! another port is used if the printed one is taken.

mod common;

use common::{Installed, Linking, here, text};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The port that the programs name.
const PORT: u16 = 4810;

/// The programs of the README, in the order in which it prints them.
fn of_readme() -> Vec<String> {
    let readme = std::fs::read_to_string(here().join("../../README.md")).expect("the README");
    let blocks = readme.split("```c\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// The programs of rvma(7), without markup.
fn of_overview() -> Vec<String> {
    let page = text("man/rvma.7");
    let (_, example) = page.split_once(".SH EXAMPLE\n").expect("an example");
    let (example, _) = example.split_once(".SH ").expect("a section after it");
    let blocks = example.split(".RS\n").skip(1);
    let plain = |block: &str| block.replace("\\e", "\\").replace("\\-", "-");
    blocks.map(|rest| plain(rest.split(".RE").next().unwrap_or_default())).collect()
}

/// A free port, followed by free ports for the process's other sockets.
fn port() -> u16 {
    let is_free = |first: u16| (first..first + 4).all(|port| UdpSocket::bind(("::", port)).is_ok());
    (PORT..PORT + 4000).step_by(10).find(|&first| is_free(first)).expect("a free port")
}

#[test]
fn documented_programs_compile_and_run() {
    let Some(installed) = Installed::new("rvma-documented") else { return };
    for (name, programs) in [("readme", of_readme()), ("overview", of_overview())] {
        assert_eq!(programs.len(), 2, "{name}: a receiver and a sender");
        let number = port();
        let [receiver, sender] = [0, 1].map(|index| {
            let source = &programs[index];
            assert!(source.contains(&PORT.to_string()), "{name}: the port is another one");
            let source = source.replace("HOST", "127.0.0.1");
            let source = source.replace(&PORT.to_string(), &number.to_string());
            let path = installed.path(&format!("{name}-{index}.c"));
            std::fs::write(&path, source).expect("write");
            installed.compile(path.to_str().expect("text"), "documented", Linking::Shared, &[])
        });
        let mut receiver =
            Command::new(receiver).stdout(Stdio::piped()).spawn().expect("it starts");
        // The sender retries until the receiver listens. Its put is refused if the receiver has not
        // made the mailbox yet, and nothing shows when it has, so the sender is started repeatedly.
        let begun = Instant::now();
        let sends = || Command::new(&sender).status().expect("it starts").success();
        let sent = std::iter::repeat_with(sends)
            .take_while(|_| begun.elapsed() < Duration::from_secs(60))
            .any(|sent| sent);
        if !sent {
            receiver.kill().expect("it is ours");
        }
        assert!(sent, "{name}: the sender failed");
        let output = receiver.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{name}: the receiver failed");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "over the fairway\n", "{name}");
    }
}
