//! One function drives both protocols by the contract they share, [`Device`], and by nothing else:
//! it moves packets between two devices over a lossy network, and bytes between their memories.

use fairway::Rights;
use fairway_device::{
    AtomicExecution, CompletionQueueId, Device, Execution, LocalRange, Ranges, ScatterList,
    SegmentRequest, Verdict,
};
use fairway_roce::{self as roce, OwnVerdict, RoceDevice};
use fairway_ub::{self as engine, UbDevice, policy::PolicySpec};
use fairway_wire::roce::RnrTimer;
use fairway_wire::{AtomicOperator, Cna, Duration, Ecn, Instant, Msn, Psn, Qpn};

/// Size of each memory in bytes.
const BYTES: usize = 1 << 16;

/// The operations that differ between the protocols, outside of the contract.
trait Protocol: Device {
    /// The packet that the peer receives, and the ranges that its payload is gathered from.
    fn arrive(transmit: &Self::Transmit) -> (Self::Received, ScatterList);
    /// Executes a verdict that only this protocol returns, in `memory`. Returns the result to
    /// report.
    fn carry_out(own: Self::OwnVerdict, memory: &mut [u8]) -> (Self::Token, u64);
    /// The caller's number of a completion, and whether the operation succeeded.
    fn outcome(completion: &Self::Completion) -> (u64, bool);
}

impl Protocol for UbDevice {
    fn arrive(transmit: &engine::Transmit) -> (engine::Received, ScatterList) {
        let (route, packet, payload) = (transmit.route, transmit.packet, transmit.gather.length);
        let received = engine::Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 };
        (received, transmit.gather.into())
    }
    fn carry_out(
        atomic: engine::AtomicExecution,
        memory: &mut [u8],
    ) -> (engine::PlacementToken, u64) {
        (atomic.token, change(&atomic, memory))
    }
    fn outcome(completion: &engine::Completion) -> (u64, bool) {
        (completion.id, completion.status == engine::Status::Success)
    }
}

impl Protocol for RoceDevice {
    fn arrive(transmit: &roce::Transmit) -> (roce::Received, ScatterList) {
        let (packet, payload) = (transmit.packet, transmit.gather.length());
        let received = roce::Received { source: 0, packet, payload, ecn: Ecn::Capable };
        (received, transmit.gather)
    }
    fn carry_out(own: OwnVerdict, memory: &mut [u8]) -> (roce::PlacementToken, u64) {
        let OwnVerdict::Store { target, value, token } = own else {
            unreachable!("packets that come early are dropped by default")
        };
        scatter(&target, &value.to_ne_bytes(), memory);
        (token, 0)
    }
    fn outcome(completion: &roce::Completion) -> (u64, bool) {
        (completion.id, completion.status == roce::Status::Success)
    }
}

fn span(range: &LocalRange) -> std::ops::Range<usize> {
    range.offset as usize..range.offset as usize + range.length as usize
}

fn gather(from: &ScatterList, memory: &[u8]) -> Vec<u8> {
    from.ranges().iter().flat_map(|range| memory[span(range)].iter().copied()).collect()
}

fn scatter(to: &impl Ranges, data: &[u8], memory: &mut [u8]) {
    assert_eq!(to.length() as usize, data.len());
    let mut rest = data;
    for range in to.ranges() {
        let (part, later) = rest.split_at(range.length as usize);
        memory[span(range)].copy_from_slice(part);
        rest = later;
    }
}

fn change<K>(atomic: &AtomicExecution<K>, memory: &mut [u8]) -> u64 {
    let word = &mut memory[span(&atomic.target)];
    let old = u64::from_ne_bytes(word.try_into().expect("words of 8 bytes"));
    let new = atomic.operator.apply(old, atomic.operand, atomic.compare);
    word.copy_from_slice(&new.to_ne_bytes());
    old
}

/// A device, its memory (one segment that begins at address 0), and its completions.
struct Side<D> {
    device: D,
    memory: Vec<u8>,
    queue: CompletionQueueId,
}

impl<D: Protocol> Side<D> {
    /// Handles a packet with its payload.
    fn receive(&mut self, now: Instant, received: &D::Received, payload: &[u8]) {
        match self.device.handle_packet(now, received) {
            Verdict::Place(placement) => {
                scatter(&placement.target, payload, &mut self.memory);
                self.device.handle_placed(now, placement.token, 0);
            }
            Verdict::Own(own) => {
                let (token, old) = D::carry_out(own, &mut self.memory);
                self.device.handle_placed(now, token, old);
            }
            Verdict::Done | Verdict::Drop(_) => {}
        }
        while let Some(execution) = self.device.poll_execution() {
            let (token, old) = match execution.into() {
                Execution::Copy { .. } => unreachable!("there is no staging memory"),
                Execution::Atomic(atomic) => (atomic.token, change(&atomic, &mut self.memory)),
            };
            self.device.handle_placed(now, token, old);
        }
    }
}

/// Moves packets until `sides[0]` has completed `operations`, and returns their numbers in the
/// order of completion. Every `loss`-th packet is lost.
fn run<D: Protocol>(sides: &mut [Side<D>; 2], operations: usize, loss: u64) -> Vec<u64> {
    let (mut now, mut packets, mut done) = (Instant::ZERO, 0_u64, Vec::new());
    for _ in 0..100_000 {
        for from in 0..2 {
            while let Some(transmit) = sides[from].device.poll_transmit(now) {
                packets += 1;
                if packets.is_multiple_of(loss) {
                    continue;
                }
                let (received, list) = D::arrive(&transmit);
                let payload = gather(&list, &sides[from].memory);
                sides[1 - from].receive(now, &received, &payload);
            }
        }
        let queue = sides[0].queue;
        while let Some(completion) = sides[0].device.poll_completion(queue) {
            let (id, succeeded) = D::outcome(&completion);
            assert!(succeeded, "operation {id} failed");
            done.push(id);
        }
        if done.len() == operations {
            return done;
        }
        let due = sides.iter().filter_map(|side| side.device.poll_timeout()).reduce(Instant::min);
        now = due.expect("a timer where packets are lost").max(now + Duration::from_us(1));
        for side in sides.iter_mut() {
            side.device.handle_timeout(now);
        }
    }
    panic!("only {} operations of {operations} completed", done.len());
}

/// Bytes that differ from one another.
fn pattern(side: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at * 31 + at / 253) as u8 ^ side).collect()
}

/// Checks that a WRITE of 20,000 bytes, a READ of 10,000 and a fetch-and-add change the right bytes
/// and no others.
fn check<D: Protocol>(sides: &mut [Side<D>; 2]) {
    let mut done = run(sides, 3, 7);
    done.sort_unstable();
    assert_eq!(done, [WRITE, READ, ADD]);
    let mut expected = [pattern(0), pattern(1)];
    let (first, second) = expected.split_at_mut(1);
    second[0][1000..21_000].copy_from_slice(&first[0][..20_000]);
    first[0][30_000..40_000].copy_from_slice(&pattern(1)[50_000..60_000]);
    let word = u64::from_ne_bytes(second[0][40_000..40_008].try_into().expect("8 bytes"));
    second[0][40_000..40_008].copy_from_slice(&word.wrapping_add(7).to_ne_bytes());
    assert!(sides[1].memory == expected[1], "the target's memory");
    assert!(sides[0].memory == expected[0], "the initiator's memory");
}

const WRITE: u64 = 1;
const READ: u64 = 2;
const ADD: u64 = 3;

#[test]
fn unified_bus_moves_bytes_by_the_contract() {
    let (limits, now) = (engine::Limits::default(), Instant::ZERO);
    let mut nics =
        [1, 2].map(|n| UbDevice::new(Cna::new(n), &limits, &engine::Profile::default(), n.into()));
    let channels = [0, 1].map(|n: usize| nics[n].reserve_channel().expect("a channel"));
    let mut numbers = 0_usize..;
    let mut made = nics.map(|mut nic| {
        let me = numbers.next().expect("there are enough");
        let config = engine::ChannelConfig {
            leader: None,
            engine: 0,
            remote: Cna::new(2 - me as u32),
            remote_tpn: channels[1 - me].tpn(),
            first_psn: Psn::new(0),
            remote_first_psn: Psn::new(0),
            first_message: Msn::new(0),
            unreliable: false,
            bypass: false,
            parts: false,
            retires: false,
            carried_acks: false,
            mtu: 1024,
            paths: 2,
            remote_window: limits.receive_window(),
            remote_message_slots: 64,
            remote_read_slots: 64,
            policy: PolicySpec::default().build(1024),
        };
        nic.open_channel(now, channels[me], config).expect("it opens");
        let queue = nic.create_completion_queue(16).expect("a queue");
        let jetty = nic.create_jetty(&engine::JettyConfig::new(queue, queue)).expect("a Jetty");
        let memory = SegmentRequest {
            address: 0,
            length: BYTES as u64,
            rights: Rights::ALL,
            token_value: 1,
        };
        let segment = nic.register(&memory).expect("a segment");
        (Side { device: nic, memory: pattern(me as u8), queue }, jetty, segment)
    });
    let (jetty, segment, token_id) = (made[0].1, made[0].2, made[1].2.token_id());
    let remote = |address| engine::RemoteRange { token_id, token_value: 1, address };
    for (id, work, offset, length) in [
        (WRITE, engine::Work::Write { remote: remote(1000) }, 0, 20_000),
        (READ, engine::Work::Read { remote: remote(50_000) }, 30_000, 10_000),
        (
            ADD,
            engine::Work::Atomic {
                remote: remote(40_000),
                width: 8,
                operator: AtomicOperator::Add,
                operand: 7,
                compare: 0,
            },
            0,
            0,
        ),
    ] {
        let request = engine::WorkRequest {
            id,
            channel: channels[0],
            work,
            local: LocalRange { segment, offset, length },
            signaled: true,
            order: engine::OrderRequest::default(),
        };
        made[0].0.device.post(now, jetty, &request).expect("it is posted");
    }
    check(&mut made.map(|(side, ..)| side));
}

#[test]
fn roce_moves_bytes_by_the_contract() {
    let limits = roce::Limits { queue_pairs: 4, ..roce::Limits::default() };
    let mut made = [0, 1].map(|n: u8| {
        let mut host = RoceDevice::new(&limits, &roce::Profile::default(), n.into());
        let memory = roce::MemoryRequest {
            domain: 1,
            address: 0,
            length: BYTES as u64,
            rights: Rights::ALL,
        };
        let region = host.register(&memory).expect("a region");
        let queue = host.create_completion_queue(16).expect("a queue");
        let config = roce::QueuePairConfig {
            transport: roce::Transport::Rc,
            domain: 1,
            send_queue: queue,
            receive_queue: queue,
            shared_receives: None,
            send_depth: 8,
            receive_depth: 8,
        };
        let pair = host.create_queue_pair(&config).expect("a queue pair");
        (Side { device: host, memory: pattern(n), queue }, pair, region)
    });
    let numbers: [Qpn; 2] = [made[0].1, made[1].1];
    for n in 0..2 {
        let peer = roce::Peer { address: 0, queue_pair: numbers[1 - n] };
        let (expected, rnr_timer) = (Psn::new(5), RnrTimer::from_code(1));
        let reliability = roce::Reliability::default();
        for change in [
            roce::Change::Init { rights: Rights::ALL, p_key: 0xffff, q_key: 0 },
            roce::Change::ReadyToReceive { peer, mtu: 1024, expected, read_depth: 16, rnr_timer },
            roce::Change::ReadyToSend { first: expected, reliability },
        ] {
            made[n].0.device.modify(numbers[n], &change).expect("it is connected");
        }
    }
    let (segment, r_key) = (made[0].2.segment, made[1].2.r_key);
    let remote = |address| roce::RemoteAddress { address, r_key };
    for (id, work, offset, length) in [
        (WRITE, roce::Work::Write { remote: remote(1000), immediate: None }, 0, 20_000),
        (READ, roce::Work::Read { remote: remote(50_000) }, 30_000, 10_000),
        (ADD, roce::Work::FetchAdd { remote: remote(40_000), add: 7 }, 0, 0),
    ] {
        let local = LocalRange { segment, offset, length };
        let request = roce::WorkRequest {
            id,
            work,
            local: local.into(),
            signaled: true,
            solicited: false,
            fence: false,
        };
        let host = &mut made[0].0.device;
        host.post_send(Instant::ZERO, numbers[0], &request).expect("it is posted");
    }
    check(&mut made.map(|(side, ..)| side));
}
