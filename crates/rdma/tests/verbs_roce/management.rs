//! Management datagrams, and whose they are.

use crate::node::{Ear, Node, own_options};
use fairway_engine::CompletionQueueId;
use fairway_rdma::{Carrier, CarrierError, CarrierKind, Listener, Management, Routed, open};
use fairway_roce::Event;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, mpsc};

/// Two carriers of one host.
fn two() -> [Node; 2] {
    let own = own_options();
    [Node::new(&own), Node::new(&own)]
}

fn send(from: &Node, to: &Node, first: u8) {
    let number = from.carrier.resolve(to.carrier.gids()[0]).unwrap();
    from.carrier.send_management(number, &[first; 256]).unwrap();
}

/// Datagrams that a node has heard of, and forgets.
fn heard(node: &Node, count: usize) -> Vec<(IpAddr, u8, bool)> {
    node.ear.until(|heard| {
        (heard.management.len() >= count).then(|| std::mem::take(&mut heard.management))
    })
}

#[test]
fn datagram_within_the_host_reaches_the_process_it_is_for() {
    let [here, there] = two();
    let from = here.carrier.gids()[0].ip();
    send(&here, &there, 1);
    assert_eq!(heard(&here, 1), [(from, 1, true)], "nobody said it is another's");
    *here.ear.route.lock().unwrap() = Routed::Slot(there.carrier.slot());
    send(&here, &there, 2);
    assert_eq!(heard(&there, 1), [(from, 2, true)]);
    assert_eq!(heard(&here, 1), [(from, 2, true)]);
}

#[test]
fn a_service_is_where_it_was_claimed() {
    let [here, there] = two();
    let service = 0x0106_0000 + u64::from(std::process::id());
    let from = here.carrier.gids()[0].ip();
    let claim = there.carrier.claim_service(service).unwrap();
    assert!(matches!(here.carrier.claim_service(service), Err(CarrierError::Busy)));
    *here.ear.route.lock().unwrap() = Routed::Service(service);
    send(&here, &there, 1);
    assert_eq!(heard(&there, 1), [(from, 1, true)]);
    heard(&here, 1);
    drop(claim);
    send(&here, &there, 2);
    assert_eq!(heard(&here, 2), [(from, 2, true), (from, 2, false)], "nobody is there");
    // Any process can claim it anew.
    let _claim = here.carrier.claim_service(service).unwrap();
}

#[test]
fn forwarded_datagram_is_not_forwarded_again() {
    let [here, there] = two();
    // Each thinks it the other's.
    *here.ear.route.lock().unwrap() = Routed::Slot(there.carrier.slot());
    *there.ear.route.lock().unwrap() = Routed::Slot(here.carrier.slot());
    for number in 0..5 {
        send(&here, &there, number);
        assert_eq!(heard(&there, 1).len(), 1);
        assert_eq!(heard(&here, 1).len(), 1);
    }
    assert_eq!(there.carrier.network_counters().handed_on, 0);
}

/// More than the queue of a Unix socket takes, of which Linux says how much that is.
#[test]
fn a_burst_to_a_busy_neighbour_arrives() {
    let [here, there] = two();
    *here.ear.route.lock().unwrap() = Routed::Slot(there.carrier.slot());
    let queue = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
    let count = queue.trim().parse::<usize>().unwrap() + 50;
    let busy = there.ear.route.lock().unwrap();
    (0..count).for_each(|number| send(&here, &there, number as u8));
    drop(busy);
    let numbers: Vec<u8> = heard(&there, count).into_iter().map(|(_, number, _)| number).collect();
    assert_eq!(numbers, (0..count).map(|number| number as u8).collect::<Vec<_>>());
    let counters = here.carrier.network_counters();
    assert_eq!((counters.handed_on, counters.not_handed_on), (count as u64, 0));
}

#[test]
fn datagram_to_an_empty_slot_is_reported() {
    let here = Node::new(&own_options());
    *here.ear.route.lock().unwrap() = Routed::Slot(255);
    send(&here, &here, 1);
    let from = here.carrier.gids()[0].ip();
    assert_eq!(heard(&here, 2), [(from, 1, true), (from, 1, false)]);
}

#[test]
fn carriers_of_both_kinds_exchange_them() {
    let own = own_options();
    let here = Node::new(&own);
    let ear = Ear::new();
    let there = open(CarrierKind::Fairway, &own, ear.clone()).unwrap();
    let from = own.addresses[0];
    *here.ear.route.lock().unwrap() = Routed::Slot(there.slot());
    let number = here.carrier.resolve(there.gids()[0]).unwrap();
    here.carrier.send_management(number, &[1; 256]).unwrap();
    ear.until(|heard| (heard.management == [(from, 1, true)]).then_some(()));
    *ear.route.lock().unwrap() = Routed::Slot(here.carrier.slot());
    here.ear.until(|heard| heard.management.pop());
    let number = there.resolve(here.carrier.gids()[0]).unwrap();
    there.send_management(number, &[2; 256]).unwrap();
    here.ear.until(|heard| (heard.management == [(from, 2, true)]).then_some(()));
}

/// A listener that is called may hold the last reference to the carrier, and drop it.
#[test]
fn a_carrier_may_go_while_it_tells_something() {
    struct Quitter {
        carrier: Mutex<Option<Arc<dyn Carrier>>>,
        gone: mpsc::Sender<()>,
    }

    impl Listener for Quitter {
        fn completion(&self, _queue: CompletionQueueId) {}

        fn event(&self, _event: Event) {}

        fn management(&self, _datagram: &Management<'_>) -> Routed {
            let carrier = self.carrier.lock().unwrap().take();
            drop(carrier);
            let _ = self.gone.send(());
            Routed::Here
        }
    }

    for kind in [CarrierKind::Roce, CarrierKind::Fairway] {
        let own = own_options();
        let here = Node::new(&own);
        let (gone, heard) = mpsc::channel();
        let quitter = Arc::new(Quitter { carrier: Mutex::new(None), gone });
        let carrier = open(kind, &own, quitter.clone()).unwrap();
        *here.ear.route.lock().unwrap() = Routed::Slot(carrier.slot());
        let weak = Arc::downgrade(&carrier);
        let number = here.carrier.resolve(carrier.gids()[0]).unwrap();
        *quitter.carrier.lock().unwrap() = Some(carrier);
        here.carrier.send_management(number, &[1; 256]).unwrap();
        heard.recv_timeout(std::time::Duration::from_secs(100)).expect("it has gone");
        assert!(weak.upgrade().is_none());
    }
}
