//! The screen of `fairway top` on a pseudo-terminal, whose other end is read by a terminal
//! emulator.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{DEADLINE, Running};

/// Longest wait for a screen: the first appears an interval after `top` began, and the longest
/// interval is 45 s.
const TIMEOUT: Duration = DEADLINE.saturating_mul(3);

/// Text on the screen before `top` begins.
const BEFORE: &str = "what was here before";

/// Text on the screen after `top` has ended.
const AFTER: &str = "what comes after it";

/// A pseudo-terminal, the emulated screen, and the `top` that runs in it.
struct Terminal {
    /// The test's end.
    master: File,
    /// The program's end, which stays open so that its settings can be read.
    slave: OwnedFd,
    emulator: Arc<Mutex<vt100::Parser>>,
    settings: libc::termios,
    top: Child,
}

impl Terminal {
    /// Starts `top` with these arguments in a terminal of this size.
    fn start(rows: u16, columns: u16, arguments: &[&str]) -> Terminal {
        let (master, slave) = open(rows, columns);
        let mut shell = File::from(slave.try_clone().expect("another descriptor"));
        writeln!(shell, "{BEFORE}").expect("a line");
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
        let (mut output, shown) =
            (master.try_clone().expect("another descriptor"), emulator.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().expect("no panic").process(&bytes[..count]);
            }
        });
        let settings = settings_of(&slave);
        let end = || Stdio::from(slave.try_clone().expect("another descriptor"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairway"));
        command.arg("top").args(arguments).stdin(end()).stdout(end()).stderr(end());
        // SAFETY: two system calls, of which a process that has just begun may make any.
        unsafe {
            // The terminal sends signals, such as SIGINT, only to the session that controls it.
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let top = command.spawn().expect("it starts");
        Terminal { master, slave, emulator, settings, top }
    }

    fn press(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).expect("a terminal");
    }

    fn resize(&self, rows: u16, columns: u16) {
        // The emulator is resized first, because `top` draws for the new size at once.
        self.emulator.lock().expect("no panic").screen_mut().set_size(some(rows), some(columns));
        let size = size_of(rows, columns);
        // SAFETY: the kernel reads one size.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(done, 0);
    }

    /// Waits until the shown lines satisfy `wanted`, and returns them.
    fn shows(&self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let lines = self.lines();
            if wanted(&lines) {
                return lines;
            }
            let shown = lines.join("\n");
            assert!(begun.elapsed() < TIMEOUT, "it does not show {what}, but\n{shown}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn lines(&self) -> Vec<String> {
        lines(self.emulator.lock().expect("no panic").screen())
    }

    /// Waits until the screen has been drawn to its end, and returns its lines. The emulator may
    /// have read a part of what `top` has written.
    fn drawn(&self) -> Vec<String> {
        let begun = Instant::now();
        loop {
            {
                let emulator = self.emulator.lock().expect("no panic");
                let lines = lines(emulator.screen());
                let (row, _) = emulator.screen().cursor_position();
                // The last line that is drawn, at the end of which the cursor stays.
                if lines[usize::from(row)].starts_with("q ends") {
                    return lines;
                }
            }
            assert!(begun.elapsed() < TIMEOUT, "it is never drawn to its end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until `top` has ended, and returns its exit status and its messages. The terminal must
    /// be as before, except for those messages.
    fn ended(mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.top.try_wait().expect("a child") {
                break status;
            }
            assert!(begun.elapsed() < DEADLINE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        // The shell's output must appear behind that of the tool.
        let mut shell = File::from(self.slave.try_clone().expect("another descriptor"));
        writeln!(shell, "{AFTER}").expect("a line");
        let is_last = |line: &String| line.starts_with(AFTER);
        let lines = self.shows("what comes after it", |lines| lines.iter().any(is_last));
        assert_eq!(lines[0], BEFORE, "{lines:?}");
        {
            let emulator = self.emulator.lock().expect("no panic");
            assert!(!emulator.screen().alternate_screen() && !emulator.screen().hide_cursor());
        }
        assert!(same(&settings_of(&self.slave), &self.settings), "the terminal's settings stay");
        let said = lines[1..].iter().take_while(|line| !is_last(line));
        (status.code(), said.map(String::as_str).collect::<Vec<_>>().join("\n"))
    }

    /// Whether the alternate screen is shown, with unbuffered keys.
    fn is_taken(&self) -> bool {
        let keys = settings_of(&self.slave).c_lflag & (libc::ICANON | libc::ECHO) == 0;
        let emulator = self.emulator.lock().expect("no panic");
        keys && emulator.screen().alternate_screen() && emulator.screen().hide_cursor()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.top.kill();
        let _ = self.top.wait();
    }
}

fn lines(screen: &vt100::Screen) -> Vec<String> {
    let (_, columns) = screen.size();
    screen.rows(0, columns.get()).collect()
}

fn some(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("rows and columns")
}

fn size_of(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Both ends of a new pseudo-terminal.
fn open(rows: u16, columns: u16) -> (File, OwnedFd) {
    let (mut master, mut slave, size) = (-1, -1, size_of(rows, columns));
    // SAFETY: the system writes two descriptors, which are ours then, and reads one size.
    unsafe {
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
        let done = libc::openpty(&mut master, &mut slave, name, settings, &size);
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        // Child processes must not inherit the test's end.
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
        (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
    }
}

fn settings_of(terminal: &OwnedFd) -> libc::termios {
    // SAFETY: zero is a value of it; the kernel fills it.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), &mut settings), 0);
        settings
    }
}

fn same(one: &libc::termios, other: &libc::termios) -> bool {
    let flags = |all: &libc::termios| [all.c_iflag, all.c_oflag, all.c_cflag, all.c_lflag];
    flags(one) == flags(other) && one.c_cc == other.c_cc
}

/// Two sending flows of two tenants.
fn perf() -> Running {
    Running::start(&[
        "perf",
        "write",
        "--flows=4K,64K",
        "--sched=water-filling",
        "--tenants=1,2",
        "--line=2Gbps",
        "--duration=10m",
        "--pin=none",
        "--stats",
    ])
}

/// The rows of flows or tenants below the heading.
fn rows(lines: &[String]) -> Vec<&str> {
    let below = lines.iter().skip_while(|line| !line.contains("dequeue")).skip(1);
    below.map(String::as_str).take_while(|line| !line.is_empty()).collect()
}

/// The number in a row below the name of a column, if there is one.
fn below(lines: &[String], name: &str, row: &str) -> Option<f64> {
    let head = lines.iter().find(|line| line.contains("dequeue"))?;
    let end = head.find(name)? + name.len();
    row.get(..end)?.split_whitespace().last()?.parse().ok()
}

/// Runs `top` on a sending program until it shows two flows that send.
fn shown(rows_columns: (u16, u16), interval: &str) -> (Running, Terminal, Vec<String>) {
    let running = perf();
    let pid = running.child.id().to_string();
    // The program reports statistics only after it has begun.
    let begun = Instant::now();
    while common::fairway(&["top", "--json", "--count=1", "--interval=10ms", &pid]).code != 0 {
        assert!(begun.elapsed() < DEADLINE, "it never reports");
    }
    let (rows_, columns) = rows_columns;
    let terminal = Terminal::start(rows_, columns, &["--interval", interval, &pid]);
    let lines = terminal.shows("two flows that send", |lines| {
        let sends = |row: &&&str| {
            let rate = below(lines, "Gb/s", row).is_some_and(|rate| rate > 0.01);
            // A flow that has just begun has no dequeue rate yet.
            rate && below(lines, "dequeue", row).is_some()
        };
        rows(lines).iter().filter(sends).count() >= 2
    });
    (running, terminal, lines)
}

#[test]
fn names_rates_and_columns_are_where_they_belong() {
    let (running, terminal, lines) = shown((24, 132), "200ms");
    assert!(terminal.is_taken());
    let head = format!("fairway {}: ", running.child.id());
    assert!(lines[0].starts_with(&head) && lines[0].contains("sched=water-filling"), "{lines:?}");
    assert!(lines[1].starts_with("control: ") && lines[1].ends_with("sorted by rate"), "{lines:?}");
    let names = [
        "flow",
        "tenant",
        "weight",
        "Gb/s",
        "dequeue",
        "packets/s",
        "rtt us",
        "lost/s",
        "paths",
        "events/s",
        "B/event",
    ];
    let mut at = 0;
    for name in names {
        let found = lines[2][at..].find(name);
        at += found.unwrap_or_else(|| panic!("no {name} in its place: {}", lines[2]));
    }
    let sending: Vec<&str> = rows(&lines)
        .into_iter()
        .filter(|row| below(&lines, "Gb/s", row).is_some_and(|rate| rate > 0.01))
        .collect();
    let mut tenants = Vec::new();
    for row in sending {
        let of = |name: &str| below(&lines, name, row);
        assert!(of("dequeue").is_some_and(|rate| rate > 0.0 && rate <= 2.05), "{row}");
        assert!(of("packets/s") > Some(0.0) && of("rtt us") >= Some(0.0), "{row}");
        assert!(row.contains("/16 "), "paths used of 16: {row}");
        tenants.push(of("tenant").expect("a number") as u64);
    }
    tenants.sort_unstable();
    tenants.dedup();
    assert_eq!(tenants, [1, 2], "{lines:?}");
    // The largest rate comes first.
    let rates: Vec<f64> =
        rows(&lines).iter().filter_map(|row| below(&lines, "Gb/s", row)).collect();
    assert!(rates.is_sorted_by(|one, next| one >= next), "{rates:?}");
    terminal.press("q");
    assert_eq!(terminal.ended(), (Some(0), String::new()));
}

/// Checks the effects of keys and sizes within one interval, so that the next interval can't be
/// their cause. `None` if the machine was so slow that the interval ended.
fn pressed(seconds: u64) -> Option<()> {
    let (_running, terminal, lines) = shown((24, 132), &format!("{seconds}s"));
    let begun = Instant::now();
    assert!(lines.iter().any(|line| line == "q ends, s sorts, t shows tenants or flows"));
    terminal.press("s");
    terminal.shows("another order", |lines| lines[1].ends_with("sorted by round trip"));
    terminal.press("t");
    let tenants = terminal.shows("tenants", |lines| lines[2].contains("tenant   flows"));
    // Other keys have no effect.
    terminal.press("x\x1b[A");
    terminal.press("t");
    terminal.shows("flows", |lines| lines[2].contains("flow tenant weight"));
    let flows = terminal.drawn();
    terminal.resize(4, 40);
    let small = terminal
        .shows("less", |lines| lines.len() == 4 && lines[3] != flows[3] && lines[2].len() == 40);
    terminal.resize(30, 150);
    let large = terminal.shows("more", |lines| {
        lines.len() == 30 && lines.iter().any(|line| line.starts_with("q ends"))
    });
    let in_time = begun.elapsed() < Duration::from_secs(seconds);
    terminal.press("Q");
    assert_eq!(terminal.ended(), (Some(0), String::new()));
    in_time.then(|| {
        assert_eq!(rows(&tenants).len(), 2, "{tenants:?}");
        // Text that does not fit is cut off, and does not continue in the next line.
        for (small, whole) in small.iter().zip(&flows) {
            let cut: String = whole.chars().take(40).collect();
            assert_eq!(small.trim_end(), cut.trim_end(), "{small:?}");
        }
        assert_eq!(large[2], flows[2]);
    })
}

#[test]
fn keys_and_sizes_count_at_once() {
    let in_time = [4, 15, 45].into_iter().find_map(pressed);
    assert!(in_time.is_some(), "only the next interval has shown it");
}

#[test]
fn the_terminal_is_given_back_when_the_program_goes_away() {
    let (running, terminal, _) = shown((24, 100), "100ms");
    assert!(terminal.is_taken());
    drop(running);
    assert_eq!(terminal.ended(), (Some(0), "it has ended".into()));
}

#[test]
fn terminal_is_restored_after_an_interrupt() {
    let (_running, terminal, _) = shown((24, 100), "2s");
    // The terminal converts this key to SIGINT.
    terminal.press("\x03");
    assert_eq!(terminal.ended(), (Some(0), String::new()));
}

#[test]
fn the_terminal_is_left_alone_when_there_is_nothing_to_show() {
    let terminal = Terminal::start(24, 200, &["4000000000"]);
    let (code, said) = terminal.ended();
    assert_eq!(code, Some(1));
    assert!(said.contains("4000000000") && said.contains("--stats"), "{said}");
}
