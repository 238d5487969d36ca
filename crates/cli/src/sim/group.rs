//! Results of the ranks of a collective operation.

use fairway_sim::{Group, Quantiles, Report};
use serde_json::{Value, json};

use super::results::us;

/// The first line of a file of calls.
pub(super) const HEAD: &str = "seed,rank,host,call,started_ps,ended_ps\n";

/// Mean time of a call, bus bandwidth, and the times at which ranks ended their last call; what is
/// missing is null.
pub(super) fn value(group: &Group, report: &Report) -> Value {
    let mean = report.ranks_done_ps.map(|end| end / u64::from(group.rounds));
    let ends = report.ranks.iter().map(|rank| rank.calls.last().and_then(|call| call.1));
    let ends: Vec<u64> = ends.flatten().collect();
    let have_all_ended = ends.len() == report.ranks.len();
    let (first, ends) = (ends.iter().copied().min(), Quantiles::of(ends));
    let of_all = |ps: u64| have_all_ended.then(|| us(ps));
    json!({
        "call_us": mean.map(us),
        "bus_gbytes_per_second": mean.map(|ps| group.bus_bandwidth(ps) as f64 / 1e9),
        "first_end_us": first.map(us),
        "median_end_us": of_all(ends.p50),
        "last_end_us": of_all(ends.max),
    })
}

/// The same as text.
pub(super) fn text(value: &Value) -> String {
    let Some(bandwidth) = value["bus_gbytes_per_second"].as_f64() else { return String::new() };
    let [call, first, median, last] =
        ["call_us", "first_end_us", "median_end_us", "last_end_us"].map(|name| &value[name]);
    format!(
        "  bus bandwidth {bandwidth:.2} GB/s, a call in {call} us; ranks ended at {first} us, \
         {median} median, {last} last\n"
    )
}

/// A line for each call of each rank.
pub(super) fn lines(report: &Report) -> String {
    let mut lines = String::new();
    for (rank, result) in report.ranks.iter().enumerate() {
        for (call, (started, ended)) in result.calls.iter().enumerate() {
            let ended = ended.map_or(String::new(), |ended| ended.to_string());
            let (seed, host, call) = (report.seed, result.host, call + 1);
            lines.push_str(&format!("{seed},{rank},{host},{call},{started},{ended}\n"));
        }
    }
    lines
}
