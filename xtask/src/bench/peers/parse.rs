//! Reads the figures that other programs print.

use std::io;

use serde_json::Value;

/// A row of perftest's bandwidth programs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Number of messages in the measured time.
    pub iterations: f64,
    /// In the unit that the options choose: MB/s of 2^20 bytes, or Gb/s.
    pub average: f64,
    /// Millions of messages per second.
    pub mops: f64,
}

/// A row of perftest's latency programs, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    pub iterations: f64,
    pub typical: f64,
    pub average: f64,
    /// 99.9th percentile.
    pub tail: f64,
}

/// The last line that consists of `count` numbers at least.
fn last_row(text: &str, count: usize) -> io::Result<Vec<f64>> {
    let parse = |line: &str| -> Option<Vec<f64>> {
        let words = line.split_whitespace().map(|word| word.parse::<f64>().ok());
        words.collect::<Option<Vec<f64>>>().filter(|row| row.len() >= count)
    };
    text.lines().rev().find_map(parse).ok_or_else(|| {
        io::Error::other(format!("no row of {count} numbers; it printed last: {}", last_line(text)))
    })
}

/// The last line with text, shortened, as a reason for a failure.
pub fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| {
        // Lines of dashes say nothing.
        line.chars().any(char::is_alphanumeric)
    });
    let line: String = line.unwrap_or("nothing").replace('|', "/");
    if line.chars().count() > 100 {
        return line.chars().take(100).chain(['…']).collect();
    }
    line
}

/// The row of a bandwidth program of perftest.
///
/// # Errors
/// The text has no such row.
pub fn perftest_bandwidth(text: &str) -> io::Result<Bandwidth> {
    // #bytes #iterations peak average rate
    let row = last_row(text, 5)?;
    Ok(Bandwidth { iterations: row[1], average: row[3], mops: row[4] })
}

/// The row of a latency program of perftest.
///
/// # Errors
/// The text has no such row.
pub fn perftest_latency(text: &str) -> io::Result<Latency> {
    // #bytes #iterations min max typical average deviation 99 % 99.9 %
    let row = last_row(text, 9)?;
    Ok(Latency { iterations: row[1], typical: row[4], average: row[5], tail: row[8] })
}

/// The total of `ucx_perftest -f`: microseconds of a message at the median, and Gb/s.
///
/// # Errors
/// The text has no such row.
pub fn ucx(text: &str) -> io::Result<(f64, f64)> {
    // iterations, time: median, average, overall; MB/s of 2^20 bytes: average, overall; rate: two
    let row = last_row(text, 8)?;
    Ok((row[1], row[5] * 8.0 * 1.048_576e-3))
}

/// The row of libfabric's `fi_pingpong`, `fi_rdm_pingpong` and `fi_rma_bw`: microseconds of a
/// message, and Gb/s.
///
/// # Errors
/// The text has no such row.
pub fn libfabric(text: &str) -> io::Result<(f64, f64)> {
    // The second to the fourth column have letters and signs: bytes sent ack total time MB/sec
    // usec/xfer Mxfers/sec. fi_rma_bw has one column less.
    let is_row = |line: &&str| {
        let last = line.split_whitespace().next_back();
        let size = line.split_whitespace().next().and_then(|word| word.chars().next());
        size.is_some_and(|digit| digit.is_ascii_digit())
            && last.is_some_and(|word| word.parse::<f64>().is_ok())
    };
    let row = text.lines().rfind(is_row);
    let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    let column = |from_end: usize| {
        let word = words.len().checked_sub(from_end).and_then(|at| words.get(at));
        word.and_then(|word| word.parse::<f64>().ok()).filter(|_| words.len() >= 7)
    };
    let figures = column(2).zip(column(3));
    let figures = figures.ok_or_else(|| {
        io::Error::other(format!("no row of figures; it printed last: {}", last_line(text)))
    })?;
    Ok((figures.0, figures.1 * 8e-3))
}

/// The figure of an OSU micro-benchmark for messages of this size, in its own unit: microseconds,
/// or MB/s of 10^6 bytes.
///
/// # Errors
/// The text has no such row.
pub fn osu(text: &str, bytes: u64) -> io::Result<f64> {
    let figure = |line: &str| {
        let mut words = line.split_whitespace();
        let size: u64 = words.next()?.parse().ok()?;
        let value: f64 = words.next()?.parse().ok()?;
        (size == bytes).then_some(value)
    };
    text.lines().find_map(figure).ok_or_else(|| {
        io::Error::other(format!("no row of {bytes} bytes; it printed last: {}", last_line(text)))
    })
}

/// The receiver's Gb/s and bytes in the JSON of iperf3.
///
/// # Errors
/// The text is no such JSON, or reports an error.
pub fn iperf3(text: &str) -> io::Result<(f64, f64)> {
    let start = text.find('{').unwrap_or(0);
    let value: Value = serde_json::from_str(&text[start..])
        .map_err(|_| io::Error::other(format!("no JSON; it printed last: {}", last_line(text))))?;
    if let Some(error) = value["error"].as_str() {
        return Err(io::Error::other(error.to_owned()));
    }
    let received = &value["end"]["sum_received"];
    let figures = received["bits_per_second"].as_f64().zip(received["bytes"].as_f64());
    let (rate, bytes) = figures.ok_or_else(|| io::Error::other("no sum_received in the JSON"))?;
    Ok((rate / 1e9, bytes))
}

#[cfg(test)]
mod tests;
