//! An installed copy of the library, and programs compiled against it.
#![allow(dead_code)] // Every test file uses some of these functions.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than any program runs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of this crate.
pub fn text(path: &str) -> String {
    std::fs::read_to_string(here().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Whether this tool is installed. If not, prints what is skipped.
pub fn has(tool: &str, skipped: &str) -> bool {
    let there = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        skip(&format!("{skipped}: there is no {tool} on this machine"));
    }
    there
}

/// Prints what is skipped, even if the output of successful tests is hidden.
pub fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// Runs a command, which must succeed, and returns its output.
pub fn output(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the command starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?} failed: {status}\n{stderr}");
    String::from_utf8(stdout).expect("the command prints text")
}

/// A copy of what `make install-rvma` installs.
pub struct Installed {
    root: PathBuf,
}

impl Installed {
    /// Installs into a folder of this name. `None`, with a line that reports it, where that can't
    /// be tested.
    pub fn new(name: &str) -> Option<Installed> {
        let skipped = "tests of the C library";
        if !["cc", "make", "pkg-config"].iter().all(|tool| has(tool, skipped)) {
            return None;
        }
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // Removes what an earlier run has left.
        let _ = std::fs::remove_dir_all(&root);
        let this = std::env::current_exe().expect("this program has a path");
        // Cargo builds the libraries of a package for its tests, and does not move them.
        let built = this.parent().expect("target/PROFILE/deps/PROGRAM");
        output(
            Command::new("make")
                .args(["--silent", "--directory"])
                .arg(here())
                .arg("install")
                .arg(format!("BUILT={}", built.display()))
                .arg(format!("PREFIX={}", root.display()))
                .args(["DESTDIR=", "VERSION=0.1.0"])
                // These variables belong to the make that runs the tests.
                .env_remove("MAKEFLAGS")
                .env_remove("MAKELEVEL"),
        );
        Some(Installed { root })
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.root.join(inside)
    }

    /// Flags that pkg-config prints for these options.
    pub fn flags(&self, options: &[&str]) -> Vec<String> {
        let mut command = Command::new("pkg-config");
        command.args(options).arg("rvma");
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        output(&mut command).split_whitespace().map(String::from).collect()
    }

    /// Compiles a C program of this crate, with warnings as errors. `variant` becomes part of its
    /// name.
    pub fn compile(
        &self,
        source: &str,
        variant: &str,
        linking: Linking,
        extra: &[&str],
    ) -> PathBuf {
        let stem = Path::new(source).file_stem().expect("a file").to_string_lossy();
        let program = self.path(&format!("{variant}-{stem}"));
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        command.args(extra).arg(here().join(source)).arg("-o").arg(&program);
        match linking {
            Linking::Shared => {
                command.args(self.flags(&["--cflags", "--libs"]));
                command.arg(format!("-Wl,-rpath,{}", self.path("lib").display()));
            }
            Linking::Static => {
                let flags = self.flags(&["--static", "--cflags", "--libs"]).into_iter();
                command.args(flags.map(|flag| flag.replace("-lrvma", "-l:librvma.a")));
            }
        }
        output(command.arg("-pthread"));
        program
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    Shared,
    Static,
}

/// Runs a program, which must succeed within the time-out. Its output goes where tests print.
pub fn run(program: &Path) {
    let mut child = Command::new(program)
        .env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99")
        .stdin(Stdio::null())
        // The program gets its own process group, which can be killed as a whole.
        .process_group(0)
        .spawn()
        .expect("the program starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            break status;
        }
        if start.elapsed() > TIMEOUT {
            // SAFETY: the group that was made above, whose leader has not been waited for.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            panic!("{} hung", program.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let signal = status.signal();
    assert!(status.success(), "{} failed: {status}, signal {signal:?}", program.display());
    println!("{} took {:?}", program.display(), start.elapsed());
}

/// The functions that the header declares or defines.
pub fn functions_of_the_header() -> Vec<String> {
    let header = text("include/rvma.h");
    let code: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut names: Vec<String> = code
        .match_indices("RVMA_")
        .filter(|(at, _)| !code[..*at].ends_with(is_name))
        .filter_map(|(at, _)| {
            let length = code[at..].find(|letter| !is_name(letter))?;
            code[at + length..].starts_with('(').then(|| code[at..at + length].to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}
