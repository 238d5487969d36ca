//! Rates between two samples of a context.

use std::collections::BTreeMap;

use fairway::HostResource;
use fairway::stats::Process;
use serde_json::{Value, json};

/// Statistics that a context reported.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    process: Process,
    value: Value,
}

/// Rates of a context in an interval.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) pid: u32,
    pub(super) program: String,
    pub(super) policy: String,
    pub(super) seconds: f64,
    /// Events per second that controllers were sent, and that they processed.
    pub(super) collected_per_s: f64,
    pub(super) handled_per_s: f64,
    /// Coalescing granularity of the scheduler, over the interval.
    pub(super) bytes_per_event: f64,
    pub(super) resent_per_s: f64,
    /// Resources that the peer's host reported as short; null if the host does not measure any.
    pub(super) host: Value,
    pub(super) flows: Vec<Row>,
    pub(super) peers: Vec<PeerRow>,
}

/// A flow, or all flows of a tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub(super) tenant: u64,
    pub(super) flows: u64,
    pub(super) flow: u64,
    pub(super) jetty: u64,
    pub(super) answers: bool,
    pub(super) weight: u64,
    pub(super) peer: Option<u64>,
    pub(super) gbps: f64,
    pub(super) packets_per_s: f64,
    /// `None`: no limit.
    pub(super) dequeue_gbps: Option<f64>,
    pub(super) waiting: u64,
    /// Round trip of the connection.
    pub(super) rtt_us: f64,
    pub(super) lost_per_s: f64,
    pub(super) paths_used: u64,
    pub(super) paths: u64,
    /// Runs of the scheduler per second.
    pub(super) events_per_s: f64,
    pub(super) bytes_per_event: f64,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PeerRow {
    pub(super) channel: u64,
    pub(super) address: String,
    pub(super) rtt_us: f64,
    pub(super) lost_per_s: f64,
    pub(super) marked_per_s: f64,
    pub(super) in_flight: u64,
    pub(super) window_bytes: u64,
    /// Packets per second of each path.
    pub(super) paths: Vec<f64>,
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_default()
}

fn count(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Text of another process, without control characters, which could move a terminal's cursor.
fn plain(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

impl Sample {
    /// `None` if the sample's version is unknown.
    pub(super) fn read(process: &Process, value: Value) -> Option<Sample> {
        let process = process.clone();
        (value["version"] == 1).then_some(Sample { process, value })
    }
}

/// The intervals of contexts that are in both samples.
pub(super) fn between(before: &[Sample], now: &[Sample]) -> Vec<Interval> {
    let pairs = now.iter().filter_map(|now| {
        let before = before.iter().find(|before| before.process == now.process)?;
        Some((before, now))
    });
    pairs.map(|(before, now)| interval(before, now)).collect()
}

fn interval(before: &Sample, now: &Sample) -> Interval {
    // The interval is measured by the context's own clock, because an answer may be late.
    let uptime = |sample: &Sample| number(&sample.value, "uptime_s");
    let seconds = (uptime(now) - uptime(before)).max(1e-6);
    let grown = |part: &str, name: &str| {
        (number(&now.value[part], name) - number(&before.value[part], name)).max(0.0)
    };
    let controller = |name: &str| (grown("scheduler", name) + grown("congestion", name)) / seconds;
    let peers: Vec<PeerRow> = items(&now.value, "peers")
        .iter()
        .map(|peer| {
            peer_row(find(&before.value, "peers", &["channel", "address"], peer), peer, seconds)
        })
        .collect();
    let flows = items(&now.value, "flows").iter().map(|flow| {
        let same = find(&before.value, "flows", &["jetty", "channel", "answers"], flow);
        (flow_row(same, flow, seconds), flow["flow"].is_u64())
    });
    // A flow that has ended is shown while it has sent something in the interval.
    let flows = flows.filter(|(row, is_present)| *is_present || row.packets_per_s > 0.0);
    let flows = flows.map(|(row, _)| {
        let peer = peers.iter().find(|peer| Some(peer.channel) == row.peer);
        peer.map_or(row.clone(), |peer| Row {
            rtt_us: peer.rtt_us,
            lost_per_s: peer.lost_per_s,
            paths: peer.paths.len() as u64,
            paths_used: peer.paths.iter().filter(|rate| **rate > 0.0).count() as u64,
            ..row
        })
    });
    Interval {
        pid: now.process.pid,
        program: plain(&now.value["program"]),
        policy: plain(&now.value["policy"]),
        seconds,
        collected_per_s: controller("collected"),
        handled_per_s: controller("handled"),
        bytes_per_event: grown("scheduler", "bytes") / grown("scheduler", "transmits").max(1.0),
        resent_per_s: grown("counters", "data_resent") / seconds,
        host: now.value["host"].clone(),
        flows: flows.collect(),
        peers,
    }
}

/// The item of `before` with the same values of these fields; null if the item is new.
fn find<'a>(before: &'a Value, list: &str, names: &[&str], item: &Value) -> &'a Value {
    let same = |other: &&Value| names.iter().all(|name| other[*name] == item[*name]);
    items(before, list).iter().find(same).unwrap_or(&Value::Null)
}

/// Increase of a counter per second. A counter that has become smaller has been restarted.
fn grown(before: &Value, now: &Value, name: &str, seconds: f64) -> f64 {
    let (before, now) = (number(before, name), number(now, name));
    (if now >= before { now - before } else { now }) / seconds
}

fn flow_row(before: &Value, now: &Value, seconds: f64) -> Row {
    let rate = |name: &str| grown(before, now, name, seconds);
    let (bytes, events) = (rate("bytes"), rate("events"));
    Row {
        tenant: count(now, "tenant"),
        flows: 1,
        flow: count(now, "flow"),
        jetty: count(now, "jetty"),
        answers: now["answers"] == true,
        weight: count(now, "weight"),
        peer: now["peer"].as_u64(),
        gbps: 8.0 * bytes / 1e9,
        packets_per_s: rate("packets"),
        dequeue_gbps: now["dequeue_bytes_per_s"].as_f64().map(|rate| 8.0 * rate / 1e9),
        waiting: count(now, "waiting"),
        events_per_s: events,
        bytes_per_event: if events > 0.0 { bytes / events } else { 0.0 },
        ..Row::default()
    }
}

fn peer_row(before: &Value, now: &Value, seconds: f64) -> PeerRow {
    let rate = |name: &str| grown(before, now, name, seconds);
    let paths = items(now, "paths").iter().enumerate();
    PeerRow {
        channel: count(now, "channel"),
        address: plain(&now["address"]),
        rtt_us: number(now, "rtt_us"),
        lost_per_s: rate("lost"),
        marked_per_s: rate("marked"),
        in_flight: count(now, "in_flight"),
        window_bytes: count(now, "window_bytes"),
        paths: paths.map(|(n, path)| grown(&before["paths"][n], path, "sent", seconds)).collect(),
    }
}

impl Interval {
    /// Resources of the peer's host: the name, the used share in percent, and whether the resource
    /// is short.
    pub(super) fn host(&self) -> impl Iterator<Item = (&'static str, f64, bool)> {
        HostResource::ALL.into_iter().filter_map(|resource| {
            let reading = self.host.get(resource.name().replace('-', "_"))?;
            Some((resource.name(), number(reading, "percent"), reading["short"] == true))
        })
    }

    pub(super) fn gbps(&self) -> f64 {
        // The sum of no values is -0.
        self.flows.iter().map(|flow| flow.gbps).sum::<f64>() + 0.0
    }

    /// A row for each tenant: rates are sums, the round trip is the longest, and losses are those
    /// of the connections that its flows use.
    pub(super) fn tenants(&self) -> Vec<Row> {
        let mut all: BTreeMap<u64, Vec<&Row>> = BTreeMap::new();
        for flow in &self.flows {
            all.entry(flow.tenant).or_default().push(flow);
        }
        all.into_iter().map(|(tenant, flows)| self.tenant(tenant, &flows)).collect()
    }

    fn tenant(&self, tenant: u64, flows: &[&Row]) -> Row {
        let sum = |of: fn(&Row) -> f64| flows.iter().map(|flow| of(flow)).sum::<f64>();
        let uses = |peer: &&PeerRow| flows.iter().any(|flow| flow.peer == Some(peer.channel));
        let peers = || self.peers.iter().filter(uses);
        let rates = flows.iter().map(|flow| flow.dequeue_gbps);
        let events = sum(|flow| flow.events_per_s);
        let bytes = sum(|flow| flow.gbps) * 1e9 / 8.0;
        Row {
            tenant,
            flows: flows.len() as u64,
            gbps: sum(|flow| flow.gbps),
            packets_per_s: sum(|flow| flow.packets_per_s),
            dequeue_gbps: rates.sum(),
            waiting: flows.iter().map(|flow| flow.waiting).sum(),
            rtt_us: peers().map(|peer| peer.rtt_us).fold(0.0, f64::max),
            lost_per_s: peers().map(|peer| peer.lost_per_s).sum(),
            paths: peers().map(|peer| peer.paths.len() as u64).sum(),
            paths_used: peers()
                .map(|peer| peer.paths.iter().filter(|rate| **rate > 0.0).count() as u64)
                .sum(),
            events_per_s: events,
            bytes_per_event: if events > 0.0 { bytes / events } else { 0.0 },
            ..Row::default()
        }
    }

    pub(super) fn json(&self) -> Value {
        let tenants: Vec<Value> = self.tenants().iter().map(tenant_json).collect();
        json!({
            "pid": self.pid,
            "program": self.program,
            "policy": self.policy,
            "seconds": self.seconds,
            "gbps": self.gbps(),
            "events_per_s": self.collected_per_s,
            "handled_per_s": self.handled_per_s,
            "bytes_per_event": self.bytes_per_event,
            "resent_per_s": self.resent_per_s,
            "host": self.host,
            "tenants": tenants,
            "flows": self.flows.iter().map(flow_json).collect::<Vec<_>>(),
            "peers": self.peers.iter().map(peer_json).collect::<Vec<_>>(),
        })
    }
}

fn tenant_json(row: &Row) -> Value {
    json!({
        "tenant": row.tenant,
        "flows": row.flows,
        "gbps": row.gbps,
        "packets_per_s": row.packets_per_s,
        "dequeue_gbps": row.dequeue_gbps,
        "waiting": row.waiting,
        "rtt_us": row.rtt_us,
        "lost_per_s": row.lost_per_s,
        "paths_used": row.paths_used,
        "paths": row.paths,
        "events_per_s": row.events_per_s,
        "bytes_per_event": row.bytes_per_event,
    })
}

fn flow_json(row: &Row) -> Value {
    let mut value = tenant_json(row);
    value["flow"] = row.flow.into();
    value["jetty"] = row.jetty.into();
    value["answers"] = row.answers.into();
    value["weight"] = row.weight.into();
    value["channel"] = row.peer.into();
    if let Value::Object(fields) = &mut value {
        fields.remove("flows");
    }
    value
}

fn peer_json(row: &PeerRow) -> Value {
    json!({
        "channel": row.channel,
        "address": row.address,
        "rtt_us": row.rtt_us,
        "lost_per_s": row.lost_per_s,
        "marked_per_s": row.marked_per_s,
        "in_flight": row.in_flight,
        "window_bytes": row.window_bytes,
        "path_packets_per_s": row.paths,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(uptime: f64, bytes: u64, events: u64, lost: u64) -> Sample {
        let path = |sent: u64| json!({ "rtt_us": 5.0, "sent": sent });
        let flow = |flow: u64, tenant: u64, rate: Value| {
            json!({ "flow": flow, "jetty": flow, "channel": 0, "peer": 0, "answers": false,
                    "tenant": tenant, "weight": 2, "bytes": bytes, "packets": bytes / 1000,
                    "waiting": 3, "dequeue_bytes_per_s": rate, "events": events })
        };
        let value = json!({
            "version": 1, "uptime_s": uptime, "program": "a\u{1b}[2Jb", "policy": "cc=swift",
            "scheduler": { "collected": 10 * events, "handled": events, "bytes": bytes,
                           "transmits": events },
            "congestion": null, "counters": { "data_resent": lost },
            "host": { "peers_slowed": false,
                      "transmit_queue": { "percent": 7, "threshold": 75, "short": false } },
            "peers": [{ "channel": 0, "address": "127.0.0.1:1", "rtt_us": 20.5, "lost": lost,
                        "paths": [path(bytes), path(7)] }],
            "flows": [flow(0, 1, json!(1_000_000)), flow(1, 1, json!(500_000)),
                      flow(2, 4, Value::Null)],
        });
        Sample { process: Process { pid: 9, context: 1 }, value }
    }

    #[test]
    fn rates_are_what_grew_by_time() {
        let (before, now) = (sample(5.0, 1000, 10, 0), sample(7.0, 251_000, 60, 4));
        let all = between(&[before], &[now]);
        let interval = &all[0];
        // Control characters do not reach the terminal.
        assert_eq!((interval.pid, interval.program.as_str()), (9, "a[2Jb"));
        assert_eq!(interval.host().collect::<Vec<_>>(), [("transmit-queue", 7.0, false)]);
        let flow = &interval.flows[0];
        assert!((flow.gbps - 0.001).abs() < 1e-12 && (flow.packets_per_s - 125.0).abs() < 1e-9);
        assert_eq!(flow.dequeue_gbps, Some(0.008));
        assert_eq!((flow.rtt_us, flow.lost_per_s), (20.5, 2.0));
        assert_eq!((flow.paths_used, flow.paths), (1, 2));
        assert_eq!((flow.events_per_s, flow.bytes_per_event), (25.0, 5000.0));
        assert_eq!((interval.collected_per_s, interval.bytes_per_event), (250.0, 5000.0));
        let tenants = interval.tenants();
        assert_eq!(
            tenants.iter().map(|row| (row.tenant, row.flows)).collect::<Vec<_>>(),
            [(1, 2), (4, 1)]
        );
        assert_eq!((tenants[0].dequeue_gbps, tenants[1].dequeue_gbps), (Some(0.012), None));
        assert_eq!((tenants[0].lost_per_s, tenants[0].waiting), (2.0, 6));
    }

    /// Its flow had ended before the first sample, and ends again before the second.
    #[test]
    fn program_that_pauses_has_the_rate_of_what_it_sent() {
        let paused = |uptime: f64, bytes: u64| {
            let mut sample = sample(uptime, bytes, 10, 0);
            for flow in sample.value["flows"].as_array_mut().unwrap() {
                flow["flow"] = Value::Null;
            }
            sample.value["flows"].as_array_mut().unwrap().truncate(1);
            sample
        };
        let (before, now) = (paused(5.0, 1000), paused(7.0, 251_000));
        let interval = &between(std::slice::from_ref(&before), &[now])[0];
        assert!((interval.gbps() - 0.001).abs() < 1e-12, "{}", interval.gbps());
        assert_eq!(interval.flows.len(), 1);
        // If it has sent nothing, it has no row.
        let later = Sample { process: before.process.clone(), ..paused(9.0, 1000) };
        assert_eq!(between(&[before], &[later])[0].flows.len(), 0);
    }

    #[test]
    fn new_or_restarted_counters_count_from_zero() {
        let now = sample(1.0, 1000, 1, 0);
        let packets = |before: Sample| {
            between(&[before], std::slice::from_ref(&now))[0].flows[0].packets_per_s
        };
        assert_eq!(packets(sample(0.0, 9_000_000, 10, 0)), 1.0);
        assert_eq!(packets(Sample { value: json!({ "version": 1 }), ..now.clone() }), 1.0);
        assert!(between(&[], std::slice::from_ref(&now)).is_empty());
    }
}
