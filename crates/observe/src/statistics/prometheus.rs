//! Statistics in the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use super::{FlowEntry, PeerEntry, Stats};
use crate::HostSignals;

/// Description of a metric: its name, type and meaning.
type Metric = (&'static str, &'static str, &'static str);

impl Stats {
    /// Returns all metrics as text.
    pub fn to_prometheus(&self) -> String {
        let mut out = String::with_capacity(4096 + 512 * self.flows.len());
        let (engine, nothing) = (&self.counters.engine, String::new);
        let mut one = |name, kind, meaning, value: u64| {
            metric(&mut out, (name, kind, meaning), [(nothing(), value)]);
        };
        one("fairway_data_packets_total", "counter", "Data packets sent once.", engine.data_sent);
        one("fairway_resent_packets_total", "counter", "Packets resent.", engine.data_resent);
        one("fairway_payload_bytes_total", "counter", "Payload sent.", engine.payload_sent);
        one("fairway_received_packets_total", "counter", "Data received.", engine.data_received);
        one("fairway_lost_packets_total", "counter", "Packets declared lost.", engine.lost);
        one("fairway_timeouts_total", "counter", "Retransmission time-outs.", engine.timeouts);
        one("fairway_spurious_packets_total", "counter", "Resent for nothing.", engine.spurious);
        one("fairway_acks_sent_total", "counter", "Acknowledgements sent.", engine.acks_sent);
        let uptime = self.uptime.as_secs();
        one("fairway_uptime_seconds", "gauge", "Since the context was built.", uptime);
        let processors = [("scheduler", self.scheduler), ("congestion", self.congestion)];
        let mut events = |name, meaning, of: fn(&super::ProcessorStats) -> u64| {
            let samples = processors.iter().filter_map(|(controller, stats)| {
                stats.as_ref().map(|stats| (format!("{{controller=\"{controller}\"}}"), of(stats)))
            });
            metric(&mut out, (name, "counter", meaning), samples);
        };
        events("fairway_events_total", "Events sent to controllers.", |stats| stats.collected);
        events("fairway_handled_events_total", "Runs of controllers.", |stats| stats.handled);
        self.host(&mut out);
        self.peers(&mut out);
        self.flows(&mut out);
        out
    }

    /// Writes the host's readings; nothing if host pressure is not measured.
    fn host(&self, out: &mut String) {
        let readings = || {
            let all = self.host.iter().flat_map(HostSignals::all);
            all.map(|(resource, reading)| (format!("{{resource=\"{resource}\"}}"), reading))
        };
        let used = readings().map(|(labels, reading)| (labels, reading.percent));
        let meaning = "Use of what the host may be short of, in percent.";
        metric(out, ("fairway_host_use_percent", "gauge", meaning), used);
        let short = readings().map(|(labels, reading)| (labels, u8::from(reading.is_short)));
        let meaning = "Whether the host is short of it.";
        metric(out, ("fairway_host_short", "gauge", meaning), short);
    }

    fn peers(&self, out: &mut String) {
        let mut each = |name, kind, meaning, of: fn(&PeerEntry) -> f64| {
            let samples = self.peers.iter().map(|peer| (peer_labels(peer), of(peer)));
            metric(out, (name, kind, meaning), samples);
        };
        each("fairway_peer_rtt_seconds", "gauge", "Smoothed round trip.", |peer| {
            peer.stats.rtt.as_secs_f64()
        });
        each("fairway_peer_sent_packets_total", "counter", "Packets sent, resent ones too.", |p| {
            p.stats.sent as f64
        });
        each("fairway_peer_lost_packets_total", "counter", "Packets declared lost.", |peer| {
            peer.stats.lost as f64
        });
        each("fairway_peer_marked_packets_total", "counter", "Packets marked.", |peer| {
            peer.stats.marked as f64
        });
        each("fairway_peer_window_bytes", "gauge", "What may be in flight.", |peer| {
            peer.stats.window_bytes as f64
        });
        let paths = self.peers.iter().flat_map(|peer| {
            let labels = peer_labels(peer);
            let paths = peer.stats.paths.iter().enumerate();
            paths.map(move |(path, stats)| {
                let labels = format!("{},path=\"{path}\"}}", labels.trim_end_matches('}'));
                (labels, stats.sent)
            })
        });
        let meaning = "Packets sent on a path.";
        metric(out, ("fairway_path_sent_packets_total", "counter", meaning), paths);
    }

    fn flows(&self, out: &mut String) {
        let mut each = |name, kind, meaning, of: fn(&FlowEntry) -> Option<u64>| {
            let samples = self.flows.iter().filter_map(|flow| Some((labels(flow), of(flow)?)));
            metric(out, (name, kind, meaning), samples);
        };
        each("fairway_flow_bytes_total", "counter", "Bytes sent, headers included.", |flow| {
            Some(flow.view.bytes)
        });
        each("fairway_flow_packets_total", "counter", "Packets sent.", |flow| {
            Some(flow.view.packets)
        });
        each("fairway_flow_events_total", "counter", "Runs of the scheduler for it.", |flow| {
            Some(u64::from(flow.view.events))
        });
        each("fairway_flow_waiting_messages", "gauge", "Messages with something unsent.", |flow| {
            Some(u64::from(flow.view.messages_waiting))
        });
        each("fairway_flow_dequeue_bytes_per_second", "gauge", "Dequeue rate.", |flow| {
            flow.view.dequeue_rate
        });
    }
}

/// Writes a metric with its samples: labels and value of each.
fn metric<T: Display>(
    out: &mut String,
    (name, kind, meaning): Metric,
    samples: impl IntoIterator<Item = (String, T)>,
) {
    let _ = writeln!(out, "# HELP {name} {meaning}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

/// Returns the labels of a peer. Addresses need no escapes.
fn peer_labels(peer: &PeerEntry) -> String {
    format!("{{channel=\"{}\",peer=\"{}\"}}", peer.channel.index(), peer.address)
}

fn labels(flow: &FlowEntry) -> String {
    let view = &flow.view;
    format!(
        "{{jetty=\"{}\",channel=\"{}\",tenant=\"{}\",answers=\"{}\"}}",
        view.jetty.value(),
        view.channel.index(),
        view.share.tenant,
        view.answers
    )
}
