//! Memory that is missing at random, on a network that loses and reorders: every operation ends
//! once, every record is freed, and later operations succeed.

use super::*;
use fairway_wire::{BypassOperation, Refusal, Tag};

/// Chances out of a hundred.
#[derive(Clone, Copy)]
struct Troubles {
    loss: u64,
    reorder: u64,
    missing: u64,
}

struct Gap {
    pair: Pair,
    random: Random,
    troubles: Troubles,
    missed: u32,
}

impl Gap {
    fn new(seed: u64, troubles: Troubles) -> Gap {
        let mut pair = Pair::new(0xFF_FF00, 4);
        for nic in &mut pair.nics {
            let request = SegmentRequest {
                address: 0,
                length: 1 << 24,
                rights: Rights::NONE,
                token_value: 1,
            };
            let staging = nic.register(&request).unwrap();
            nic.set_staging(staging, MTU).unwrap();
        }
        Gap { pair, random: Random::new(seed), troubles, missed: 0 }
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.number() % 100 < percent
    }

    fn is_missing(&mut self) -> bool {
        let is_missing = self.chance(self.troubles.missing);
        self.missed += u32::from(is_missing);
        is_missing
    }

    fn pull(&mut self, n: usize) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.pair.nics[n].poll_transmit(self.pair.now) {
            moved = true;
            if transmit.gather.length > 0 && self.is_missing() {
                self.pair.nics[n].handle_ungathered(&transmit);
            } else if !self.chance(self.troubles.loss) {
                let wire = &mut self.pair.wires[1 - n];
                let at = match self.random.number() % 100 < self.troubles.reorder {
                    true => self.random.number() as usize % (wire.len() + 1),
                    false => wire.len(),
                };
                wire.insert(at, transmit);
            }
        }
        moved
    }

    fn deliver(&mut self, n: usize, transmit: &Transmit) {
        let (route, packet) = (transmit.route, transmit.packet);
        let payload = transmit.gather.length;
        let received = Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 };
        match self.pair.nics[n].handle_packet(self.pair.now, &received) {
            Verdict::Place(placement) => self.placed(n, placement.token),
            Verdict::Own(atomic) => self.placed(n, atomic.token),
            Verdict::Done | Verdict::Drop(_) => {}
        }
        while let Some(execution) = self.pair.nics[n].poll_execution() {
            let (Execution::Copy { token, .. } | Execution::Atomic(AtomicExecution { token, .. })) =
                execution;
            self.placed(n, token);
        }
    }

    fn placed(&mut self, n: usize, token: PlacementToken) {
        let now = self.pair.now;
        match self.is_missing() {
            true => self.pair.nics[n].handle_unplaced(now, token),
            false => self.pair.nics[n].handle_placed(now, token, 0),
        }
    }

    fn run_until_idle(&mut self) {
        for _ in 0..200_000 {
            self.pair.now = self.pair.now + Duration::from_us(1);
            let mut moved = false;
            for n in 0..2 {
                self.pair.nics[n].handle_timeout(self.pair.now);
                moved |= self.pull(n);
                while let Some(transmit) = self.pair.wires[n].pop_front() {
                    moved = true;
                    self.deliver(n, &transmit);
                }
                self.pair.nics[n].audit();
            }
            if !moved {
                if self.pair.nics.iter().all(|nic| nic.usage().messages == 0) {
                    return;
                }
                let due = self.pair.nics.iter().filter_map(UbDevice::poll_timeout);
                self.pair.now = self.pair.now.max(due.reduce(Instant::min).unwrap());
            }
        }
        let waiting = self.pair.nics.each_ref().map(|nic| nic.usage().messages);
        panic!("it never settles: {waiting:?} messages wait");
    }

    fn post_all(&mut self, from: u64, order: OrderRequest) {
        let (remote, target) = (self.pair.remote(), named(1));
        let works = [
            Work::Write { remote },
            Work::Read { remote },
            Work::Send { target },
            Work::SendImmediate { target, immediate: 3 },
            Work::WriteImmediate { remote, target, immediate: 4 },
        ];
        for (id, work) in (from..).zip(works.iter().cycle().take(20)) {
            self.pair.receive(1000 + id, 20_000);
            let length = [8, 900, 9_000][self.random.number() as usize % 3];
            self.pair.post_in_order(id, *work, length, allowed(order, work));
        }
        let operator = fairway_wire::AtomicOperator::Add;
        let work = Work::Atomic { remote, width: 8, operator, operand: 1, compare: 0 };
        self.pair.post_in_order(from + 20, work, 0, allowed(order, &work));
    }
}

/// In memory order the kind of an operation determines which side enforces it.
fn allowed(order: OrderRequest, work: &Work) -> OrderRequest {
    let mode = match work {
        _ if order.tag != Tag::Mo => order.mode,
        Work::Read { .. } | Work::Atomic { .. } => ServiceMode::Rot,
        _ => ServiceMode::Rol,
    };
    OrderRequest { mode, ..order }
}

fn orders() -> [OrderRequest; 4] {
    let plain = OrderRequest::default();
    let of = |mode, tag| OrderRequest { mode, tag, ..plain };
    [
        plain,
        of(ServiceMode::Rol, Tag::Mo),
        of(ServiceMode::Rot, Tag::So),
        OrderRequest { receive_in_order: true, ..of(ServiceMode::Rol, Tag::Ro) },
    ]
}

fn ids(mut done: Vec<Completion>) -> Vec<u64> {
    done.sort_by_key(|completion| completion.id);
    done.iter().map(|completion| completion.id).collect()
}

#[test]
fn every_operation_ends_once_where_memory_is_missing() {
    let mut failed = 0;
    for seed in 0..60 {
        for order in orders() {
            let troubles = Troubles { loss: seed % 3 * 10, reorder: seed % 2 * 30, missing: 5 };
            let mut gap = Gap::new(seed, troubles);
            gap.post_all(0, order);
            gap.run_until_idle();
            let done = gap.pair.completions(0);
            failed += done.iter().filter(|done| done.status != Status::Success).count();
            let expected = |status: &Status| {
                use Status as S;
                matches!(status, S::Success | S::LocalMemory | S::RemoteAccess | S::RemoteOperation)
            };
            assert!(done.iter().all(|done| expected(&done.status)), "seed {seed}: {done:?}");
            assert_eq!(ids(done), (0..21).collect::<Vec<_>>(), "seed {seed} {order:?}");
            assert!(gap.pair.completions(1).len() <= 20);
            // From here on no memory is missing.
            gap.troubles.missing = 0;
            gap.post_all(50, order);
            gap.run_until_idle();
            let done = gap.pair.completions(0);
            assert!(
                done.iter().all(|done| done.status == Status::Success),
                "seed {seed}: {done:?}"
            );
            assert_eq!(ids(done), (50..71).collect::<Vec<_>>(), "seed {seed} {order:?}");
        }
    }
    assert!(failed > 500, "{failed} operations failed");
}

/// The answer of node 1 to a packet whose target memory is missing.
fn answer_to_unplaced(pair: &mut Pair, transmit: &Transmit) -> Packet {
    let (route, packet, payload) = (transmit.route, transmit.packet, transmit.gather.length);
    let received = Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 };
    if let Verdict::Place(placement) = pair.nics[1].handle_packet(pair.now, &received) {
        pair.nics[1].handle_unplaced(pair.now, placement.token);
    }
    pair.nics[1].poll_transmit(pair.now).expect("an answer").packet
}

#[test]
fn repeated_store_whose_memory_was_missing_is_refused_again() {
    let mut pair = Pair::new(0, 1);
    let remote = pair.remote();
    pair.post(1, Work::Store { remote }, 8);
    let store = pair.nics[0].poll_transmit(pair.now).expect("a store");
    // The first answer is lost, and the store is repeated.
    for _ in 0..2 {
        let Packet::Bypass(answer) = answer_to_unplaced(&mut pair, &store) else {
            panic!("a store is answered")
        };
        let refused = BypassOperation::StoreDone { refusal: Some(Refusal::Access) };
        assert_eq!(answer.operation, refused);
    }
}

#[test]
fn receive_of_a_message_that_is_given_up_in_the_middle_takes_the_next_one() {
    for order in orders() {
        let mut pair = Pair::new(0xFF_FFFE, 1);
        let target = named(1);
        pair.receive(9, 10 * MTU);
        pair.post_in_order(1, Work::Send { target }, 3 * MTU, order);
        while let Some(transmit) = pair.nics[0].poll_transmit(pair.now) {
            match transmit.packet {
                Packet::Data(data) if data.index == 1 => {
                    pair.nics[0].handle_ungathered(&transmit);
                }
                _ => pair.wires[1].push_back(transmit),
            }
        }
        pair.run_until_idle(|_, _| false);
        assert_eq!(pair.completions(0)[0].status, Status::LocalMemory, "{order:?}");
        // A message of one packet needs no slot, so it does not push the other one out.
        pair.post_in_order(2, Work::Send { target }, 8, order);
        pair.run_until_idle(|_, _| false);
        let done = pair.completions(1);
        assert_eq!((done[0].id, done[0].bytes, done[0].status), (9, 8, Status::Success));
        assert_eq!(ids(pair.completions(0)), [2]);
    }
}
