//! Fairway beside the programs that its users would otherwise take: kernel TCP, raw UDP, iperf3,
//! and UCX, libfabric and Open MPI over their own transports and over Fairway's verbs; each with
//! the CPU time that it costs.
//!
//! All measurements of a place take turns in rounds. A measurement that fails is a row with the
//! reason, and one whose program is not there is named.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use super::place::{LOOPBACK, PATHS, Place, VETH};
use super::table::Spread;
use super::transactions::Section;
use crate::programs::{check_signals, fairway};

mod goals;
mod interface;
mod measure;
mod pair;
mod parse;
mod programs;
mod subject;
mod table;
mod tools;

use goals::{Judged, goals};
use interface::Interfaces;
use measure::{Bench, Sample};
use pair::Runner;
use subject::{Between, Subject};
use tools::Tools;

/// Time limit of a measurement, in addition to its duration.
const LIMIT: Duration = Duration::from_secs(60);
/// Failures after which a measurement that has never succeeded is not tried again.
const FAILURES_MAX: usize = 2;
/// Most rounds with `--until-spread`, as a multiple of `--repeats`.
const MORE_ROUNDS: usize = 3;

/// The options of this part, for error messages.
pub const OPTIONS: &str = "--iperf3, --ucx, --fabtests, --osu or --until-spread";

/// Selected places, and paths of programs.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The only place; all that are possible if `None`.
    pub place: Option<String>,
    pub iperf3: Option<PathBuf>,
    /// Path of `ucx_perftest`.
    pub ucx: Option<PathBuf>,
    /// Folder with libfabric's `fi_rdm_pingpong` and `fi_rma_bw`.
    pub fabtests: Option<PathBuf>,
    /// Folder with the OSU micro-benchmarks.
    pub osu: Option<PathBuf>,
    /// Largest half range of the middle half of a row's samples, in percent of the median, with
    /// which the rounds end.
    until_spread: Option<f64>,
    repeats: usize,
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            place: None,
            iperf3: None,
            ucx: None,
            fabtests: None,
            osu: None,
            until_spread: None,
            repeats: table::CONFIDENT,
        }
    }
}

impl Choice {
    /// Sets an option of this part. `Ok(false)` if it is not one of them.
    ///
    /// # Errors
    /// The value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> io::Result<bool> {
        let path = Some(PathBuf::from(value));
        match name {
            "--iperf3" => self.iperf3 = path,
            "--ucx" => self.ucx = path,
            "--fabtests" => self.fabtests = path,
            "--osu" => self.osu = path,
            "--until-spread" => {
                let percent = value.parse().ok().filter(|percent| (0.1..=100.0).contains(percent));
                let percent = percent.ok_or_else(|| super::wrong(value, "give 0.1 to 100 percent"));
                self.until_spread = Some(percent?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets the number of rounds and the place, if the user has given them.
    pub fn take(&mut self, repeats: Option<usize>, place: Option<&String>) {
        self.repeats = repeats.unwrap_or(self.repeats);
        self.place = place.cloned();
    }
}

/// Results of a measurement.
#[derive(Clone, Debug)]
pub struct Row {
    pub subject: Subject,
    pub samples: Vec<Sample>,
    /// Reasons of failed runs.
    pub failures: Vec<String>,
}

impl Row {
    fn values(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.value).collect()
    }

    /// Half of the range of the middle half, in percent of the median; 0 without samples.
    fn half_range_percent(&self) -> f64 {
        let mut values = self.values();
        values.sort_by(f64::total_cmp);
        let Some(spread) = Spread::of(&values) else { return 0.0 };
        let quartile = |quarters: f64| {
            let at = (values.len() - 1) as f64 * quarters / 4.0;
            let below = values[at.floor() as usize];
            below + (values[at.ceil() as usize] - below) * at.fract()
        };
        (quartile(3.0) - quartile(1.0)) / 2.0 / spread.median * 100.0
    }
}

/// Results of a place.
pub struct Results {
    pub place: &'static str,
    pub rounds: usize,
    pub rows: Vec<Row>,
    /// What was not measured, and why.
    pub absent: Vec<(String, String)>,
    /// The percentage of `--until-spread`, and whether it was reached.
    pub until_spread: Option<(f64, bool)>,
    ping_pongs: BTreeSet<Subject>,
}

impl Results {
    /// The goals of the place with their verdicts, without those of programs that are not there.
    fn judged(&self) -> Vec<Judged> {
        goals(between(self.place))
            .iter()
            .map(|goal| goal.judge(&self.rows))
            .filter(|judged| judged.verdict != "not measured")
            .collect()
    }

    /// Whether the row's rate is that of a ping-pong.
    fn is_ping_pong(&self, row: &Row) -> bool {
        self.ping_pongs.contains(&row.subject)
    }
}

/// What the two sides of a place share.
fn between(place: &str) -> Between {
    match place {
        LOOPBACK => Between::OneHost,
        VETH => Between::OneNetwork,
        _ => Between::Several,
    }
}

/// Measures in all places that are selected and possible. After an interrupt the results so far are
/// returned.
pub fn run(choice: &Choice, duration: Duration) -> io::Result<Section> {
    let tools = Tools::find(choice)?;
    let tool = fairway()?;
    // Builds the verbs library first, so that the current sources are measured.
    crate::verbs::run_quietly()?;
    let (mut markdown, mut json) = (String::new(), Vec::new());
    for name in [LOOPBACK, VETH, PATHS] {
        if choice.place.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let skipped =
            choice.place.is_none() && name != LOOPBACK && !rustix::process::geteuid().is_root();
        let results = match skipped {
            true => Err(io::Error::other("it requires root")),
            false => {
                Place::make(name).and_then(|place| measure(choice, &tools, &tool, &place, duration))
            }
        };
        match results {
            Ok(results) => {
                markdown += &format!("{}\n", table::markdown(&results));
                json.push(table::to_json(&results));
            }
            Err(error) => {
                markdown += &format!("not measured: {name}: because {error}\n\n");
                json.push(json!({ "place": name, "because": error.to_string() }));
            }
        }
        if check_signals().is_err() {
            break;
        }
    }
    Ok(Section { name: "peers", markdown, json: json.into() })
}

/// The measurements of a place that can be taken, without results. What can't be taken is added to
/// `absent`, each reason once.
fn rows(
    tools: &Tools,
    place: &Place,
    interfaces: &Interfaces,
    absent: &mut Vec<(String, String)>,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for subject in Subject::all(between(place.name)) {
        match tools.absent(subject, place, interfaces) {
            Some(reason) if absent.contains(&reason) => {}
            Some(reason) => absent.push(reason),
            None => rows.push(Row { subject, samples: Vec::new(), failures: Vec::new() }),
        }
    }
    rows
}

/// Measures everything in a place, in rounds. Progress goes to standard error, a line a round.
fn measure(
    choice: &Choice,
    tools: &Tools,
    tool: &Path,
    place: &Place,
    duration: Duration,
) -> io::Result<Results> {
    let runner = Runner::new("peers", LIMIT + duration)?;
    let interfaces = Interfaces::find(tool, place)?;
    let mut absent = Vec::new();
    let mut rows = rows(tools, place, &interfaces, &mut absent);
    let bench =
        Bench { runner: &runner, tool: tool.to_owned(), tools, interfaces, place, duration };
    let (mut rounds, mut known) = (0, false);
    let rounds_max = choice.repeats * choice.until_spread.map_or(1, |_| MORE_ROUNDS);
    while rounds < rounds_max && !(rounds >= choice.repeats && known) {
        let begun = Instant::now();
        let Some(failed) = round(&bench, &mut rows) else { break };
        rounds += 1;
        let widest = rows.iter().map(Row::half_range_percent).fold(0.0, f64::max);
        known = rounds > 1 && choice.until_spread.is_some_and(|percent| widest <= percent);
        // One sample has no spread.
        let widest =
            if rounds > 1 { format!("; widest row: ± {widest:.0} %") } else { String::new() };
        eprintln!(
            "peers, {}: round {rounds} of {}{rounds_max}: {} measurements, {failed} failed, \
             {:.0} s{widest}",
            place.name,
            if rounds_max > choice.repeats { "at most " } else { "" },
            rows.len(),
            begun.elapsed().as_secs_f64(),
        );
    }
    let until_spread = choice.until_spread.map(|percent| (percent, known));
    let ping_pongs = rows.iter().map(|row| row.subject).filter(|row| tools.is_ping_pong(*row));
    let ping_pongs = ping_pongs.collect();
    Ok(Results { place: place.name, rounds, rows, absent, until_spread, ping_pongs })
}

/// Runs each measurement once. Returns the number of those that failed; `None` after an interrupt.
fn round(bench: &Bench<'_>, rows: &mut [Row]) -> Option<usize> {
    let mut failed = 0;
    for row in rows {
        if row.samples.is_empty() && row.failures.len() >= FAILURES_MAX {
            failed += 1;
            continue;
        }
        let outcome = bench.sample(row.subject);
        check_signals().ok()?;
        match outcome {
            Ok(sample) => row.samples.push(sample),
            Err(error) => {
                failed += 1;
                eprintln!("peers, {}: {}: {error}", bench.place.name, row.subject);
                row.failures.push(error.to_string());
            }
        }
    }
    Some(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_range_of_the_middle_half_leaves_extremes_out() {
        let sample = |value| Sample { value, ..Sample::default() };
        let samples = [10.0, 9.0, 11.0, 100.0, 0.1].map(sample).to_vec();
        let row = Row { subject: Subject::UdpBlast, samples, failures: Vec::new() };
        assert_eq!(row.half_range_percent(), 10.0);
        let row = Row { samples: Vec::new(), ..row };
        assert_eq!(row.half_range_percent(), 0.0);
    }

    #[test]
    fn options_of_the_part_are_set_and_checked() {
        let mut choice = Choice::default();
        assert!(choice.set("--until-spread", "5").expect("a percentage"));
        assert!(choice.set("--osu", "benchmarks").expect("a folder"));
        assert!(!choice.set("--rate", "5").expect("another part's option"));
        assert!(choice.set("--until-spread", "0").is_err());
        assert_eq!((choice.until_spread, choice.repeats), (Some(5.0), 6));
    }
}
