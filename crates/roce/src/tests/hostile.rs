//! Random packets never cause a panic, a leak or an access outside the granted memory.

use super::*;
use fairway_device::random::Random;
use fairway_wire::roce;

/// A packet of random content that is mostly plausible.
fn packet(
    random: &mut Random,
    pair: &Pair,
    transport: Transport,
    next: Psn,
) -> Option<(Packet, u32)> {
    const CODES: [u8; 12] =
        [0x00, 0x01, 0x04, 0x06, 0x0a, 0x0c, 0x0d, 0x10, 0x11, 0x12, 0x13, 0x81];
    let mut bytes = [0; 64];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.number().to_be_bytes());
    }
    bytes[0] = match random.number() % 4 {
        0 => bytes[0],
        _ => CODES[random.number() as usize % CODES.len()],
    };
    match transport {
        Transport::Uc if bytes[0] < 0x0c => bytes[0] |= 0x20,
        Transport::Ud if !random.number().is_multiple_of(4) => bytes[0] = 0x64,
        Transport::Rc | Transport::Uc | Transport::Ud => {}
    }
    bytes[1] &= 0xc0;
    let payload = [0, 8, MTU, MTU][random.number() as usize % 4];
    let mut headers = 12;
    let decoded = loop {
        match roce::decode(&bytes, headers + payload as usize + roce::ICRC_LEN) {
            Ok(decoded) if decoded.header_len == headers => break decoded,
            _ if headers < 40 => headers += 4,
            _ => return None,
        }
    };
    let mut packet = decoded.packet;
    let ahead = if random.number().is_multiple_of(4) { random.number() as u32 % 12 } else { 2 };
    packet.bth.destination = pair.pairs[1];
    packet.bth.p_key = 0xffff;
    packet.bth.psn = next.plus(ahead).minus(2);
    let aim = |address: &mut u64, key: &mut u32, random: &mut Random| {
        if !random.number().is_multiple_of(8) {
            *key = pair.regions[1].r_key;
            *address = BASE + random.number() % (LENGTH / 8) * 8;
        }
    };
    match &mut packet.operation {
        Operation::ReadRequest(reth)
        | Operation::Write {
            fragment: roce::WriteFragment::First(reth) | roce::WriteFragment::Only(reth, _),
            ..
        } => {
            reth.length = [0, 8, MTU, 3 * MTU, reth.length][random.number() as usize % 5];
            aim(&mut reth.address, &mut reth.r_key, random);
        }
        Operation::CompareSwap(atomic) | Operation::FetchAdd(atomic) => {
            aim(&mut atomic.address, &mut atomic.r_key, random);
        }
        Operation::Datagram { deth, .. } if payload == 8 => deth.q_key = 0x1111,
        _ => {}
    }
    Some((packet, decoded.payload_len as u32))
}

#[test]
fn random_packets_cause_no_panic_leak_or_stray_write() {
    let mut random = Random::new(1);
    let (mut placed, mut dropped) = (0, 0);
    for round in 0..3000u64 {
        let transport = [Transport::Rc, Transport::Uc, Transport::Ud][round as usize % 3];
        let mut pair = Pair::new(transport);
        pair.hold = round.is_multiple_of(2);
        for id in 0..4 {
            pair.receive(1, id, 2 * MTU);
            if transport == Transport::Rc {
                pair.read(1, 10 + id, 2 * MTU);
                pair.send(1, 20 + id, 8);
                pair.fetch_add(1, 30 + id, 1);
            }
        }
        pair.pull(1);
        let mut next = Psn::new(0xff_fffe);
        for _ in 0..40 {
            let Some((packet, payload)) = packet(&mut random, &pair, transport, next) else {
                continue;
            };
            let received = Received { source: 0, packet, payload, ecn: Ecn::Congested };
            match pair.deliver_as(1, &received) {
                Verdict::Drop(_) => dropped += 1,
                Verdict::Place(Placement { target: Target { bytes: target, .. }, .. }) => {
                    placed += 1;
                    next = packet.bth.psn.next();
                    assert_eq!(target.length(), payload);
                    demand_inside(&pair, &target);
                }
                Verdict::Own(OwnVerdict::Store { target, .. }) => demand_inside(&pair, &target),
                Verdict::Own(OwnVerdict::Buffer { .. }) | Verdict::Done => {}
            }
            if random.number().is_multiple_of(4) {
                for transmit in pair.pull(1) {
                    demand_inside(&pair, &transmit.gather);
                }
            }
            if let Some(token) = pair.held.pop() {
                pair.hosts[1].handle_placed(pair.now, token, 0);
                pair.execute(1);
            }
            pair.pass(Duration::from_ms(random.number() % 20));
        }
        pair.hosts[1].modify(pair.pairs[1], &Change::Error).unwrap();
        assert_eq!(pair.hosts[1].in_use(), [0; 3], "round {round}");
        let sends = if transport == Transport::Rc { 12 } else { 0 };
        assert_eq!((pair.sent(1).len(), pair.received(1).len()), (sends, 4), "each once");
    }
    assert!(placed > 1000 && dropped > 10_000, "{placed} {dropped}");
}

fn demand_inside(pair: &Pair, list: &ScatterList) {
    for range in list.ranges() {
        assert_eq!(range.segment, pair.regions[1].segment);
        assert!(range.offset + u64::from(range.length) <= LENGTH);
    }
}

/// Found by the fuzz target `roce_packets`.
#[test]
fn write_that_promises_no_bytes_and_brings_some_is_refused_behind_a_read() {
    let mut pair = Pair::new(Transport::Rc);
    let r_key = pair.regions[1].r_key;
    let reth = |length| roce::Reth { address: BASE, r_key, length };
    let service = roce::Service::Rc;
    let first = roce::WriteFragment::First(reth(0));
    let mut psn = Psn::new(0xff_fffe);
    let mut verdicts = Vec::new();
    for (operation, payload) in [
        (Operation::ReadRequest(reth(3 * MTU)), 0),
        (Operation::Write { service, fragment: first }, MTU),
    ] {
        let bth = roce::Bth { destination: pair.pairs[1], psn, ..roce::Bth::default() };
        let packet = Packet { bth, operation };
        let received = Received { source: 0, packet, payload, ecn: Ecn::Capable };
        while pair.hosts[1].poll_answer(&received).is_some() {}
        verdicts.push(pair.hosts[1].handle_packet(pair.now, &received));
        // The answer has three packets.
        psn = psn.plus(3);
    }
    assert_eq!(verdicts, [Verdict::Done, Verdict::Drop(DropReason::Refused)]);
}
