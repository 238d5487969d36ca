use super::cases::{Expected, Manner, all};
use super::options::{Options, parse};
use super::run::{End, failure};
use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn parsed(text: &str) -> io::Result<Options> {
    let words: Vec<String> = text.split_whitespace().map(String::from).collect();
    parse(&words)
}

#[test]
fn options_are_read_or_refused() -> io::Result<()> {
    assert_eq!(parsed("")?, Options::default());
    let options = parsed("--only thread --front rvma --program peers --timeout 9")?;
    assert_eq!(options.sanitizers, [Sanitizer::Thread]);
    assert_eq!(options.fronts, [Front::Rvma]);
    assert_eq!(options.program.as_deref(), Some("peers"));
    assert_eq!(options.timeout, Duration::from_secs(9));
    for (wrong, part) in [
        ("--only memory", "choose address or thread"),
        ("--front python", "choose verbs or rvma"),
        ("--timeout 0", "choose 1 to 86400 seconds"),
        ("--timeout", "needs a value"),
        ("--loud", "there is no option --loud"),
    ] {
        let error = parsed(wrong).expect_err(wrong).to_string();
        assert!(error.contains(part), "{wrong}: {error}");
    }
    Ok(())
}

#[test]
fn cases_have_names_of_their_own_and_sources_that_exist() {
    let cases = all();
    let names: BTreeSet<String> = cases.iter().map(Case::name).collect();
    assert_eq!(names.len(), cases.len());
    for case in &cases {
        assert!(case.front.folder().join(case.source).is_file(), "{}", case.source);
        assert_eq!(case.manner == Manner::Pair, case.program() == "exchange");
    }
}

/// Files without a case: they are not separate programs, need MPI, need a peer on another host or
/// interfaces of their own, or go on in a child of a process with threads, which ThreadSanitizer
/// does not support.
#[test]
fn every_c_program_of_the_fronts_has_a_case() -> io::Result<()> {
    const NONE: &[&str] = &["listening", "requests", "ranks", "header", "scopes", "forked"];
    let cases = all();
    for front in Front::ALL {
        for entry in std::fs::read_dir(front.folder().join("tests/c"))? {
            let path = entry?.path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "c") && !NONE.contains(&&*stem)
            {
                let mut of_front = cases.iter().filter(|case| case.front == front);
                assert!(of_front.any(|case| case.program() == stem), "{}", path.display());
            }
        }
    }
    Ok(())
}

#[test]
fn a_report_fails_a_case_even_if_the_program_succeeds() {
    let report = "WARNING: ThreadSanitizer: data race (pid=7)\n\
                  SUMMARY: ThreadSanitizer: data race baton.rs:90 in touch\nall fine\n";
    let expected = Expected::Success("all fine");
    assert_eq!(failure(expected, &[End::Code(0)], "all fine\n"), None);
    let why = failure(expected, &[End::Code(0)], report).expect("a report");
    assert!(why.contains("data race baton.rs:90"), "{why}");
    let why = failure(expected, &[End::Code(99)], &report.repeat(3)).expect("reports");
    assert!(why.ends_with("(and 2 more reports)"), "{why}");
}

#[test]
fn an_injected_mistake_has_to_be_reported() {
    let expected = Expected::Report("heap-use-after-free");
    let report = "SUMMARY: AddressSanitizer: heap-use-after-free modify.rs:160 in ibv_modify_qp\n";
    assert_eq!(failure(expected, &[End::Code(99)], report), None);
    assert!(failure(expected, &[End::Code(0)], "").is_some());
    let other = report.replace("heap-use-after-free", "SEGV");
    assert!(failure(expected, &[End::Code(99)], &other).is_some());
}

#[test]
fn every_process_has_to_end_as_expected() {
    let fine = Expected::Success("");
    let why = |expected, ends: &[End]| failure(expected, ends, "").expect("it fails");
    assert_eq!(why(fine, &[End::Code(0), End::Code(1)]), "status 1");
    assert_eq!(why(fine, &[End::Signal(11)]), "ended by signal 11");
    assert_eq!(why(fine, &[End::TimedOut, End::Code(0)]), "it took too long");
    assert_eq!(
        why(Expected::Success("all fine"), &[End::Code(0)]),
        "no \"all fine\" in its output"
    );
    assert_eq!(failure(Expected::Terminated, &[End::Signal(libc::SIGTERM)], "ready\n"), None);
    assert_eq!(why(Expected::Terminated, &[End::Code(1)]), "status 1");
}

#[test]
fn the_table_has_a_line_for_each_case() {
    let row = |case: &str, sanitizer, failure: Option<&str>| Row {
        case: case.to_owned(),
        sanitizer,
        verdict: Verdict { failure: failure.map(str::to_owned), seconds: 1.25 },
    };
    let rows = [
        row("verbs loop roce", Sanitizer::Address, None),
        row("rvma injected buffer", Sanitizer::Address, None),
        row("verbs loop roce", Sanitizer::Thread, Some("status 1")),
    ];
    assert_eq!(
        table(&rows, &Sanitizer::ALL),
        "| program | address | thread |\n|---|---|---|\n\
         | verbs loop roce | passed, 1.2 s | FAILED: status 1 |\n\
         | rvma injected buffer | passed, 1.2 s | – |\n"
    );
}
