use super::*;
use fairway_ub::LocalRange;

/// Runs a script: settings, then steps.
fn run(script: &[u8]) -> Pair<'_> {
    let mut pair = Pair::new(script);
    while !pair.script.is_over() {
        pair.step();
    }
    pair
}

#[test]
fn peer_writes_reads_and_sends_by_the_script() {
    let script = [
        0, // settings: the first policies, no staging memory
        0x02, 0, 1, 0, // post a receive here, of three packets
        0x10, 0, 1, 0, 0, 0, // the peer posts a WRITE of 64 bytes,
        0x10, 3, 1, 0, 0, 0, // a READ,
        0x10, 5, 1, 0, 0, 0, // and a SEND
        0xf3, 0xfc, 0xf3, 0xfc, // all packets arrive
    ];
    let mut pair = run(&script);
    assert_eq!(pair.sides[HERE].driver.device().counters().payload_received, 128);
    assert_eq!(pair.sides[PEER].driver.device().counters().payload_received, 64);
    pair.finish();
}

#[test]
fn forged_write_is_placed_if_the_key_grants_it() {
    // A WRITE of 8 bytes with the next sequence number, and the same to memory without rights.
    let forged = |memory| [0, 8, 0, 0, 64, 0, memory, 0, 0, 0, 0, 1];
    let refusals = |script: [u8; 12]| {
        let pair = run(&script);
        let counters = pair.sides[HERE].driver.device().counters();
        (counters.data_received, counters.naks_sent)
    };
    assert_eq!((refusals(forged(0)), refusals(forged(2))), ((1, 0), (1, 1)));
}

#[test]
fn group_of_channels_carries_operations_by_both() {
    let write = [0x10, 0, 1, 0, 0, 0];
    let script: Vec<u8> = [8].into_iter().chain([write; 4].concat()).collect();
    let mut pair = run(&script);
    let ways: Vec<_> = pair.wires[HERE].iter().map(|received| received.route.source_tpn).collect();
    let members = pair.sides[PEER].channels().map(|channel| channel.expect("both are open").tpn());
    assert!(members.iter().all(|member| ways.contains(member)), "{ways:?}");
    pair.deliver_all();
    assert_eq!(
        pair.sides[HERE].driver.device().counters().payload_received,
        4 * u64::from(side::MTU)
    );
    pair.finish();
}

#[test]
fn group_of_jetties_takes_a_message_with_the_receive_of_a_member() {
    let script = [
        16, // settings: a group of Jetties
        0x02,
        1,
        0,
        0, // a receive of the second member
        0x10,
        5 | 32,
        0,
        0,
        0,
        0, // the peer posts a SEND to the group
        0xf3,
    ];
    let mut pair = run(&script);
    assert_eq!(pair.sides[HERE].driver.device().counters().payload_received, 8);
    pair.finish();
}

#[test]
fn payload_that_cannot_be_placed_is_refused() {
    let script = [
        32 | 64, // settings: payload is placed late, and the peer continues to the end
        0x10,
        0,
        1,
        0,
        0,
        0,    // the peer posts a WRITE,
        0xf3, // which arrives
        0xee, // and whose place is missing
    ];
    let mut pair = run(&script);
    assert!(pair.late.is_empty());
    assert_eq!(pair.sides[HERE].driver.device().counters().naks_sent, 1);
    pair.finish();
}

#[test]
fn memory_that_was_not_lent_is_noticed() {
    let pair = Pair::new(&[]);
    let books = &pair.sides[HERE].books;
    for (memory, offset, length) in [
        (crate::books::Memory::Own, 0, 8),
        (crate::books::Memory::Closed, 0, 8),
        (crate::books::Memory::Secret, 0, 8),
        (crate::books::Memory::Open, 1020, 8),
    ] {
        let range = LocalRange { segment: books.segment(memory), offset, length };
        let checked = std::panic::AssertUnwindSafe(|| books.demand_writable(&range));
        assert!(std::panic::catch_unwind(checked).is_err(), "{memory:?}");
    }
}
