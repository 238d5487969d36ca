//! Traces as trace events ("Trace Event Format"), which ui.perfetto.dev and chrome://tracing open:
//! an array of objects, each with `ph` (its kind), `ts` in microseconds, `pid` and `tid`. A NIC is
//! a process and a channel a thread; decisions and measurements are counters, occasional events are
//! instants.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use fairway::{TraceEntry, TraceRecord};
use serde_json::{Value, json};

use super::Time;

pub(super) fn begin(out: &mut impl Write, policy: &str) -> io::Result<()> {
    let about = json!({
        "name": "trace_config", "ph": "M", "ts": 0, "pid": 0, "tid": 0,
        "args": { "policy": policy },
    });
    write!(out, "[\n{about}")
}

pub(super) fn end(out: &mut impl Write, records: u64, dropped: u64) -> io::Result<()> {
    let summary = json!({
        "name": "trace_end", "ph": "M", "ts": 0, "pid": 0, "tid": 0,
        "args": { "records": records, "dropped": dropped },
    });
    write!(out, ",\n{summary}\n]\n")
}

/// Names written so far, and previous values from which rates are computed.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    nodes: HashSet<u32>,
    channels: HashSet<(u32, u32)>,
    /// Time of the last report of sent bytes, by node and flow, in picoseconds.
    sent_at: HashMap<(u32, u32), u64>,
}

/// Time, process and thread of an event.
#[derive(Clone, Copy)]
struct Place {
    at: Time,
    node: u32,
    channel: u32,
}

impl Place {
    fn write(self, out: &mut impl Write, ph: &str, name: &str, args: &Value) -> io::Result<()> {
        write!(out, ",\n{}", self.event(ph, name, args))
    }

    /// Formats an event. Process and thread numbers begin with 1.
    fn event(self, ph: &str, name: &str, args: &Value) -> String {
        let (at, pid, tid) = (self.at, self.node + 1, self.channel + 1);
        let scope = if ph == "i" { r#","s":"t""# } else { "" };
        let name = Value::from(name);
        format!(
            r#"{{"ph":"{ph}","name":{name},"ts":{at},"pid":{pid},"tid":{tid}{scope},"args":{args}}}"#
        )
    }
}

impl Tracks {
    pub(super) fn write(
        &mut self,
        out: &mut impl Write,
        at: Time,
        node: u32,
        record: &TraceRecord,
    ) -> io::Result<()> {
        let place = Place { at, node, channel: record.channel };
        if self.nodes.insert(node) {
            let args = json!({ "name": format!("NIC {node}") });
            place.write(out, "M", "process_name", &args)?;
        }
        if self.channels.insert((node, record.channel)) {
            let args = json!({ "name": format!("channel {}", record.channel) });
            place.write(out, "M", "thread_name", &args)?;
        }
        match record.entry {
            TraceEntry::Ack { .. }
            | TraceEntry::Loss { .. }
            | TraceEntry::Spurious { .. }
            | TraceEntry::Credit { .. }
            | TraceEntry::Window { .. }
            | TraceEntry::Path { .. } => write_channel(out, place, &record.entry),
            _ => self.write_flow(out, place, &record.entry),
        }
    }

    /// Writes an event of the NIC's scheduler, about one flow.
    fn write_flow(
        &mut self,
        out: &mut impl Write,
        place: Place,
        entry: &TraceEntry,
    ) -> io::Result<()> {
        let mut event = |ph: &str, name: &str, args: Value| place.write(out, ph, name, &args);
        match *entry {
            TraceEntry::FlowBegan { flow, jetty, answers, share } => {
                self.sent_at.insert((place.node, flow.0), place.at.0);
                let args = json!({
                    "jetty": jetty.value(), "answers": answers,
                    "tenant": share.tenant, "weight": share.weight,
                });
                event("i", &format!("flow {} begins", flow.0), args)
            }
            TraceEntry::FlowEnded { flow } => {
                event("C", &format!("rate, flow {}", flow.0), json!({ "gbps": 0 }))?;
                event("i", &format!("flow {} ends", flow.0), json!({}))
            }
            TraceEntry::Share { flow, share } => event(
                "i",
                &format!("share of flow {}", flow.0),
                json!({ "tenant": share.tenant, "weight": share.weight }),
            ),
            TraceEntry::Hint { flow, value } => {
                event("i", &format!("hint for flow {}", flow.0), json!({ "value": value }))
            }
            TraceEntry::Transmit { flow, bytes, .. } => {
                let before = self.sent_at.insert((place.node, flow.0), place.at.0);
                let span = place.at.0.saturating_sub(before.unwrap_or(place.at.0));
                if span == 0 {
                    return Ok(());
                }
                let gbps = f64::from(bytes) * 8e3 / span as f64;
                event("C", &format!("rate, flow {}", flow.0), json!({ "gbps": gbps }))
            }
            TraceEntry::DequeueRate { flow, rate } => {
                let name = format!("dequeue rate, flow {}", flow.0);
                match rate {
                    Some(rate) => event("C", &name, json!({ "gbps": gbps(rate) })),
                    None => event("i", &name, json!({ "gbps": "unlimited" })),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Writes an event of a channel's congestion controller, path selector or loss detector.
fn write_channel(out: &mut impl Write, place: Place, entry: &TraceEntry) -> io::Result<()> {
    let channel = place.channel;
    let mut event = |ph: &str, name: &str, args: Value| place.write(out, ph, name, &args);
    match *entry {
        TraceEntry::Ack { path, marked, in_flight, rtt, .. } => {
            event("C", &format!("in flight, channel {channel}"), json!({ "bytes": in_flight }))?;
            if let Some(rtt) = rtt {
                let us = rtt.as_ns() as f64 / 1e3;
                event("C", &format!("rtt, channel {channel} path {path}"), json!({ "us": us }))?;
            }
            if marked > 0 {
                event("i", "marked", json!({ "path": path, "packets": marked }))?;
            }
            Ok(())
        }
        TraceEntry::Loss { path, bytes, by_timeout } => {
            let name = if by_timeout { "time-out" } else { "loss" };
            event("i", name, json!({ "path": path, "bytes": bytes }))
        }
        TraceEntry::Spurious { packets } => event("i", "spurious", json!({ "packets": packets })),
        TraceEntry::Credit { bytes } => event("i", "credit", json!({ "bytes": bytes })),
        TraceEntry::Window { bytes, pacing } => {
            event("C", &format!("window, channel {channel}"), json!({ "bytes": bytes }))?;
            let Some(rate) = pacing else { return Ok(()) };
            event("C", &format!("pacing, channel {channel}"), json!({ "gbps": gbps(rate) }))
        }
        TraceEntry::Path { path } => {
            event("C", &format!("path, channel {channel}"), json!({ "path": path }))
        }
        _ => Ok(()),
    }
}

/// Converts bytes per second to Gbit/s.
fn gbps(rate: u64) -> f64 {
    rate as f64 * 8.0 / 1e9
}
