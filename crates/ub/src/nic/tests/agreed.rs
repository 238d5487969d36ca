//! Packets without a sequence number: what set-up agreed on, copies of them, and wrong keys.

use super::*;
use fairway_wire::{Close, Packet};

fn unreliable() -> OrderRequest {
    OrderRequest { mode: ServiceMode::Uno, ..OrderRequest::default() }
}

impl Pair {
    /// Makes both channels behave as if neither unreliable messages nor loads and stores had been
    /// agreed on.
    fn withhold_all(&mut self) {
        for (nic, channel) in self.nics.iter_mut().zip(self.channels) {
            let (_, channel) = nic.open(channel).expect("it is open");
            channel.withhold_unsequenced();
        }
    }

    /// The next packet that node 0 sends.
    fn first(&mut self) -> Transmit {
        self.nics[0].poll_transmit(self.now).expect("a packet")
    }

    fn post_result(&mut self, work: Work, order: OrderRequest) -> Result<(), PostError> {
        let local = LocalRange { segment: self.segments[0], offset: 0, length: 8 };
        let channel = self.channels[0];
        let request = WorkRequest { id: 1, channel, work, local, signaled: true, order };
        self.nics[0].post(self.now, self.jetties[0], &request)
    }

    /// The verdict of node 1 about a packet.
    fn verdict(&mut self, packet: &Transmit) -> Verdict {
        let payload = packet.gather.length;
        let (route, packet) = (packet.route, packet.packet);
        self.nics[1].handle_packet(
            self.now,
            &Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 },
        )
    }
}

#[test]
fn copy_of_an_unreliable_message_is_not_executed_again() {
    let mut pair = Pair::new(0, 1);
    pair.receive(7, 100);
    pair.receive(8, 100);
    let target = named(pair.jetties[1].value());
    pair.post_in_order(1, Work::Send { target }, 10, unreliable());
    let packet = pair.first();
    pair.deliver(1, &packet);
    pair.deliver(1, &packet);
    assert_eq!(pair.completions(1).len(), 1, "one message, one receive");
    assert_eq!(pair.nics[1].counters().dropped(DropReason::Duplicate), 1);
}

#[test]
fn unreliable_message_that_is_too_long_fails_its_receive_on_request() {
    for fails in [false, true] {
        let mut pair = Pair::new(0, 1);
        if fails {
            pair.nics[1].fail_short_receives();
        }
        (7..9).for_each(|id| pair.receive(id, 100));
        let far = pair.jetties[1].value();
        let wrong = Target { token_value: 1 ^ named(far).token_value, ..named(far) };
        for (id, target, length) in [(1, wrong, 101), (2, named(far), 101), (3, named(far), 100)] {
            pair.post_in_order(id, Work::Send { target }, length, unreliable());
            pair.run_until_idle(|_, _| false);
        }
        let got: Vec<_> = pair.completions(1).iter().map(|it| (it.id, it.status)).collect();
        let done = |id| (id, Status::Success);
        match fails {
            false => assert_eq!(got, [done(7)]),
            true => assert_eq!(got, [(7, Status::RemoteLength), done(8)]),
        }
        assert_eq!(pair.nics[1].counters().datagrams_lost, 2);
    }
}

#[test]
fn unreliable_messages_and_stores_that_were_not_agreed_on_are_refused_on_both_sides() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post_in_order(1, Work::Write { remote }, 8, unreliable());
    let datagram = pair.first();
    pair.post(2, Work::Store { remote }, 8);
    let store = pair.first();
    pair.withhold_all();
    for packet in [&datagram, &store] {
        assert_eq!(pair.verdict(packet), Verdict::Drop(DropReason::NotAgreed), "{packet:?}");
    }
    assert_eq!(pair.post_result(Work::Write { remote }, unreliable()), Err(PostError::NotAgreed));
    let usual = OrderRequest::default();
    for work in [Work::Store { remote }, Work::Load { remote }] {
        assert_eq!(pair.post_result(work, usual), Err(PostError::NotAgreed));
    }
    assert_eq!(pair.post_result(Work::Write { remote }, usual), Ok(()));
}

#[test]
fn close_whose_number_is_outside_the_window_is_ignored() {
    let mut pair = Pair::new(0xFF_FFF8, 1);
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 12 * MTU);
    pair.run_until_idle(|_, _| false);
    pair.post(2, Work::Write { remote }, 8);
    let sample = pair.first();
    let window = pair.nics[1].limits().window_packets;
    let next = Psn::new(0xFF_FFF8).plus(12);
    let close = |next| Transmit {
        packet: Packet::Close(Close { next, answer: false }),
        gather: LocalRange::default(),
        ..sample
    };
    for wrong in [next.minus(1), next.plus(window + 1), next.plus(1 << 23)] {
        assert_eq!(pair.verdict(&close(wrong)), Verdict::Drop(DropReason::BadClose), "{wrong:?}");
    }
    assert_eq!(pair.nics[1].poll_event(), None, "the channel is open");
    assert_eq!(pair.verdict(&close(next)), Verdict::Done);
    assert!(matches!(pair.nics[1].poll_event(), Some(Event::PeerClosed { .. })));
}

/// Wrong keys are refused one by one until too many are used, which is reported once. Refusals for
/// other reasons are not counted, for example operations on a segment that was deregistered.
#[test]
fn wrong_keys_are_counted_and_reported_once() {
    let profile = Profile { refused_keys: 20, ..Profile::default() };
    let mut pair = Pair::with_profile(0, 1, profile);
    let remote = RemoteRange { token_value: 78, ..pair.remote() };
    let guess = |pair: &mut Pair, count: u64| {
        for id in 0..count {
            match id % 3 {
                0 => pair.post(id, Work::Write { remote }, 3 * MTU),
                1 => pair.post(id, Work::Load { remote }, 8),
                _ => pair.post_in_order(id, Work::Write { remote }, 8, unreliable()),
            }
            pair.run_until_idle(|_, _| false);
        }
    };
    guess(&mut pair, 18);
    assert_eq!(pair.nics[1].counters().keys_refused, 18, "a message counts once");
    assert_eq!(pair.nics[1].poll_event(), None);
    // A tenth of a second later more refusals are allowed: one for each 10 ms.
    pair.now = pair.now + Duration::from_ms(100);
    guess(&mut pair, 10);
    assert_eq!(pair.nics[1].poll_event(), None);
    guess(&mut pair, 12);
    let channel = pair.channels[1];
    assert_eq!(pair.nics[1].poll_event(), Some(Event::KeysRefused { channel }));
    guess(&mut pair, 30);
    assert_eq!(pair.nics[1].poll_event(), None, "it is said once");
    let before = pair.nics[1].counters().keys_refused;
    pair.post(99, Work::Send { target: named(pair.jetties[1].value()) }, 8);
    pair.run_for(2000);
    assert!(pair.nics[1].counters().not_ready > 0);
    assert_eq!(pair.nics[1].counters().keys_refused, before, "no receive is not a wrong key");
    pair.nics[1].deregister(pair.segments[1]).unwrap();
    pair.completions(0);
    pair.post(100, Work::Write { remote: pair.remote() }, 8);
    pair.run_for(2000);
    assert_eq!(pair.completions(0)[0].status, Status::RemoteAccess);
    assert_eq!(pair.nics[1].counters().keys_refused, before, "nor is a segment that has gone");
}

#[test]
fn unreliable_message_whose_memory_is_missing_ends_with_an_error() {
    let mut pair = Pair::new(0, 1);
    let target = named(pair.jetties[1].value());
    for (id, is_missing) in [(1, false), (2, true)] {
        pair.post_in_order(id, Work::Send { target }, 10, unreliable());
        let packet = pair.first();
        if is_missing {
            pair.nics[0].handle_ungathered(&packet);
        }
        let done = pair.completions(0);
        let status = if is_missing { Status::LocalMemory } else { Status::Success };
        assert_eq!(done.iter().map(|it| (it.id, it.status)).collect::<Vec<_>>(), [(id, status)]);
        // The message has ended: the packet is not known any more.
        pair.nics[0].handle_ungathered(&packet);
        assert!(pair.completions(0).is_empty());
    }
}

#[test]
fn unreliable_message_that_was_polled_is_over_although_its_channel_ends() {
    let mut pair = Pair::new(0, 1);
    let target = named(pair.jetties[1].value());
    pair.post_in_order(1, Work::Send { target }, 10, unreliable());
    let packet = pair.first();
    pair.nics[0].close_channel(pair.now, pair.channels[0]).unwrap();
    pair.nics[0].handle_ungathered(&packet);
    assert_eq!(pair.completions(0).len(), 1);
}
