//! The files and tests that `SECURITY.md` names exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// The texts between backquotes in a page.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    page.split('`').skip(1).step_by(2)
}

/// All Rust sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a text has the form of a test's name: several words in small letters.
fn is_test_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    text.bytes().all(is_word) && text.matches('_').count() > 2
}

/// Whether the code has a test of that name, at the left edge or in a module.
fn is_test(code: &str, name: &str) -> bool {
    ["", "    "].iter().any(|edge| code.contains(&format!("#[test]\n{edge}fn {name}()")))
}

#[test]
fn files_and_tests_that_the_security_page_names_exist() {
    let page = fs::read_to_string(top().join("SECURITY.md")).expect("the page");
    let mut files = Vec::new();
    ["crates", "front"].iter().for_each(|folder| sources(&top().join(folder), &mut files));
    let code: String =
        files.iter().map(|file| fs::read_to_string(file).expect("a source")).collect();
    let (mut tests, mut paths) = (0, 0);
    for name in quoted(&page) {
        if is_test_name(name) {
            tests += 1;
            assert!(is_test(&code, name), "{name}");
        } else if name.contains('/') && name.ends_with(".rs") {
            paths += 1;
            assert!(top().join(name).exists(), "{name}");
        }
    }
    assert!(tests > 30 && paths > 15, "the page names {tests} tests and {paths} files");
}
