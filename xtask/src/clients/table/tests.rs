use super::*;

fn row(provider: &'static str, name: &str, score: [u32; 3], reason: &str, runs: usize) -> Row {
    let [passed, refused, failed] = score;
    let score = Score { passed, refused, failed };
    let verdict = Verdict { score, reason: reason.to_owned() };
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
