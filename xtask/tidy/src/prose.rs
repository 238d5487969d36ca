//! Rules on comments and Markdown: widths, words, cited documents.

use crate::comments::comments;
use crate::{Findings, Rule, Source};
use std::path::Path;

/// Largest number of columns of a line.
const COLUMNS: usize = 100;
/// Words that refer to a person. They are not allowed in comments; in Markdown they may follow one
/// of `PEOPLE`.
const PERSONS: [&str; 15] = [
    "who",
    "whom",
    "whoever",
    "somebody",
    "someone",
    "nobody",
    "anybody",
    "everybody",
    "anyone",
    "everyone",
    "he",
    "him",
    "his",
    "she",
    "her",
];
/// Words for people. In Markdown, `who` and `whom` may follow one of them directly.
const PEOPLE: [&str; 14] = [
    "anyone",
    "architects",
    "attacker",
    "attackers",
    "contributors",
    "engineers",
    "everyone",
    "operator",
    "operators",
    "people",
    "reader",
    "readers",
    "researchers",
    "users",
];

pub(crate) fn check(root: &Path, source: &Source, findings: &mut Findings) {
    match source.is_rust() {
        true => rust(root, source, findings),
        false => markdown(root, source, findings),
    }
}

fn rust(root: &Path, source: &Source, findings: &mut Findings) {
    for comment in comments(&source.text) {
        let is_table = comment.text.trim_start().starts_with('|');
        if comment.end > COLUMNS && comment.is_alone && !is_table && !has_long_word(&comment.text) {
            let text = format!("{} columns", comment.end);
            findings.list.push(source.finding(Rule::Comment, comment.line, comment.end, text));
        }
        words(source, comment.line, &comment.text, findings);
        documents(root, source, comment.line, &comment.text, findings);
    }
}

fn markdown(root: &Path, source: &Source, findings: &mut Findings) {
    let room = findings.room(&source.room);
    room.files += 1;
    room.lines += source.text.lines().count();
    let mut is_code = false;
    for (number, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        let columns = line.chars().count();
        let is_table = line.trim_start().starts_with('|');
        if is_code {
            continue;
        }
        if columns > COLUMNS && !is_table && !has_long_word(line) {
            let text = format!("{columns} columns");
            findings.list.push(source.finding(Rule::Markdown, number + 1, columns, text));
        }
        documents(root, source, number + 1, line, findings);
    }
    for paragraph in paragraphs(&source.text) {
        people(source, &paragraph, findings);
    }
}

/// The lines of each paragraph of Markdown, with their numbers, without code blocks.
fn paragraphs(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut paragraphs = vec![Vec::new()];
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        match is_code || is_fence || line.trim().is_empty() {
            true => paragraphs.push(Vec::new()),
            false => paragraphs.last_mut().expect("one at least").push((number + 1, line)),
        }
    }
    paragraphs
}

/// Adds a finding for each line of a Markdown paragraph with a personal word that does not refer to
/// people.
fn people(source: &Source, paragraph: &[(usize, &str)], findings: &mut Findings) {
    let mut words = Vec::new();
    let mut is_code = false;
    for &(number, line) in paragraph {
        for (place, part) in line.split('`').enumerate() {
            is_code ^= place > 0;
            if !is_code {
                let found =
                    part.split(|letter| !is_of_word(letter)).filter(|word| !word.is_empty());
                words.extend(found.map(|word| (number, line, word.to_lowercase())));
            }
        }
    }
    let mut last = 0;
    for (place, (number, line, word)) in words.iter().enumerate() {
        let before = place.checked_sub(1).map_or("", |place| words[place].2.as_str());
        let after = words.get(place + 1).map_or("", |(_, _, word)| word.as_str());
        let is_of_people = match word.as_str() {
            "who" | "whom" => PEOPLE.contains(&before),
            "anyone" | "everyone" => after == "who",
            _ => false,
        };
        if is_person(word) && !is_of_people && *number != last {
            let text = format!("{word:?}: {}", line.trim());
            findings.list.push(source.finding(Rule::Person, *number, 1, text));
            last = *number;
        }
    }
}

fn is_person(word: &str) -> bool {
    PERSONS.contains(&word.trim_end_matches("'s"))
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '\''
}

/// True if a line has a word, such as an address, that cannot be wrapped.
fn has_long_word(line: &str) -> bool {
    line.split_whitespace().any(|word| word.chars().count() > COLUMNS - 20)
}

/// A comment without its text in backticks.
fn prose(text: &str) -> String {
    text.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn words(source: &Source, line: usize, text: &str, findings: &mut Findings) {
    let lower = prose(text).to_lowercase();
    for word in lower.split(|letter| !is_of_word(letter)) {
        if is_person(word) {
            let text = format!("{word:?}: {}", text.trim());
            findings.list.push(source.finding(Rule::Person, line, 1, text));
            return;
        }
    }
}

/// Checks paths to Markdown files, in links and in text.
fn documents(root: &Path, source: &Source, line: usize, text: &str, findings: &mut Findings) {
    let is_part = |letter: char| letter.is_alphanumeric() || "_-./".contains(letter);
    for word in text.split(|letter| !is_part(letter)) {
        let word = word.trim_end_matches('.');
        let is_cited = word.ends_with(".md") && word.len() > 3;
        let is_address = text.contains(&format!("//{word}"));
        if !is_cited || is_address || word.starts_with('/') {
            continue;
        }
        let folder = Path::new(&source.file).parent().unwrap_or(Path::new(""));
        let places = [root.join(word), root.join(folder).join(word), root.join("docs").join(word)];
        if !places.iter().any(|place| place.exists()) {
            let text = format!("{word} is not in the repository");
            findings.list.push(source.finding(Rule::Document, line, 1, text));
        }
    }
}

/// Checks Rust files that Markdown cites: each must be the end of a path in the repository. Names
/// in capitals, such as `NAME.rs`, are placeholders, and `*_oracle.rs` stands for several files.
pub(crate) fn check_cited_sources(sources: &[Source], findings: &mut Findings) {
    let rust: Vec<String> =
        sources.iter().filter(|one| one.is_rust()).map(|one| format!("/{}", one.file)).collect();
    for source in sources.iter().filter(|source| !source.is_rust()) {
        for (number, line) in source.text.lines().enumerate() {
            let is_part = |letter: char| letter.is_alphanumeric() || "_-./".contains(letter);
            let words = line.split(|letter| !is_part(letter)).map(|word| word.trim_matches('.'));
            let cited = words.filter(|word| word.ends_with(".rs") && !word.contains("docs.rs"));
            for word in
                cited.filter(|word| !word.contains(char::is_uppercase) && !word.starts_with('_'))
            {
                let end = format!("/{}", word.trim_start_matches(['.', '/']));
                if end.len() > 4 && !rust.iter().any(|file| file.ends_with(&end)) {
                    let text = format!("{word} is not in the repository");
                    findings.list.push(source.finding(Rule::Document, number + 1, 1, text));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(file: &str, text: &str) -> Vec<(Rule, usize)> {
        let source = Source { file: file.into(), room: "a".into(), text: text.into() };
        let mut findings = Findings::default();
        check(Path::new(env!("CARGO_MANIFEST_DIR")), &source, &mut findings);
        findings.list.into_iter().map(|found| (found.rule, found.line)).collect()
    }

    #[test]
    fn persons_widths_and_missing_documents_are_found_in_comments() {
        let text = format!(
            "// Nobody asks.\n// `who` is a name.\nlet who = 1;\n// {}\n// docs/none.md, Cargo.toml\n",
            "word ".repeat(30)
        );
        let found = [(Rule::Person, 1), (Rule::Comment, 4), (Rule::Document, 5)];
        assert_eq!(of("crates/a/src/b.rs", &text), found);
    }

    #[test]
    fn source_files_that_markdown_cites_must_exist() {
        let file = |file: &str, text: &str| Source {
            file: file.into(),
            room: "a".into(),
            text: text.into(),
        };
        let page = "`a/src/b.rs`, `b.rs`, (b.rs).\n[c](../crates/a/src/b.rs), `NAME.rs`\n`c.rs`\n\
                    a/b.rs, https://docs.rs/x\n";
        let sources = [file("crates/a/src/b.rs", ""), file("docs/a.md", page)];
        let mut findings = Findings::default();
        check_cited_sources(&sources, &mut findings);
        let lines: Vec<usize> = findings.list.iter().map(|found| found.line).collect();
        assert_eq!(lines, [3, 4]);
    }

    #[test]
    fn software_as_a_person_is_found_in_markdown() {
        let text = "The thread, who sleeps.\n\nThe host\nwho polls.\n\n| a | Nobody asks |\n\n\
                    Anyone can forge it.\n\n- `a\n  who` is code, and he is not.\n";
        let lines = [1, 4, 6, 8, 11];
        assert_eq!(of("docs/a.md", text), lines.map(|line| (Rule::Person, line)));
    }

    #[test]
    fn people_and_code_are_no_persons_in_markdown() {
        let text = "An operator who reads, engineers\nwho write, anyone who asks.\n\n\
                    `who` and `--he` are code.\n\n```\nwho: he\n```\n\nThe whole theory.\n";
        assert_eq!(of("docs/a.md", text), []);
    }

    #[test]
    fn tables_and_code_may_be_wide_in_markdown() {
        let wide = "word ".repeat(30);
        let text = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n[a](gone.md)\n");
        assert_eq!(of("docs/a.md", &text), [(Rule::Markdown, 1), (Rule::Document, 6)]);
    }
}
