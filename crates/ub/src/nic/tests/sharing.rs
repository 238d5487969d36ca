//! Jetties that share a channel: a stalled Jetty must not take the resources that the others need.

use super::*;
use crate::api::OrderRequest;
use fairway_wire::{AtomicOperator, Tag};

const STRICT: OrderRequest = OrderRequest { mode: ServiceMode::Rot, tag: Tag::So, ..PLAIN };
const PLAIN: OrderRequest = OrderRequest {
    mode: ServiceMode::Rol,
    tag: Tag::No,
    fence: false,
    complete_in_order: false,
    receive_in_order: false,
};

impl Pair {
    fn more_jetties(&mut self, count: usize) -> Vec<JettyId> {
        let config = JettyConfig::new(self.queues[0], self.queues[0]);
        (0..count).map(|_| self.nics[0].create_jetty(&config).unwrap()).collect()
    }

    fn post_on(&mut self, jetty: JettyId, id: u64, work: Work, order: OrderRequest) {
        let local = LocalRange { segment: self.segments[0], offset: 0, length: 8 };
        let channel = self.channels[0];
        let request = WorkRequest { id, channel, work, local, signaled: true, order };
        self.nics[0].post(self.now, jetty, &request).unwrap();
    }

    /// A strict SEND for which no receive is posted, and strict WRITEs that have to follow it.
    fn stall(&mut self, jetty: JettyId, behind: u64) {
        let remote = self.remote();
        self.post_on(jetty, 0, Work::Send { target: named(1) }, STRICT);
        for id in 1..=behind {
            let remote = RemoteRange { address: remote.address + 8 * id, ..remote };
            self.post_on(jetty, id, Work::Write { remote }, STRICT);
        }
    }

    /// Moves packets for this many steps of a microsecond.
    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now = self.now + Duration::from_us(1);
            for n in 0..2 {
                self.nics[n].handle_timeout(self.now);
                while let Some(transmit) = self.nics[n].poll_transmit(self.now) {
                    self.wires[1 - n].push_back(transmit);
                }
                while let Some(transmit) = self.wires[n].pop_front() {
                    self.deliver(n, &transmit);
                }
            }
        }
    }

    /// Keeps eight READs of each Jetty in flight for this many steps. Returns how many were done.
    fn reads(&mut self, jetties: &[JettyId], steps: u32) -> u32 {
        let remote = self.remote();
        for &jetty in jetties {
            for _ in 0..8 {
                self.post_on(jetty, 1000, Work::Read { remote }, PLAIN);
            }
        }
        let mut done = 0;
        for _ in 0..steps {
            self.run(1);
            for completion in self.completions(0) {
                assert_eq!((completion.id, completion.status), (1000, Status::Success));
                done += 1;
                self.post_on(completion.jetty, 1000, Work::Read { remote }, PLAIN);
            }
        }
        done
    }
}

/// Number of READs that `readers` Jetties complete in 200 steps, beside others that are stalled in
/// mode ROT.
fn reads_beside(readers: usize, stalled: usize) -> u32 {
    let mut pair = Pair::new(0, 1).with_staging();
    let jetties = pair.more_jetties(readers + stalled);
    for &jetty in &jetties[readers..] {
        pair.stall(jetty, 200 / stalled as u64);
    }
    pair.run(1000);
    assert!(stalled == 0 || pair.nics[1].counters().deferred > 0, "something is held");
    pair.reads(&jetties[..readers], 200)
}

#[test]
fn reads_of_others_go_on_beside_a_jetty_that_is_stalled_in_rot() {
    let without = reads_beside(4, 0);
    let with = reads_beside(4, 1);
    assert!(with >= without * 9 / 10, "{with} READs beside it, {without} without");
}

#[test]
fn a_quarter_is_left_however_many_jetties_are_stalled() {
    // Five shares exceed the number of slots; 16 READs need a quarter of it.
    let without = reads_beside(2, 0);
    let with = reads_beside(2, 5);
    assert!(with >= without * 9 / 10, "{with} READs beside five, {without} without");
}

#[test]
fn operations_that_wait_for_a_share_are_issued_in_order_as_places_come_free() {
    let mut pair = Pair::new(0, 1).with_staging();
    let jetty = pair.jetties[0];
    pair.stall(jetty, 200);
    pair.run(1000);
    // A quarter of 64 slots, of which the SEND has one.
    assert_eq!(pair.nics[1].usage().deferred, 15);
    assert_eq!(pair.nics[0].counters().gated, 201 - 16);
    pair.effects.clear();
    pair.receive(7, 64);
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0), (0..=200).collect::<Vec<u64>>());
    // Payload that goes through the staging memory is placed there first, at whole packets.
    let placed = pair.effects.iter().copied().filter(|at| *at > 0 && at % u64::from(MTU) != 0);
    let expected = (1..=200).map(|id| 8 * id).filter(|at| at % u64::from(MTU) != 0);
    assert!(placed.eq(expected), "{:?}", pair.effects);
}

#[test]
fn operation_without_order_needs_no_share() {
    let mut pair = Pair::new(0, 1).with_staging();
    let remote = pair.remote();
    let (jetty, relaxed) = (pair.jetties[0], OrderRequest { tag: Tag::Ro, ..STRICT });
    for order in [PLAIN, OrderRequest { tag: Tag::No, ..STRICT }, relaxed] {
        for id in 0..60 {
            pair.post_on(jetty, id, Work::Write { remote }, order);
        }
        assert_eq!(pair.outgoing().len(), 60, "{order:?}: all of them leave at once");
        pair.run_until_idle(|_, _| false);
    }
    assert_eq!(pair.nics[0].counters().gated, 0);
}

#[test]
fn shares_come_back_whatever_becomes_of_an_operation() {
    for seed in 0..20 {
        let mut pair = Pair::new(0xFF_FFF0, 4).with_staging();
        let (jetty, remote) = (pair.jetties[0], pair.remote());
        let denied = RemoteRange { token_value: 1, ..remote };
        let fenced = OrderRequest { fence: true, ..STRICT };
        let add = Work::Atomic {
            remote,
            width: 8,
            operator: AtomicOperator::Add,
            operand: 1,
            compare: 0,
        };
        // Twice as many as there are places, of every kind; every fifth is refused.
        for id in 0..200 {
            let order = if id % 3 == 0 { fenced } else { STRICT };
            let work = match id % 5 {
                0 => Work::Read { remote },
                1 => add,
                2 => Work::Write { remote: denied },
                _ => Work::Write { remote },
            };
            pair.post_on(jetty, id, work, order);
        }
        let mut random = Random::new(seed);
        pair.run_until_idle(|_, _| random.number().is_multiple_of(4));
        let mut ids: Vec<u64> = pair.completions(0).iter().map(|done| done.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..200).collect::<Vec<u64>>(), "seed {seed}");
        assert_eq!(pair.word, 40, "seed {seed}");
        // All places of the staging memory are free again: as many packets as fit are sent at once.
        for id in 0..20 {
            pair.post_on(jetty, id, Work::Write { remote }, STRICT);
        }
        assert_eq!(pair.outgoing().len(), 16, "seed {seed}");
        pair.run_until_idle(|_, _| false);
    }
}

#[test]
fn a_jetty_that_fails_gives_its_share_back() {
    let mut pair = Pair::new(0, 1).with_staging();
    let jetty = pair.jetties[0];
    pair.stall(jetty, 200);
    pair.run(1000);
    pair.nics[0].set_jetty_state(jetty, JettyState::Error).unwrap();
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.completions(0).len(), 201);
    assert_eq!(pair.nics[1].usage().deferred, 0);
    pair.nics[0].set_jetty_state(jetty, JettyState::Ready).unwrap();
    let remote = pair.remote();
    for id in 0..40 {
        pair.post_on(jetty, id, Work::Write { remote }, STRICT);
    }
    pair.run_until_idle(|_, _| false);
    assert_eq!(pair.ids(0).len(), 40);
}

#[test]
fn answers_that_are_not_acknowledged_yet_leave_room_for_more() {
    for slots in [1, 2, 4, 16, 64, 256] {
        let mut pair = Pair::with_read_slots(0, 1, Profile::default(), slots);
        let jetty = pair.jetties[0];
        let done = pair.reads(&[jetty], 200);
        assert!(done >= 50 * slots.min(8), "{slots} slots: {done} READs");
        assert_eq!(pair.nics[1].counters().dropped(DropReason::MessagePool), 0, "{slots} slots");
    }
}
