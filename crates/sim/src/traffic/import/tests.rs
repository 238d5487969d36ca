//! Small inputs of each format, written from its description.

mod chakra;
mod goal;
mod mutated;
mod nccl;

use super::{Format, ImportError, Input, Traced, read_trace};
use crate::traffic::{Flow, Operation, OperationKind};

/// Reads files with the given names and contents, whose format shows.
fn read(files: &[(&str, &[u8])]) -> Result<Traced, ImportError> {
    let inputs: Vec<Input<'_>> = files.iter().map(|(name, bytes)| Input { name, bytes }).collect();
    read_trace(&inputs, None)
}

/// Operations that have a name, of a trace that must be right.
fn operations(files: &[(&str, &[u8])]) -> Vec<Operation> {
    match read(files) {
        Ok(Traced::Operations(trace)) => {
            trace.operations.into_iter().filter(|one| !one.name.is_empty()).collect()
        }
        other => panic!("no operations: {other:?}"),
    }
}

/// Messages of a trace, and their bytes.
fn messages(files: &[(&str, &[u8])]) -> (usize, u64) {
    let (flows, _) = read(files).expect("a trace").flows(None).expect("flows");
    let messages = flows.iter().filter(|flow| !flow.is_step());
    (messages.clone().count(), messages.map(|flow| u64::from(flow.bytes)).sum())
}

/// The error of files that are wrong; it contains all `words`.
fn fails(files: &[(&str, &[u8])], words: &[&str]) {
    let error = read(files).expect_err("an error").to_string();
    for word in words {
        assert!(error.contains(word), "'{word}' is not in: {error}");
    }
}

/// True if a flow waits for another, directly or by way of others.
fn waits(flows: &[Flow], flow: usize, other: usize) -> bool {
    let mut open = vec![flow];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(one) = open.pop() {
        for after in &flows[one].after {
            if after.flow as usize == other {
                return true;
            }
            if seen.insert(after.flow) {
                open.push(after.flow as usize);
            }
        }
    }
    false
}

#[test]
fn format_shows_in_the_contents() {
    let of = |text: &str| Format::of(text.as_bytes());
    assert_eq!(of("ranks 2\nall-reduce all 1M\n"), Format::Fairway);
    assert_eq!(of("noise\nn1:1:1 [0] NCCL INFO Bootstrap\n"), Format::Nccl);
    assert_eq!(of("// a comment\n\nnum_ranks 2\n"), Format::Goal);
    assert_eq!(of("  { \"version\": \"0.0.4\" }"), Format::Chakra);
    assert_eq!(Format::of(b"\x07\x0a\x050.0.4"), Format::Chakra);
    assert_eq!(of(""), Format::Fairway);
    fails(&[], &["no file"]);
    fails(&[("mine.txt", b"ranks 2\nwork all 1M\n")], &["mine.txt", "line 2", "'work'"]);
    let two: [(&str, &[u8]); 2] = [("a", b"num_ranks 2\n"), ("b", b"")];
    fails(&two, &["2 files", "goal", "one file"]);
}

#[test]
fn chosen_format_is_used_whatever_the_contents_are() {
    let inputs = [Input { name: "a.txt", bytes: b"ranks 2\nall-reduce all 1M\n" }];
    for (name, format) in Format::NAMES {
        let outcome = read_trace(&inputs, Some(format));
        assert_eq!(outcome.is_ok(), name == "fairway", "{name}: {outcome:?}");
    }
}

#[test]
fn other_encodings_of_text_are_named() {
    let utf16: Vec<u8> = "ranks 2\n".bytes().flat_map(|byte| [byte, 0]).collect();
    fails(&[("a", &[&b"\xFF\xFE"[..], &utf16].concat())], &["a is text in UTF-16", "as UTF-8"]);
    let big: Vec<u8> = "ranks 2\n".bytes().flat_map(|byte| [0, byte]).collect();
    fails(&[("a", &[&b"\xFE\xFF"[..], &big].concat())], &["UTF-16"]);
    fails(&[("a", b"\xEF\xBB\xBFranks 2\nall-reduce all 1M\n")], &["byte order mark"]);
}
