use super::*;

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
        let packet = |class| PacketMeta {
            next: NONE,
            bytes: 100,
            destination: 0,
            entropy: 0,
            via: NONE,
            arrived: NONE,
            path: 0,
            class,
            marked: false,
            trimmed: false,
            hops: 0,
        };
        let mut packets: Vec<PacketMeta> =
            (0..31).map(|number| packet(u8::from(number == 0))).collect();
        let (mut tally, marking) = (PortTally::default(), Marking::Off);
        let spec = QueueSpec {
            bytes: 10_000,
            control_bytes: 10_000,
            overflow,
            marking,
            hint: None,
            shared: None,
            pfc: None,
        };
        for index in 0..31 {
            port.admit(&mut packets, index, 10_000, overflow, &mut tally);
        }
        let order: Vec<u32> =
            (0..31).filter_map(|_| port.next(&mut packets, &spec, 0, &mut tally)).collect();
        assert_eq!(order.iter().position(|index| *index == 0), Some(expected), "{overflow:?}");
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
