//! Results, in the format of perftest, or as JSON.

use serde_json::{Value, json};

use super::initiator::Measured;
use super::message::Packets;
use super::operation::Operation;
use super::order::OrderRequest;
use crate::paths::DeadPaths;
use crate::quantity::show_size;

/// One row of a measurement.
pub(super) struct Row {
    pub(super) operation: Operation,
    pub(super) size: u64,
    pub(super) mode: &'static str,
    pub(super) measured: Measured,
    pub(super) order: OrderRequest,
    /// Operations that did not arrive; non-zero only for unreliable ones.
    pub(super) lost: u64,
    pub(super) paths: u32,
    /// Number of different pairs of UDP ports among the paths of a channel.
    pub(super) port_pairs: u32,
    /// Number of channels of the connection: as many as both sides have engines.
    pub(super) channels: usize,
    /// Number of contexts of each side; all other values but sums are those of one.
    pub(super) contexts: u32,
    pub(super) mtu: u32,
    pub(super) depth: u32,
    pub(super) buffer_bytes: u64,
    /// Counters of both sides together, including the few packets that set up the row.
    pub(super) packets: Packets,
    pub(super) verified: u64,
    /// Way that this side's packets took.
    pub(super) datapath: &'static str,
    /// Paths of this side that are out of use at the end.
    pub(super) dead_paths: DeadPaths,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    min: u32,
    pub(super) p50: u32,
    mean: f64,
    pub(super) p99: u32,
    p999: u32,
    max: u32,
}

impl Summary {
    /// Summarises latencies, which it sorts.
    pub(super) fn of(times_ns: &mut [u32]) -> Self {
        times_ns.sort_unstable();
        let count = times_ns.len();
        let at = |thousandths: usize| {
            let index = (count * thousandths / 1000).min(count.saturating_sub(1));
            times_ns.get(index).copied().unwrap_or_default()
        };
        let total: u64 = times_ns.iter().map(|&ns| u64::from(ns)).sum();
        Summary {
            min: at(0),
            p50: at(500),
            mean: total as f64 / count.max(1) as f64,
            p99: at(990),
            p999: at(999),
            max: at(1000),
        }
    }
}

impl Row {
    /// This row and that of another context, which ran at the same time: what they have moved, in
    /// the time that gives the sum of their rates.
    pub(super) fn beside(self, other: Row) -> Row {
        let rate = |row: &Row| row.measured.iterations as f64 / row.measured.seconds;
        let iterations = self.measured.iterations + other.measured.iterations;
        let seconds = iterations as f64 / (rate(&self) + rate(&other));
        let measured = Measured { iterations, seconds, ..self.measured };
        Row {
            measured,
            lost: self.lost + other.lost,
            contexts: self.contexts + other.contexts,
            buffer_bytes: self.buffer_bytes + other.buffer_bytes,
            packets: self.packets.with(other.packets),
            verified: self.verified + other.verified,
            dead_paths: self.dead_paths.with(other.dead_paths),
            ..self
        }
    }

    fn gbps(&self) -> f64 {
        8.0 * self.size as f64 * self.mops() / 1e3
    }

    fn mops(&self) -> f64 {
        let Measured { iterations, seconds, .. } = self.measured;
        if seconds > 0.0 { iterations as f64 / seconds / 1e6 } else { 0.0 }
    }

    /// One JSON object.
    pub(super) fn json(&self) -> Value {
        let mut row = json!({
            "op": self.operation.name(),
            "mode": self.mode,
            "size": self.size,
            "iterations": self.measured.iterations,
            "seconds": self.measured.seconds,
            "gbps": self.gbps(),
            "mops": self.mops(),
            "paths": self.paths,
            "port_pairs": self.port_pairs,
            "channels": self.channels,
            "contexts": self.contexts,
            "mtu": self.mtu,
            "depth": self.depth,
            "buffer_bytes": self.buffer_bytes,
            "packets_sent": self.packets.sent,
            "packets_resent": self.packets.resent,
            "packets_duplicate": self.packets.duplicate,
            "acks_sent": self.packets.acks,
            "packets_without_address": self.packets.continuation_packets,
            "header_bytes_saved": self.packets.saved_bytes,
            "verified": self.verified,
            "order": self.order.mode_name(),
            "tag": self.order.tag_name(),
            "fence": self.order.has_fence(),
            "lost": self.lost,
            "gated": self.packets.gated,
            "gates_passed": self.packets.gates_passed,
            "held": self.packets.held,
            "sent_back": self.packets.sent_back,
            "datapath": self.datapath,
            "paths_dead": self.dead_paths.json(),
        });
        if let Some(summary) = self.measured.latency {
            let us = |ns: u32| f64::from(ns) / 1e3;
            row["latency_us"] = json!({
                "min": us(summary.min),
                "p50": us(summary.p50),
                "avg": summary.mean / 1e3,
                "p99": us(summary.p99),
                "p999": us(summary.p999),
                "max": us(summary.max),
            });
        }
        row
    }

    /// Heading with the values that all rows share, and the names of the columns.
    pub(super) fn heading(&self, policy: &str, both_sides_here: bool) -> String {
        let Row { operation, mode, datapath, paths, channels, mtu, .. } = self;
        let Row { depth, buffer_bytes, order, contexts, .. } = self;
        let what = match (*mode, operation) {
            ("bandwidth", _) => "bandwidth",
            ("ping-pong", _) => "latency: half the time to the peer's application and back",
            _ if order.is_unreliable() => "latency: from posting to sent",
            (_, operation) if operation.fetches() || operation.is_atomic() => {
                "latency: from posting to the data being here"
            }
            _ => "latency: from posting to placed and acknowledged",
        };
        let place = if both_sides_here { "both sides on this machine" } else { "remote server" };
        let mut text = format!(
            "---------------------------------------------------------------------------------\n \
             fairway perf {} ({what}), {place}, by {datapath}\n \
             {}paths {paths}, channels {channels}, packets of {mtu} bytes, depth {depth}, buffer {} per side, {policy}\n \
             order {}, tag {}{}\n\
             ---------------------------------------------------------------------------------\n",
            operation.name(),
            if *contexts == 1 { String::new() } else { format!("contexts {contexts}, each: ") },
            show_size(*buffer_bytes),
            order.mode_name(),
            order.tag_name(),
            if order.has_fence() { ", fenced" } else { "" },
        );
        text += &match self.measured.latency {
            None => format!(
                " {:<10} {:<12} {:>18} {:>14} {:>10} {:>11}\n",
                "#bytes",
                "#iterations",
                "BW average[Gb/s]",
                "MsgRate[Mpps]",
                if order.is_unreliable() { "lost" } else { "resent" },
                "verified"
            ),
            Some(_) => format!(
                " {:<8} {:<11} {:>11} {:>15} {:>11} {:>11} {:>9} {:>10} {:>9}\n",
                "#bytes",
                "#iterations",
                "t_min[us]",
                "t_typical[us]",
                "t_avg[us]",
                "t_max[us]",
                "99%[us]",
                "99.9%[us]",
                "verified"
            ),
        };
        text
    }

    /// The row as text.
    pub(super) fn line(&self) -> String {
        let (size, iterations) = (self.size, self.measured.iterations);
        let verified = format!("{:.1}M", self.verified as f64 / 1e6);
        match self.measured.latency {
            None => format!(
                " {size:<10} {iterations:<12} {:>18.2} {:>14.6} {:>10} {verified:>11}\n",
                self.gbps(),
                self.mops(),
                if self.order.is_unreliable() { self.lost } else { self.packets.resent },
            ),
            Some(Summary { min, p50, mean, p99, p999, max }) => {
                let us = |ns: u32| format!("{:.2}", f64::from(ns) / 1e3);
                format!(
                    " {size:<8} {iterations:<11} {:>11} {:>15} {:>11.2} {:>11} {:>9} {:>10} \
                     {verified:>9}\n",
                    us(min),
                    us(p50),
                    mean / 1e3,
                    us(max),
                    us(p99),
                    us(p999),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let mut times: Vec<u32> = (1..=1000).rev().collect();
        let Summary { min, p50, mean, p99, p999, max } = Summary::of(&mut times);
        assert_eq!((min, p50, p99, p999, max), (1, 501, 991, 1000, 1000));
        assert!((mean - 500.5).abs() < 1e-9);
        assert_eq!(Summary::of(&mut []).max, 0);
    }
}
