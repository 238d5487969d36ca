//! Generates the manual pages from the tool's own description of its command line.

use std::io;
use std::path::{Path, PathBuf};

/// Writes the pages to `man/`.
pub fn write() -> io::Result<()> {
    let directory = directory();
    std::fs::create_dir_all(&directory)?;
    generate(&directory)?;
    println!("wrote {}", directory.display());
    Ok(())
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../man")
}

fn generate(directory: &Path) -> io::Result<()> {
    clap_mangen::generate_to(fairway_cli::command().disable_help_subcommand(true), directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn pages(directory: &Path) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(directory).expect("a directory: run `xtask man`");
        let entries = entries.map(|entry| entry.expect("an entry"));
        let page = |path: PathBuf| std::fs::read_to_string(path).expect("a page");
        entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), page(entry.path())))
            .collect()
    }

    #[test]
    fn the_pages_are_up_to_date() {
        let fresh = std::env::temp_dir().join(format!("fairway-man-{}", std::process::id()));
        std::fs::create_dir_all(&fresh).expect("a directory");
        generate(&fresh).expect("pages");
        let (expected, found) = (pages(&fresh), pages(&directory()));
        std::fs::remove_dir_all(&fresh).expect("removed");
        assert!(expected.contains_key("fairway.1") && expected.contains_key("fairway-perf.1"));
        assert!(expected == found, "man/ is not up to date: run `cargo run -p xtask -- man`");
    }
}
