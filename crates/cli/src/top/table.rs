//! Intervals as a text table.

use std::fmt::Write;

use serde_json::Value;

use super::rates::{Interval, Row};

/// Sort key of the rows, the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    #[default]
    Rate,
    Rtt,
    Losses,
    Events,
    Number,
}

impl Sort {
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Rate => Sort::Rtt,
            Sort::Rtt => Sort::Losses,
            Sort::Losses => Sort::Events,
            Sort::Events => Sort::Number,
            Sort::Number => Sort::Rate,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::Rtt => "round trip",
            Sort::Losses => "losses",
            Sort::Events => "events",
            Sort::Number => "number",
        }
    }

    fn key(self, row: &Row) -> f64 {
        match self {
            Sort::Rate => row.gbps,
            Sort::Rtt => row.rtt_us,
            Sort::Losses => row.lost_per_s,
            Sort::Events => row.events_per_s,
            // The smallest number comes first.
            Sort::Number => -((row.tenant << 32 | row.flow) as f64),
        }
    }
}

/// Display options.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct View {
    pub(super) tenants: bool,
    pub(super) sort: Sort,
}

impl View {
    pub(super) fn text(&self, intervals: &[Interval]) -> String {
        let mut text = String::new();
        for interval in intervals {
            self.one(&mut text, interval);
        }
        text
    }

    fn one(&self, text: &mut String, interval: &Interval) {
        let Interval { pid, program, policy, .. } = interval;
        let _ = writeln!(
            text,
            "{program} {pid}: {:.3} Gb/s, {} flows, {:.0} resent/s, {policy}",
            interval.gbps(),
            interval.flows.len(),
            interval.resent_per_s
        );
        let _ = writeln!(
            text,
            "control: {:.0} events/s sent, {:.0} handled, {:.0} bytes per event; sorted by {}",
            interval.collected_per_s,
            interval.handled_per_s,
            interval.bytes_per_event,
            self.sort.name()
        );
        host(text, interval);
        if interval.flows.is_empty() {
            return text.push('\n');
        }
        let first = if self.tenants { "tenant   flows" } else { "flow tenant weight" };
        let _ = writeln!(
            text,
            "{first:>18} {:>9} {:>10} {:>9} {:>9} {:>8} {:>9} {:>8} {:>9}",
            "Gb/s", "dequeue", "packets/s", "rtt us", "lost/s", "paths", "events/s", "B/event"
        );
        let mut rows = if self.tenants { interval.tenants() } else { interval.flows.clone() };
        rows.sort_by(|a, b| self.sort.key(b).total_cmp(&self.sort.key(a)));
        for row in &rows {
            let first = match self.tenants {
                true => format!("{:>10} {:>7}", row.tenant, row.flows),
                false => {
                    let mark = if row.answers { "r" } else { "" };
                    format!("{:>4}{mark:1} {:>5} {:>6}", row.flow, row.tenant, row.weight)
                }
            };
            let _ = writeln!(
                text,
                "{first:>18} {:>9.3} {:>10} {:>9.0} {:>9.1} {:>8.0} {:>9} {:>8.0} {:>9.0}",
                row.gbps,
                row.dequeue_gbps.map_or("-".into(), |rate| format!("{rate:.3}")),
                row.packets_per_s,
                row.rtt_us,
                row.lost_per_s,
                format!("{}/{}", row.paths_used, row.paths),
                row.events_per_s,
                row.bytes_per_event
            );
        }
        text.push('\n');
    }
}

/// Adds the host's resources, if the program measures them; those that are short are in capitals.
fn host(text: &mut String, interval: &Interval) {
    let shares = interval.host().map(|(name, percent, is_short)| match is_short {
        true => format!("{} {percent:.0} %", name.to_uppercase()),
        false => format!("{name} {percent:.0} %"),
    });
    let shares: Vec<String> = shares.collect();
    if shares.is_empty() {
        return;
    }
    let slowed = match (&interval.host["peers_slowed"], &interval.host["transmit_slowed"]) {
        (Value::Bool(true), Value::Bool(true)) => "; peers and flows here are to slow down",
        (Value::Bool(true), _) => "; peers are to slow down",
        (_, Value::Bool(true)) => "; flows here are to slow down",
        _ => "",
    };
    let _ = writeln!(text, "host: {}{slowed}", shares.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(flow: u64, tenant: u64, gbps: f64) -> Row {
        Row { flow, tenant, gbps, flows: 1, weight: 1, ..Row::default() }
    }

    fn interval() -> Interval {
        Interval {
            pid: 7,
            program: "p".into(),
            policy: "cc=swift".into(),
            seconds: 1.0,
            collected_per_s: 0.0,
            handled_per_s: 0.0,
            bytes_per_event: 0.0,
            resent_per_s: 0.0,
            host: Value::Null,
            flows: vec![row(0, 1, 1.0), row(1, 2, 3.0), row(2, 1, 1.5)],
            peers: Vec::new(),
        }
    }

    /// The numbers in the first column.
    fn order(view: View) -> Vec<u64> {
        let text = view.text(&[interval()]);
        let rows = text.lines().skip(3).filter(|line| !line.is_empty());
        let first = rows.map(|line| line.split_whitespace().next().unwrap().parse().unwrap());
        first.collect()
    }

    #[test]
    fn rows_are_sorted_by_the_chosen_column() {
        assert_eq!(order(View::default()), [1, 2, 0]);
        assert_eq!(order(View { sort: Sort::Number, tenants: false }), [0, 2, 1]);
        assert_eq!(order(View { sort: Sort::Rate, tenants: true }), [2, 1]);
        let all = [Sort::Rate, Sort::Rtt, Sort::Losses, Sort::Events, Sort::Number];
        for (sort, next) in all.iter().zip(all.iter().cycle().skip(1)) {
            assert_eq!(sort.next(), *next);
        }
    }

    #[test]
    fn the_host_has_a_line_if_it_is_watched() {
        let share = |percent: u64, short: bool| json!({ "percent": percent, "short": short });
        let host = json!({
            "peers_slowed": true, "transmit_slowed": false,
            "cpu": share(61, true), "receive_queue": share(3, false),
        });
        let text = View::default().text(&[Interval { host, ..interval() }]);
        let line = text.lines().nth(2);
        assert_eq!(line, Some("host: CPU 61 %, receive-queue 3 %; peers are to slow down"));
        assert!(!View::default().text(&[interval()]).contains("host"));
    }

    #[test]
    fn columns_stand_below_their_names() {
        let text = View::default().text(&[interval()]);
        let widths: Vec<usize> = text.lines().skip(2).take(4).map(|l| l.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{widths:?}\n{text}");
        let tenants = View { tenants: true, sort: Sort::Rate }.text(&[interval()]);
        let widths: Vec<usize> =
            tenants.lines().skip(2).take(3).map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{widths:?}\n{tenants}");
    }
}
