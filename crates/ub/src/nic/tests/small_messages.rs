//! The path of small messages.

use super::*;

#[test]
fn small_messages_of_both_ends_take_one_path_whatever_their_channels_numbers_are() {
    let (policy, mut reserved) = ("cc=swift".parse().unwrap(), 0);
    let mut pair = Pair::with_homes(4, &policy, |nic| {
        // The second NIC's channel is its third.
        for _ in 0..reserved {
            nic.reserve_channel().unwrap();
        }
        reserved += 2;
    });
    assert_ne!(pair.channels[0].index(), pair.channels[1].index());
    let target = pair.remote();
    pair.post(1, Work::Write { remote: target }, 64);
    let remote = RemoteRange { token_id: pair.segments[0].token_id(), ..target };
    let local = LocalRange { segment: pair.segments[1], offset: 0, length: 64 };
    let (channel, order) = (pair.channels[1], OrderRequest::default());
    let work = Work::Write { remote };
    let request = WorkRequest { id: 2, channel, work, local, signaled: true, order };
    pair.nics[1].post(pair.now, pair.jetties[1], &request).unwrap();
    let mut paths = Vec::new();
    pair.run_until_idle(|_, transmit| {
        if matches!(transmit.packet, Packet::Data(_) | Packet::Ack(_)) {
            paths.push(transmit.route.path);
        }
        false
    });
    assert!(paths.len() >= 4, "two messages and their acknowledgements");
    assert!(paths.iter().all(|path| *path == paths[0]), "{paths:?}");
}
