//! Tests of queries for the queue pair of a datagram service (SIDR).

use super::*;
use crate::cm::manager::no_service;

const DATAGRAMS: u64 = 0x0111_1c06;

fn query() -> ServiceRequest {
    let id = CommunicationId(0);
    ServiceRequest { id, p_key: 0xffff, service: DATAGRAMS, private: [5; 216] }
}

fn send_query(pair: &mut Pair) -> ConnectionId {
    let id = pair.managers[0].query(pair.now, 1, 3, &query()).unwrap();
    pair.run_until_idle();
    id
}

#[test]
fn repeated_query_is_answered_once() {
    for lost in ["none", "SIDR_REQ", "SIDR_REP"] {
        let mut pair = Pair::new();
        let listener = pair.managers[1].listen(pair.now, DATAGRAMS, 4).unwrap();
        pair.lose.push((lost, 1));
        let id = send_query(&mut pair);
        pair.pass(Duration::from_ms(300));
        let events = pair.events(1);
        let [Event::Queried { connection, from: 0, request, listener: to }] = events[..] else {
            panic!("{lost}: {events:?}");
        };
        assert_eq!((request, to), (ServiceRequest { id, ..query() }, listener));
        let answer = ServiceReply {
            queue_pair: Qpn::new(6),
            q_key: 0x0123_4567,
            ..no_service(ServiceStatus::SUCCESS)
        };
        pair.managers[1].answer(pair.now, connection, &answer).unwrap();
        pair.run_until_idle();
        pair.pass(Duration::from_secs(1));
        let reply = ServiceReply { id, ..answer };
        assert_eq!(pair.events(0), [Event::Answered { connection: id, reply }], "{lost}");
        assert_eq!(pair.events(1), []);
        pair.finish([id, connection]);
    }
}

#[test]
fn queries_are_refused_and_time_out() {
    let mut pair = Pair::new();
    let id = send_query(&mut pair);
    let events = pair.events(0);
    let [Event::Answered { connection, reply }] = events[..] else { panic!("{events:?}") };
    assert_eq!((connection, reply.status), (id, ServiceStatus::UNSUPPORTED));
    pair.managers[0].close(pair.now, id).unwrap();

    pair.managers[1].listen(pair.now, DATAGRAMS, 4).unwrap();
    let id = send_query(&mut pair);
    let [Event::Queried { connection, .. }] = pair.events(1)[..] else { panic!() };
    pair.managers[1].close(pair.now, connection).unwrap();
    pair.run_until_idle();
    let [Event::Answered { reply, .. }] = pair.events(0)[..] else { panic!() };
    assert_eq!(reply.status, ServiceStatus::REJECTED);
    pair.managers[0].close(pair.now, id).unwrap();

    pair.lose.push(("SIDR_REQ", 100));
    let id = send_query(&mut pair);
    pair.pass(Duration::from_secs(20));
    assert_eq!(pair.events(0), [Event::TimedOut { connection: id }]);
    let sent = pair.said().iter().filter(|(_, name)| *name == "SIDR_REQ").count();
    assert_eq!(sent, 2 + 4, "and three repetitions");
    pair.finish([id, connection]);
}
