//! Loads and stores: guarantees about the order in which they end.

use super::*;
use fairway_wire::{BypassOperation, Packet};

/// A store is given up while an older operation is unfinished. Only when that has ended does its
/// initiator announce that it repeats nothing so old, and until then a late copy could still be
/// executed.
#[test]
fn a_store_is_given_up_only_when_nothing_older_is_repeated() {
    // Well below the keep-alive interval, so that the channel is not probed in between.
    let timeout_initial = Duration::from_ms(20);
    let profile = Profile { bypass_retries: 0, timeout_initial, ..Profile::default() };
    let mut pair = Pair::with_profile(0, 1, profile);
    let remote = pair.remote();
    pair.post(1, Work::Load { remote }, 8);
    let load = pair.nics[0].poll_transmit(pair.now).unwrap();
    pair.post(2, Work::Store { remote }, 8);
    let late = pair.nics[0].poll_transmit(pair.now).unwrap();
    // The answer to the load is being placed for a long time, and the store is not answered.
    pair.deliver(1, &load);
    let answer = pair.nics[1].poll_transmit(pair.now).unwrap();
    let received = Received {
        route: answer.route,
        packet: answer.packet,
        payload: answer.gather.length,
        ecn: Ecn::Capable,
        hops: 0,
    };
    let Verdict::Place(placement) = pair.nics[0].handle_packet(pair.now, &received) else {
        panic!("an answer to be placed");
    };
    for _ in 0..5 {
        pair.now = pair.now + timeout_initial;
        pair.nics[0].handle_timeout(pair.now);
        assert!(pair.nics[0].poll_transmit(pair.now).is_none(), "nothing is repeated");
        assert_eq!(pair.completions(0), [], "the store is not over before the load");
    }
    pair.nics[0].handle_placed(pair.now, placement.token, 0);
    let ends: Vec<_> = pair.completions(0).iter().map(|done| (done.id, done.status)).collect();
    assert_eq!(ends, [(1, Status::Success), (2, Status::TimedOut)]);
    // The late copy cannot overwrite what is stored from now on.
    pair.post(3, Work::Store { remote }, 8);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0).len(), 1);
    let effects = pair.effects.len();
    assert!(matches!(
        late.packet,
        Packet::Bypass(bypass) if matches!(bypass.operation, BypassOperation::Store { .. })
    ));
    pair.deliver(1, &late);
    assert_eq!(pair.effects.len(), effects, "the late copy is ignored");
}

impl Pair {
    /// Moves all packets that node `n` sends now, and returns how many.
    fn move_all(&mut self, n: usize, mut lose: impl FnMut(usize) -> bool) -> usize {
        let now = self.now;
        let sent: Vec<Transmit> = core::iter::from_fn(|| self.nics[n].poll_transmit(now)).collect();
        for (number, packet) in sent.iter().enumerate() {
            if !lose(number) {
                self.deliver(1 - n, packet);
            }
        }
        sent.len()
    }
}

#[test]
fn lost_load_does_not_delay_others() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    for id in 0..200 {
        pair.post(id, Work::Load { remote }, 8);
    }
    assert_eq!(pair.move_all(0, |number| number == 0), 64);
    pair.move_all(1, |_| false);
    assert_eq!(pair.completions(0).len(), 63);
    // The first operation is repeated; after its answer as many as before are in flight.
    pair.now = pair.now + Profile::default().timeout_initial;
    pair.nics[0].handle_timeout(pair.now);
    assert_eq!(pair.move_all(0, |_| false), 1);
    pair.move_all(1, |_| false);
    assert_eq!(pair.move_all(0, |_| false), 64);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0).len(), 137);
}

#[test]
fn withdrawn_load_leaves_its_turn_to_the_next() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    let queue = pair.queues[0];
    let other = pair.nics[0].create_jetty(&JettyConfig::new(queue, queue)).unwrap();
    let first = pair.jetties[0];
    for id in 0..64 {
        pair.post(id, Work::Load { remote }, 8);
    }
    for id in 64..68 {
        pair.jetties[0] = if id % 2 == 0 { other } else { first };
        pair.post(id, Work::Load { remote }, 8);
    }
    assert_eq!(pair.move_all(0, |_| false), 64);
    pair.move_all(1, |_| false);
    // The next operation is flushed before it is sent.
    pair.nics[0].set_jetty_state(other, crate::api::JettyState::Error).unwrap();
    pair.run_until_idle(|_, _| false);
    let done = pair.completions(0);
    let good = done.iter().filter(|done| done.status == Status::Success).count();
    assert_eq!((done.len(), good), (68, 66), "{done:?}");
}

/// Loads take numbers as stores do, although the target records those of stores alone.
#[test]
fn store_is_executed_however_many_loads_came_before() {
    for loads in [1_u64 << 30, (1 << 31) - 2, 1 << 31, (1 << 31) + 100, 1 << 33] {
        let mut pair = Pair::new(0, 1);
        let (remote, channel) = (pair.remote(), pair.channels[0]);
        pair.post(0, Work::Load { remote }, 8);
        pair.run_until_idle(|_, _| false);
        let mut left = loads;
        while left > 0 {
            let step = left.min(1 << 30);
            left -= step;
            pair.nics[0].open(channel).unwrap().1.skip_bypass_numbers(step as u32);
            pair.post(1, Work::Load { remote }, 8);
            pair.run_until_idle(|_, _| false);
        }
        pair.post(2, Work::Store { remote }, 8);
        pair.run_until_idle(|_, _| false);
        let last = pair.completions(0).last().map(|done| (done.id, done.status));
        assert_eq!(last, Some((2, Status::Success)), "{loads} loads");
        assert_eq!(pair.nics[1].counters().stores_done, 1);
    }
}
