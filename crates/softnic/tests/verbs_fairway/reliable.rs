//! Reliable connections: every operation, and its bytes.

use crate::node::{Pair, content};
use fairway_softnic::engine::LocalRange;
use fairway_softnic::engine::roce::{ScatterList, Transport, Work};
use fairway_softnic::engine::wire::roce::Tail;

const SEND: Work = Work::Send { tail: Tail::Nothing };

#[test]
fn a_send_goes_into_a_receive() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(1, 5000);
    here.memory.write(0, &bytes);
    there.receive(pair.pairs[1], 7, 100, 6000);
    pair.post(0, 3, SEND, here.local(0, 5000));
    let completion = there.received(7);
    assert_eq!((completion.bytes, completion.tail), (5000, Tail::Nothing));
    assert_eq!(there.memory.read(100, 5000), bytes);
    here.sent(3);
}

#[test]
fn a_write_is_in_place_when_it_completes() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(2, 300_001);
    here.memory.write(5, &bytes);
    let work = Work::Write { remote: there.remote(777), immediate: None };
    pair.post(0, 1, work, here.local(5, 300_001));
    assert_eq!(here.sent(1).bytes, 300_001);
    assert_eq!(there.memory.read(777, 300_001), bytes);
}

#[test]
fn a_read_brings_what_is_there() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(3, 300_001);
    there.memory.write(5, &bytes);
    pair.post(0, 1, Work::Read { remote: there.remote(5) }, here.local(11, 300_001));
    here.sent(1);
    assert_eq!(here.memory.read(11, 300_001), bytes);
}

#[test]
fn scattered_bytes_are_gathered_and_scattered() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let bytes = content(4, 4000);
    here.memory.write(0, &bytes);
    let list = |segment, parts: [(u64, u32); 3]| {
        let ranges = parts.map(|(offset, length)| LocalRange { segment, offset, length });
        ScatterList::new(&ranges).unwrap()
    };
    // The same bytes in another order, cut where no packet ends.
    let from = list(here.region.segment, [(1000, 777), (0, 1000), (1777, 2223)]);
    let to = list(there.region.segment, [(50_000, 3), (9, 2000), (60_000, 1997)]);
    let request = fairway_softnic::engine::roce::ReceiveRequest { id: 1, local: to };
    assert_eq!(there.carrier.post_receive(pair.pairs[1], &[request]), (1, None));
    pair.post(0, 1, SEND, from);
    there.received(1);
    let sent = [&bytes[1000..1777], &bytes[..1000], &bytes[1777..]].concat();
    let memory = &there.memory;
    let got = [memory.read(50_000, 3), memory.read(9, 2000), memory.read(60_000, 1997)].concat();
    assert_eq!(got, sent);
}
