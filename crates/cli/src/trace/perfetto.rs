//! Traces as trace events ("Trace Event Format"), which ui.perfetto.dev and chrome://tracing open:
//! an array of objects, each with `ph` (its kind), `ts` in microseconds, `pid` and `tid`. A NIC is
//! a process, a channel a thread; what is decided and measured are counters, what happens now and
//! then are instants.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use fairway_softnic::{TraceEntry, TraceRecord};
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

/// What has been named, and what rates are made from.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    nodes: HashSet<u32>,
    channels: HashSet<(u32, u32)>,
    /// By node and flow: when it last told what it had sent, in picoseconds.
    sent_at: HashMap<(u32, u32), u64>,
}

/// Where an event belongs.
#[derive(Clone, Copy)]
struct Place {
    at: Time,
    node: u32,
    channel: u32,
}

impl Place {
    /// Numbers of processes and threads begin with 1.
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
        let mut tell =
            |ph: &str, name: &str, args: Value| write!(out, ",\n{}", place.event(ph, name, &args));
        if self.nodes.insert(node) {
            tell("M", "process_name", json!({ "name": format!("NIC {node}") }))?;
        }
        if self.channels.insert((node, record.channel)) {
            tell("M", "thread_name", json!({ "name": format!("channel {}", record.channel) }))?;
        }
        let channel = record.channel;
        match record.entry {
            TraceEntry::Ack { path, marked, in_flight, rtt, .. } => {
                tell("C", &format!("in flight, channel {channel}"), json!({ "bytes": in_flight }))?;
                if let Some(rtt) = rtt {
                    let us = rtt.as_ns() as f64 / 1e3;
                    tell("C", &format!("rtt, channel {channel} path {path}"), json!({ "us": us }))?;
                }
                if marked > 0 {
                    tell("i", "marked", json!({ "path": path, "packets": marked }))?;
                }
                Ok(())
            }
            TraceEntry::Loss { path, bytes, by_timeout } => {
                let name = if by_timeout { "time-out" } else { "loss" };
                tell("i", name, json!({ "path": path, "bytes": bytes }))
            }
            TraceEntry::Spurious { packets } => {
                tell("i", "spurious", json!({ "packets": packets }))
            }
            TraceEntry::Credit { bytes } => tell("i", "credit", json!({ "bytes": bytes })),
            TraceEntry::Window { bytes, pacing } => {
                tell("C", &format!("window, channel {channel}"), json!({ "bytes": bytes }))?;
                let Some(rate) = pacing else { return Ok(()) };
                let name = format!("pacing, channel {channel}");
                tell("C", &name, json!({ "gbps": gbps(rate) }))
            }
            TraceEntry::Path { path } => {
                tell("C", &format!("path, channel {channel}"), json!({ "path": path }))
            }
            TraceEntry::FlowBegan { flow, jetty, answers, share } => {
                self.sent_at.insert((node, flow.0), at.0);
                let args = json!({
                    "jetty": jetty.value(), "answers": answers,
                    "tenant": share.tenant, "weight": share.weight,
                });
                tell("i", &format!("flow {} begins", flow.0), args)
            }
            TraceEntry::FlowEnded { flow } => {
                tell("C", &format!("rate, flow {}", flow.0), json!({ "gbps": 0 }))?;
                tell("i", &format!("flow {} ends", flow.0), json!({}))
            }
            TraceEntry::Share { flow, share } => tell(
                "i",
                &format!("share of flow {}", flow.0),
                json!({ "tenant": share.tenant, "weight": share.weight }),
            ),
            TraceEntry::Hint { flow, value } => {
                tell("i", &format!("hint for flow {}", flow.0), json!({ "value": value }))
            }
            TraceEntry::Transmit { flow, bytes, .. } => {
                let before = self.sent_at.insert((node, flow.0), at.0);
                let span = at.0.saturating_sub(before.unwrap_or(at.0));
                if span == 0 {
                    return Ok(());
                }
                let gbps = f64::from(bytes) * 8e3 / span as f64;
                tell("C", &format!("rate, flow {}", flow.0), json!({ "gbps": gbps }))
            }
            TraceEntry::DequeueRate { flow, rate } => {
                let name = format!("dequeue rate, flow {}", flow.0);
                match rate {
                    Some(rate) => tell("C", &name, json!({ "gbps": gbps(rate) })),
                    None => tell("i", &name, json!({ "gbps": "unlimited" })),
                }
            }
        }
    }
}

/// From bytes per second.
fn gbps(rate: u64) -> f64 {
    rate as f64 * 8.0 / 1e9
}
