//! Sweeps and simulations of the Python package, with the tool as it was just built.

use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn python_simulates() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../front/python");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(arguments).current_dir(&package).stdin(Stdio::null());
        // No files are left in the sources.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONPATH", &package);
        command.env("FAIRWAY", env!("CARGO_BIN_EXE_fairway"));
        let pages =
            ["README.md", "../../docs/python.md", "../../README.md"].map(|page| package.join(page));
        command.env("FAIRWAY_PAGES", std::env::join_paths(pages).expect("paths without colons"));
        command.output()
    };
    if !python(&["--version"]).is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no python3");
        return;
    }
    // Tests of remote memory need the extension: they run in its crate.
    let modules = ["tests.test_sweep", "tests.test_sim", "tests.test_docs"];
    let output = python(&[&["-m", "unittest"], modules.as_slice()].concat());
    let output = output.expect("it was there a moment ago");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("Ran 26 tests"), "{said}");
}
