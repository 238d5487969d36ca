//! The event of a queue pair that a request has reached before it could send.

use crate::node::{Node, own_options, patient};
use fairway_roce::{Change, Event, Transport, Work};
use fairway_ub::Rights;
use fairway_ub::wire::Psn;
use fairway_ub::wire::roce::{DEFAULT_P_KEY, RnrTimer, Tail};

#[test]
fn first_request_before_a_queue_pair_can_send_raises_one_event() {
    for kind in 0..5 {
        let own = own_options();
        let [here, there] = &[Node::new(&own), Node::new(&own)];
        let (from, to) = (here.queue_pair(Transport::Rc), there.queue_pair(Transport::Rc));
        let gid = there.provider.gids()[0];
        let (mtu, expected) = (there.provider.mtu(), Psn::new(0xff_fff0));
        let (peer, rnr_timer) = (there.peer(gid, from), RnrTimer::from_code(1));
        let ready = Change::ReadyToReceive { peer, mtu, expected, read_depth: 16, rnr_timer };
        // A queue pair that is used again raises it again.
        for round in 1..3 {
            let init = Change::Init { rights: Rights::ALL, p_key: DEFAULT_P_KEY, q_key: 0 };
            there.provider.modify(to, &init).unwrap();
            there.provider.modify(to, &ready).unwrap();
            here.connect(from, here.peer(gid, to), patient());
            let remote = there.remote(0);
            let work = [
                Work::Write { remote, immediate: None },
                Work::Read { remote },
                Work::FetchAdd { remote, add: 1 },
                Work::Write { remote, immediate: Some(5) },
                Work::Send { tail: Tail::Nothing },
            ][kind];
            for id in 0..3 {
                there.receive(to, id, 64, 8);
                here.post(from, id, work, here.local(0, 8));
                here.sent(id);
            }
            let established = |event: &&Event| **event == Event::Established { queue_pair: to };
            there.recorder.until(|calls| {
                let count = calls.events.iter().filter(established).count();
                assert!(count <= round, "{work:?}");
                (count == round).then_some(())
            });
            there.provider.modify(to, &Change::Reset).unwrap();
            here.provider.modify(from, &Change::Reset).unwrap();
        }
    }
}
