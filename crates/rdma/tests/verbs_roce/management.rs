//! Management datagrams, and the processes that they are for.

use crate::node::{Node, Recorder, own_options};
use fairway_rdma::{
    Listener, Management, Provider, ProviderError, ProviderKind, Routed, ServiceReservation, open,
};
use fairway_roce::Event;
use fairway_ub::CompletionQueueId;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, mpsc};

/// Two providers of one host.
fn two() -> [Node; 2] {
    let own = own_options();
    [Node::new(&own), Node::new(&own)]
}

fn send(from: &Node, to: &Node, first: u8) {
    let number = from.provider.resolve(to.provider.gids()[0]).unwrap();
    from.provider.send_management(number, &[first; 256]).unwrap();
}

/// Returns the datagrams that a node has received, and clears them.
fn received(node: &Node, count: usize) -> Vec<(IpAddr, u8, bool)> {
    node.recorder.until(|calls| {
        (calls.management.len() >= count).then(|| std::mem::take(&mut calls.management))
    })
}

#[test]
fn datagram_within_the_host_reaches_the_process_it_is_for() {
    let [here, there] = two();
    let from = here.provider.gids()[0].ip();
    send(&here, &there, 1);
    assert_eq!(received(&here, 1), [(from, 1, true)], "the datagram is for this node");
    *here.recorder.route.lock().unwrap() = Routed::Slot(there.provider.slot());
    send(&here, &there, 2);
    assert_eq!(received(&there, 1), [(from, 2, true)]);
    assert_eq!(received(&here, 1), [(from, 2, true)]);
}

#[test]
fn a_service_is_where_it_was_claimed() {
    let [here, there] = two();
    let service = 0x0106_0000 + u64::from(std::process::id());
    let from = here.provider.gids()[0].ip();
    let reservation = ServiceReservation::new(service).unwrap();
    assert!(matches!(ServiceReservation::new(service), Err(ProviderError::Busy)));
    let claim = there.provider.claim_service(reservation).unwrap();
    assert!(matches!(ServiceReservation::new(service), Err(ProviderError::Busy)));
    *here.recorder.route.lock().unwrap() = Routed::Service(service);
    send(&here, &there, 1);
    assert_eq!(received(&there, 1), [(from, 1, true)]);
    received(&here, 1);
    drop(claim);
    send(&here, &there, 2);
    assert_eq!(received(&here, 2), [(from, 2, true), (from, 2, false)], "no node is there");
    // Any process can claim the service again.
    let again = ServiceReservation::new(service).unwrap();
    let _claim = here.provider.claim_service(again).unwrap();
}

#[test]
fn forwarded_datagram_is_not_forwarded_again() {
    let [here, there] = two();
    // Each process assigns it to the other.
    *here.recorder.route.lock().unwrap() = Routed::Slot(there.provider.slot());
    *there.recorder.route.lock().unwrap() = Routed::Slot(here.provider.slot());
    for number in 0..5 {
        send(&here, &there, number);
        assert_eq!(received(&there, 1).len(), 1);
        assert_eq!(received(&here, 1).len(), 1);
    }
    assert_eq!(there.provider.network_counters().forwarded, 0);
}

/// A burst larger than the queue of a Unix socket, whose length Linux sets.
#[test]
fn a_burst_to_a_busy_neighbour_arrives() {
    let [here, there] = two();
    *here.recorder.route.lock().unwrap() = Routed::Slot(there.provider.slot());
    let queue = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
    let count = queue.trim().parse::<usize>().unwrap() + 50;
    let busy = there.recorder.route.lock().unwrap();
    (0..count).for_each(|number| send(&here, &there, number as u8));
    drop(busy);
    let numbers: Vec<u8> =
        received(&there, count).into_iter().map(|(_, number, _)| number).collect();
    assert_eq!(numbers, (0..count).map(|number| number as u8).collect::<Vec<_>>());
    let counters = here.provider.network_counters();
    assert_eq!((counters.forwarded, counters.not_forwarded), (count as u64, 0));
}

#[test]
fn datagram_to_an_empty_slot_is_reported() {
    let here = Node::new(&own_options());
    *here.recorder.route.lock().unwrap() = Routed::Slot(255);
    send(&here, &here, 1);
    let from = here.provider.gids()[0].ip();
    assert_eq!(received(&here, 2), [(from, 1, true), (from, 1, false)]);
}

#[test]
fn providers_of_both_kinds_exchange_them() {
    let own = own_options();
    let here = Node::new(&own);
    let recorder = Recorder::new();
    let there = open(ProviderKind::Fairway, &own, recorder.clone()).unwrap();
    let from = own.addresses[0];
    *here.recorder.route.lock().unwrap() = Routed::Slot(there.slot());
    let number = here.provider.resolve(there.gids()[0]).unwrap();
    here.provider.send_management(number, &[1; 256]).unwrap();
    recorder.until(|calls| (calls.management == [(from, 1, true)]).then_some(()));
    *recorder.route.lock().unwrap() = Routed::Slot(here.provider.slot());
    here.recorder.until(|calls| calls.management.pop());
    let number = there.resolve(here.provider.gids()[0]).unwrap();
    there.send_management(number, &[2; 256]).unwrap();
    here.recorder.until(|calls| (calls.management == [(from, 2, true)]).then_some(()));
}

/// A listener that is called may have the last reference to the provider, and drop it.
#[test]
fn provider_may_be_dropped_during_a_callback() {
    struct Quitter {
        provider: Mutex<Option<Arc<dyn Provider>>>,
        gone: mpsc::Sender<()>,
    }

    impl Listener for Quitter {
        fn completion(&self, _queue: CompletionQueueId) {}

        fn event(&self, _event: Event) {}

        fn management(&self, _datagram: &Management<'_>) -> Routed {
            let provider = self.provider.lock().unwrap().take();
            drop(provider);
            let _ = self.gone.send(());
            Routed::Here
        }
    }

    for kind in [ProviderKind::Roce, ProviderKind::Fairway] {
        let own = own_options();
        let here = Node::new(&own);
        let (gone, ended) = mpsc::channel();
        let quitter = Arc::new(Quitter { provider: Mutex::new(None), gone });
        let provider = open(kind, &own, quitter.clone()).unwrap();
        *here.recorder.route.lock().unwrap() = Routed::Slot(provider.slot());
        let weak = Arc::downgrade(&provider);
        let number = here.provider.resolve(provider.gids()[0]).unwrap();
        *quitter.provider.lock().unwrap() = Some(provider);
        here.provider.send_management(number, &[1; 256]).unwrap();
        ended.recv_timeout(std::time::Duration::from_secs(100)).expect("it has gone");
        assert!(weak.upgrade().is_none());
    }
}
