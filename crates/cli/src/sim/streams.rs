//! Output of `fairway sim` about streams.

use fairway_sim::{Report, Simulation};
use serde_json::{Value, json};

use super::results::{gbps, us};

/// Heading of a series of streams.
pub(super) const HEAD: &str = "seed,now_us,stream,rate_gbps,dequeue_gbps,window_bytes,\
                               flight_bytes,rtt_us,path_rtt_us,paths_usable\n";

/// Lines of a series of streams.
pub(super) struct StreamSeries {
    seed: u64,
    pub(super) lines: String,
    /// Time of the last lines, and each stream's bytes at that time.
    at: u64,
    bytes: Vec<u64>,
}

impl StreamSeries {
    pub(super) fn new(seed: u64) -> StreamSeries {
        StreamSeries { seed, lines: String::new(), at: 0, bytes: Vec::new() }
    }

    /// Adds a line for each stream, with the time `now`. Missing values are empty; values of paths
    /// are separated by semicolons.
    pub(super) fn sample(&mut self, simulation: &Simulation, now: u64) {
        let samples = simulation.streams();
        self.bytes.resize(samples.len(), 0);
        let span = (now - self.at) as f64;
        for (number, sample) in samples.iter().enumerate() {
            let rate = (sample.placed_bytes - self.bytes[number]) as f64 * 8e3 / span;
            self.bytes[number] = sample.placed_bytes;
            let dequeue = sample.dequeue_rate.map(|rate| format!("{:.4}", rate as f64 * 8e-9));
            let each = |text: &dyn Fn(&(u64, bool)) -> String| {
                sample.paths.iter().map(text).collect::<Vec<_>>().join(";")
            };
            self.lines.push_str(&format!(
                "{},{},{number},{rate:.4},{},{},{},{},{},{}\n",
                self.seed,
                us(now),
                dequeue.unwrap_or_default(),
                sample.window_bytes.0,
                sample.window_bytes.1,
                us(sample.round_trip_ps),
                each(&|path| us(path.0).to_string()),
                each(&|path| u8::from(path.1).to_string()),
            ));
        }
        self.at = now;
    }
}

/// Results of the streams, and of the schedulers that divided the NICs' bandwidth among them.
pub(super) fn value(report: &Report, line_megabits: u64) -> Value {
    // Sums are of rates over one time, because those of streams that do not run at the same time
    // would add up to more than the link carries.
    let span = report.streams_span_ps();
    let rates = report.streams.iter().map(|stream| stream.megabits_over(span));
    let rates: Vec<f64> = rates.collect();
    let each = report.streams.iter().map(|stream| {
        // No message completes in no time: without one, the quantiles are 0.
        let latency = |ps: u64| (stream.latency.max > 0).then(|| us(ps));
        json!({
            "source": stream.source,
            "destination": stream.destination,
            "verb": stream.verb.name(),
            "size": stream.bytes,
            "gbps": stream.megabits() / 1e3,
            "bytes": stream.placed_bytes,
            "p50_us": latency(stream.latency.p50),
            "p99_us": latency(stream.latency.p99),
            "p999_us": latency(stream.latency.p999),
            "max_us": latency(stream.latency.max),
        })
    });
    let control = &report.control;
    json!({
        "each": each.collect::<Vec<_>>(),
        "gbps": rates.iter().sum::<f64>() / 1e3,
        "jain": jain(&rates),
        "utilisation": utilisation(report, &rates, line_megabits),
        "control": {
            "collected": control.collected,
            "handled": control.handled,
            "early": control.early,
            "transmits": control.transmits,
            "bytes": control.bytes,
            "bytes_per_event": control.bytes as f64 / control.transmits.max(1) as f64,
            "busy_us": us(control.busy_ps),
        },
    })
}

/// Jain's index: 1 if all rates are equal, 1/n if one stream has everything. `None` if nothing
/// moved.
fn jain(rates: &[f64]) -> Option<f64> {
    let (sum, squares) =
        rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// Share of its link that the payload of streams takes at the host with the highest load, in either
/// direction.
fn utilisation(report: &Report, rates: &[f64], line_megabits: u64) -> f64 {
    let mut hosts = std::collections::BTreeMap::new();
    for (stream, rate) in report.streams.iter().zip(rates) {
        *hosts.entry((stream.source, true)).or_insert(0.0) += rate;
        *hosts.entry((stream.destination, false)).or_insert(0.0) += rate;
    }
    hosts.into_values().fold(0.0, f64::max) / line_megabits as f64
}

/// The results as text.
pub(super) fn text(run: &Value, streams: &Value) -> String {
    let mut text = format!(
        "seed {}: {} streams, {} Gb/s together, Jain {}, utilisation {:.3}\n",
        run["seed"],
        streams["each"].as_array().map_or(0, Vec::len),
        gbps(&streams["gbps"]),
        streams["jain"].as_f64().map_or(String::from("-"), |jain| format!("{jain:.3}")),
        streams["utilisation"].as_f64().unwrap_or(0.0),
    );
    for (number, stream) in streams["each"].as_array().into_iter().flatten().enumerate().take(16) {
        let time = |name: &str| {
            stream[name].as_f64().map_or(String::from("-"), |time| format!("{time:.2}"))
        };
        text += &format!(
            "  {number:>4}: {}-{} {:>8} B {:>9} Gb/s, {:>9} us median, {:>9} p99\n",
            stream["source"],
            stream["destination"],
            stream["size"],
            gbps(&stream["gbps"]),
            time("p50_us"),
            time("p99_us"),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_between_one_and_an_nth() {
        assert_eq!(jain(&[5.0; 4]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[1.0, 3.0]).expect("a value") - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[0.0; 3]), None, "nothing moved");
    }
}
