use super::{Emulation, Frame};
use crate::Settings;
use fairway_ub::wire::Priority;

/// Two leaves of two hosts each, two spines; links of 1 Gb/s and 10 us.
fn network(more: &str) -> Emulation {
    let mut settings = Settings::default();
    let text = "topology leaf-spine\nnodes 4\nhosts-per-leaf 2\nlink 1G\nlatency 10us\nqueue 64K\n";
    settings.read(&format!("{text}{more}")).unwrap();
    Emulation::new(settings.build(1).unwrap()).unwrap()
}

fn frame(from: u32, to: u32, entropy: u32) -> Frame {
    Frame { from, to, entropy, bytes: 1250, priority: Priority::DATA }
}

const US: u64 = 1_000_000;

#[test]
fn a_frame_takes_the_time_of_its_links_and_nothing_else() {
    let mut network = network("");
    network.send(5 * US, &frame(0, 3, 7), b"hello".to_vec());
    // Each of the four links takes 10 us to send the frame and 10 us of latency.
    let due = (5 + 4 * 20) * US;
    let mut came = Vec::new();
    network.advance(due - US, |host, bytes, _| came.push((host, bytes)));
    assert!(came.is_empty());
    assert!(network.next_ps().is_some_and(|at| at <= due + 2 * US));
    network.advance(due + 2 * US, |host, bytes, _| came.push((host, bytes)));
    assert_eq!(came, [(3, b"hello".to_vec())]);
    assert_eq!(network.next_ps(), None);
    let counters = network.counters();
    assert_eq!((counters.sent, counters.delivered, counters.dropped), (1, 1, 0));
}

#[test]
fn frames_of_one_flow_stay_in_order_and_others_take_other_paths() {
    let mut network = network("");
    let mut came = Vec::new();
    for number in 0..400u32 {
        let now = u64::from(number) * 11 * US;
        network.advance(now, |_, bytes, _| came.push(bytes));
        network.send(now, &frame(0, 2, number % 16), number.to_le_bytes().to_vec());
    }
    network.advance(u64::MAX / 2, |_, bytes, _| came.push(bytes));
    assert_eq!(came.len(), 400);
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    for flow in 0..16 {
        let own: Vec<u32> = came.iter().map(|b| number(b)).filter(|n| n % 16 == flow).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
    let spines: Vec<u32> =
        network.links().filter(|link| link.0 == 4 && link.1 >= 6).map(|link| link.3).collect();
    assert_eq!(spines.iter().sum::<u32>(), 400);
    assert!(spines.iter().all(|packets| *packets > 50), "{spines:?}");
}

/// A host sends faster than its wire. Frames that wait there are reported and not dropped.
#[test]
fn a_hosts_own_queue_is_its_own_business() {
    let mut network = network("");
    for _ in 0..1000 {
        network.send(0, &frame(0, 1, 3), vec![0; 4]);
    }
    network.advance(20 * US, |_, _, _| {});
    assert!(network.backlog_bytes(0) > 900 * 1250, "{}", network.backlog_bytes(0));
    assert_eq!(network.backlog_bytes(1), 0);
    network.advance(u64::MAX / 2, |_, _, _| {});
    assert_eq!((network.backlog_bytes(0), network.counters().delivered), (0, 1000));
}

/// Two hosts send at full rate to one host, so half of the frames exceed its link.
#[test]
fn queues_mark_and_drop() {
    let mut network = network("ecn threshold:16K\n");
    let (mut whole, mut marked) = (0, 0);
    for number in 0..2000u64 {
        let now = number * 10 * US;
        network.advance(now, |_, _, mark| (whole, marked) = (whole + 1, marked + u64::from(mark)));
        network.send(now, &frame(0, 3, 1), vec![0; 8]);
        network.send(now, &frame(1, 3, 2), vec![1; 8]);
    }
    network.advance(u64::MAX / 2, |_, _, mark| {
        (whole, marked) = (whole + 1, marked + u64::from(mark));
    });
    let counters = network.counters();
    assert_eq!(counters.sent, 4000);
    assert_eq!((counters.delivered, counters.marked), (whole, marked));
    assert_eq!(whole + counters.dropped, 4000);
    assert!((1900..2100).contains(&counters.dropped), "{counters:?}");
    assert!(marked > 1500 && counters.longest_queue_bytes <= 64 << 10, "{counters:?}");
}

#[test]
fn a_link_that_fails_is_gone_around() {
    // Leaf 4 loses its link to spine 6.
    let mut network = network("fail 4-6@1ms..3ms\n");
    let mut send = |from_us: u64| {
        let before: Vec<u32> = network.links().map(|link| link.3).collect();
        for number in 0..50 {
            network.send((from_us + 20 * number) * US, &frame(0, 2, number as u32), vec![9; 4]);
        }
        network.advance((from_us + 1100) * US, |_, _, _| {});
        let after: Vec<_> = network.links().collect();
        let by = after.iter().zip(before).find(|(link, _)| (link.0, link.1) == (4, 6)).unwrap();
        by.0.3 - by.1
    };
    assert!(send(0) > 10);
    assert_eq!(send(1500), 0, "the switch knows that its own link is gone");
    assert!(send(4000) > 10);
    assert_eq!(network.counters().delivered, 150);
}

#[test]
fn trimming_switches_are_refused() {
    let mut settings = Settings::default();
    settings.read("topology leaf-spine\nnodes 4\nhosts-per-leaf 2\noverflow trim\n").unwrap();
    let refused = Emulation::new(settings.build(1).unwrap()).err().unwrap();
    assert!(refused.to_string().contains("trim"), "{refused}");
}

/// A network as slow and as long as a telephone line: 9 KB at 1 Mb/s, over links of 250 ms.
#[test]
fn a_slow_and_long_network_takes_the_time_of_its_links() {
    let mut network = network("link 1M\nlatency 0.25s\n");
    network.send(0, &Frame { bytes: 9000, ..frame(0, 3, 7) }, b"hello".to_vec());
    let due = 4 * (72_000 + 250_000) * US;
    let mut came = Vec::new();
    network.advance(due - US, |host, bytes, _| came.push((host, bytes)));
    assert!(came.is_empty());
    network.advance(due + 2 * US, |host, bytes, _| came.push((host, bytes)));
    assert_eq!(came, [(3, b"hello".to_vec())]);
}

/// If a link's rate changes at time 0, the first frame is sent at the new rate.
#[test]
fn a_rate_that_begins_at_once_holds_from_the_first_frame() {
    let mut network = network("degrade 0-4@0us:100M\n");
    network.send(0, &frame(0, 1, 7), b"hello".to_vec());
    // 1,250 bytes take 100 us at 100 Mb/s and 10 us at 1 Gb/s, and each link takes 10 us more.
    let due = (100 + 10 + 2 * 10) * US;
    let mut came = 0;
    network.advance(due - US, |_, _, _| came += 1);
    assert_eq!(came, 0);
    network.advance(due + 2 * US, |_, _, _| came += 1);
    assert_eq!(came, 1);
}
