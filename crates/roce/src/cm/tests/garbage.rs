//! Random datagrams never cause a panic or a leak, and never end the connections of others.

use super::*;
use fairway_device::random::Random;

/// A message of any kind whose ids and numbers are mostly drawn from those in use.
fn message(random: &mut Random, ids: &[u32]) -> [u8; cm::MAD_LEN] {
    let mut bytes = [0; cm::MAD_LEN];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.number().to_be_bytes());
    }
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[16] = 0;
    bytes[17] = 0x0e + (random.number() % 15) as u8;
    for at in [24, 28] {
        let id = match random.number() % 8 {
            0 => random.number() as u32,
            1 => 0,
            _ => ids[random.number() as usize % ids.len()],
        };
        bytes[at..at + 4].copy_from_slice(&id.to_be_bytes());
    }
    if random.number().is_multiple_of(2) {
        bytes[32..40].copy_from_slice(&SERVICE.to_be_bytes());
    }
    bytes
}

#[test]
fn strangers_can_do_nothing_to_a_connection() {
    let mut pair = Pair::new();
    pair.listen();
    let ids = pair.connected(5);
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let bytes = message(&mut random, &ids.map(|id| id.0));
        pair.managers[1].handle_datagram(pair.now, &from(9), &bytes);
        while let Some(event) = pair.managers[1].poll_event() {
            assert_ne!(event.connection(), ids[1]);
            let _ = pair.managers[1].close(pair.now, event.connection());
        }
        while let Some(transmit) = pair.managers[1].poll_transmit() {
            assert_eq!(transmit.to, 9);
        }
    }
    assert_eq!(pair.states(ids), [Some(State::Established); 2]);
    let counters = *pair.managers[1].counters();
    assert!(counters.dropped.iter().filter(|count| **count > 0).count() >= 5, "{counters:?}");
}

#[test]
fn a_peer_that_talks_nonsense_costs_no_more_than_it_was_granted() {
    for seed in 0..20 {
        let mut pair = Pair::new();
        pair.listen();
        let mut random = Random::new(seed);
        let mut ids = alloc::vec![1, 0xc800_0000];
        for _ in 0..4_000 {
            let bytes = message(&mut random, &ids);
            pair.managers[1].handle_datagram(pair.now, &from(0), &bytes);
            while let Some(event) = pair.managers[1].poll_event() {
                let id = event.connection();
                ids.truncate(20);
                ids.insert(0, id.0);
                let manager = &mut pair.managers[1];
                let _ = match random.number() % 5 {
                    0 => manager.accept(pair.now, id, &reply(6)),
                    1 => manager.reject(pair.now, id, Reason::CONSUMER, &[0; 148]),
                    2 => manager.close(pair.now, id),
                    3 => manager.disconnect(pair.now, id),
                    _ => Ok(()),
                };
            }
            while pair.managers[1].poll_transmit().is_some() {}
            assert!(pair.managers[1].in_use() <= 16);
            pair.now = pair.now + Duration::from_ms(random.number() % 100);
            pair.managers[1].handle_timeout(pair.now);
        }
        for id in 0..=u32::from(u16::MAX) * 256 {
            let id = CommunicationId(0xc800_0000 | id);
            let _ = pair.managers[1].close(pair.now, id);
            if pair.managers[1].in_use() == 0 {
                break;
            }
        }
        pair.pass(Duration::from_secs(200));
        assert_eq!(pair.managers[1].in_use(), 0, "seed {seed}");
    }
}

#[test]
fn a_flood_of_answers_finds_its_end() {
    let limits = Limits { transmits: 4, ..Limits::default() };
    let mut manager = Manager::new(&limits, &Profile::default(), 1, 1);
    let asked = Message::Request(Request { local: CommunicationId(3), ..request(5) });
    let bytes = cm::emit(&Datagram { transaction: 1, message: asked });
    for _ in 0..100 {
        let dropped = manager.handle_datagram(Instant::ZERO, &from(0), &bytes);
        assert_eq!(dropped, Some(DropReason::NoListener));
    }
    assert_eq!((manager.counters().sent, manager.counters().overflowed), (4, 96));
}
