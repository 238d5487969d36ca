//! A peer that has not proven that it receives at its address is sent no more than came from it.

use super::*;
use fairway_wire::roce::cm::Reject;

/// The datagram of a request, whose source address may be forged.
fn asked(number: u32) -> [u8; cm::MAD_LEN] {
    let message = Message::Request(Request { local: CommunicationId(number), ..request(number) });
    cm::emit(&Datagram { transaction: 1, message })
}

/// A manager with a listener, and the connection of its only request.
fn requested() -> (Manager, Instant, ConnectionId) {
    let mut manager = Manager::new(&Limits::default(), &Profile::default(), 0, 1);
    let now = Instant::from_ps(1_000_000);
    manager.listen(now, SERVICE, 8).unwrap();
    assert_eq!(manager.handle_datagram(now, &from(9), &asked(77)), None);
    let Some(Event::Requested { connection, .. }) = manager.poll_event() else { panic!("asked") };
    (manager, now, connection)
}

/// Lets everything time out; returns the names of the datagrams sent meanwhile.
fn sent(manager: &mut Manager, mut now: Instant) -> Vec<&'static str> {
    let mut sent = Vec::new();
    loop {
        while let Some(transmit) = manager.poll_transmit() {
            assert_eq!((transmit.to, transmit.bytes.len()), (9, cm::MAD_LEN));
            sent.push(name(&transmit.bytes));
        }
        let Some(next) = manager.poll_timeout() else { return sent };
        now = now.max(next);
        manager.handle_timeout(now);
    }
}

#[test]
fn one_request_that_is_accepted_gets_one_answer() {
    let (mut manager, now, connection) = requested();
    manager.accept(now, connection, &reply(5)).unwrap();
    assert_eq!(sent(&mut manager, now), ["REP"]);
    assert_eq!(manager.poll_event(), Some(Event::TimedOut { connection }));
    assert!(manager.counters().withheld > 0, "REJ was not sent");
}

#[test]
fn one_request_gets_one_answer_whatever_the_program_does() {
    let nothing = [0; Reject::PRIVATE_LEN];
    let (mut manager, now, connection) = requested();
    manager.reject(now, connection, Reason::CONSUMER, &nothing).unwrap();
    assert_eq!(sent(&mut manager, now), ["REJ"]);

    let (mut manager, now, connection) = requested();
    manager.accept(now, connection, &reply(5)).unwrap();
    manager.disconnect(now, connection).unwrap();
    assert_eq!(sent(&mut manager, now), ["REP"]);

    let (mut manager, now, connection) = requested();
    manager.accept(now, connection, &reply(5)).unwrap();
    manager.close(now, connection).unwrap();
    assert_eq!(sent(&mut manager, now), ["REP"]);

    let (mut manager, now, connection) = requested();
    manager.close(now, connection).unwrap();
    assert_eq!(sent(&mut manager, now), ["REJ"]);
}

#[test]
fn repeated_requests_get_an_answer_each() {
    let (mut manager, now, connection) = requested();
    for _ in 0..3 {
        manager.handle_datagram(now, &from(9), &asked(77));
    }
    manager.accept(now, connection, &reply(5)).unwrap();
    for _ in 0..3 {
        manager.handle_datagram(now, &from(9), &asked(77));
    }
    manager.disconnect(now, connection).unwrap();
    let sent = sent(&mut manager, now);
    assert_eq!(sent.len(), 7, "as many as came: {sent:?}");
}

#[test]
fn peer_that_confirms_is_notified_of_the_end() {
    let mut pair = Pair::new();
    pair.listen();
    pair.lose.push(("RTU", 1));
    let [active, passive] = pair.connected(5);
    pair.managers[1].disconnect(pair.now, passive).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.states([active, passive])[0], Some(State::Established), "DREQ was withheld");
    // The RTU is repeated.
    pair.pass(Duration::from_ms(300));
    assert_eq!(pair.states([active, passive]), [Some(State::Waiting); 2]);
    pair.finish([active, passive]);
}

/// A pair whose network loses three of ten datagrams.
struct Lossy {
    pair: Pair,
    random: fairway_device::random::Random,
    established: [bool; 2],
}

impl Lossy {
    /// Delivers one datagram of a side, or passes one event to its program. Returns false if there
    /// is neither.
    fn step(&mut self, side: usize) -> bool {
        let pair = &mut self.pair;
        let now = pair.now;
        if let Some(transmit) = pair.managers[side].poll_transmit() {
            if self.random.number() % 10 >= 3 {
                pair.managers[transmit.to as usize].handle_datagram(
                    now,
                    &from(side as u64),
                    &transmit.bytes,
                );
            }
            return true;
        }
        match pair.managers[side].poll_event() {
            None => return false,
            Some(Event::Requested { connection, .. }) => {
                pair.managers[1].accept(now, connection, &reply(6)).unwrap();
            }
            Some(Event::Replied { connection, .. }) => {
                let zeros = [0; ReadyToUse::PRIVATE_LEN];
                self.established[0] = pair.managers[0].confirm(now, connection, &zeros).is_ok();
            }
            Some(event) => {
                self.established[1] |= matches!(event, Event::Established { .. });
            }
        }
        true
    }
}

/// Time until a connection is established at both ends, in milliseconds.
fn time_to_connect(seed: u64) -> u64 {
    let mut pair = Pair::new();
    pair.listen();
    let start = pair.now;
    pair.managers[0].connect(start, 1, &request(5)).unwrap();
    let random = fairway_device::random::Random::new(seed);
    let mut lossy = Lossy { pair, random, established: [false; 2] };
    loop {
        while lossy.step(0) || lossy.step(1) {}
        let pair = &mut lossy.pair;
        if lossy.established == [true; 2] {
            return pair.now.since(start).as_ns() / 1_000_000;
        }
        let due = pair.managers.iter().filter_map(Manager::poll_timeout).reduce(Instant::min);
        let due = due.unwrap_or_else(|| panic!("seed {seed}: it never connects"));
        pair.now = pair.now.max(due);
        for manager in &mut pair.managers {
            manager.handle_timeout(pair.now);
        }
    }
}

#[test]
fn connections_are_made_although_three_of_ten_datagrams_are_lost() {
    let mut times: Vec<u64> = (0..1000).map(time_to_connect).collect();
    times.sort_unstable();
    let measured = [times[500], times[900], times[990], times[999]];
    let bounds = [100, 1_000, 12_000, 40_000];
    assert!(measured.iter().zip(bounds).all(|(time, bound)| *time <= bound), "{measured:?} ms");
}
