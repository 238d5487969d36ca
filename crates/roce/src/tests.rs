//! Tests of two devices with a virtual clock and without payload: the behaviour of queue pairs
//! without a fault, and with one.

use super::*;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_device::{CompletionQueueId, LocalRange, Rights};
use fairway_wire::roce::{Aeth, Operation, Packet, RnrTimer, Syndrome, Tail};
use fairway_wire::{Duration, Ecn, Instant, Psn, Qpn};

mod early;
mod errors;
mod hostile;
mod life;
mod missing;
mod order;
mod queues;
mod reliable;
mod responses;
mod sharing;
mod unreliable;

const MTU: u32 = 1024;
const BASE: u64 = 0x5000;
const LENGTH: u64 = 1 << 20;
const RNR: RnrTimer = RnrTimer::from_code(12);

struct Pair {
    now: Instant,
    hosts: [RoceDevice; 2],
    pairs: [Qpn; 2],
    queues: [[CompletionQueueId; 2]; 2],
    regions: [MemoryRegion; 2],
    /// Packets on their way to each side.
    wires: [VecDeque<Transmit>; 2],
    /// The placements that each side has to do, in order. They are done at once unless `hold` is
    /// set.
    placed: [Vec<ScatterList>; 2],
    held: Vec<PlacementToken>,
    hold: bool,
    /// True if packets that arrive find no room to send anything.
    blocked: bool,
    /// Packets that each side has buffered, by place.
    kept: [Vec<(u32, Received)>; 2],
    word: u64,
    executed: u32,
}

impl Pair {
    fn new(transport: Transport) -> Pair {
        Pair::with(transport, Reliability::default(), Profile::default())
    }

    fn with(transport: Transport, reliability: Reliability, profile: Profile) -> Pair {
        Pair::between(transport, reliability, [profile; 2])
    }

    fn between(transport: Transport, reliability: Reliability, profiles: [Profile; 2]) -> Pair {
        let limits = Limits { queue_pairs: 4, read_depth: 4, ..Limits::default() };
        let reliability = Reliability { read_depth: 4.min(reliability.read_depth), ..reliability };
        let mut hosts = [0, 1].map(|n: usize| RoceDevice::new(&limits, &profiles[n], 1 + n as u64));
        let queues =
            [0, 1].map(|n: usize| [(); 2].map(|()| hosts[n].create_completion_queue(64).unwrap()));
        let request =
            MemoryRequest { domain: 3, address: BASE, length: LENGTH, rights: Rights::ALL };
        let regions = [0, 1].map(|n: usize| hosts[n].register(&request).unwrap());
        let pairs = [0, 1]
            .map(|n: usize| hosts[n].create_queue_pair(&config(transport, queues[n])).unwrap());
        for n in 0..2 {
            let peer = Peer { address: 0, queue_pair: pairs[1 - n] };
            connect(&mut hosts[n], pairs[n], peer, reliability);
        }
        let now = Instant::from_ps(u64::MAX - 1_000_000);
        let (wires, placed) = ([VecDeque::new(), VecDeque::new()], [Vec::new(), Vec::new()]);
        let (held, hold, word, executed) = (Vec::new(), false, 0, 0);
        let kept = [Vec::new(), Vec::new()];
        Pair {
            now,
            hosts,
            pairs,
            queues,
            regions,
            wires,
            placed,
            held,
            hold,
            blocked: false,
            kept,
            word,
            executed,
        }
    }

    fn local(&self, n: usize, offset: u64, length: u32) -> ScatterList {
        LocalRange { segment: self.regions[n].segment, offset, length }.into()
    }

    fn remote(&self, n: usize, offset: u64) -> RemoteAddress {
        RemoteAddress { address: BASE + offset, r_key: self.regions[1 - n].r_key }
    }

    fn request(&self, n: usize, id: u64, work: Work, length: u32) -> WorkRequest {
        let local = self.local(n, 0, length);
        WorkRequest { id, work, local, signaled: true, solicited: false, fence: false }
    }

    fn post(&mut self, n: usize, id: u64, work: Work, length: u32) {
        let request = self.request(n, id, work, length);
        self.hosts[n].post_send(self.now, self.pairs[n], &request).unwrap();
    }

    fn write(&mut self, n: usize, id: u64, length: u32) {
        let remote = self.remote(n, 4096);
        self.post(n, id, Work::Write { remote, immediate: None }, length);
    }

    fn send(&mut self, n: usize, id: u64, length: u32) {
        self.post(n, id, Work::Send { tail: Tail::Nothing }, length);
    }

    fn read(&mut self, n: usize, id: u64, length: u32) {
        let remote = self.remote(n, 8192);
        self.post(n, id, Work::Read { remote }, length);
    }

    fn fetch_add(&mut self, n: usize, id: u64, add: u64) {
        let remote = self.remote(n, 0);
        self.post(n, id, Work::FetchAdd { remote, add }, 8);
    }

    fn receive(&mut self, n: usize, id: u64, length: u32) {
        let local = self.local(n, 0, length);
        self.hosts[n].post_receive(self.pairs[n], &ReceiveRequest { id, local }).unwrap();
    }

    /// Puts the packets that side `n` sends on the wire.
    fn pull(&mut self, n: usize) -> Vec<Transmit> {
        let mut sent = Vec::new();
        while let Some(transmit) = self.hosts[n].poll_transmit(self.now) {
            sent.push(transmit);
            self.wires[1 - n].push_back(transmit);
        }
        sent
    }

    /// Delivers a packet to side `n`.
    fn deliver(&mut self, n: usize, transmit: &Transmit) -> Verdict {
        let payload = transmit.gather.length();
        let received =
            Received { source: 0, packet: transmit.packet, payload, ecn: Ecn::NotCapable };
        self.deliver_as(n, &received)
    }

    fn deliver_as(&mut self, n: usize, received: &Received) -> Verdict {
        let verdict = self.judge(n, received);
        while let Some(place) = self.hosts[n].poll_replay() {
            let at = self.kept[n].iter().position(|kept| kept.0 == place).unwrap();
            let (_, recalled) = self.kept[n].swap_remove(at);
            self.judge(n, &recalled);
        }
        verdict
    }

    fn judge(&mut self, n: usize, received: &Received) -> Verdict {
        while !self.blocked
            && let Some(answer) = self.hosts[n].poll_answer(received)
        {
            self.wires[1 - n].push_back(answer);
        }
        let verdict = self.hosts[n].handle_packet(self.now, received);
        match verdict {
            Verdict::Place(Placement { target: Target { bytes: target, .. }, token })
            | Verdict::Own(OwnVerdict::Store { target, token, .. }) => {
                self.placed[n].push(target);
                match self.hold {
                    true => self.held.push(token),
                    false => self.hosts[n].handle_placed(self.now, token, 0),
                }
            }
            Verdict::Own(OwnVerdict::Buffer { place }) => {
                self.kept[n].retain(|kept| kept.0 != place);
                self.kept[n].push((place, *received));
            }
            Verdict::Done | Verdict::Drop(_) => {}
        }
        self.execute(n);
        verdict
    }

    fn execute(&mut self, n: usize) {
        while let Some(execution) = self.hosts[n].poll_execution() {
            let old = self.word;
            self.word = execution.operator.apply(old, execution.operand, execution.compare);
            self.executed += 1;
            self.hosts[n].handle_placed(self.now, execution.token, old);
        }
    }

    /// Delivers the packets on the wire to side `n`.
    fn flow(&mut self, n: usize) -> usize {
        let packets = core::mem::take(&mut self.wires[n]);
        for transmit in &packets {
            self.deliver(n, transmit);
        }
        packets.len()
    }

    /// Runs until neither side has anything to send.
    fn run_until_idle(&mut self) {
        loop {
            self.pull(0);
            self.pull(1);
            if self.flow(0) + self.flow(1) == 0 {
                break;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        for host in &mut self.hosts {
            host.handle_timeout(self.now);
        }
    }

    fn completions(&mut self, n: usize, queue: usize) -> Vec<Completion> {
        let mut all = Vec::new();
        while let Some(completion) = self.hosts[n].poll_completion(self.queues[n][queue]) {
            all.push(completion);
        }
        all
    }

    /// Numbers and statuses of the completed sends of side `n`.
    fn sent(&mut self, n: usize) -> Vec<(u64, Status)> {
        self.completions(n, 0).iter().map(|one| (one.id, one.status)).collect()
    }

    fn received(&mut self, n: usize) -> Vec<(u64, Status, u32)> {
        self.completions(n, 1).iter().map(|one| (one.id, one.status, one.bytes)).collect()
    }

    fn states(&self) -> [QueuePairState; 2] {
        [0, 1].map(|n: usize| self.hosts[n].state(self.pairs[n]).unwrap())
    }
}

fn config(transport: Transport, queues: [CompletionQueueId; 2]) -> QueuePairConfig {
    QueuePairConfig {
        transport,
        domain: 3,
        send_queue: queues[0],
        receive_queue: queues[1],
        shared_receives: None,
        send_depth: 32,
        receive_depth: 32,
    }
}

fn connect(host: &mut RoceDevice, pair: Qpn, peer: Peer, reliability: Reliability) {
    connect_granting(host, pair, peer, reliability, Rights::ALL);
}

fn connect_granting(
    host: &mut RoceDevice,
    pair: Qpn,
    peer: Peer,
    reliability: Reliability,
    rights: Rights,
) {
    let init = Change::Init { rights, p_key: 0xffff, q_key: 0x1111 };
    host.modify(pair, &init).unwrap();
    let expected = Psn::new(0xff_fffe);
    let (read_depth, rnr_timer) = (4, RNR);
    let receive = Change::ReadyToReceive { peer, mtu: MTU, expected, read_depth, rnr_timer };
    host.modify(pair, &receive).unwrap();
    host.modify(pair, &Change::ReadyToSend { first: expected, reliability }).unwrap();
}

fn operations(sent: &[Transmit]) -> Vec<Operation> {
    sent.iter().map(|transmit| transmit.packet.operation).collect()
}

/// The syndrome of an acknowledgement.
fn syndrome(transmit: &Transmit) -> Syndrome {
    match transmit.packet.operation {
        Operation::Acknowledge(Aeth { syndrome, .. }) => syndrome,
        other => panic!("no acknowledgement: {other:?}"),
    }
}

fn psns(sent: &[Transmit]) -> Vec<i32> {
    sent.iter().map(|one| one.packet.bth.psn.distance_from(Psn::new(0xff_fffe))).collect()
}

/// The same packet for another queue pair.
fn redirected(packet: &Packet, destination: Qpn) -> Packet {
    let mut packet = *packet;
    packet.bth.destination = destination;
    packet
}
