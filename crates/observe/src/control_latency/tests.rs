use super::*;

fn receipt(called: u64) -> Receipt {
    Receipt { stamped: called - 5, called }
}

fn taken(probe: &Probe) -> ControlLatency {
    let mut found = ControlLatency::default();
    probe.take(&mut found);
    found
}

fn delay_of(since_kernel_ns: u32, since_call_ns: u32) -> LatencySample {
    LatencySample { since_kernel_ns, since_call_ns }
}

#[test]
fn decisions_match_their_acknowledgements_in_either_order() {
    let probe = Probe::new(16, 2);
    let later = clock::real_ns() + 1_000_000_000;
    // Two acknowledgements of one channel and one of another are recorded, then decided about,
    // together.
    probe.note_handled(0, receipt(later - 2000));
    probe.note_handled(1, receipt(later));
    probe.note_handled(0, receipt(later - 1000));
    probe.decided(0, 2);
    let found = taken(&probe);
    // They appear to come from the future, which counts as no delay.
    assert_eq!(found.decisions, [delay_of(0, 0); 2]);
    // The decision is recorded before its acknowledgement.
    probe.decided(0, 1);
    assert!(taken(&probe).decisions.is_empty());
    let early = receipt(clock::real_ns() - 1_000_000);
    probe.note_handled(0, early);
    let found = taken(&probe);
    let [delay] = found.decisions[..] else { panic!("{found:?}") };
    assert_eq!(delay.since_kernel_ns, delay.since_call_ns + 5);
    assert!(delay.since_call_ns < 1_000_000, "decided about before: {delay:?}");
    // The other channel's acknowledgement still waits; a new channel with that number has none.
    probe.opened(1);
    probe.decided(1, 1);
    assert!(taken(&probe).decisions.is_empty());
}

#[test]
fn data_waits_until_its_acknowledgement_leaves() {
    let probe = Arc::new(Probe::new(16, 1));
    let mut meter = Meter::new(probe.clone(), true);
    let begun = clock::real_ns();
    meter.arrived(begun);
    // A run of three packets is one sample.
    (0..3).for_each(|_| meter.data(0));
    let first = meter.receipt;
    meter.acknowledges(0, false);
    // Data that arrives now is not covered by an acknowledgement that was built before.
    meter.arrived(begun);
    meter.data(0);
    meter.left(first.called + 10);
    assert!(taken(&probe).turn_rounds.is_empty(), "it waits for the next run");
    meter.began_run();
    meter.left(first.called + 300);
    let found = taken(&probe).turn_rounds;
    assert_eq!(found, [delay_of((first.called + 300 - begun) as u32, 300)]);
    let second = meter.receipt;
    meter.acknowledges(0, true);
    meter.left(second.called + 7);
    assert_eq!(taken(&probe).turn_rounds[0].since_call_ns, 7);
    meter.left(second.called + 8);
    assert!(taken(&probe).turn_rounds.is_empty(), "each counts once");
}

#[test]
fn decisions_without_room_or_time_stamp_are_counted() {
    let probe = Probe::new(1, 1);
    let unstamped = Receipt { stamped: 0, called: 100 };
    probe.decided_about(unstamped, 107);
    probe.decided_about(receipt(100), 107);
    let found = taken(&probe);
    assert_eq!(found.decisions, [delay_of(7, 7)]);
    assert_eq!((found.dropped, found.unstamped), (1, 1));
    probe.decided_about(receipt(100), 107);
    assert_eq!(taken(&probe).decisions, [delay_of(12, 7)]);
}
