//! The goals that Fairway is held to, and whether a place's results meet them.

use super::Row;
use super::measure::Sample;
use super::subject::{
    ANYWHERE, Between, Carrier, Library, Native, Over, Perftest, Quantity, Subject,
};
use crate::bench::table::{Budget, Spread};

/// Number with which a goal compares a measurement.
#[derive(Clone, Debug, PartialEq)]
enum Against {
    /// The best of these measurements.
    Best(Vec<Subject>),
    /// The least CPU time of these measurements, with which that of ours is compared.
    LeastCpu(Vec<Subject>),
    /// None: the budget is for the measurement's own value.
    Nothing,
    /// Its own typical value, with which its average is compared.
    Typical,
    /// None: the budget is for its 99.9th percentile.
    Tail,
}

/// A goal.
#[derive(Clone, Debug)]
pub struct Goal {
    ours: Subject,
    against: Against,
    pub budget: Budget,
}

/// A goal with its figures.
#[derive(Clone, Debug)]
pub struct Judged {
    /// What is judged, with its unit.
    pub what: String,
    pub ours: Option<Spread>,
    /// Name of the peer, and its figures.
    pub peer: Option<(String, Spread)>,
    /// Ratio, or the figure to which the budget applies; `None` if it can't be judged.
    pub figure: Option<f64>,
    /// Whether the figure is a ratio.
    pub is_ratio: bool,
    pub budget: Budget,
    pub verdict: String,
}

/// The peers of bulk transfers over TCP.
fn tcp() -> Vec<Subject> {
    vec![Subject::TcpStreams(1), Subject::TcpStreams(4)]
}

/// All goals between two sides.
pub fn goals(between: Between) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut add = |ours, against, budget| goals.push(Goal { ours, against, budget });
    let natives = |natives: &[Native]| -> Vec<Subject> {
        let carriers = || [Carrier::Fairway].into_iter().chain(between.carrier());
        let pairs = natives.iter().flat_map(|native| carriers().map(|carrier| (*native, carrier)));
        pairs.map(|(native, carrier)| Subject::Fairway(native, carrier)).collect()
    };
    let verbs = |programs: &[Perftest]| -> Vec<Subject> {
        let carriers = || between.verbs();
        let pairs =
            programs.iter().flat_map(|program| carriers().map(|carrier| (*program, carrier)));
        pairs.map(|(program, carrier)| Subject::Perftest(program, carrier)).collect()
    };
    let mut bulk = natives(&[Native::BulkMebibyte, Native::Bulk64K]);
    bulk.extend(verbs(&[Perftest::WriteMebibyte, Perftest::Write64K, Perftest::Send64K]));
    for ours in &bulk {
        add(*ours, Against::Best(tcp()), Budget::AtLeast(1.25));
        add(*ours, Against::Best(vec![Subject::UdpBlast]), Budget::AtLeast(0.8));
    }
    let libfabric = Subject::Library(Library::Libfabric, Quantity::Latency(64), Over::Tcp);
    let mut halves = natives(&[Native::SendHalf]);
    halves.extend(verbs(&[Perftest::SendLatency]));
    for ours in halves {
        add(ours, Against::Best(vec![Subject::UdpPing]), Budget::AtMost(1.15));
        add(ours, Against::Best(vec![libfabric]), Budget::AtMost(1.0));
    }
    for library in [Library::Ucx, Library::Libfabric, Library::Osu] {
        for quantity in library.quantities() {
            let budget = match quantity {
                Quantity::Latency(_) => Budget::AtMost(1.2),
                Quantity::Bandwidth(_) => Budget::AtLeast(1.0),
            };
            for carrier in ANYWHERE {
                let over = |over| Subject::Library(library, *quantity, over);
                add(over(Over::Verbs(carrier)), Against::Best(vec![over(Over::Tcp)]), budget);
            }
        }
    }
    for ours in verbs(&[Perftest::Write8]) {
        add(ours, Against::Nothing, Budget::AtLeast(3.0));
    }
    for ours in natives(&[Native::Write8, Native::Write64]) {
        add(ours, Against::Nothing, Budget::AtLeast(3.0));
    }
    for ours in verbs(&[Perftest::WriteLatency]) {
        add(ours, Against::Typical, Budget::AtMost(1.3));
        add(ours, Against::Tail, Budget::AtMost(100.0));
    }
    if between == Between::OneHost {
        let shared = |native| Subject::Fairway(native, Carrier::SharedMemory);
        add(shared(Native::SendHalf), Against::Nothing, Budget::AtMost(0.5));
        add(shared(Native::Write8), Against::Nothing, Budget::AtLeast(10.0));
        for ours in [Native::BulkMebibyte, Native::Bulk64K].map(shared) {
            add(ours, Against::Best(vec![Subject::Copy]), Budget::AtLeast(0.8));
        }
    }
    for ours in bulk {
        goals.push(Goal { ours, against: Against::LeastCpu(tcp()), budget: Budget::AtMost(1.0) });
    }
    goals
}

impl Goal {
    /// Judges the results of a place.
    pub fn judge(&self, rows: &[Row]) -> Judged {
        let (unit, cpu) = self.ours.unit().names();
        let own = |figure: &dyn Fn(&Sample) -> Option<f64>| spread(rows, self.ours, figure);
        let value = |sample: &Sample| Some(sample.value);
        let name = self.ours;
        let (what, ours, peer) = match &self.against {
            Against::Best(peers) => {
                let least = matches!(self.budget, Budget::AtMost(_));
                let peer = best(rows, peers, &value, least);
                (format!("{name}, {unit}"), own(&value), peer)
            }
            Against::LeastCpu(peers) => {
                let peer = best(rows, peers, &|sample| sample.cpu, true);
                (format!("{name}: {cpu}"), own(&|sample| sample.cpu), peer)
            }
            Against::Nothing => (format!("{name}, {unit}"), own(&value), None),
            Against::Typical => {
                let typical = own(&value).map(|spread| ("its typical value".to_owned(), spread));
                (format!("{name}: average, {unit}"), own(&|sample| sample.average_us), typical)
            }
            Against::Tail => {
                (format!("{name}: 99.9 %, {unit}"), own(&|sample| sample.tail_us), None)
            }
        };
        let is_ratio = !matches!(self.against, Against::Nothing | Against::Tail);
        let figure = match &self.against {
            // Both are of the same run, so the ratio is taken in each run.
            Against::Typical => {
                own(&|sample| Some(sample.average_us? / sample.value)).map(|ratio| ratio.median)
            }
            _ if is_ratio => {
                ours.zip(peer.as_ref()).map(|(ours, (_, peer))| ours.median / peer.median)
            }
            _ => ours.map(|ours| ours.median),
        };
        let verdict = match figure {
            Some(figure) if self.budget.is_met(figure) => "met".to_owned(),
            Some(_) => "missed".to_owned(),
            None => self.unjudged(rows, ours.is_some()),
        };
        Judged { what, ours, peer, figure, is_ratio, budget: self.budget, verdict }
    }

    /// Why there is no verdict.
    fn unjudged(&self, rows: &[Row], measured: bool) -> String {
        let failed = rows.iter().find(|row| row.subject == self.ours && !row.failures.is_empty());
        match failed {
            Some(_) if !measured => "missed: it failed".to_owned(),
            None if !measured => "not measured".to_owned(),
            _ => "no peer was measured".to_owned(),
        }
    }
}

/// The spread of a figure over all samples of a measurement.
fn spread(
    rows: &[Row],
    subject: Subject,
    figure: &dyn Fn(&Sample) -> Option<f64>,
) -> Option<Spread> {
    let row = rows.iter().find(|row| row.subject == subject)?;
    let figures: Vec<f64> = row.samples.iter().filter_map(figure).collect();
    Spread::of(&figures)
}

/// The peer with the least or the greatest median.
fn best(
    rows: &[Row],
    peers: &[Subject],
    figure: &dyn Fn(&Sample) -> Option<f64>,
    least: bool,
) -> Option<(String, Spread)> {
    let measured = peers.iter().filter_map(|peer| Some((peer, spread(rows, *peer, figure)?)));
    let sign = if least { 1.0 } else { -1.0 };
    let key = |spread: &Spread| spread.median * sign;
    let best = measured.min_by(|(_, one), (_, other)| key(one).total_cmp(&key(other)))?;
    Some((best.0.to_string(), best.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: Subject, samples: &[(f64, f64)]) -> Row {
        let sample = |&(value, cpu): &(f64, f64)| Sample {
            value,
            cpu: Some(cpu),
            average_us: Some(value * 1.2),
            tail_us: Some(90.0),
        };
        let samples = samples.iter().map(sample).collect();
        Row { subject, samples, failures: Vec::new() }
    }

    fn judge(ours: Subject, against: Against, budget: Budget, rows: &[Row]) -> Judged {
        Goal { ours, against, budget }.judge(rows)
    }

    const OURS: Subject = Subject::Fairway(Native::Bulk64K, Carrier::Fairway);

    #[test]
    fn goal_is_judged_against_the_best_peer() {
        let rows = [
            row(OURS, &[(12.0, 1.0), (13.0, 1.0)]),
            row(Subject::TcpStreams(1), &[(8.0, 0.5)]),
            row(Subject::TcpStreams(4), &[(10.0, 0.9)]),
        ];
        let judged = judge(OURS, Against::Best(tcp()), Budget::AtLeast(1.25), &rows);
        assert_eq!((judged.figure, judged.verdict.as_str()), (Some(1.25), "met"));
        assert_eq!(judged.peer.expect("a peer").0, "kernel TCP, 4 streams");
        let judged = judge(OURS, Against::LeastCpu(tcp()), Budget::AtMost(1.0), &rows);
        assert_eq!((judged.figure, judged.verdict.as_str()), (Some(2.0), "missed"));
        let judged = judge(OURS, Against::Best(tcp()), Budget::AtMost(1.2), &rows);
        assert_eq!((judged.figure, judged.verdict.as_str()), (Some(12.5 / 8.0), "missed"));
    }

    #[test]
    fn average_and_tail_are_judged_within_the_measurement() {
        let ours = Subject::Perftest(Perftest::WriteLatency, Carrier::Roce);
        let rows = [row(ours, &[(10.0, 1.0), (100.0, 1.0)])];
        let judged = judge(ours, Against::Typical, Budget::AtMost(1.3), &rows);
        assert!((judged.figure.expect("a ratio") - 1.2).abs() < 1e-9);
        let judged = judge(ours, Against::Tail, Budget::AtMost(100.0), &rows);
        assert_eq!((judged.figure, judged.verdict.as_str()), (Some(90.0), "met"));
    }

    #[test]
    fn goal_without_figures_is_not_met() {
        let peer = Subject::UdpBlast;
        let against = || Against::Best(vec![peer]);
        let verdict = |rows: &[Row]| judge(OURS, against(), Budget::AtLeast(0.8), rows).verdict;
        assert_eq!(verdict(&[row(peer, &[(1.0, 1.0)])]), "not measured");
        assert_eq!(verdict(&[row(OURS, &[(1.0, 1.0)])]), "no peer was measured");
        let failed = Row { failures: vec!["no peer".to_owned()], ..row(OURS, &[]) };
        assert_eq!(verdict(&[failed]), "missed: it failed");
    }

    #[test]
    fn goals_are_of_measurements_that_are_taken() {
        for between in [Between::OneHost, Between::OneNetwork, Between::Several] {
            let all = Subject::all(between);
            for goal in goals(between) {
                assert!(all.contains(&goal.ours), "{:?}", goal.ours);
                if let Against::Best(peers) | Against::LeastCpu(peers) = &goal.against {
                    assert!(peers.iter().all(|peer| all.contains(peer)), "{peers:?}");
                }
            }
        }
    }
}
