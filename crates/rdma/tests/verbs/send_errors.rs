//! Local errors of sends of unreliable queue pairs: the queue pair goes on receiving.

use crate::node::{Node, Pair, Q_KEY, own_options, patient};
use fairway_roce::{Change, Event, Peer, QueuePairState, Status, Transport, Work};
use fairway_ub::LocalRange;
use fairway_ub::wire::Qpn;
use fairway_ub::wire::roce::Tail;

/// Two connections, or queue pairs for datagrams, and the work of a message to the second.
fn pair(transport: Transport) -> (Pair, [Work; 2]) {
    if transport == Transport::Uc {
        let send = Work::Send { tail: Tail::Nothing };
        return (Pair::local(transport), [send; 2]);
    }
    let own = own_options();
    let nodes = [Node::new(&own), Node::new(&own)];
    let pairs = [nodes[0].queue_pair(transport), nodes[1].queue_pair(transport)];
    for (node, number) in nodes.iter().zip(pairs) {
        node.connect(number, Peer::default(), patient());
    }
    let gid = nodes[0].provider.gids()[0];
    let to = |n: usize| Work::Datagram {
        to: nodes[n].peer(gid, pairs[1 - n]),
        q_key: Q_KEY,
        immediate: None,
    };
    let works = [to(0), to(1)];
    (Pair { nodes, pairs }, works)
}

fn statuses<const N: usize>(node: &Node) -> [(u64, Status); N] {
    [(); N].map(|()| node.next(node.sends)).map(|done| (done.id, done.status))
}

#[test]
fn failed_send_leaves_the_receives_of_an_unreliable_queue_pair_alone() {
    for transport in [Transport::Uc, Transport::Ud] {
        let (pair, [there_too, back]) = pair(transport);
        let [here, there] = &pair.nodes;
        let state = |number: Qpn| here.provider.state(number);
        here.receive(pair.pairs[0], 20, 0, 1064);
        there.receive(pair.pairs[1], 21, 0, 1064);
        let beyond = LocalRange { segment: here.region.segment, offset: 1 << 20, length: 1 };
        pair.post(0, 1, there_too, here.local(0, 1000));
        pair.post(0, 2, there_too, beyond.into());
        pair.post(0, 3, there_too, here.local(0, 8));
        let expected = [(1, Status::Success), (2, Status::LocalProtection), (3, Status::Flushed)];
        assert_eq!(statuses(here), expected);
        let status = Status::LocalProtection;
        here.recorder.event(Event::Fault { queue_pair: pair.pairs[0], status });
        assert_eq!(state(pair.pairs[0]), Some(QueuePairState::SendError));
        there.received(21);
        // Sends that are posted now are flushed, and messages arrive.
        pair.post(0, 4, there_too, here.local(0, 8));
        assert_eq!(statuses(here), [(4, Status::Flushed)]);
        pair.post(1, 5, back, there.local(0, 8));
        there.sent(5);
        here.received(20);
        here.provider.modify(pair.pairs[0], &Change::Resume).unwrap();
        there.receive(pair.pairs[1], 22, 0, 1064);
        pair.post(0, 6, there_too, here.local(0, 8));
        here.sent(6);
        there.received(22);
    }
}
