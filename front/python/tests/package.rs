//! The tests of the package in Python, with the extension as it is now.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Builds the extension with the profile of tests, and returns the library. Cargo does not build it
/// for this test by itself, because Rust code cannot link with it.
fn extension() -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--profile", "test", "--package", "fairway-python"]);
    // Otherwise the artifacts of the outer cargo would be replaced by those of other flags.
    build.args(["--message-format", "json-render-diagnostics"]).stdin(Stdio::null());
    let Output { status, stdout, stderr } = build.output().expect("cargo starts");
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let messages = String::from_utf8(stdout).expect("cargo prints text");
    let library = messages.split('"').find(|text| text.ends_with("/lib_fairway.so"));
    PathBuf::from(library.expect("cargo names the library"))
}

/// Copies the modules of the package, with the extension, to a folder for PYTHONPATH.
fn package(extension: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let package = root.join("fairway");
    fs::create_dir_all(&package).expect("a folder for the package");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("fairway");
    for entry in fs::read_dir(sources).expect("the package has sources") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_name().expect("a name");
            fs::copy(&path, package.join(name)).expect("a module is copied");
        }
    }
    // By name, so that a program that has loaded the old file keeps it.
    let fresh = package.join("new");
    fs::copy(extension, &fresh).expect("the extension is copied");
    fs::rename(&fresh, package.join("_fairway.abi3.so")).expect("the extension is renamed");
    root
}

/// Returns a command for Python 3.9 or later; `None` if there is none.
fn python() -> Option<Command> {
    let recent = "import sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new("python3").args(["-c", recent]).stdin(Stdio::null()).status();
    status.is_ok_and(|status| status.success()).then(|| Command::new("python3"))
}

/// Runs modules of tests, and returns what they print to stderr.
fn run(modules: &[&str], package: &Path) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = python().expect("it was there a moment ago");
    python.args(["-m", "unittest", "--verbose"]).args(modules).current_dir(here.join("tests"));
    // No files are left in the sources.
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", package).stdin(Stdio::null());
    let pages =
        ["README.md", "../../docs/python.md", "../../README.md"].map(|page| here.join(page));
    python.env("FAIRWAY_PAGES", std::env::join_paths(pages).expect("paths without colons"));
    // Tests of the simulator run with the tool, in the crate of the tool.
    python.env_remove("FAIRWAY").env_remove("FAIRWAY_TOOL");
    let output = python.output().expect("it was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

#[test]
fn python_moves_memory() {
    if python().is_none() {
        eprintln!("skipped: no python3 of version 3.9 or later");
        return;
    }
    let package = package(&extension());
    let said =
        run(&["test_memory", "test_ends", "test_pieces", "test_kv_cache", "test_docs"], &package);
    eprint!("{said}");
    let ran = said.lines().filter(|line| line.ends_with("... ok")).count();
    assert!(ran >= 32, "{ran} tests ran\n{said}");
}
