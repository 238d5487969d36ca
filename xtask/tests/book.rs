//! The book that `make book` builds of `docs/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// The pages below a folder, as paths relative to `docs/`.
fn pages(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        let path = entry.path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.strip_prefix(docs()).expect("within docs/");
            found.insert(name.to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn summary_names_every_page_of_docs_and_no_other() {
    let text = std::fs::read_to_string(docs().join("SUMMARY.md")).expect("docs/SUMMARY.md");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let named: BTreeSet<String> = links.map(|(link, _)| link.to_owned()).collect();
    let mut pages = pages(&docs());
    assert!(pages.remove("SUMMARY.md"));
    assert_eq!(named, pages, "left: docs/SUMMARY.md; right: the files");
}

#[test]
fn pictures_that_pages_show_are_there() {
    let mut shown = 0;
    for page in pages(&docs()) {
        let path = docs().join(&page);
        let text = std::fs::read_to_string(&path).expect("a page");
        for (_, rest) in text.match_indices("![").map(|(at, _)| text.split_at(at)) {
            let link = rest.split_once("](").and_then(|(_, rest)| rest.split_once(')'));
            let (link, _) = link.unwrap_or_else(|| panic!("{page}: a picture without a file"));
            let file = path.parent().expect("a folder").join(link);
            assert!(file.is_file(), "{page} shows {link}, which is not there");
            shown += 1;
        }
    }
    assert!(shown >= 2, "the diagrams of the rooms and of one WRITE are shown");
}
