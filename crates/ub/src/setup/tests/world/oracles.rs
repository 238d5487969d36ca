//! Invariants of every set-up, whatever the network does.

use alloc::vec::Vec;

use super::{Established, Members, Opened, Terms, World, attempt_of, packet_length};

/// Checks that the attempt for which the server has just opened a channel has no more channels of
/// this incarnation than allowed: one, however often its CONFIRM arrives, and another only after a
/// REJECT for a stale cookie. (A REJECT that arrives late or twice makes a client drop a cookie
/// that is not stale.)
pub(super) fn demand_few_openings(world: &World) {
    let attempt = |opened: &Opened| attempt_of(opened.opening.confirm.hello.nonce);
    let opened = &world.server.opened;
    let last = opened.last().map(attempt).expect("a channel was opened");
    let count = opened.iter().filter(|one| attempt(one) == last).count();
    let stale = world.stale.get(&last).copied().unwrap_or(0) as usize;
    assert!(count <= 1 + stale, "{count} channels after {stale} stale cookies");
}

/// Checks that a channel which a client has opened is one that the server has opened, with the same
/// terms.
pub(super) fn demand_same_channel(
    world: &mut World,
    client: usize,
    end: &Established,
    terms: &Terms,
) {
    let mut servers = world.gone.iter().chain([&world.server]);
    let server = servers.rfind(|server| server.identity.cna == end.remote);
    let server = server.expect("an incarnation of the server");
    let [opened] = server.opened.iter().filter(|one| one.terms == *terms).collect::<Vec<_>>()[..]
    else {
        panic!("not one channel of the server has these terms: {terms:?}");
    };
    let theirs = &opened.end;
    assert_eq!(opened.opening.confirm.agreed, end.agreed, "both ends agree");
    assert_eq!((theirs.remote, theirs.endpoint.tpn), (terms.client.cna, terms.client.tpn));
    assert_eq!((end.remote, end.endpoint.tpn), (terms.server.cna, terms.server.tpn));
    assert_eq!(
        (theirs.endpoint.initial_psn, theirs.first_psn),
        (end.first_psn, end.endpoint.initial_psn)
    );
    let agreed = &end.agreed;
    let both = [&world.clients[client].identity.limits, &server.identity.limits];
    for limits in both {
        assert!(agreed.mtu_bytes <= limits.mtu_bytes && agreed.paths <= limits.paths);
        assert!(agreed.channels <= limits.channels && agreed.read_slots <= limits.read_slots);
        assert_eq!(agreed.capabilities & !limits.capabilities, 0, "more than a side offered");
    }
    let fits = packet_length(agreed.mtu_bytes) <= world.faults.length_max;
    assert!(fits, "packets are longer than the path allows: {agreed:?}");
    let is_shortened = both.iter().all(|limits| agreed.mtu_bytes < limits.mtu_bytes);
    world.counts.shortened += u64::from(is_shortened);
}

/// Checks that the server has as many channels of every connected client's group.
pub(super) fn demand_groups(world: &mut World) {
    for client in &world.clients {
        let opened = |number: u8| {
            world.server.opened.iter().filter(move |one| {
                one.terms.client.cna == client.identity.cna
                    && one.opening.confirm.hello.joins.map_or(0, |joins| joins.number) == number
            })
        };
        let first = &client.attempts[0];
        let end = first.channel.expect("the first channel is open");
        let tpn = first.tpn;
        let leaders: Vec<_> = opened(0).filter(|one| one.terms.client.tpn == tpn).collect();
        assert!(leaders.iter().any(|one| one.terms.server.tpn == end.endpoint.tpn));
        for number in 1..end.agreed.channels {
            assert!(opened(number as u8).next().is_some(), "channel {number} is missing");
        }
        match leaders[..] {
            [leader] => {
                let is_complete = leader.members.is_some_and(Members::is_complete);
                assert!(is_complete, "the server misses a channel");
            }
            // An attempt that dropped a cookie that was not stale: what joins names the number of
            // both first channels.
            _ => world.counts.opened_twice += 1,
        }
    }
}
