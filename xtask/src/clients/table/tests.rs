use super::*;

fn row(provider: &'static str, name: &str, score: [u32; 3], reason: &str, runs: usize) -> Row {
    let [passed, refused, failed] = score;
    let score = Score { passed, refused, failed };
    let verdict = Verdict { score, reason: reason.to_owned(), refusals: Vec::new() };
    Row { client: "perftest", provider, name: name.to_owned(), verdict, runs, seconds: 1.0 }
}

fn rows() -> Vec<Row> {
    vec![
        row("roce", "a", [1, 0, 0], "", 1),
        row("roce", "b", [1, 0, 0], "", 2),
        row("roce", "c", [0, 1, 0], "not supported", 2),
        row("fairway", "a", [0, 0, 1], "no end", 2),
        row("fairway", "c", [0, 1, 0], "not supported", 2),
    ]
}

#[test]
fn the_summary_has_a_row_for_each_client_and_a_line_for_each_failure() {
    let gone = Absent {
        client: "fio",
        reason: "fio is not installed".to_owned(),
        install: "apt install fio".to_owned(),
    };
    let text = markdown(&rows(), &[gone]);
    for line in [
        "| client | roce | fairway |",
        "| perftest | 2 (1 not on the first run) / 1 / 0 | 0 / 1 / 1 |",
        "| fio | absent: fio is not installed (apt install fio) |",
        "| perftest: `a` | fairway | no end |",
        "| perftest: `c` | roce, fairway | not supported |",
        "* perftest: `b` (roce, run 2)",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn json_has_every_case() {
    let all = to_json(&rows(), &[]);
    assert_eq!(all["cases"].as_array().map(Vec::len), Some(5));
    assert_eq!(all["cases"][3]["result"], "fail");
    assert_eq!(all["cases"][1]["runs"], 2);
}

#[test]
fn reasons_of_suites_are_summed_over_their_cases() {
    let mut rows = rows();
    for (at, reason, count) in [(0, "no device", 2), (1, "no device", 3), (3, "too new", 4)] {
        rows[at].verdict.refusals.push((reason.to_owned(), count));
    }
    let text = markdown(&rows, &[]);
    for line in [
        "| refused by tests of | roce | fairway | reason |",
        "| perftest | 5 | 0 | no device |",
        "| perftest | 0 | 4 | too new |",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    for number in 0..20 {
        rows[4].verdict.refusals.push((format!("reason {number}"), 1));
    }
    let text = markdown(&rows, &[]);
    assert!(text.contains("| perftest | 0 | 11 | other reasons |"), "{text}");
}
