//! Random test of two managers over a network that loses, repeats, reorders and delays datagrams.
//! Then the network is healed, and everything has to end.

use super::*;
use fairway_device::random::Random;

/// The state of one connection as one side has seen it.
#[derive(Default)]
struct Belief {
    id: ConnectionId,
    established: u32,
    disconnected: u32,
    failed: u32,
    released: u32,
    closed: bool,
    /// The id at the peer, once it is known.
    peer: ConnectionId,
}

struct Storm {
    seed: u64,
    random: Random,
    now: Instant,
    managers: [Manager; 2],
    beliefs: [Vec<Belief>; 2],
    /// Datagrams under way: time of arrival, receiver, sender.
    wire: VecDeque<(Instant, usize, u64, [u8; cm::MAD_LEN])>,
    /// Percentage of datagrams that are lost.
    loss: u64,
    healed: bool,
    queue_pair: u32,
}

impl Storm {
    fn new(seed: u64) -> Storm {
        let mut random = Random::new(seed);
        let limits = Limits { connections: 64, ..Limits::default() };
        let managers =
            [0, 1].map(|slot| Manager::new(&limits, &Profile::default(), slot, random.number()));
        let loss = random.number() % 40;
        let (beliefs, wire) = ([Vec::new(), Vec::new()], VecDeque::new());
        let now = Instant::ZERO;
        let mut storm = Storm {
            seed,
            random,
            now,
            managers,
            beliefs,
            wire,
            loss,
            healed: false,
            queue_pair: 1,
        };
        for manager in &mut storm.managers {
            manager.listen(now, SERVICE, 16).unwrap();
        }
        storm
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.number() % 100 < percent
    }

    fn connect(&mut self, side: usize) {
        self.queue_pair += 1;
        let asked = request(self.queue_pair);
        if let Ok(id) = self.managers[side].connect(self.now, 1 - side as u64, &asked) {
            self.beliefs[side].push(Belief { id, ..Belief::default() });
        }
    }

    fn step(&mut self) {
        let due = self.managers.iter().filter_map(Manager::poll_timeout);
        let arrivals = self.wire.iter().map(|entry| entry.0);
        let Some(next) = due.chain(arrivals).reduce(Instant::min) else { return };
        self.now = self.now.max(next);
        for side in 0..2 {
            self.managers[side].handle_timeout(self.now);
        }
        for _ in 0..self.wire.len() {
            let Some(entry) = self.wire.pop_front() else { break };
            match self.now.is_at_or_after(entry.0) {
                true => {
                    self.managers[entry.1].handle_datagram(self.now, &from(entry.2), &entry.3);
                }
                false => self.wire.push_back(entry),
            }
        }
        for side in 0..2 {
            self.drain(side);
        }
    }

    fn drain(&mut self, side: usize) {
        while let Some(event) = self.managers[side].poll_event() {
            self.believe(side, &event);
        }
        while let Some(Transmit { to, bytes }) = self.managers[side].poll_transmit() {
            let copies = match (self.healed, self.random.number() % 100) {
                (true, _) => 1,
                (false, dice) if dice < self.loss => 0,
                (false, dice) if dice > 90 => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let delay = Duration::from_us(1 + self.random.number() % 400_000);
                self.wire.push_back((self.now + delay, to as usize, side as u64, bytes));
            }
        }
    }

    fn believe(&mut self, side: usize, event: &Event) {
        let (id, now) = (event.connection(), self.now);
        if let Event::Requested { request, .. } = event {
            let peer = request.local;
            self.beliefs[side].push(Belief { id, peer, ..Belief::default() });
        }
        let belief = self.beliefs[side].iter_mut().find(|belief| belief.id == id);
        let belief = belief.expect("an event of something we know");
        assert!(!belief.closed, "no word of what was closed: {event:?}");
        match event {
            Event::Replied { reply, .. } => {
                belief.peer = reply.names.local;
                if self.managers[side].confirm(now, id, &[0; 224]).is_ok() {
                    belief.established += 1;
                }
            }
            Event::Established { .. } => belief.established += 1,
            Event::Rejected { .. } | Event::TimedOut { .. } => belief.failed += 1,
            Event::Disconnected { .. } => belief.disconnected += 1,
            Event::Released { .. } => belief.released += 1,
            // Half of the requests wait in the backlog until they are answered.
            Event::Requested { .. } if id.0 % 2 == 0 => self.managers[side].deliver(now, id),
            Event::Requested { .. } | Event::Queried { .. } | Event::Answered { .. } => {}
        }
        assert!(belief.established <= 1 && belief.disconnected <= 1 && belief.failed <= 1);
        let over = belief.established + belief.failed + belief.disconnected;
        assert!(belief.released <= over.min(1));
        assert!(belief.disconnected == 0 || belief.failed == 0, "{event:?}");
    }

    /// Lets a program act on one of its connections.
    fn act(&mut self, side: usize) {
        if self.beliefs[side].is_empty() {
            return;
        }
        let at = self.random.number() as usize % self.beliefs[side].len();
        let id = self.beliefs[side][at].id;
        let (now, dice) = (self.now, self.random.number() % 100);
        let manager = &mut self.managers[side];
        match manager.state(id) {
            Some(State::Requested) if dice < 70 => {
                self.queue_pair += 1;
                manager.accept(now, id, &reply(self.queue_pair)).unwrap();
            }
            Some(State::Requested) => {
                manager.reject(now, id, Reason::CONSUMER, &[0; 148]).unwrap();
                self.beliefs[side][at].failed += 1;
            }
            Some(State::Established) if dice < 20 => manager.disconnect(now, id).unwrap(),
            Some(_) if dice < 5 => self.close(side, at),
            _ => {}
        }
        self.drain(side);
    }

    fn close(&mut self, side: usize, at: usize) {
        let belief = &mut self.beliefs[side][at];
        if !belief.closed {
            self.managers[side].close(self.now, belief.id).unwrap();
            belief.closed = true;
        }
        self.drain(side);
    }

    /// Asserts that each connected end has a peer that is connected to it.
    fn demand_agreement(&self) {
        for side in 0..2 {
            for belief in self.beliefs[side].iter().filter(|belief| !belief.closed) {
                let state = self.managers[side].state(belief.id);
                if state != Some(State::Established) {
                    continue;
                }
                let peer = self.managers[1 - side].state(belief.peer);
                assert_eq!(peer, Some(State::Established), "seed {}: {:?}", self.seed, belief.id);
            }
        }
    }
}

fn run(seed: u64) -> (u32, u32) {
    let mut storm = Storm::new(seed);
    for _ in 0..600 {
        for side in 0..2 {
            if storm.chance(5) {
                storm.connect(side);
                storm.drain(side);
            }
            storm.act(side);
        }
        storm.step();
    }
    storm.healed = true;
    // After healing, programs answer all requests, and everything comes to rest.
    let mut rest = 0;
    while rest < 20_000 {
        for side in 0..2 {
            for at in 0..storm.beliefs[side].len() {
                let id = storm.beliefs[side][at].id;
                if storm.managers[side].state(id) == Some(State::Requested) {
                    storm.queue_pair += 1;
                    let granted = reply(storm.queue_pair);
                    storm.managers[side].accept(storm.now, id, &granted).unwrap();
                }
            }
            storm.drain(side);
        }
        if storm.wire.is_empty() && storm.managers.iter().all(|m| m.poll_timeout().is_none()) {
            break;
        }
        storm.step();
        rest += 1;
    }
    assert!(rest < 20_000, "seed {seed}: it does not come to rest");
    storm.demand_agreement();
    let beliefs = storm.beliefs.iter().flatten();
    let (mut made, mut failed) = (0, 0);
    for belief in beliefs.filter(|belief| !belief.closed) {
        made += belief.established;
        failed += belief.failed;
        let ended = belief.established + belief.failed + belief.disconnected;
        assert!(ended >= 1, "seed {seed}: no end of {:?}", belief.id);
    }
    for side in 0..2 {
        for at in 0..storm.beliefs[side].len() {
            storm.close(side, at);
        }
    }
    for _ in 0..20_000 {
        storm.step();
    }
    let left = storm.managers.each_ref().map(Manager::in_use);
    assert_eq!(left, [0, 0], "seed {seed}: something stays");
    (made, failed)
}

#[test]
fn everything_comes_to_its_end() {
    let (mut made, mut failed) = (0, 0);
    for seed in 0..300 {
        let (more, refused) = run(seed);
        made += more;
        failed += refused;
    }
    assert!(made > 1_000 && failed > 500, "{made} connections, {failed} refusals");
}
