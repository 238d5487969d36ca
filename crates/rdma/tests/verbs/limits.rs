//! Limits of a provider, and requests that are accepted together or not at all.

use crate::node::{DOMAIN, Node, Pair, own_options};
use fairway_rdma::ProviderError;
use fairway_roce::{PostError, ScatterList, Transport, Work, WorkRequest};
use fairway_ub::wire::roce::Tail;

#[test]
fn as_many_queues_exist_as_the_limits_say() {
    let limits = crate::KIND.limits();
    let node = Node::new(&own_options());
    // The node has two completion queues.
    for _ in 2..limits.completion_queues {
        node.provider.create_completion_queue(1).unwrap();
    }
    let refused = node.provider.create_completion_queue(1);
    assert!(matches!(refused, Err(ProviderError::Limit(_))), "{refused:?}");
    for _ in 0..limits.receive_queues {
        node.provider.create_receive_queue(DOMAIN, 1).unwrap();
    }
}

#[test]
fn requests_are_checked_before_the_first_is_posted() {
    let pair = Pair::local(Transport::Rc);
    let [here, there] = &pair.nodes;
    let request = |work, local: ScatterList| WorkRequest {
        id: 1,
        work,
        local,
        signaled: true,
        solicited: false,
        fence: false,
    };
    let good = request(Work::Send { tail: Tail::Nothing }, here.local(0, 8));
    let add = Work::FetchAdd { remote: there.remote(0), add: 1 };
    let long = request(add, here.local(0, 16));
    let check = |requests: &[WorkRequest]| here.provider.check_sends(pair.pairs[0], requests);
    assert_eq!(check(&[good, good]), Ok(()));
    assert_eq!(check(&[good, long, good]), Err(PostError::Length));
    assert_eq!(check(&vec![good; 128]), Ok(()));
    assert_eq!(check(&vec![good; 129]), Err(PostError::Full));
}
