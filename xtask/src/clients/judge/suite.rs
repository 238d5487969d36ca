//! Suites that count their own tests: `unittest` of Python, GoogleTest, and the script of fabtests.

use std::path::Path;

use super::super::case::Proof;
use super::{Ended, Score, Verdict, complaint, last_line, shorten};
use crate::pyverbs;

/// Results that a suite reports.
#[derive(Default)]
struct Counted {
    score: Score,
    /// Names of tests that failed.
    failures: Vec<String>,
    /// Reasons for skipped tests, and the number for each.
    refusals: Vec<(String, u32)>,
}

impl Counted {
    fn refuse(&mut self, reason: &str) {
        let reason = shorten(reason);
        match self.refusals.iter_mut().find(|known| known.0 == reason) {
            Some(known) => known.1 += 1,
            None => self.refusals.push((reason, 1)),
        }
    }

    fn fail(&mut self, name: &str) {
        self.score.failed += 1;
        self.failures.push(name.to_owned());
    }
}

/// The verdict of a suite that counts its own tests; `None` for other programs.
pub fn suite(proof: &Proof, main: &Ended) -> Option<Verdict> {
    let counted = match proof {
        Proof::Unittest { ranks } => unittest(ranks.as_deref(), &main.text),
        Proof::GoogleTest => google_test(&main.text),
        Proof::Fabtests => fabtests(&main.text),
        _ => return None,
    };
    let Counted { mut score, failures, refusals } = counted;
    let mut reason = failures.join(", ");
    let crashed = main.finish.status().is_none() || main.signal().is_some();
    let unexplained = !main.finish.is_well() && score.failed == 0;
    if crashed || unexplained || score == Score::default() {
        score.failed += 1;
        let said = complaint(&main.text).or_else(|| last_line(&main.text)).unwrap_or("nothing");
        let how = match (crashed, unexplained) {
            (true, _) => "it did not end by itself",
            (false, true) => "it reported a failure, but of no test",
            (false, false) => "it counted no test",
        };
        let before = if reason.is_empty() { String::new() } else { format!("{reason}; ") };
        reason = format!("{before}{how}: {said}");
    }
    Some(Verdict { score, reason: shorten(&reason), refusals })
}

/// Counts the output of `unittest -v`: the first rank's results, and failures of the other ranks.
fn unittest(ranks: Option<&str>, text: &str) -> Counted {
    let mut texts = vec![text.to_owned()];
    if let Some(folder) = ranks {
        texts = rank_texts(Path::new(folder));
    }
    let mut total = Counted::default();
    for (rank, text) in texts.iter().enumerate() {
        let mut names = Vec::new();
        let counts = pyverbs::count(text, &mut names);
        let failed = counts.failed + u32::from(counts.crashed);
        if rank == 0 {
            total.score = Score { passed: counts.passed, refused: counts.skipped, failed };
            text.lines().filter_map(pyverbs::skip_reason).for_each(|reason| total.refuse(reason));
        } else {
            let fresh = failed.saturating_sub(total.score.failed);
            total.score.passed = total.score.passed.saturating_sub(fresh);
            total.score.failed += fresh;
        }
        if counts.crashed {
            names.push(format!("rank {rank} did not end"));
        }
        let short = |name: &String| name.split(' ').next().unwrap_or(name).to_owned();
        for name in names.iter().map(short) {
            if !total.failures.contains(&name) {
                total.failures.push(name);
            }
        }
    }
    total
}

/// Output of each rank of an Open MPI job, from the files of `--output-filename`.
pub fn rank_texts(folder: &Path) -> Vec<String> {
    (0..)
        .map(|rank| folder.join(format!("1/rank.{rank}/stderr")))
        .map_while(|file| std::fs::read(file).ok())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect()
}

/// Counts the output of GoogleTest. UCX reports a skipped test by `[     SKIP ]` and a reason, and
/// GoogleTest then by `OK`.
fn google_test(text: &str) -> Counted {
    let mut counted = Counted::default();
    let mut skipped = None;
    for line in text.lines() {
        // The list at the end repeats names of tests, without the time of each one.
        let timed = line.contains(" ms)");
        if line.starts_with("[ RUN      ]") {
            skipped = None;
        } else if let Some(reason) = line.strip_prefix("[     SKIP ]") {
            let reason = reason.trim();
            let inside = reason.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            skipped = Some(inside.unwrap_or(reason));
        } else if line.starts_with("[  FAILED  ]") && timed {
            let name = line.trim_start_matches("[  FAILED  ]").split_whitespace().next();
            counted.fail(name.unwrap_or("?").trim_end_matches(','));
        } else if line.starts_with("[       OK ]") && skipped.is_none() {
            counted.score.passed += 1;
        } else if line.starts_with("[       OK ]") || line.starts_with("[  SKIPPED ]") && timed {
            counted.score.refused += 1;
            counted.refuse(skipped.take().unwrap_or("no reason is given"));
        }
    }
    counted
}

/// Counts the output of the script of fabtests: as YAML, with `-v`, `- name: fi_x`, then `  result:
/// Pass`; otherwise `fi_x: Pass`. The programs' own output is indented further.
fn fabtests(text: &str) -> Counted {
    let mut counted = Counted::default();
    let mut name = "";
    for line in text.lines() {
        if let Some(test) = line.strip_prefix("- name:") {
            name = test.trim();
            continue;
        }
        let result = match line.strip_prefix("  result:") {
            Some(result) => result,
            None => match line.rsplit_once(':') {
                Some((test, result)) if test.starts_with("fi_") => {
                    name = test;
                    result
                }
                _ => continue,
            },
        };
        match result.trim() {
            "Pass" => counted.score.passed += 1,
            "Excluded" => {
                counted.score.refused += 1;
                counted.refuse("in libfabric's own list of tests that do not fit the provider");
            }
            "Notrun" => {
                counted.score.refused += 1;
                counted.refuse("libfabric says that the provider has no such function");
            }
            result if result.starts_with("Fail") => counted.fail(name),
            _ => {}
        }
    }
    counted
}
