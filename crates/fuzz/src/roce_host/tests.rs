use super::*;

#[test]
fn peer_writes_reads_and_sends_by_the_script() {
    let script = [
        0, // settings: RC
        0x02, 1, 0, // post a receive here, of three packets
        0x10, 6, 0, 1, 0, // the peer posts a WRITE of 256 bytes,
        0x10, 1, 0, 1, 0, // a READ,
        0x10, 0, 0, 1, 0, // and a SEND
        0xf3, 0xfb, 0xf3, 0xfb, // all packets arrive
    ];
    let mut pair = Pair::new(&script);
    while !pair.script.is_over() {
        pair.step();
    }
    // The receive, and the peer's operations, have completed.
    assert!(pair.sides[HERE].books.is_settled());
    assert!(pair.sides[PEER].books.is_settled());
    pair.sides[HERE].end();
    pair.sides[HERE].strip();
}

#[test]
fn congestion_notification_lowers_the_rate() {
    let settings = 32;
    let rate = |script: &[u8]| {
        let mut pair = Pair::new(script);
        while !pair.script.is_over() {
            pair.step();
        }
        let (now, number) = (pair.now, pair.sides[HERE].pair);
        pair.sides[HERE].driver.device_mut().rate(now, number).expect("it is controlled")
    };
    // The second script forges a notification at the next sequence number.
    assert!(rate(&[settings, 0x08, 15, 0, 0]) < rate(&[settings]));
}

#[test]
fn receive_of_a_shared_queue_takes_a_message() {
    let script = [
        128, // settings: RC, a shared receive queue
        0x02, 1, 0, // post a receive here
        0x02, 1, 0, // and a second one, which remains
        0x10, 0, 0, 1, 0, // the peer posts a SEND
        0xf3, 0xfb,
    ];
    let mut pair = Pair::new(&script);
    while !pair.script.is_over() {
        pair.step();
    }
    assert!(pair.sides[PEER].books.is_settled());
    assert_eq!(pair.sides[HERE].driver.device().in_use()[1], 1);
    pair.sides[HERE].end();
    pair.sides[HERE].strip();
}
