//! The library that cargo built for the tests, and C programs that load it.
#![allow(dead_code)] // Every test file uses some of these functions.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Versions of the interface, oldest first.
pub const VERSIONS: [u32; 5] = [8, 9, 10, 11, 12];

/// Options that make AddressSanitizer check the library's system calls: packets take these only.
pub const SANITIZED: [(&str, &str); 2] =
    [("ASAN_OPTIONS", "detect_leaks=1:exitcode=99"), ("FAIRWAY_DATAPATH", "udp")];

const SANITIZER: &[&str] = &["-fsanitize=address", "-fno-omit-frame-pointer"];

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Prints what is skipped, even if the output of successful tests is hidden.
pub fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// The shared library. Cargo builds it for its tests, beside them.
pub fn library() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    this.with_file_name("libnccl_net_fairway.so")
}

/// Whether the C compiler has AddressSanitizer. If not, prints what is skipped.
pub fn can_sanitize() -> bool {
    let library = Command::new("cc").arg("-print-file-name=libasan.so").output();
    // The compiler prints a path if the library exists, and the bare name if not.
    let there = library.is_ok_and(|answer| answer.stdout.starts_with(b"/"));
    if !there {
        skip("tests under AddressSanitizer: the C compiler has none");
    }
    there
}

/// Compiles a C program of this crate, with warnings as errors. `None`, with a line that reports
/// it, without a C compiler.
pub fn compile(stem: &str, sanitize: bool) -> Option<PathBuf> {
    static COMPILER: OnceLock<bool> = OnceLock::new();
    let there = COMPILER.get_or_init(|| {
        let found = Command::new("cc").arg("--version").output().is_ok();
        if !found {
            skip("tests of the plug-in: there is no C compiler");
        }
        found
    });
    if !there {
        return None;
    }
    // Tests run at the same time, and each compiles its own copy.
    static COPIES: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let copy = COPIES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("nccl-{stem}-{}-{copy}", std::process::id());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let sources = here().join("tests/c");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.args(if sanitize { SANITIZER } else { &[] });
    command.arg(sources.join(format!("{stem}.c"))).arg(sources.join("plugin.c"));
    command.arg("-o").arg(&program).args(["-pthread", "-ldl"]);
    let Output { status, stderr, .. } = command.output().expect("the compiler starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    Some(program)
}

/// A run of a C program: which one, its arguments behind library and version, and its environment.
pub struct Run<'a> {
    pub program: &'a Path,
    pub version: u32,
    pub arguments: &'a [&'a str],
    pub environment: &'a [(&'a str, &'a str)],
}

impl Run<'_> {
    /// Runs the program on the loopback interface. It ends itself if it hangs.
    pub fn output(&self) -> Output {
        let mut command = Command::new(self.program);
        command.arg(library()).arg(self.version.to_string()).args(self.arguments);
        for name in ["FAIRWAY_EMULATE", "FAIRWAY_DATAPATH", "FAIRWAY_PATHS", "FAIRWAY_POLICY"] {
            command.env_remove(name);
        }
        command.env("FAIRWAY_NCCL_IFNAME", "lo").env("SHOW_LOG", "1");
        command.envs(self.environment.iter().copied()).output().expect("the program starts")
    }

    /// Runs the program, which must succeed, and returns what the plug-in logged.
    pub fn succeed(&self) -> String {
        let Output { status, stderr, .. } = self.output();
        let log = String::from_utf8_lossy(&stderr).into_owned();
        let (version, arguments) = (self.version, self.arguments);
        assert!(status.success(), "version {version} {arguments:?}: {status}\n{log}");
        log
    }
}

/// Sum of the retransmissions that the plug-in logged when its NICs were closed.
pub fn retransmissions(log: &str) -> u64 {
    let lines = log.lines().filter_map(|line| line.strip_suffix(" retransmissions"));
    lines.map(|line| line.rsplit(' ').next().expect("a number").parse::<u64>().expect("one")).sum()
}
