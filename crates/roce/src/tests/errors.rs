//! Tests of refusals over RC: no memory is touched, the right operation fails with the reason, and
//! both ends enter the error state.

use super::*;
use fairway_wire::roce::{AtomicEth, NakCode, Reth, SendFragment, Service, WriteFragment};

/// Posts `work` between two WRITEs, and asserts how each operation ends.
fn demand_refused(work: impl Fn(&Pair) -> Work, length: u32, status: Status) {
    let mut pair = Pair::new(Transport::Rc);
    pair.receive(1, 70, 16);
    pair.write(0, 1, 8);
    let work = work(&pair);
    pair.post(0, 2, work, length);
    pair.write(0, 3, 8);
    pair.run_until_idle();
    let expected = [(1, Status::Success), (2, status), (3, Status::Flushed)];
    assert_eq!(pair.sent(0), expected, "{work:?}");
    assert_eq!(pair.placed[1].len(), 1, "only the first WRITE: {work:?}");
    assert_eq!(pair.executed, 0);
    assert_eq!(pair.states(), [QueuePairState::Error; 2]);
    let receive = pair.received(1);
    let ended = if length == 24 { Status::LocalLength } else { Status::Flushed };
    assert_eq!(receive, [(70, ended, 0)]);
    // The end that refuses reports it, unless its completion does.
    let code = match status {
        Status::RemoteAccess => NakCode::RemoteAccess,
        _ => NakCode::InvalidRequest,
    };
    let refused = Event::Refused { queue_pair: pair.pairs[1], code };
    let mut events = core::iter::from_fn(|| pair.hosts[1].poll_event());
    assert_eq!(events.any(|event| event == refused), ended == Status::Flushed, "{work:?}");
    assert_eq!([pair.hosts[0].in_use(), pair.hosts[1].in_use()], [[0; 3]; 2]);
}

#[test]
fn accesses_without_rights_are_refused() {
    let wrong_key = |pair: &Pair, offset| {
        let remote = pair.remote(0, offset);
        RemoteAddress { r_key: remote.r_key ^ 1, ..remote }
    };
    let beyond = |pair: &Pair| pair.remote(0, LENGTH - 7);
    let before = |pair: &Pair| RemoteAddress { address: BASE - 1, ..pair.remote(0, 0) };
    let wraps = |pair: &Pair| RemoteAddress { address: u64::MAX - 3, ..pair.remote(0, 0) };
    let nowhere = |_: &Pair| RemoteAddress { address: BASE, r_key: u32::MAX };
    let access = Status::RemoteAccess;
    let write = |remote| Work::Write { remote, immediate: None };
    demand_refused(|pair| write(wrong_key(pair, 0)), 8, access);
    demand_refused(|pair| write(beyond(pair)), 8, access);
    demand_refused(|pair| write(before(pair)), 8, access);
    demand_refused(|pair| write(wraps(pair)), 8, access);
    demand_refused(|pair| write(nowhere(pair)), 8, access);
    demand_refused(|pair| Work::Read { remote: beyond(pair) }, 8, access);
    demand_refused(|pair| Work::Read { remote: wrong_key(pair, 0) }, 8, access);
    let add = |remote| Work::FetchAdd { remote, add: 1 };
    demand_refused(|pair| add(wrong_key(pair, 0)), 8, access);
    let past = |pair: &Pair| RemoteAddress { address: BASE + LENGTH, ..pair.remote(0, 0) };
    demand_refused(|pair| add(past(pair)), 8, access);
    demand_refused(|pair| add(pair.remote(0, 4)), 8, Status::RemoteInvalidRequest);
    // The message is longer than the receive.
    let send = Work::Send { tail: Tail::Nothing };
    demand_refused(|_| send, 24, Status::RemoteInvalidRequest);
}

#[test]
fn rights_of_the_region_the_domain_and_the_queue_pair_all_count() {
    for (rights, domain, pair_rights, expected) in [
        (Rights::READ_WRITE, 3, Rights::ALL, Status::Success),
        (Rights::READ, 3, Rights::ALL, Status::RemoteAccess),
        (Rights::NONE, 3, Rights::ALL, Status::RemoteAccess),
        (Rights::ALL, 4, Rights::ALL, Status::RemoteAccess),
        (Rights::ALL, 3, Rights::READ, Status::RemoteInvalidRequest),
    ] {
        let mut pair = Pair::new(Transport::Rc);
        let peer = Peer { address: 0, queue_pair: pair.pairs[0] };
        let first = Psn::new(0xff_fffe);
        pair.hosts[1].modify(pair.pairs[1], &Change::Reset).unwrap();
        let init = Change::Init { rights: pair_rights, p_key: 0xffff, q_key: 0 };
        pair.hosts[1].modify(pair.pairs[1], &init).unwrap();
        let ready = Change::ReadyToReceive {
            peer,
            mtu: MTU,
            expected: first,
            read_depth: 4,
            rnr_timer: RNR,
        };
        pair.hosts[1].modify(pair.pairs[1], &ready).unwrap();
        let memory = MemoryRequest { domain, address: BASE, length: 64, rights };
        let region = pair.hosts[1].register(&memory).unwrap();
        let remote = RemoteAddress { address: BASE, r_key: region.r_key };
        pair.post(0, 1, Work::Write { remote, immediate: None }, 8);
        pair.run_until_idle();
        assert_eq!(pair.sent(0), [(1, expected)], "{rights:?} {domain} {pair_rights:?}");
        assert_eq!(pair.placed[1].len(), usize::from(expected == Status::Success));
    }
}

#[test]
fn a_receive_fails_if_its_memory_has_moved_to_another_domain() {
    for (domain, expected) in [(3, Status::Success), (4, Status::RemoteOperation)] {
        let mut pair = Pair::new(Transport::Rc);
        pair.receive(1, 9, 64);
        let segment = pair.regions[1].segment;
        pair.hosts[1].change_region(segment, Rights::READ, domain).unwrap();
        pair.send(0, 1, 64);
        pair.run_until_idle();
        assert_eq!(pair.sent(0), [(1, expected)]);
        assert_eq!(pair.placed[1].len(), usize::from(expected == Status::Success));
    }
}

#[test]
fn memory_that_is_gone_is_refused_in_the_middle_of_a_message() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 3 * MTU);
    let sent = pair.pull(0);
    pair.wires[1].clear();
    pair.deliver(1, &sent[0]);
    assert_eq!(pair.hosts[1].deregister(pair.regions[1].segment), Ok(true));
    assert_eq!(pair.deliver(1, &sent[1]), Verdict::Drop(DropReason::Refused));
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccess)]);
    assert_eq!(pair.placed[1].len(), 1);
}

#[test]
fn memory_that_is_gone_is_not_read_any_more() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 3 * MTU);
    pair.pull(0);
    pair.flow(1);
    let first = pair.hosts[1].poll_transmit(pair.now).unwrap();
    pair.wires[0].push_back(first);
    pair.hosts[1].deregister(pair.regions[1].segment).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccess)]);
}

#[test]
fn a_new_registration_has_a_new_key() {
    let mut pair = Pair::new(Transport::Rc);
    let request = MemoryRequest { domain: 3, address: BASE, length: 8, rights: Rights::ALL };
    let old = pair.hosts[1].register(&request).unwrap();
    pair.hosts[1].deregister(old.segment).unwrap();
    let new = pair.hosts[1].register(&request).unwrap();
    assert_eq!(old.segment, new.segment);
    assert_ne!(old.r_key, new.r_key);
}

#[test]
fn local_memory_that_is_not_ours_fails_in_its_turn() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    let remote = pair.remote(0, 0);
    let mut request = pair.request(0, 2, Work::Write { remote, immediate: None }, 8);
    request.local = pair.local(0, LENGTH - 4, 8);
    pair.hosts[0].post_send(pair.now, pair.pairs[0], &request).unwrap();
    pair.run_until_idle();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::LocalProtection)]);
    assert_eq!(pair.states()[0], QueuePairState::Error);
}

/// Tests packets that contradict themselves or each other.
#[test]
fn nonsense_is_refused_as_invalid() {
    let key = Pair::new(Transport::Rc).regions[1].r_key;
    let reth = |length| Reth { address: BASE, r_key: key, length };
    let write = |fragment| Operation::Write { service: Service::Rc, fragment };
    let send = |fragment| Operation::Send { service: Service::Rc, fragment };
    let atomic = AtomicEth { address: BASE + 1, r_key: key, swap_or_add: 0, compare: 0 };
    let cases: [&[(Operation, u32)]; 12] = [
        &[(write(WriteFragment::Middle), MTU)],
        &[(write(WriteFragment::Last(None)), 8)],
        &[(send(SendFragment::Last(Tail::Nothing)), 8)],
        &[(write(WriteFragment::Only(reth(8), None)), 7)],
        &[(write(WriteFragment::Only(reth(8), None)), 9)],
        &[(write(WriteFragment::First(reth(2 * MTU))), MTU - 1)],
        &[(write(WriteFragment::First(reth(MTU))), MTU)],
        &[(write(WriteFragment::First(reth(2 * MTU))), MTU), (Operation::ReadRequest(reth(8)), 0)],
        &[(write(WriteFragment::First(reth(9 * MTU))), MTU), (write(WriteFragment::Last(None)), 8)],
        &[(write(WriteFragment::First(reth(2 * MTU))), MTU), (write(WriteFragment::Middle), MTU)],
        &[(write(WriteFragment::First(reth(2 * MTU))), MTU), (send(SendFragment::Middle), MTU)],
        &[(Operation::FetchAdd(atomic), 0)],
    ];
    for case in cases {
        let mut pair = Pair::new(Transport::Rc);
        pair.receive(1, 1, 8192);
        let mut verdict = Verdict::Done;
        for (index, (operation, payload)) in (0..).zip(case) {
            let mut packet = Packet { bth: Default::default(), operation: *operation };
            packet.bth.psn = Psn::new(0xff_fffe).plus(index);
            packet = redirected(&packet, pair.pairs[1]);
            let ecn = Ecn::NotCapable;
            verdict = pair.deliver_as(1, &Received { source: 0, packet, payload: *payload, ecn });
        }
        assert_eq!(verdict, Verdict::Drop(DropReason::Refused), "{case:?}");
        let answers = pair.pull(1);
        let last = answers.last().expect("a refusal");
        assert_eq!(syndrome(last), Syndrome::Nak(NakCode::InvalidRequest), "{case:?}");
        assert_eq!(pair.states()[1], QueuePairState::Error);
    }
}

#[test]
fn an_answer_of_the_wrong_length_is_an_error() {
    let mut pair = Pair::new(Transport::Rc);
    pair.read(0, 1, 100);
    pair.pull(0);
    pair.flow(1);
    let answer = pair.pull(1)[0];
    let payload = answer.gather.length() - 1;
    let ecn = Ecn::NotCapable;
    pair.deliver_as(0, &Received { source: 0, packet: answer.packet, payload, ecn });
    assert_eq!(pair.sent(0), [(1, Status::BadResponse)]);
}

#[test]
fn strangers_other_partitions_and_other_services_are_ignored() {
    let mut pair = Pair::new(Transport::Rc);
    pair.write(0, 1, 8);
    let good = pair.pull(0)[0];
    let packet = good.packet;
    let ecn = Ecn::NotCapable;
    let mut drop =
        |source, packet| match pair.deliver_as(1, &Received { source, packet, payload: 8, ecn }) {
            Verdict::Drop(reason) => reason,
            other => panic!("{other:?}"),
        };
    assert_eq!(drop(1, packet), DropReason::Stranger);
    let mut other = packet;
    other.bth.p_key = 0x8001;
    assert_eq!(drop(0, other), DropReason::PartitionKey);
    let elsewhere = redirected(&packet, Qpn::new(packet.bth.destination.value() ^ 1));
    assert_eq!(drop(0, elsewhere), DropReason::NoQueuePair);
    let mut unreliable = packet;
    if let Operation::Write { service, .. } = &mut unreliable.operation {
        *service = Service::Uc;
    }
    assert_eq!(drop(0, unreliable), DropReason::Malformed);
    assert!(matches!(pair.deliver(1, &good), Verdict::Place(_)));
}
