use fairway::{TraceEntry, TraceRecord};
use fairway_policy::{FlowId, Share};
use fairway_wire::{Duration, JettyId};
use serde_json::Value;

use super::*;

/// One entry of each kind.
fn entries() -> Vec<TraceEntry> {
    let (flow, share) = (FlowId(3), Share { tenant: 7, weight: 2, tenant_weight: 0 });
    let rtt = Some(Duration::from_ns(12_345));
    let ack =
        |rtt| TraceEntry::Ack { path: 1, packets: 2, bytes: 3000, marked: 1, in_flight: 9000, rtt };
    vec![
        TraceEntry::FlowBegan { flow, jetty: JettyId::new(5), answers: true, share },
        ack(None),
        ack(rtt),
        TraceEntry::Loss { path: 2, bytes: 4096, by_timeout: false },
        TraceEntry::Loss { path: 2, bytes: 4096, by_timeout: true },
        TraceEntry::Spurious { packets: 4 },
        TraceEntry::Credit { bytes: 32_768 },
        TraceEntry::Window { bytes: 65_536, pacing: None },
        TraceEntry::Window { bytes: 65_536, pacing: Some(1_250_000_000) },
        TraceEntry::Path { path: 9 },
        TraceEntry::Share { flow, share },
        TraceEntry::Hint { flow, value: u64::MAX },
        TraceEntry::Transmit { flow, bytes: 65_536, packets: 16 },
        TraceEntry::DequeueRate { flow, rate: Some(125_000_000) },
        TraceEntry::DequeueRate { flow, rate: None },
        TraceEntry::FlowEnded { flow },
    ]
}

fn written(form: TraceForm) -> String {
    let mut writer = Writer::new(Vec::new(), form, "cc=wasm:a\"b.wasm");
    for (step, entry) in (1..).zip(entries()) {
        let at = Instant::from_ps(1_500_000 * step);
        writer.add(step as u32 % 2, &TraceRecord { at, channel: 6, entry });
    }
    assert_eq!(writer.records as usize, entries().len());
    let mut out = Vec::new();
    std::mem::swap(&mut writer.out, &mut out);
    let mut end = Writer { out, ..writer };
    let (records, dropped) = (end.records, 5);
    match form {
        TraceForm::Lines => lines::end(&mut end.out, records, dropped).unwrap(),
        TraceForm::Perfetto => perfetto::end(&mut end.out, records, dropped).unwrap(),
    }
    String::from_utf8(end.out).unwrap()
}

#[test]
fn each_line_is_an_object_with_the_values_of_its_record() {
    let text = written(TraceForm::Lines);
    let all: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all[0]["event"], "begin");
    assert_eq!(all[0]["policy"], "cc=wasm:a\"b.wasm");
    let last = &all[all.len() - 1];
    assert_eq!((&last["event"], &last["dropped"]), (&"end".into(), &5.into()));
    assert_eq!(last["records"].as_u64(), Some(all.len() as u64 - 2));
    let records = &all[1..all.len() - 1];
    assert_eq!(records.len(), entries().len());
    assert!(records.iter().all(|record| record["channel"] == 6 && record["event"].is_string()));
    assert_eq!((records[0]["t_us"].as_f64(), records[1]["t_us"].as_f64()), (Some(0.0), Some(1.5)));
    assert!(records[1]["rtt_us"].is_null());
    assert_eq!(records[2]["rtt_us"].as_f64(), Some(12.345));
    assert_eq!(
        (&records[3]["by_timeout"], &records[4]["by_timeout"]),
        (&false.into(), &true.into())
    );
    assert_eq!(records[8]["pacing_bytes_per_s"].as_u64(), Some(1_250_000_000));
    assert_eq!(records[11]["value"].as_u64(), Some(u64::MAX));
    assert!(records[14]["bytes_per_s"].is_null());
}

#[test]
fn trace_events_are_an_array_of_objects_with_what_viewers_need() {
    let text = written(TraceForm::Perfetto);
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(all.len() > entries().len());
    for event in &all {
        let kind = event["ph"].as_str().unwrap();
        assert!(["M", "C", "i"].contains(&kind), "{event}");
        assert!(event["ts"].is_number() && event["pid"].is_u64() && event["tid"].is_u64());
        assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
        assert_eq!(event["s"].is_string(), kind == "i", "{event}");
        if kind == "C" {
            let values = event["args"].as_object().unwrap();
            assert!(values.values().all(Value::is_number) && !values.is_empty(), "{event}");
        }
    }
    let find = |name: &str| all.iter().find(|event| event["name"] == name).unwrap();
    // 64 KiB in twelve steps of 1.5 us, and a rate of 1 Gb/s.
    let rate = find("rate, flow 3")["args"]["gbps"].as_f64().unwrap();
    assert!((rate - 65_536.0 * 8.0 / 18_000.0).abs() < 1e-9, "{rate}");
    assert_eq!(find("dequeue rate, flow 3")["args"]["gbps"].as_f64(), Some(1.0));
    assert_eq!(find("trace_end")["args"]["dropped"], 5);
    assert_eq!(find("rtt, channel 6 path 1")["args"]["us"].as_f64(), Some(12.345));
}
