//! A Jetty that has failed, before its NIC flushes it.

use super::*;
use crate::api::{Event, ExceptionMode};

/// A Jetty of node 0, number 5, that has just failed: a refusal has arrived, and nothing was sent
/// since.
fn failed() -> (Pair, JettyId) {
    let mut pair = Pair::new(0, 1);
    let queue = pair.queues[0];
    let exception = ExceptionMode::Error;
    let config = JettyConfig { number: Some(5), exception, ..JettyConfig::new(queue, queue) };
    let jetty = pair.nics[0].create_jetty(&config).unwrap();
    post_receive(&mut pair, jetty);
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 8 };
    let work = Work::Send { target: named(3) };
    let (channel, order) = (pair.channels[0], OrderRequest::default());
    let request = WorkRequest { id: 1, channel, work, local, signaled: true, order };
    pair.nics[0].post(pair.now, jetty, &request).unwrap();
    let send = pair.nics[0].poll_transmit(pair.now).unwrap();
    pair.deliver(1, &send);
    let refusal = pair.nics[1].poll_transmit(pair.now).unwrap();
    pair.deliver(0, &refusal);
    while pair.nics[0].jetty_state(jetty) == JettyState::Ready {
        // The void that replaces the refused message.
        let void = pair.nics[0].poll_transmit(pair.now).unwrap();
        pair.deliver(1, &void);
        pair.now = pair.now + Duration::from_ms(1);
        pair.nics[1].handle_timeout(pair.now);
        let answer = pair.nics[1].poll_transmit(pair.now).unwrap();
        pair.deliver(0, &answer);
    }
    let done = pair.completions(0);
    assert_eq!((done.len(), done[0].status), (1, Status::RemoteNoJetty));
    (pair, jetty)
}

fn post_receive(pair: &mut Pair, jetty: JettyId) {
    let local = LocalRange { segment: pair.segments[0], offset: 0, length: 8 };
    pair.nics[0].post_receive(jetty, &ReceiveRequest { id: 9, local }).unwrap();
}

#[test]
fn failed_jetty_is_not_ready_before_its_flush() {
    let (mut pair, jetty) = failed();
    let early = pair.nics[0].set_jetty_state(jetty, JettyState::Ready);
    assert_eq!(early, Err(SetupError::Busy));
    pair.nics[0].poll_transmit(pair.now);
    let flushed: Vec<_> = pair.completions(0).iter().map(|done| (done.id, done.status)).collect();
    assert_eq!(flushed, [(9, Status::Flushed)]);
    let events: Vec<_> = core::iter::from_fn(|| pair.nics[0].poll_event()).collect();
    assert_eq!(events.last(), Some(&Event::JettyDrained { jetty }));
    pair.nics[0].set_jetty_state(jetty, JettyState::Ready).unwrap();
}

#[test]
fn reused_jetty_number_is_not_flushed() {
    let (mut pair, jetty) = failed();
    pair.nics[0].destroy_jetty(jetty).unwrap();
    let queue = pair.queues[0];
    let config = JettyConfig { number: Some(5), ..JettyConfig::new(queue, queue) };
    let jetty = pair.nics[0].create_jetty(&config).unwrap();
    post_receive(&mut pair, jetty);
    pair.nics[0].poll_transmit(pair.now);
    assert_eq!(pair.completions(0), []);
    assert_eq!(pair.nics[0].usage().receives, 1);
}

#[test]
fn send_that_waits_for_a_removed_jetty_does_not_reach_the_next_one() {
    let mut pair = Pair::new(0, 1);
    let queue = pair.queues[1];
    let config = JettyConfig::new(queue, queue);
    let removed = pair.nics[1].create_jetty(&config).unwrap();
    pair.post(1, Work::Send { target: named(removed.value()) }, 8);
    pair.run_for(500);
    assert!(pair.nics[1].counters().not_ready > 0);
    pair.nics[1].destroy_jetty(removed).unwrap();
    pair.jetties[1] = pair.nics[1].create_jetty(&config).unwrap();
    pair.receive(2, 8);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(1), []);
    let done = pair.completions(0);
    assert_eq!((done.len(), done[0].status), (1, Status::RemoteNoJetty));
}

#[test]
fn numbers_of_jetties_are_assigned_in_turn_until_all_are_taken() {
    let mut pair = Pair::new(0, 1);
    let queue = pair.queues[0];
    let config = JettyConfig::new(queue, queue);
    let nic = &mut pair.nics[0];
    let mut numbers = Vec::new();
    let limit = loop {
        match nic.create_jetty(&config) {
            Ok(jetty) => numbers.push(jetty),
            Err(error) => break error,
        }
    };
    assert_eq!(limit, SetupError::Limit("jetties"));
    let [first, second] = [numbers[0], numbers[1]];
    nic.destroy_jetty(second).unwrap();
    nic.destroy_jetty(first).unwrap();
    let found = [nic.create_jetty(&config), nic.create_jetty(&config), nic.create_jetty(&config)];
    assert_eq!(found, [Ok(first), Ok(second), Err(limit)]);
}
