//! The trace agrees with the counters.

use super::*;
use crate::control::{TraceEntry, TraceRecord};
use crate::policy::{FlowId, PathView};

/// WRITEs over paths that lose packets, traced with room for `room` records. Returns the records,
/// and how many found no room.
fn traced(room: u32, lose: u64, policy: &str) -> (Pair, Vec<TraceRecord>, u64) {
    let policy: PolicySpec = policy.parse().unwrap();
    let mut pair = Pair::with_policy(9, 4, Profile::default(), 64, &policy);
    let controller = policy.scheduler_of_nic(pair.nics[0].limits().flows);
    pair.nics[0].set_scheduler(pair.now, controller);
    pair.nics[0].set_trace(pair.now, room);
    let remote = pair.remote();
    (0..5).for_each(|id| pair.post(id, Work::Write { remote }, 200_000));
    let mut random = Random::new(3);
    pair.run_until_idle(|_, transmit| {
        matches!(transmit.packet, Packet::Data(_))
            && lose > 0
            && random.number().is_multiple_of(lose)
    });
    assert_eq!(pair.completions(0).len(), 5);
    let mut records = Vec::new();
    let dropped = pair.nics[0].take_trace(pair.now, &mut records);
    (pair, records, dropped)
}

#[test]
fn records_add_up_to_the_counters() {
    for lose in [0, 30] {
        let (pair, records, dropped) = traced(100_000, lose, "cc=swift,sched=static:line=8Gbps");
        assert_eq!(dropped, 0);
        let (mut packets, mut bytes, mut acked, mut lost, mut spurious) = (0, 0, 0, 0, 0);
        let mut flows = 0;
        for record in &records {
            match record.entry {
                TraceEntry::Transmit { flow, bytes: more, packets: count } => {
                    assert_eq!(flow, FlowId(0));
                    (packets, bytes) = (packets + count, bytes + more);
                }
                TraceEntry::Ack { packets, .. } => acked += packets,
                TraceEntry::Loss { .. } => lost += 1,
                TraceEntry::Spurious { packets } => spurious += u64::from(packets),
                TraceEntry::FlowBegan { answers, jetty, .. } => {
                    assert!(!answers && jetty == pair.jetties[0]);
                    flows += 1;
                }
                TraceEntry::DequeueRate { rate, .. } => assert_eq!(rate, Some(1_000_000_000)),
                _ => {}
            }
        }
        let view = pair.nics[0].flows().next().unwrap();
        let counters = pair.nics[0].counters();
        assert_eq!((u64::from(packets), u64::from(bytes)), (view.packets, view.bytes));
        assert_eq!(u64::from(packets), counters.data_sent);
        assert_eq!((acked, flows), (packets, 1), "all is acknowledged, once");
        assert_eq!((lost > 0, counters.lost > 0), (lose > 0, lose > 0));
        assert_eq!(spurious, counters.spurious);
        let rates = records.iter().filter(|r| matches!(r.entry, TraceEntry::DequeueRate { .. }));
        assert_eq!(rates.count(), 1, "reported once");
    }
}

#[test]
fn decisions_are_recorded_when_they_change() {
    let (pair, records, _) = traced(100_000, 0, "cc=swift,path=spray");
    let windows: Vec<u64> = records
        .iter()
        .filter_map(|record| match record.entry {
            TraceEntry::Window { bytes, .. } => Some(bytes),
            _ => None,
        })
        .collect();
    assert!(windows.windows(2).all(|pair| pair[0] != pair[1]), "{windows:?}");
    let now = pair.nics[0].window(pair.channels[0]).map(|window| window.0);
    assert_eq!(windows.last().copied(), now);
    let paths: Vec<u8> = records
        .iter()
        .filter_map(|record| match record.entry {
            TraceEntry::Path { path } => Some(path),
            _ => None,
        })
        .collect();
    assert!(paths.windows(2).all(|pair| pair[0] != pair[1]), "{paths:?}");
    let used = |view: &PathView| view.sent > 0;
    let all = pair.nics[0].paths(pair.channels[0]).iter().filter(|view| used(view)).count();
    assert!(all > 1 && paths.len() >= all);
}

#[test]
fn records_without_room_are_counted_and_recording_stops() {
    let (_, all, _) = traced(100_000, 30, "cc=swift");
    let (mut pair, some, dropped) = traced(50, 30, "cc=swift");
    assert_eq!(some[..], all[..50]);
    assert_eq!(dropped as usize, all.len() - 50);
    // There is room again; and after the trace was switched off nothing is recorded.
    let remote = pair.remote();
    pair.post(9, Work::Write { remote }, 10);
    pair.run_until_idle(|_, _| false);
    let mut more = Vec::new();
    assert_eq!(pair.nics[0].take_trace(pair.now, &mut more), dropped);
    assert!(!more.is_empty());
    pair.nics[0].set_trace(pair.now, 0);
    pair.post(10, Work::Write { remote }, 10);
    pair.run_until_idle(|_, _| false);
    more.clear();
    assert_eq!((pair.nics[0].take_trace(pair.now, &mut more), more.len()), (0, 0));
}
