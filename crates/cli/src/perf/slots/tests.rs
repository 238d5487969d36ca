use super::*;

fn slots(size: u64, block: u64) -> Slots {
    let context = Context::builder()
        .bind(std::net::Ipv4Addr::LOCALHOST.into())
        .progress_thread(false)
        .build()
        .expect("a context");
    let pattern = Pattern { seed: 5, size, block, damaged: false };
    Slots::new(&context, pattern, 4, Rights::NONE).expect("slots")
}

fn payload(slot: u32, generation: u32) -> Payload {
    Payload { slot, generation }
}

#[test]
fn filled_slots_verify() {
    for size in [1, 2, 7, 8, 9, 64, 100, 4096, 4097, 20_000] {
        let slots = slots(size, 1024);
        slots.fill(2, payload(2, 0)).expect("fill");
        slots.stamp(2, payload(2, 7)).expect("stamp");
        let mut tally = Tally::default();
        slots.check(2, payload(2, 7), &mut tally).expect("check");
        assert_eq!((tally.verified, tally.mismatches), (size, 0), "{size}");
        slots.check_stamps(2, payload(2, 7), false, &mut tally).expect("check");
        slots.check_stamps(2, payload(2, 6), true, &mut tally).expect("check");
        slots.check_block(2, payload(2, 7), 3, &mut tally).expect("check");
        slots.check_body(2, payload(2, 0), 3, &mut tally).expect("check");
        assert!(tally.is_clean(), "{size}: {tally:?}");
        if size >= NAMED_BYTES {
            assert_eq!(slots.named(2).expect("name"), payload(2, 7));
        }
    }
}

#[test]
fn every_kind_of_wrong_data_is_reported() {
    for size in [2, 8, 64, 5000] {
        let slots = slots(size, 1024);
        slots.fill(1, payload(1, 3)).expect("fill");
        let wrong = |payload: Payload, at_least: bool| {
            let mut tally = Tally::default();
            slots.check(1, payload, &mut tally).expect("check");
            let mut stamps = Tally::default();
            slots.check_stamps(1, payload, at_least, &mut stamps).expect("check");
            (!tally.is_clean(), !stamps.is_clean())
        };
        assert_eq!(wrong(payload(1, 3), false), (false, false));
        // Outdated data, and data of another slot.
        assert_eq!(wrong(payload(1, 4), false), (true, true));
        assert_eq!(wrong(payload(1, 4), true), (true, size >= NAMED_BYTES), "{size}");
        if size >= NAMED_BYTES {
            assert_eq!(wrong(payload(2, 3), true), (true, true));
        }
        slots.spoil(1, payload(1, 3)).expect("spoil");
        assert_eq!(wrong(payload(1, 3), false), (true, true));
    }
}

#[test]
fn a_damaged_pattern_differs_in_slot_zero() {
    for size in [1, 8, 9, 64, 5000] {
        let mut slots = slots(size, 1024);
        slots.fill(0, payload(0, 0)).expect("fill");
        slots.fill(1, payload(1, 0)).expect("fill");
        slots.pattern.damaged = true;
        let mut tally = Tally::default();
        slots.check(1, payload(1, 0), &mut tally).expect("check");
        assert!(tally.is_clean());
        slots.check(0, payload(0, 0), &mut tally).expect("check");
        assert_eq!(tally.mismatches, 1, "{size}");
        assert!(tally.first.is_some_and(|first| first.to_string().contains("slot 0")));
    }
}

#[test]
fn every_full_packet_has_a_stamp() {
    for (mtu, block) in
        [(64, 64), (1024, 1024), (1400, 1024), (1027, 512), (4096, 4096), (8192, 4096)]
    {
        assert_eq!(Pattern::block_for(mtu), block, "{mtu}");
    }
}
