//! Statistics as a line of JSON. docs/top.md describes the fields.

use std::fmt::Write;

use fairway_ub::control::ProcessorStats;

use super::{FlowEntry, PathStats, PeerEntry, Stats};
use crate::HostSignals;

/// Version of this format.
const VERSION: u32 = 1;

impl Stats {
    /// Returns a JSON object, on one line.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(1024 + 256 * self.flows.len());
        let (engine, port) = (&self.counters.engine, &self.counters.port);
        let _ = write!(
            out,
            r#"{{"version":{VERSION},"pid":{},"program":{},"uptime_s":{},"policy":{},"addresses":["#,
            self.pid,
            text(&self.program),
            seconds(self.uptime),
            text(&self.policy)
        );
        list(&mut out, &self.addresses, |out, address| _ = write!(out, "\"{address}\""));
        let _ = write!(
            out,
            r#"],"counters":{{"data_sent":{},"data_resent":{},"payload_sent":{},"data_received":{},"acks_sent":{},"lost":{},"timeouts":{},"spurious":{},"datagrams_sent":{},"datagrams_received":{}}}"#,
            engine.data_sent,
            engine.data_resent,
            engine.payload_sent,
            engine.data_received,
            engine.acks_sent,
            engine.lost,
            engine.timeouts,
            engine.spurious,
            port.packets_sent,
            port.packets_received
        );
        let _ = write!(out, r#","scheduler":{}"#, processor(self.scheduler));
        let _ = write!(out, r#","congestion":{},"host":"#, processor(self.congestion));
        host(&mut out, self.host);
        out.push_str(r#","peers":["#);
        list(&mut out, &self.peers, peer);
        out.push_str(r#"],"flows":["#);
        list(&mut out, &self.flows, flow);
        out.push_str("]}");
        out
    }
}

fn list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        write(out, item);
    }
}

fn processor(stats: Option<ProcessorStats>) -> String {
    let Some(stats) = stats else { return "null".into() };
    let ProcessorStats { collected, handled, early, bytes, transmits } = stats;
    format!(
        r#"{{"collected":{collected},"handled":{handled},"early":{early},"bytes":{bytes},"transmits":{transmits}}}"#
    )
}

fn host(out: &mut String, signals: Option<HostSignals>) {
    let Some(signals) = signals else { return out.push_str("null") };
    let _ = write!(
        out,
        r#"{{"peers_slowed":{},"transmit_slowed":{}"#,
        signals.concerns_peers(),
        signals.concerns_transmit()
    );
    for (resource, reading) in signals.all() {
        let _ = write!(
            out,
            r#","{}":{{"percent":{},"threshold":{},"short":{}}}"#,
            resource.name().replace('-', "_"),
            reading.percent,
            reading.threshold_percent,
            reading.is_short
        );
    }
    out.push('}');
}

fn peer(out: &mut String, entry: &PeerEntry) {
    let stats = &entry.stats;
    let _ = write!(
        out,
        r#"{{"channel":{},"address":"{}","rtt_us":{},"sent":{},"lost":{},"marked":{},"in_flight":{},"window_bytes":{},"paths":["#,
        entry.channel.index(),
        entry.address,
        us(stats.rtt),
        stats.sent,
        stats.lost,
        stats.marked,
        stats.in_flight,
        stats.window_bytes
    );
    list(out, &stats.paths, path);
    out.push_str("]}");
}

fn path(out: &mut String, path: &PathStats) {
    let _ = write!(
        out,
        r#"{{"rtt_us":{},"sent":{},"lost":{},"marked":{},"in_flight":{},"usable":{}}}"#,
        us(path.rtt),
        path.sent,
        path.lost,
        path.marked,
        path.in_flight,
        path.usable
    );
}

fn flow(out: &mut String, entry: &FlowEntry) {
    let view = &entry.view;
    let maybe = |number: Option<u64>| number.map_or("null".into(), |number| number.to_string());
    let _ = write!(
        out,
        r#"{{"flow":{},"jetty":{},"channel":{},"peer":{},"answers":{},"tenant":{},"weight":{},"bytes":{},"packets":{},"waiting":{},"dequeue_bytes_per_s":{},"events":{}}}"#,
        maybe(entry.is_present.then_some(u64::from(view.flow.0))),
        view.jetty.value(),
        view.channel.index(),
        maybe(entry.peer.map(|channel| channel.index() as u64)),
        view.answers,
        view.share.tenant,
        view.share.weight,
        view.bytes,
        view.packets,
        view.messages_waiting,
        maybe(view.dequeue_rate),
        view.events
    );
}

fn us(time: std::time::Duration) -> String {
    format!("{}.{:03}", time.as_micros(), time.as_nanos() % 1000)
}

fn seconds(time: std::time::Duration) -> String {
    format!("{}.{:06}", time.as_secs(), time.subsec_micros())
}

/// Returns a string in quotes, with escapes.
fn text(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => _ = write!(out, "\\u{:04x}", u32::from(letter)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_so_that_they_come_back() {
        assert_eq!(text(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(text("a\nb\u{1b}ä"), "\"a\\u000ab\\u001bä\"");
    }

    #[test]
    fn times_have_all_their_digits() {
        assert_eq!(us(std::time::Duration::from_nanos(12_005)), "12.005");
        assert_eq!(seconds(std::time::Duration::from_micros(2_000_010)), "2.000010");
    }
}
