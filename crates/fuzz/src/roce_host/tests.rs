use super::*;

#[test]
fn peer_writes_reads_and_sends_as_the_script_says() {
    let script = [
        0, // settings: RC
        0x02, 1, 0, // a receive here, of three packets
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
