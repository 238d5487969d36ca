//! The files that are checked.

use crate::Failure;
use std::path::Path;

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the root of the repository, with `/`.
    pub file: String,
    /// Crate of the file, or `docs`.
    pub room: String,
    /// Contents of the file.
    pub text: String,
}

impl Source {
    /// True for a Rust file, false for Markdown.
    pub fn is_rust(&self) -> bool {
        self.file.ends_with(".rs")
    }

    /// True if the file contains only tests.
    pub fn is_test(&self) -> bool {
        let parts: Vec<&str> = self.file.split('/').collect();
        let folder = parts.iter().any(|part| ["tests", "benches", "examples"].contains(part));
        folder || self.file.ends_with("/tests.rs")
    }

    /// Path of the module within its crate; `None` if the file does not belong to a library.
    pub fn module(&self) -> Option<Vec<String>> {
        let (_, inner) = self.file.split_once("/src/")?;
        let mut path: Vec<String> =
            inner.trim_end_matches(".rs").split('/').map(Into::into).collect();
        match path.last().map(String::as_str) {
            Some("lib" | "main") if path.len() == 1 => path.clear(),
            Some("mod") => {
                path.pop();
            }
            _ => {}
        }
        Some(path)
    }
}

/// All Rust and Markdown files of the repository at `root` that its owners wrote, sorted.
///
/// # Errors
/// A folder or file cannot be read.
pub fn sources(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<Source>) -> Result<(), Failure> {
    let failed = |error| Failure::Read(folder.to_owned(), error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.') && name != ".github";
        if path.is_dir() {
            let is_built = ["target", "corpus", "grown", "node_modules"].contains(&name.as_str());
            if !is_hidden && !is_built {
                walk(root, &path, found)?;
            }
        } else if name.ends_with(".rs") || name.ends_with(".md") {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Failure::Read(path.clone(), error))?;
            let inner = path.strip_prefix(root).unwrap_or(&path);
            let file = inner.to_string_lossy().replace('\\', "/");
            found.push(Source { room: room(&file), file, text });
        }
    }
    Ok(())
}

/// The crate of a file, by its folder.
fn room(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    match parts.as_slice() {
        _ if file.ends_with(".md") => "docs".to_owned(),
        ["crates", name, ..] => (*name).to_owned(),
        ["front", name, ..] => format!("front/{name}"),
        ["xtask", "tidy", ..] => "tidy".to_owned(),
        [first, _, ..] => (*first).to_owned(),
        _ => "docs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_the_crate_and_the_module() {
        let source =
            |file: &str| Source { file: file.into(), room: room(file), text: String::new() };
        let cases = [
            ("crates/ub/src/lib.rs", "ub", Some(vec![])),
            ("crates/ub/src/nic/tests.rs", "ub", Some(vec!["nic", "tests"])),
            ("front/verbs/src/abi/mod.rs", "front/verbs", Some(vec!["abi"])),
            ("crates/ub/tests/a.rs", "ub", None),
            ("docs/wire.md", "docs", None),
            ("xtask/src/bench.rs", "xtask", Some(vec!["bench"])),
        ];
        for (file, room, module) in cases {
            let source = source(file);
            assert_eq!(source.room, room, "{file}");
            let module = module.map(|parts| parts.into_iter().map(String::from).collect());
            assert_eq!(source.module(), module, "{file}");
        }
    }
}
