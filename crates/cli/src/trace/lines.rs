//! Traces as JSON lines, one object for each record.

use std::io::{self, Write};

use fairway::{TraceEntry, TraceRecord};
use fairway_wire::Duration;
use serde_json::json;

use super::Time;

/// Version of the format in docs/trace.md.
const VERSION: u32 = 1;

pub(super) fn begin(out: &mut impl Write, policy: &str) -> io::Result<()> {
    writeln!(out, "{}", json!({ "event": "begin", "version": VERSION, "policy": policy }))
}

pub(super) fn end(out: &mut impl Write, records: u64, dropped: u64) -> io::Result<()> {
    writeln!(out, "{}", json!({ "event": "end", "records": records, "dropped": dropped }))
}

/// An optional number, printed as null if absent.
struct Maybe<T>(Option<T>);

impl<T: std::fmt::Display> std::fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// A round trip in microseconds.
fn us(rtt: Option<Duration>) -> Maybe<Time> {
    Maybe(rtt.map(|rtt| Time(rtt.as_ps())))
}

pub(super) fn write(
    out: &mut impl Write,
    at: Time,
    node: u32,
    record: &TraceRecord,
) -> io::Result<()> {
    let TraceRecord { channel, entry, .. } = record;
    write!(out, r#"{{"t_us":{at},"node":{node},"channel":{channel},"#)?;
    match entry {
        TraceEntry::Ack { path, packets, bytes, marked, in_flight, rtt } => write!(
            out,
            r#""event":"ack","path":{path},"packets":{packets},"bytes":{bytes},"marked":{marked},"in_flight":{in_flight},"rtt_us":{}"#,
            us(*rtt)
        ),
        TraceEntry::Loss { path, bytes, by_timeout } => {
            write!(out, r#""event":"loss","path":{path},"bytes":{bytes},"by_timeout":{by_timeout}"#)
        }
        TraceEntry::Spurious { packets } => {
            write!(out, r#""event":"spurious","packets":{packets}"#)
        }
        TraceEntry::Credit { bytes } => write!(out, r#""event":"credit","bytes":{bytes}"#),
        TraceEntry::Window { bytes, pacing } => write!(
            out,
            r#""event":"window","bytes":{bytes},"pacing_bytes_per_s":{}"#,
            Maybe(*pacing)
        ),
        TraceEntry::Path { path } => write!(out, r#""event":"path","path":{path}"#),
        TraceEntry::FlowBegan { flow, jetty, answers, share } => write!(
            out,
            r#""event":"flow","flow":{},"jetty":{},"answers":{answers},"tenant":{},"weight":{}"#,
            flow.0,
            jetty.value(),
            share.tenant,
            share.weight
        ),
        TraceEntry::FlowEnded { flow } => write!(out, r#""event":"flow_end","flow":{}"#, flow.0),
        TraceEntry::Share { flow, share } => write!(
            out,
            r#""event":"share","flow":{},"tenant":{},"weight":{},"tenant_weight":{}"#,
            flow.0, share.tenant, share.weight, share.tenant_weight
        ),
        TraceEntry::Hint { flow, value } => {
            write!(out, r#""event":"hint","flow":{},"value":{value}"#, flow.0)
        }
        TraceEntry::Transmit { flow, bytes, packets } => write!(
            out,
            r#""event":"transmit","flow":{},"bytes":{bytes},"packets":{packets}"#,
            flow.0
        ),
        TraceEntry::DequeueRate { flow, rate } => write!(
            out,
            r#""event":"dequeue_rate","flow":{},"bytes_per_s":{}"#,
            flow.0,
            Maybe(*rate)
        ),
    }?;
    out.write_all(b"}\n")
}
