//! Tests of RC with memory that the caller finds missing. The connection ends, every operation
//! completes once and in order, and nothing remains.

use super::*;
use fairway_device::random::Random;

/// A pair whose caller finds some memory missing once, at a moment drawn from the seed.
struct Gap {
    pair: Pair,
    random: Random,
    /// Accesses to memory that succeed before one fails.
    left: u64,
    /// Percentage of packets that are lost.
    loss: u64,
}

impl Gap {
    fn is_missing(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0
    }

    fn pull(&mut self, n: usize) -> bool {
        let mut moved = false;
        while let Some(transmit) = self.pair.hosts[n].poll_transmit(self.pair.now) {
            moved = true;
            self.put(n, transmit);
        }
        moved
    }

    fn put(&mut self, n: usize, transmit: Transmit) {
        if transmit.gather.length() > 0 && self.is_missing() {
            self.pair.hosts[n].handle_ungathered(&transmit);
        } else if self.random.number() % 100 >= self.loss {
            self.pair.wires[1 - n].push_back(transmit);
        }
    }

    fn deliver(&mut self, n: usize, transmit: &Transmit) {
        let payload = transmit.gather.length();
        let received =
            Received { source: 0, packet: transmit.packet, payload, ecn: Ecn::NotCapable };
        while let Some(answer) = self.pair.hosts[n].poll_answer(&received) {
            self.put(n, answer);
        }
        if let Verdict::Place(Placement { token, .. })
        | Verdict::Own(OwnVerdict::Store { token, .. }) =
            self.pair.hosts[n].handle_packet(self.pair.now, &received)
        {
            self.placed(n, token);
        }
        while let Some(execution) = self.pair.hosts[n].poll_execution() {
            self.placed(n, execution.token);
        }
    }

    fn placed(&mut self, n: usize, token: PlacementToken) {
        match self.is_missing() {
            true => self.pair.hosts[n].handle_unplaced(token),
            false => self.pair.hosts[n].handle_placed(self.pair.now, token, 0),
        }
    }

    fn run_until_idle(&mut self) {
        for _ in 0..20_000 {
            let mut moved = false;
            for n in 0..2 {
                moved |= self.pull(n);
                for transmit in core::mem::take(&mut self.pair.wires[n]) {
                    moved = true;
                    self.deliver(n, &transmit);
                }
            }
            if !moved {
                let due = self.pair.hosts.iter().filter_map(RoceDevice::poll_timeout);
                let Some(due) = due.reduce(Instant::min) else { return };
                self.pair.now = self.pair.now.max(due);
                self.pair.pass(Duration::ZERO);
            }
        }
        panic!("it never settles");
    }
}

/// Returns the statuses of twelve operations of which one finds its memory missing.
fn run(seed: u64) -> Vec<Status> {
    let mut gap =
        Gap { pair: Pair::new(Transport::Rc), random: Random::new(seed), left: 0, loss: 0 };
    gap.left = 1 + gap.random.number() % 40;
    gap.loss = seed % 3 * 5;
    for id in 0..12 {
        gap.pair.receive(1, 100 + id, 4_000);
        match gap.random.number() % 4 {
            0 => gap.pair.write(0, id, 5_000),
            1 => gap.pair.read(0, id, 3_000),
            2 => gap.pair.send(0, id, 2_500),
            _ => gap.pair.fetch_add(0, id, 1),
        }
    }
    gap.run_until_idle();
    let sent = gap.pair.sent(0);
    assert!(sent.iter().map(|(id, _)| *id).eq(0..12), "seed {seed}: {sent:?}");
    for n in 0..2 {
        let _ = gap.pair.hosts[n].modify(gap.pair.pairs[n], &Change::Error);
    }
    let received = gap.pair.received(1);
    assert!(received.iter().map(|(id, ..)| *id).eq(100..112), "seed {seed}: {received:?}");
    let in_use = [gap.pair.hosts[0].in_use(), gap.pair.hosts[1].in_use()];
    assert_eq!(in_use, [[0; 3]; 2], "seed {seed}");
    sent.into_iter().map(|(_, status)| status).collect()
}

#[test]
fn one_operation_fails_and_what_is_behind_it_is_flushed() {
    let mut counts = [0; 4];
    for seed in 0..2_000 {
        let statuses = run(seed);
        let is_over = |status: &Status| !matches!(status, Status::Success | Status::Flushed);
        let Some(at) = statuses.iter().position(is_over) else { continue };
        let (before, behind) = (&statuses[..at], &statuses[at + 1..]);
        assert!(
            behind.iter().all(|status| *status == Status::Flushed),
            "seed {seed}: {statuses:?}"
        );
        // A queue pair that has ended does not retransmit a lost answer.
        let is_lossy = seed % 3 != 0;
        let done = before.iter().all(|status| *status == Status::Success);
        assert!(done || is_lossy, "seed {seed}: {statuses:?}");
        let kinds = [
            Status::RemoteAccess,
            Status::RemoteOperation,
            Status::LocalProtection,
            // The refusal itself was lost.
            Status::RetryExceeded,
        ];
        let kind = kinds.iter().position(|kind| *kind == statuses[at]);
        counts[kind.unwrap_or_else(|| panic!("seed {seed}: {statuses:?}"))] += 1;
    }
    assert!(counts[..3].iter().all(|count| *count > 100), "{counts:?}");
}
