//! Credit: grants of EQDS and Homa, over a network that loses credit packets.

use super::*;
use crate::policy::{Credit as Grant, CreditPolicy, CreditRequest, SourceId};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use fairway_wire::{Credit, Priority, Route};

/// A pair with these policies at both ends; the second grants by them if `grants`.
fn pair(policy: &str, grants: bool) -> Pair {
    let spec: PolicySpec = policy.parse().unwrap();
    let mut pair = Pair::with_policy(0xFF_FF00, 4, Profile::default(), 64, &spec);
    for nic in &mut pair.nics {
        nic.set_credit_policy(spec.build_credit(4).filter(|_| grants));
    }
    pair
}

fn everything_completes(policy: &str, grants: bool, lose: u64) {
    for seed in 0..6 {
        let mut pair = pair(policy, grants);
        let remote = pair.remote();
        for id in 0..6 {
            pair.receive(100 + id, 3000);
        }
        for id in 0..6 {
            pair.post(10 * id, Work::Write { remote }, 300_000);
            pair.post(10 * id + 1, Work::Read { remote }, 100_000);
            pair.post(10 * id + 2, Work::Send { target: named(1) }, 3000);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| lose > 0 && random.number().is_multiple_of(lose));
        let done = pair.completions(0);
        assert_eq!(done.len(), 18, "{policy} seed {seed}");
        assert!(done.iter().all(|completion| completion.status == Status::Success));
        let demands: u64 =
            pair.nics.iter().map(|nic| nic.counters().credit_requests_received).sum();
        assert!(demands > 0, "{policy}: no credit was requested");
    }
}

#[test]
fn all_requested_credit_is_granted_in_the_end() {
    for policy in ["cc=eqds", "cc=homa"] {
        for lose in [0, 20, 5] {
            everything_completes(policy, true, lose);
        }
    }
}

/// A receiver without a credit policy does not stop senders that need credit.
#[test]
fn without_a_policy_of_its_own_a_receiver_grants_at_once() {
    for lose in [0, 10] {
        everything_completes("cc=eqds", false, lose);
        everything_completes("cc=homa", false, lose);
    }
}

#[test]
fn a_receiver_grants_at_the_pace_of_its_line() {
    let mut pair = pair("cc=eqds:line=1Gbps", true);
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 16_000_000);
    let (mut last, mut at_10) = (0, 0);
    let start = pair.now;
    while pair.now.since(start) < Duration::from_ms(40) {
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
            while let Some(transmit) = pair.nics[n].poll_transmit(pair.now) {
                last += u64::from(transmit.gather.length);
                pair.wires[1 - n].push_back(transmit);
            }
            while let Some(transmit) = pair.wires[n].pop_front() {
                pair.deliver(n, &transmit);
            }
        }
        if pair.now.since(start) < Duration::from_ms(10) {
            at_10 = last;
        }
        pair.now = pair.now + Duration::from_us(5);
    }
    // After the first window the rate is the line's: 125 bytes in a microsecond, with headers.
    let payload = last - at_10;
    let due = 30_000 * 125 * u64::from(MTU) / u64::from(MTU + 80);
    assert!(payload.abs_diff(due) < due / 20, "{payload} of {due}");
}

fn open_channel(pair: &mut Pair) -> &mut Channel {
    match &mut pair.nics[0].entries[pair.channels[0].index()].state {
        EntryState::Open(channel) => channel,
        _ => panic!("an open channel"),
    }
}

fn allowed(pair: &mut Pair) -> u64 {
    open_channel(pair).controller().allowance_bytes()
}

/// Credit that the second NIC grants to the first.
fn credit_of(pair: &Pair, total_bytes: u64) -> Transmit {
    Transmit {
        channel: pair.channels[1],
        route: Route {
            source: Cna::new(2),
            destination: Cna::new(1),
            source_tpn: pair.channels[1].tpn(),
            destination_tpn: pair.channels[0].tpn(),
            path: 0,
            priority: Priority::CONTROL,
            cci: Default::default(),
        },
        packet: Packet::Credit(Credit { total_bytes, class: Priority::DATA }),
        gather: LocalRange::default(),
    }
}

/// A total that has grown by more than fits 32 bits is reported in parts, and none is lost.
#[test]
fn a_total_that_grows_by_gigabytes_is_granted_whole() {
    let mut pair = pair("cc=eqds", false);
    let before = allowed(&mut pair);
    let total_bytes = 10 << 30;
    open_channel(&mut pair)
        .request_credit(CreditRequest { total_bytes, ..CreditRequest::default() });
    let credit = credit_of(&pair, total_bytes);
    for _ in 0..4 {
        pair.deliver(0, &credit);
    }
    assert_eq!(allowed(&mut pair) - before, total_bytes);
}

#[test]
fn credit_that_was_not_requested_has_no_effect_and_is_counted() {
    for policy in ["cc=eqds", "cc=homa", "cc=cubic"] {
        let mut pair = pair(policy, false);
        let before = allowed(&mut pair);
        for (count, total_bytes) in [1, 4096, 1 << 40, fairway_wire::CREDIT_MAX].iter().enumerate()
        {
            let credit = credit_of(&pair, *total_bytes);
            pair.deliver(0, &credit);
            pair.nics[0].audit();
            assert_eq!(allowed(&mut pair), before, "{policy}: {total_bytes}");
            let dropped = pair.nics[0].counters().dropped(DropReason::BadCredit);
            assert_eq!(dropped, count as u64 + 1);
        }
    }
}

/// A receiver that grants in advance does not stop a sender that expects nothing in advance.
#[test]
fn credit_beyond_what_was_requested_counts_up_to_the_request() {
    let mut pair = pair("cc=eqds", false);
    let before = allowed(&mut pair);
    open_channel(&mut pair)
        .request_credit(CreditRequest { total_bytes: 10_000, ..CreditRequest::default() });
    let credit = credit_of(&pair, 1 << 30);
    pair.deliver(0, &credit);
    assert_eq!(allowed(&mut pair) - before, 10_000);
    pair.deliver(0, &credit);
    let counters = pair.nics[0].counters();
    assert_eq!((counters.credits_unrequested, counters.dropped(DropReason::BadCredit)), (2, 1));
    assert_eq!(allowed(&mut pair) - before, 10_000);
}

#[test]
fn credit_that_the_policy_expects_in_advance_is_taken() {
    let mut pair = pair("cc=eqds:ahead=64K", false);
    let before = allowed(&mut pair);
    let credit = credit_of(&pair, 1 << 20);
    pair.deliver(0, &credit);
    assert_eq!(allowed(&mut pair) - before, 64 * 1024);
    assert_eq!(pair.nics[0].counters().credits_unrequested, 1);
}

/// Adds up the received bytes.
struct Meter(Arc<AtomicU64>);

impl CreditPolicy for Meter {
    fn name(&self) -> &'static str {
        "meter"
    }

    fn announced(&mut self, _: Instant, _: SourceId, _: &CreditRequest) {}

    fn on_data(&mut self, _: Instant, _: SourceId, bytes: u32) {
        self.0.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }

    fn source_gone(&mut self, _: Instant, _: SourceId) {}

    fn poll_credit(&mut self, _: Instant) -> Option<Grant> {
        None
    }

    fn poll_at(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn trimmed_packet_counts_as_headers_only() {
    let mut pair = pair("cc=fixed:8M", false);
    let metered = Arc::new(AtomicU64::new(0));
    pair.nics[1].set_credit_policy(Some(Box::new(Meter(metered.clone()))));
    let remote = pair.remote();
    pair.post(1, Work::Write { remote }, 1000);
    let transmit = pair.nics[0].poll_transmit(pair.now).unwrap();
    let received = Received {
        route: transmit.route,
        packet: transmit.packet,
        payload: transmit.gather.length,
        ecn: Ecn::Capable,
        hops: 0,
    };
    pair.nics[1].handle_trimmed(pair.now, &received);
    assert_eq!(metered.load(Ordering::Relaxed), 80);
    pair.deliver(1, &transmit);
    assert_eq!(metered.load(Ordering::Relaxed), 80 + 1080);
}

#[test]
fn pressure_is_reported_to_peers() {
    let mut pair = pair("cc=backpressure", false);
    let remote = pair.remote();
    pair.nics[1].set_pressure(true);
    pair.post(1, Work::Write { remote }, 2_000_000);
    pair.run_until_idle(|_, _| false);
    let EntryState::Open(channel) = &pair.nics[0].entries[pair.channels[0].index()].state else {
        panic!("an open channel");
    };
    let slowed = channel.controller().pacing_bytes_per_second();
    let fresh = "cc=backpressure".parse::<PolicySpec>().unwrap().build(MTU);
    let free = fresh.congestion.pacing_bytes_per_second();
    assert!(slowed < free, "{slowed:?} {free:?}");
    assert_eq!(pair.completions(0).len(), 1);
}

/// The rate of `cc=backpressure` after a transfer. It falls if the peer (`peer`) or this side's own
/// queue (`own_queue`) requests it.
fn paced(peer: bool, own_queue: bool) -> Option<u64> {
    let mut pair = pair("cc=backpressure", false);
    let remote = pair.remote();
    pair.nics[1].set_pressure(peer);
    pair.nics[0].set_transmit_pressure(own_queue);
    pair.post(1, Work::Write { remote }, 2_000_000);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0).len(), 1);
    assert_eq!(pair.nics[0].counters().pressure_received > 0, peer);
    assert_eq!(pair.nics[1].counters().pressure_received, 0);
    let EntryState::Open(channel) = &pair.nics[0].entries[pair.channels[0].index()].state else {
        panic!("an open channel");
    };
    channel.controller().pacing_bytes_per_second()
}

#[test]
fn full_transmit_queue_slows_senders_as_pressure_of_the_peer_does() {
    let free = paced(false, false);
    assert!(paced(false, true) < free);
    assert_eq!(paced(false, true), paced(true, false));
}

#[test]
fn paths_have_windows_of_their_own() {
    let mut pair = pair("cc=fixed:8M,path=mp-rdma", false);
    let remote = pair.remote();
    for id in 0..4 {
        pair.post(id, Work::Write { remote }, 2_000_000);
    }
    let mut random = Random::new(1);
    pair.run_until_idle(|_, _| random.number().is_multiple_of(30));
    assert_eq!(pair.completions(0).len(), 4);
}
