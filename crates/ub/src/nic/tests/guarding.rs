//! Memory that is reached by way of Jetties, and rights that change.

use super::*;
use crate::api::{Grant, OrderRequest};
use crate::policy::{PolicySpec, Share};
use fairway_wire::{AtomicOperator, Tag};

const DOMAIN: u32 = 9;
/// Bits of the secret that belong to the segment.
const OWN: u32 = 12;

/// Two nodes; at the second, memory is accessed through Jetties.
fn guarded(grant: Grant) -> Pair {
    let mut pair = Pair::new(0, 1);
    let (far, segment) = (pair.jetties[1], pair.segments[1]);
    pair.nics[1].guard_segments(OWN);
    pair.nics[1].set_segment_access(segment, Rights::ALL, DOMAIN).unwrap();
    pair.nics[1].set_jetty_grant(far, grant).unwrap();
    pair
}

impl Pair {
    /// The memory of the second node, through a Jetty.
    fn via(&self, jetty: u32) -> RemoteRange {
        let remote = self.remote();
        RemoteRange { token_value: jetty << OWN | remote.token_value, ..remote }
    }

    fn add(&mut self, id: u64, remote: RemoteRange) {
        let work = Work::Atomic {
            remote,
            width: 8,
            operator: AtomicOperator::Add,
            operand: 1,
            compare: 0,
        };
        self.post(id, work, 0);
    }
}

fn access(rights: Rights) -> Grant {
    Grant::Access { rights, domain: DOMAIN }
}

#[test]
fn the_jetty_that_is_named_has_to_grant_the_access() {
    let (ok, rights) = (Status::Success, Status::RemoteRights);
    for (granted, expected) in [
        (access(Rights::ALL), [ok, ok, ok]),
        (access(Rights::WRITE), [ok, rights, rights]),
        (access(Rights::READ), [rights, ok, rights]),
        (access(Rights::ATOMIC), [rights, rights, ok]),
        (Grant::Nothing, [Status::RemoteNoJetty; 3]),
        (Grant::Access { rights: Rights::ALL, domain: DOMAIN + 1 }, [Status::RemoteAccess; 3]),
    ] {
        for length in [8, 5000] {
            let mut pair = guarded(granted);
            let remote = pair.via(1);
            pair.post(0, Work::Write { remote }, length);
            pair.post(1, Work::Read { remote }, length);
            pair.add(2, remote);
            pair.run_until_idle(|_, _| false);
            assert_eq!(pair.statuses(), expected, "{granted:?}");
            let written = expected[0] == ok;
            assert_eq!(pair.placed[1] > 0, written, "{granted:?}");
            assert_eq!(pair.word, u64::from(expected[2] == ok), "{granted:?}");
        }
    }
}

#[test]
fn right_that_the_segment_does_not_grant_differs_from_one_that_the_jetty_does_not_grant() {
    let mut pair = guarded(access(Rights::READ_WRITE));
    let (remote, segment) = (pair.via(1), pair.segments[1]);
    pair.nics[1].set_segment_access(segment, Rights::ATOMIC, DOMAIN).unwrap();
    pair.post(0, Work::Write { remote }, 8);
    pair.post(1, Work::Read { remote }, 8);
    pair.add(2, remote);
    pair.run_until_idle(|_, _| false);
    let (of_segment, of_jetty) = (Status::RemoteAccess, Status::RemoteRights);
    assert_eq!(pair.statuses(), [of_segment, of_segment, of_jetty]);
}

#[test]
fn first_access_by_way_of_a_jetty_is_noted_once() {
    let mut pair = guarded(access(Rights::ALL));
    let (far, remote) = (pair.jetties[1], pair.via(1));
    for (id, length) in [(0, 8), (1, 0)] {
        assert!(!pair.nics[1].is_accessed(far) && !pair.nics[1].take_first_accesses());
        for round in 0..2 {
            pair.post(2 * id + round, Work::Read { remote }, length);
            pair.run_until_idle(|_, _| false);
            assert!(pair.nics[1].is_accessed(far));
            assert_eq!(pair.nics[1].take_first_accesses(), round == 0);
        }
        pair.nics[1].set_jetty_grant(far, Grant::Later).unwrap();
        pair.nics[1].set_jetty_grant(far, access(Rights::WRITE)).unwrap();
        pair.post(9, Work::Read { remote }, length);
        pair.run_until_idle(|_, _| false);
        assert!(!pair.nics[1].is_accessed(far), "it was refused");
        pair.nics[1].set_jetty_grant(far, access(Rights::ALL)).unwrap();
    }
}

#[test]
fn no_other_jetty_and_no_other_secret_opens_it() {
    let mut pair = guarded(access(Rights::ALL));
    let good = pair.via(1);
    let others = [pair.via(0), pair.via(2), pair.via(7), pair.via(0xF_FFFF)];
    let secret = RemoteRange { token_value: good.token_value ^ 1, ..good };
    for (id, remote) in others.into_iter().chain([secret]).enumerate() {
        pair.post(id as u64, Work::Write { remote }, 3000);
    }
    pair.run_until_idle(|_, _| false);
    let gone = Status::RemoteNoJetty;
    assert_eq!(pair.statuses(), [gone, gone, gone, gone, Status::RemoteAccess]);
    assert_eq!(pair.placed, [0, 0]);
}

#[test]
fn access_before_the_grant_is_retried() {
    let mut pair = guarded(Grant::Later);
    let remote = pair.via(1);
    pair.post(0, Work::Write { remote }, 5000);
    pair.post(1, Work::Read { remote }, 5000);
    pair.add(2, remote);
    pair.run_for(2000);
    assert!(pair.nics[1].counters().not_ready > 3);
    assert_eq!((pair.completions(0), pair.word), (vec![], 0));
    let far = pair.jetties[1];
    pair.nics[1].set_jetty_grant(far, access(Rights::ALL)).unwrap();
    pair.run_until_idle(|_, _| false);
    assert_eq!((pair.statuses(), pair.word), (vec![Status::Success; 3], 1));
}

/// A WRITE of which one packet has arrived when `change` is called.
fn in_the_middle(mut pair: Pair, remote: RemoteRange, change: impl FnOnce(&mut Pair)) -> Pair {
    pair.post(0, Work::Write { remote }, 5000);
    let sent = pair.outgoing();
    assert_eq!(sent.len(), 5);
    pair.deliver(1, &sent[0]);
    change(&mut pair);
    for packet in &sent[1..] {
        pair.deliver(1, packet);
    }
    pair.run_until_idle(|_, _| false);
    pair
}

#[test]
fn access_under_way_when_a_grant_ends_is_refused() {
    let ends: [(&[Grant], Status); 3] = [
        // As for an access that begins now.
        (&[Grant::Nothing], Status::RemoteNoJetty),
        (&[Grant::Later, access(Rights::ALL)], Status::RemoteAccess),
        (&[access(Rights::READ)], Status::RemoteAccess),
    ];
    for (grants, status) in ends {
        let pair = guarded(access(Rights::ALL));
        let remote = pair.via(1);
        let mut pair = in_the_middle(pair, remote, |pair| {
            for grant in grants {
                pair.nics[1].set_jetty_grant(pair.jetties[1], *grant).unwrap();
            }
        });
        assert_eq!(pair.statuses(), [status], "{grants:?}");
        assert_eq!(pair.placed[1], 1, "{grants:?}");
    }
}

#[test]
fn access_under_way_when_a_grant_is_extended_succeeds() {
    let pair = guarded(access(Rights::WRITE));
    let remote = pair.via(1);
    let mut pair = in_the_middle(pair, remote, |pair| {
        pair.nics[1].set_jetty_grant(pair.jetties[1], access(Rights::ALL)).unwrap();
    });
    assert_eq!((pair.statuses(), pair.placed[1]), (vec![Status::Success], 5));
}

#[test]
fn a_jetty_that_is_destroyed_grants_nothing() {
    let mut pair = guarded(access(Rights::ALL));
    let remote = pair.via(1);
    let far = pair.jetties[1];
    pair.nics[1].destroy_jetty(far).unwrap();
    pair.post(0, Work::Write { remote }, 8);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::RemoteNoJetty]);
    assert_eq!(pair.nics[1].set_jetty_grant(far, Grant::Later), Err(SetupError::Missing));
    let near = pair.jetties[0];
    let unguarded = pair.nics[0].set_jetty_grant(near, Grant::Later);
    assert_eq!(unguarded, Err(SetupError::Parameter("guard_segments")));
}

#[test]
fn rights_that_a_segment_loses_count_at_once_and_its_secret_stays() {
    let plain = Pair::new(0, 1);
    let remote = plain.remote();
    let mut pair = in_the_middle(plain, remote, |pair| {
        let segment = pair.segments[1];
        pair.nics[1].set_segment_access(segment, Rights::READ, 0).unwrap();
    });
    assert_eq!((pair.statuses(), pair.placed[1]), (vec![Status::RemoteAccess], 1));
    pair.post(1, Work::Write { remote }, 8);
    pair.post(2, Work::Read { remote }, 8);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::RemoteRights, Status::Success]);
    // Adding rights stops no operation.
    let mut fewer = Pair::new(0, 1);
    let segment = fewer.segments[1];
    fewer.nics[1].set_segment_access(segment, Rights::WRITE, 0).unwrap();
    let mut pair = in_the_middle(fewer, remote, |pair| {
        pair.nics[1].set_segment_access(segment, Rights::ALL, 0).unwrap();
    });
    assert_eq!(pair.statuses(), [Status::Success]);
    let free = SegmentId::new(pair.segments[1].number() + 1);
    let missing = pair.nics[1].set_segment_access(free, Rights::ALL, 0);
    assert_eq!(missing, Err(SetupError::Missing));
}

#[test]
fn the_access_of_what_is_no_segment_cannot_be_changed() {
    let mut pair = guarded(access(Rights::ALL));
    for number in [2, 1 << 20, u32::MAX] {
        let missing = pair.nics[1].set_segment_access(SegmentId::new(number), Rights::ALL, DOMAIN);
        assert_eq!(missing, Err(SetupError::Missing));
    }
}

#[test]
fn a_segment_number_that_is_used_again_leaves_its_domain() {
    let mut pair = guarded(access(Rights::ALL));
    let old = pair.segments[1];
    assert_eq!(pair.nics[1].deregister(old), Ok(true));
    let request =
        SegmentRequest { address: 0x1000, length: 64, rights: Rights::ALL, token_value: 77 };
    let new = pair.nics[1].register(&request).unwrap();
    assert_eq!(new, old, "the number is used again");
    pair.segments[1] = new;
    let remote = pair.via(1);
    pair.post(1, Work::Write { remote }, 8);
    pair.run_until_idle(|_, _| false);
    // The Jetty still belongs to the old domain.
    assert_eq!(pair.statuses(), [Status::RemoteAccess]);
    let far = pair.jetties[1];
    pair.nics[1].set_jetty_grant(far, Grant::Access { rights: Rights::ALL, domain: 0 }).unwrap();
    pair.post(2, Work::Write { remote }, 8);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success]);
}

#[test]
fn access_to_no_bytes_is_checked_by_the_jetty_alone() {
    let (ok, rights) = (Status::Success, Status::RemoteRights);
    for (granted, expected) in [
        (access(Rights::ALL), [ok, ok]),
        (access(Rights::WRITE), [ok, rights]),
        (access(Rights::READ), [rights, ok]),
        (Grant::Nothing, [Status::RemoteNoJetty; 2]),
        (Grant::Access { rights: Rights::ALL, domain: DOMAIN + 1 }, [ok, ok]),
    ] {
        for order in ORDERS {
            let mut pair = guarded(granted);
            let good = pair.via(1);
            let no_segment = fairway_wire::TokenId::new((1 << 20) - 1);
            let others = [
                RemoteRange { address: u64::MAX, ..good },
                RemoteRange { token_value: good.token_value ^ 1, ..good },
                RemoteRange { token_id: no_segment, token_value: 1 << OWN, address: 0 },
            ];
            for remote in [good].into_iter().chain(others) {
                pair.request_twice(remote, 0, order);
                assert_eq!(pair.statuses(), expected, "{granted:?} {order:?} {remote:?}");
            }
            assert_eq!(pair.placed, [0, 0]);
        }
    }
}

/// The kinds of order: none, and memory order.
const ORDERS: [bool; 2] = [false, true];

impl Pair {
    /// Runs a WRITE and a READ until they end.
    fn request_twice(&mut self, remote: RemoteRange, length: u32, in_memory_order: bool) {
        let order = |mode| match in_memory_order {
            true => OrderRequest { mode, tag: Tag::Mo, ..OrderRequest::default() },
            false => OrderRequest::default(),
        };
        self.post_in_order(0, Work::Write { remote }, length, order(ServiceMode::Rol));
        self.post_in_order(1, Work::Read { remote }, length, order(ServiceMode::Rot));
        self.run_until_idle(|_, _| false);
    }
}

#[test]
fn access_to_no_bytes_waits_until_its_jetty_grants_it() {
    let mut pair = guarded(Grant::Later);
    let remote = pair.via(1);
    pair.post(0, Work::Write { remote }, 0);
    pair.post(1, Work::Read { remote }, 0);
    pair.run_for(2000);
    assert_eq!(pair.completions(0), []);
    let far = pair.jetties[1];
    pair.nics[1].set_jetty_grant(far, access(Rights::ALL)).unwrap();
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.statuses(), [Status::Success; 2]);
}

#[test]
fn access_to_no_bytes_of_no_segment_is_refused_where_memory_is_not_guarded() {
    let mut pair = Pair::new(0, 1);
    let remote =
        RemoteRange { token_id: fairway_wire::TokenId::new((1 << 20) - 1), ..pair.remote() };
    pair.request_twice(remote, 0, false);
    assert_eq!(pair.statuses(), [Status::RemoteAccess; 2]);
}

/// The line to the first node is the bottleneck, and two of its Jetties read.
#[test]
fn answers_have_the_share_of_the_jetty_that_grants_the_access() {
    let mut pair = guarded(access(Rights::ALL));
    let queue = pair.queues[1];
    let other = pair.nics[1].create_jetty(&JettyConfig::new(queue, queue)).unwrap();
    pair.nics[1].set_jetty_grant(other, access(Rights::ALL)).unwrap();
    let heavy = Share { weight: 3, ..Share::default() };
    pair.nics[1].set_share(other, heavy).unwrap();
    let policy: PolicySpec = "sched=drr:quantum=8K".parse().unwrap();
    let flows = pair.nics[1].limits().flows;
    pair.nics[1].set_scheduler(pair.now, Some(policy.build_scheduler(flows)));
    let queue = pair.queues[0];
    let second = pair.nics[0].create_jetty(&JettyConfig::new(queue, queue)).unwrap();
    // Small READs through the first Jetty, large ones through the one with the weight 3.
    for (jetty, via, length, count) in
        [(pair.jetties[0], pair.jetties[1], 4000, 30), (second, other, 1_000_000, 4)]
    {
        let work = Work::Read { remote: pair.via(via.value()) };
        let local = LocalRange { segment: pair.segments[0], offset: 0, length };
        let (channel, order) = (pair.channels[0], OrderRequest::default());
        for id in 0..count {
            let request = WorkRequest { id, channel, work, local, signaled: true, order };
            pair.nics[0].post(pair.now, jetty, &request).unwrap();
        }
    }
    let mut bytes = [0; 2];
    while bytes[0] < 100_000 {
        pair.now = pair.now + Duration::from_us(1);
        for n in 0..2 {
            pair.nics[n].handle_timeout(pair.now);
        }
        while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
            pair.deliver(1, &transmit);
        }
        if let Some(transmit) = pair.nics[1].poll_transmit(pair.now) {
            if let Packet::Data(data) = &transmit.packet {
                bytes[usize::from(data.jetty == second)] += transmit.gather.length;
            }
            pair.deliver(0, &transmit);
        }
    }
    assert!(bytes[1].abs_diff(3 * bytes[0]) < 30_000, "{bytes:?}");
    let shares: Vec<_> = pair.nics[1].flows().map(|flow| (flow.jetty, flow.share)).collect();
    assert!(shares.contains(&(second, heavy)), "{shares:?}");
    assert!(shares.contains(&(pair.jetties[0], Share::default())), "{shares:?}");
}
