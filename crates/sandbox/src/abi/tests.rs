use fairway_wire::{Cci, Duration, Instant};

use super::*;

const MTU: u32 = 4096;

fn area(bytes: &mut [u8; AREA_BYTES]) -> Area<'_> {
    Area::at(bytes, 0).expect("it is as large")
}

fn words(bytes: &[u8], at: usize, count: usize) -> Vec<u64> {
    let words = bytes[at..].chunks_exact(8).take(count);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight"))).collect()
}

#[test]
fn an_area_lies_wholly_in_the_memory() {
    let mut memory = vec![0; AREA_BYTES + 8];
    assert!(Area::at(&mut memory, 0).is_some());
    assert!(Area::at(&mut memory, 8).is_some());
    assert!(Area::at(&mut memory, 9).is_none());
    assert!(Area::at(&mut memory, usize::MAX).is_none());
    assert!(Area::at(&mut [], 0).is_none());
}

/// The layout is frozen: `docs/policies.md` and the headers contain these numbers.
#[test]
fn every_field_is_at_the_documented_offset() {
    let mut bytes = [0xee; AREA_BYTES];
    let mut area = area(&mut bytes);
    area.put_ack(&AckSample {
        now: Instant::from_ps(1),
        rtt: Some(Duration::from_ps(2)),
        smoothed_rtt: Duration::from_ps(3),
        bytes_in_flight: 4,
        acked_bytes: 5,
        acked_packets: 6,
        marked_packets: 7,
        path: 8,
        cci: Cci::from_bits(9),
        pressure: true,
        window_limited: true,
        endpoint_delay: Some(Duration::from_ps(10)),
        hops: 11,
    });
    let expected = [1, 2, 3, 4, 5 | 6 << 32, 7 | 8 << 32, 15 | 9 << 32, 10, 11, 0];
    assert_eq!(words(area.0, 64, 10), expected);
    area.put_loss(&LossSample {
        now: Instant::from_ps(1),
        lost_bytes: 2,
        path: 3,
        smoothed_rtt: Duration::from_ps(4),
        by_timeout: true,
        sent_at: Instant::from_ps(5),
    });
    assert_eq!(words(area.0, 64, 6), [1, 4, 2 | 3 << 32, 1, 5, 0]);
    let view = PathView {
        smoothed_rtt: Duration::from_ps(1),
        rtt_deviation: Duration::from_ps(2),
        in_flight: 6,
        sent: 3,
        lost: 4,
        marked: 5,
        usable: true,
        ..PathView::default()
    };
    let request = ChunkRequest { now: Instant::from_ps(7), bytes: 8, random: 9 };
    area.put_chunk(&[view; 2], &request);
    assert_eq!(words(area.0, 64, 7), [7, 8 | 9 << 32, 3, 0, 0, 0, 0]);
    assert_eq!(words(area.0, 256, 6), [1, 2, 3, 4, 5, 6 | 1 << 32]);
    assert_eq!(words(area.0, 256 + 48, 6), [1, 2, 3, 4, 5, 6 | 1 << 32]);
    area.put_path_ack(&PathAck {
        now: Instant::from_ps(1),
        acked_packets: 3,
        marked_packets: 4,
        rtt: Some(Duration::from_ps(2)),
        elapsed: Some(Duration::from_ps(5)),
    });
    assert_eq!(words(area.0, 64, 6), [1, 2, 3 | 4 << 32, 3, 5, 0]);
    let untouched = 0xeeee_eeee_eeee_eeee;
    assert_eq!(words(area.0, 13_568, 2), [untouched; 2], "none has been probed");
    let probed = PathView { probed_rtt: Duration::from_ps(6), ..view };
    area.put_room(&[view, probed]);
    assert_eq!(words(area.0, 13_568, 3), [0, 6, untouched]);
}

/// The same, of the kinds of policy that version 2 has brought, and of the start.
#[test]
fn every_field_of_later_versions_is_at_the_documented_offset() {
    let mut bytes = [0xee; AREA_BYTES];
    let mut area = area(&mut bytes);
    area.put_evidence(&Evidence {
        path_distance: 4,
        psn_distance: 5,
        beyond_tolerance: true,
        age: Duration::from_ps(1),
        overtaken_by: Duration::from_ps(2),
        smoothed_rtt: Duration::from_ps(3),
    });
    assert_eq!(words(area.0, 64, 6), [1, 2, 3, 4 | 5 << 32, 1, 0]);
    area.put_late(&LateArrival {
        path_distance: 4,
        psn_distance: 5,
        was_declared_lost: true,
        overtaken_by: Duration::from_ps(2),
        smoothed_rtt: Duration::from_ps(3),
    });
    assert_eq!(words(area.0, 64, 6), [0, 2, 3, 4 | 5 << 32, 1, 0]);
    area.put_progress(7);
    assert_eq!(words(area.0, 64, 2), [7, 0]);
    area.put_share(Share { tenant: 1, weight: 2, tenant_weight: 3 });
    assert_eq!(words(area.0, 64, 3), [1 | 2 << 32, 3, 0]);
    area.put_transmit(&TransmitSample {
        now: Instant::from_ps(1),
        bytes: 2,
        events: 3,
        backlogged: true,
        paced: true,
    });
    assert_eq!(words(area.0, 64, 4), [1, 2, 3 | 3 << 32, 0]);
    let start = Start {
        mtu_bytes: 1,
        flows: 6,
        parameters: "a=b",
        inherited: Decision {
            window_bytes: 2,
            pacing_bytes_per_second: 3,
            pacing_burst_bytes: 4,
            chunk_bytes: 5,
            ..Decision::default()
        },
    };
    area.put_start(&start);
    assert_eq!(words(area.0, 0, 3), [2, 3, 4 | 5 << 32]);
    assert_eq!(words(area.0, 192, 2), [1 | 5 << 32, 3 | 6 << 32]);
    assert_eq!(&area.0[12_544..12_547], b"a=b");
    let end = 12_544 + 1024;
    assert!(area.0[end..].iter().all(|byte| *byte == 0xee), "what is behind is the module's");
}

#[test]
fn decisions_are_kept_within_bounds() {
    let mut bytes = [0; AREA_BYTES];
    let none = Decision {
        window_bytes: 2 * 4096,
        pacing_bytes_per_second: 0,
        pacing_burst_bytes: 0,
        chunk_bytes: 32 * 1024,
        ..Decision::default()
    };
    assert_eq!(area(&mut bytes).decision(MTU), none);
    bytes[..24].fill(0xff);
    let most = Decision {
        window_bytes: 1 << 40,
        pacing_bytes_per_second: u64::MAX,
        pacing_burst_bytes: 64 * 1024,
        chunk_bytes: u32::MAX,
        ..Decision::default()
    };
    assert_eq!(area(&mut bytes).decision(MTU), most);
    bytes[8..16].copy_from_slice(&1_u64.to_le_bytes());
    assert_eq!(area(&mut bytes).decision(MTU).pacing_bytes_per_second, 125_000);
    assert_eq!(area(&mut bytes).decision(u32::MAX).window_bytes, 1 << 40);
}

/// What a module writes, at the documented offsets.
#[test]
fn what_a_module_states_is_read_where_it_is_documented() {
    let mut bytes = [0; AREA_BYTES];
    for (number, at) in (24..56).step_by(8).enumerate() {
        bytes[at] = number as u8 + 1;
    }
    bytes[56] = 3;
    bytes[224] = 7;
    bytes[228] = 3;
    let credit = CreditDecision {
        allowance_bytes: 1,
        total_bytes: 2,
        request_at_ps: 3,
        ahead_bytes: 4,
        resend: true,
        blocked: true,
    };
    assert_eq!(area(&mut bytes).decision(MTU).credit, credit);
    let traits = Traits { event_bytes: 7, compares_across_paths: true, paces_within_window: true };
    assert_eq!(area(&mut bytes).traits(), traits);
    let entry: [u8; FlowRate::BYTES] = [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 0];
    let rate = FlowRate { bytes_per_second: 1 << 32, flow: 2, quantum_bytes: 3 << 8 };
    assert_eq!(FlowRate::read(&entry), rate);
    let nothing = FlowRate::read(&[0; FlowRate::BYTES]);
    assert_eq!((nothing.bytes_per_second, nothing.quantum_bytes), (125_000, 0));
    // One byte in a turn: a flow would take 262,144 turns to pay what it may owe.
    let mut entry = [0; FlowRate::BYTES];
    entry[12] = 1;
    assert_eq!(FlowRate::read(&entry).quantum_bytes, 128);
}

#[test]
fn paths_beyond_the_room_are_left_out() {
    let mut bytes = [0; AREA_BYTES];
    let view = PathView { sent: u64::MAX, ..PathView::default() };
    let request = ChunkRequest { now: Instant::ZERO, bytes: 0, random: 0 };
    area(&mut bytes).put_chunk(&[view; 300], &request);
    assert!(bytes[TEXT..].iter().all(|byte| *byte == 0));
}

#[test]
fn texts_end_at_a_zero_and_print() {
    let mut bytes = [0; AREA_BYTES];
    bytes[TEXT..TEXT + 5].copy_from_slice(b"a\nb\xff\0");
    assert_eq!(area(&mut bytes).text(), "a b\u{fffd}");
    bytes[TEXT..].fill(b'x');
    assert_eq!(area(&mut bytes).text().len(), 200);
}
