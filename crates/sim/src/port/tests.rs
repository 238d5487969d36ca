use super::*;
use crate::packets::class_of;
use fairway_ub::wire::Priority;

#[test]
fn bytes_take_their_time_to_the_picosecond() {
    for (megabits, bytes, ps) in
        [(400_000, 4096, 81_920), (100_000, 1, 80), (25_000, 64, 20_480), (300_000, 3, 81)]
    {
        assert_eq!(time_of(pace_of(megabits), bytes), ps, "{bytes} at {megabits}");
    }
}

#[test]
fn a_slow_link_keeps_its_rate_and_a_long_one_its_latency() {
    for (megabits, bytes, ps) in
        [(123, 1, 65_041), (122, 1, 65_574), (50, 1500, 240_000_000), (1, 9000, 72_000_000_000)]
    {
        assert_eq!(time_of(pace_of(megabits), bytes), ps, "{bytes} at {megabits}");
    }
    let mut port = Port::new(0, 0, 1, LATENCY_MAX_PS);
    assert_eq!((port.latency_ps(), port.time(1)), (LATENCY_MAX_PS, 8_000_000));
    port.set_latency(5_000_000_001);
    port.set_rate(400_000);
    assert_eq!((port.latency_ps(), port.time(1)), (5_000_000_001, 20));
}

/// Where packets are trimmed, data is sent after ten control packets in a row; elsewhere, after all
/// of them.
#[test]
fn headers_do_not_keep_data_waiting_for_ever() {
    for (overflow, expected) in [(Overflow::Trim, 10), (Overflow::Drop, 30)] {
        let mut port = Port::new(0, 0, 400_000, 0);
        let mut packets: Vec<PacketMeta> = (0..31)
            .map(|index| data(if index == 0 { 0 } else { Priority::CONTROL.number() }))
            .collect();
        let (mut tally, marking) = (PortTally::default(), Marking::Off);
        let spec = QueueSpec {
            bytes: 10_000,
            control_bytes: 10_000,
            overflow,
            marking,
            hint: None,
            shared: None,
            pfc: None,
            classes: 2,
        };
        for index in 0..31 {
            port.admit(&mut packets, index, 10_000, &spec, &mut tally);
        }
        let order: Vec<Leaving> =
            (0..31).filter_map(|_| port.next(&packets, &spec, 0, &mut tally)).collect();
        assert_eq!(
            order.iter().position(|packet| packet.index == 0),
            Some(expected),
            "{overflow:?}"
        );
    }
}

#[test]
fn marks_follow_the_ramp() {
    let red = Marking::Random { low: 1000, high: 3000, permille: 1000 };
    let share = |length| (0..10_000u32).filter(|&n| is_marked(&red, length, n)).count();
    assert_eq!((share(1000), share(3000)), (0, 10_000));
    assert!((4_800..5_200).contains(&share(2000)), "{}", share(2000));
    let step = Marking::Threshold { bytes: 1000 };
    assert!(!is_marked(&step, 1000, 0) && is_marked(&step, 1001, 0));
}

/// A packet of a class, 100 bytes long.
fn data(priority: u8) -> PacketMeta {
    PacketMeta {
        bytes: 100,
        destination: 0,
        entropy: 0,
        via: NONE,
        arrived: NONE,
        path: 0,
        class: class_of(Priority::new(priority)),
        marked: false,
        trimmed: false,
        hops: 0,
        next: NONE,
    }
}

fn spec(classes: u8, marking: Marking) -> QueueSpec {
    QueueSpec {
        bytes: 1_000,
        control_bytes: 1_000,
        overflow: Overflow::Drop,
        marking,
        shared: None,
        pfc: None,
        classes,
        hint: None,
    }
}

/// The numbers of packets of these classes in the order in which a port of `classes` classes sends
/// them, if all have arrived before. Some arrive after the first two have left.
fn order(classes: u8, early: &[u8], late: &[u8]) -> Vec<u32> {
    let mut packets: Vec<PacketMeta> = early.iter().chain(late).map(|class| data(*class)).collect();
    let (mut port, mut tally) = (Port::new(0, 0, 400_000, 0), PortTally::default());
    let spec = spec(classes, Marking::Off);
    let mut sent = Vec::new();
    for index in 0..packets.len() as u32 {
        if index as usize == early.len() {
            let first = (0..2).filter_map(|_| port.next(&packets, &spec, 0, &mut tally));
            sent.extend(first.map(|packet| packet.index));
        }
        let admission = port.admit(&mut packets, index, 10_000, &spec, &mut tally);
        assert_eq!(admission, Admission::Queued);
    }
    while let Some(packet) = port.next(&packets, &spec, 0, &mut tally) {
        sent.push(packet.index);
    }
    assert_eq!((port.waiting(), port.has_work()), (0, false));
    sent
}

#[test]
fn higher_classes_leave_first_and_each_is_first_in_first_out() {
    let early = [0, 0, 6, 3, 7, 3, 6, 0];
    assert_eq!(order(8, &early, &[]), [4, 2, 6, 3, 5, 0, 1, 7]);
    // Packets 4 and 2 have left when packets 8 to 11 arrive.
    assert_eq!(order(8, &early, &[3, 6, 0, 7]), [4, 2, 11, 6, 9, 3, 5, 8, 0, 1, 7, 10]);
}

#[test]
fn port_of_fewer_queues_serves_neighbouring_classes_as_one() {
    let early = [0, 2, 3, 5, 6, 7, 1, 4];
    assert_eq!(order(2, &early, &[]), [5, 0, 1, 2, 3, 4, 6, 7]);
    // Two queues of data: classes 0 to 3, and 4 to 6.
    assert_eq!(order(3, &early, &[]), [5, 3, 4, 7, 0, 1, 2, 6]);
    assert_eq!(order(8, &early, &[]), [5, 4, 3, 7, 2, 1, 6, 0]);
}

#[test]
fn classes_share_the_buffer_and_the_lowest_makes_room() {
    let mut packets = [6, 0, 3, 0, 6, 6, 3].map(data);
    let (mut port, mut tally) = (Port::new(0, 0, 400_000, 0), PortTally::default());
    let spec = spec(8, Marking::Off);
    let mut admit = |index| port.admit(&mut packets, index, 400, &spec, &mut tally);
    assert_eq!([0, 1, 2, 3].map(&mut admit), [Admission::Queued; 4]);
    // The last packet of class 0 goes, then the first, then the one of class 3.
    assert_eq!([4, 4].map(&mut admit), [Admission::Displaces(3), Admission::Queued]);
    assert_eq!([5, 5].map(&mut admit), [Admission::Displaces(1), Admission::Queued]);
    assert_eq!(admit(6), Admission::Dropped, "no class below that of the packet waits");
    assert_eq!([3, 3].map(&mut admit), [Admission::Dropped; 2]);
    let order = (0..5).filter_map(|_| port.next(&packets, &spec, 0, &mut tally));
    assert_eq!(order.map(|packet| packet.index).collect::<Vec<_>>(), [0, 4, 5, 2]);
    assert_eq!((port.waiting(), tally.drops), (0, 3));
}

/// The index of the packet that leaves next.
fn next(
    port: &mut Port,
    packets: &[PacketMeta],
    spec: &QueueSpec,
    tally: &mut PortTally,
) -> Option<u32> {
    port.next(packets, spec, 0, tally).map(|packet| packet.index)
}

#[test]
fn queue_that_was_displaced_wholly_takes_packets_again() {
    let mut packets = [0, 6, 0, 6].map(data);
    let (mut port, mut tally) = (Port::new(0, 0, 400_000, 0), PortTally::default());
    let spec = spec(8, Marking::Off);
    let mut admit = |index| port.admit(&mut packets, index, 100, &spec, &mut tally);
    assert_eq!(
        [0, 1, 1].map(&mut admit),
        [Admission::Queued, Admission::Displaces(0), Admission::Queued]
    );
    assert_eq!(next(&mut port, &packets, &spec, &mut tally), Some(1));
    let mut admit = |index| port.admit(&mut packets, index, 200, &spec, &mut tally);
    assert_eq!([2, 3].map(&mut admit), [Admission::Queued; 2]);
    assert_eq!(next(&mut port, &packets, &spec, &mut tally), Some(3));
    assert_eq!(next(&mut port, &packets, &spec, &mut tally), Some(2));
}

#[test]
fn class_is_marked_by_its_own_length() {
    let mut packets = [0, 0, 0, 6].map(data);
    let (mut port, mut tally) = (Port::new(0, 0, 400_000, 0), PortTally::default());
    let spec = spec(8, Marking::Threshold { bytes: 200 });
    for index in 0..4 {
        port.admit(&mut packets, index, 400, &spec, &mut tally);
    }
    // Class 6 has 100 bytes. Class 0 has 300, then 200, then 100.
    let sent = (0..4).filter_map(|_| port.next(&packets, &spec, 0, &mut tally));
    let marks: Vec<_> = sent.map(|packet| (packet.index, packet.is_marked)).collect();
    assert_eq!(marks, [(3, false), (0, true), (1, false), (2, false)]);
}
