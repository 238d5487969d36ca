//! One node: its NIC and the bytes behind its segments.

use super::bounds::Bounds;
use super::clock::{Clock, NODES};
use super::network::Stamp;
use super::program::{Kind, MTU, OPERATIONS_MAX, Operation, Program, SHARED_BYTES, Token};
use crate::finding::Finding;
use fairway_device::drive::{self, AccessOf, Driver};
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{AtomicOperator, Cna, Instant, JettyId, Msn, Psn, Target};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionQueueId, ExceptionMode, JettyConfig, Limits, LocalRange,
    Profile, ReceiveRequest, RemoteRange, Rights, SegmentId, SegmentRequest, UbDevice, Work,
    WorkRequest,
};

/// The address that peers use for the first shared byte.
const ADDRESS: u64 = 0x4000;
const SECRET: u32 = 0x5EC2_E700;
/// Number of the Jetty that receives, on every node.
const RECEIVER: u32 = 9;
/// Bytes that belong to each operation, and to each receive.
pub(super) const SLOT: usize = 64;
/// Offset of the receive buffers.
pub(super) const RECEIVES: usize = OPERATIONS_MAX * SLOT;
/// Spare receives, for sends that may arrive twice because no order prevents it.
const SPARE: usize = 2;
/// Id of the first receive.
pub(super) const RECEIVE_ID: u64 = 1000;
/// Paths between two nodes.
pub(super) const PATHS: u32 = 2;

/// A memory access that the caller of a NIC has to carry out.
pub(super) type Duty = AccessOf<UbDevice, Payload>;

/// The payload of a packet, and the time at which it was taken from memory.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pub(super) bytes: Vec<u8>,
    pub(super) gathered: Stamp,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes behind the segments of a node, by segment index.
#[derive(Debug, Default)]
pub(super) struct Memories(Vec<Vec<u8>>);

impl drive::Memory for Memories {
    type Error = Finding;

    fn bytes(&mut self, range: &LocalRange) -> Result<&mut [u8], Finding> {
        let bytes = self.0.get_mut(range.segment.index());
        let (start, length) = (range.offset as usize, range.length as usize);
        bytes
            .and_then(|bytes| bytes.get_mut(start..start + length))
            .ok_or_else(|| format!("the NIC names {range:?}, which is not registered").into())
    }
}

/// One node.
pub(super) struct Host {
    pub(super) driver: Driver<UbDevice, Payload>,
    pub(super) clock: Clock,
    pub(super) shared: SegmentId,
    pub(super) own: SegmentId,
    pub(super) memories: Memories,
    pub(super) queue: CompletionQueueId,
    channels: [Option<ChannelId>; NODES],
    /// By index in the program; `None` if the Jetty is at another node.
    jetties: Vec<Option<JettyId>>,
    pub(super) pending: Vec<(u32, Duty)>,
    pub(super) duties: u32,
    /// Packets sent.
    pub(super) sent: u32,
    /// Operations that are still to be posted, in reverse order of posting.
    pub(super) unposted: Vec<usize>,
}

/// Limits as small as possible, so that resources run out easily.
fn limits(bounds: &Bounds) -> Limits {
    let slots = bounds.places.clamp(1, 8);
    Limits::new()
        .channels(2 * NODES as u32 * bounds.channels.max(1))
        .jetties(16)
        .segments(4)
        .completion_queues(1)
        .completions(64)
        .messages(32)
        .receives(16)
        .arrivals(64)
        .window_packets(128)
        .send_blocks(4)
        .bitmap_blocks(32)
        .message_slots(slots)
        .read_slots(slots)
        .paths(PATHS)
        .withheld(32)
        .order_records(8)
        .groups(1)
        .deferred(bounds.places)
        .mailboxes(1)
        .mailbox_buffers(1)
        .put_streams(1)
}

fn profile() -> Profile {
    // Every message may take a path and a channel of its own.
    Profile::new().small_message_bytes(0).group_slack(0)
}

/// Makes the connected hosts of a program.
pub(super) fn hosts(program: &Program, bounds: &Bounds, now: Instant) -> Vec<Host> {
    let nodes = program.nodes();
    let mut hosts: Vec<Host> = (0..nodes).map(|node| Host::new(program, bounds, node)).collect();
    for operation in &program.operations {
        let from = program.jetties[operation.jetty];
        assert_ne!(from, operation.node, "an operation goes to another node");
        if hosts[from].channels[operation.node].is_none() {
            for _ in 0..bounds.channels.max(1) {
                connect(&mut hosts, from, operation.node, now);
            }
        }
    }
    hosts
}

fn connect(hosts: &mut [Host], one: usize, other: usize, now: Instant) {
    let limits = *hosts[one].nic().limits();
    let ends = [one, other];
    let ids = ends.map(|node| hosts[node].nic_mut().reserve_channel().expect("a channel"));
    let leaders = [hosts[one].channels[other], hosts[other].channels[one]];
    for side in 0..2 {
        let first = |side: usize| Psn::new(0xFF_FFFD + ends[side] as u32);
        let policy: PolicySpec = "cc=fixed,path=spray".parse().expect("policies");
        let config = ChannelConfig {
            leader: leaders[side],
            engine: 0,
            remote: cna(ends[1 - side]),
            remote_tpn: ids[1 - side].tpn(),
            first_psn: first(side),
            remote_first_psn: first(1 - side),
            first_message: Msn::new(0),
            unreliable: true,
            bypass: true,
            parts: true,
            retires: true,
            carried_acks: true,
            mtu: MTU,
            paths: PATHS,
            remote_window: limits.receive_window(),
            remote_message_slots: limits.message_slots,
            remote_read_slots: limits.read_slots,
            policy: policy.build(MTU),
        };
        let host = &mut hosts[ends[side]];
        host.nic_mut().open_channel(now, ids[side], config).expect("a channel opens");
        host.channels[ends[1 - side]] = leaders[side].or(Some(ids[side]));
    }
}

fn cna(node: usize) -> Cna {
    Cna::new(node as u32 + 1)
}

/// Returns the node with this address.
pub(super) fn node_of(address: Cna) -> usize {
    address.value() as usize - 1
}

impl Host {
    fn new(program: &Program, bounds: &Bounds, node: usize) -> Host {
        let mut nic = UbDevice::new(cna(node), &limits(bounds), &profile(), node as u64);
        nic.inject(bounds.bug);
        let queue = nic.create_completion_queue(64).expect("a completion queue");
        let mut memories = Memories::default();
        let mut segment = |nic: &mut UbDevice, length: usize, rights| {
            let length_bytes = length as u64;
            let request = SegmentRequest {
                address: ADDRESS,
                length: length_bytes,
                rights,
                token_value: SECRET,
            };
            let id = nic.register(&request).expect("a segment");
            let count = memories.0.len().max(id.index() + 1);
            memories.0.resize(count, Vec::new());
            memories.0[id.index()] = vec![0; length];
            id
        };
        let shared = segment(&mut nic, SHARED_BYTES, Rights::ALL);
        let own = segment(&mut nic, RECEIVES + (OPERATIONS_MAX + SPARE) * SLOT, Rights::NONE);
        let staging = segment(&mut nic, (bounds.places * MTU) as usize, Rights::NONE);
        if bounds.places > 0 {
            nic.set_staging(staging, MTU).expect("staging memory");
        }
        let mut host = Host {
            driver: Driver::new(nic, 0),
            clock: Clock::default(),
            shared,
            own,
            memories,
            queue,
            channels: [None; NODES],
            jetties: Vec::new(),
            pending: Vec::new(),
            duties: 0,
            sent: 0,
            unposted: Vec::new(),
        };
        host.make_jetties(program, node);
        if bounds.receives_after == 0 {
            host.post_receives(program, node);
        }
        host.fill(program, node);
        host
    }

    pub(super) fn nic(&self) -> &UbDevice {
        self.driver.device()
    }

    pub(super) fn nic_mut(&mut self) -> &mut UbDevice {
        self.driver.device_mut()
    }

    fn make_jetties(&mut self, program: &Program, node: usize) {
        let mut number = 0;
        for &at in &program.jetties {
            let id = (at == node).then(|| {
                number += 1;
                self.make_jetty(number)
            });
            self.jetties.push(id);
        }
        self.make_jetty(RECEIVER);
    }

    fn make_jetty(&mut self, number: u32) -> JettyId {
        let config = JettyConfig {
            number: Some(number),
            send_queue: self.queue,
            receive_queue: self.queue,
            token_value: SECRET,
            exception: ExceptionMode::Continue,
            in_sequence: false,
        };
        self.nic_mut().create_jetty(&config).expect("a Jetty")
    }

    /// Posts a receive for every operation that needs one, and a few spare ones.
    pub(super) fn post_receives(&mut self, program: &Program, node: usize) {
        let wanted =
            |operation: &&Operation| operation.node == node && operation.consumes_receive();
        let count = program.operations.iter().filter(wanted).count();
        for index in (0..count + SPARE).take_while(|_| count > 0) {
            let offset = (RECEIVES + index * SLOT) as u64;
            let local = LocalRange { segment: self.own, offset, length: SLOT as u32 };
            let request = ReceiveRequest { id: RECEIVE_ID + index as u64, local };
            self.nic_mut().post_receive(JettyId::new(RECEIVER), &request).expect("a receive");
        }
    }

    /// Fills in the bytes that operations of this node send.
    fn fill(&mut self, program: &Program, node: usize) {
        for (index, operation) in program.operations.iter().enumerate() {
            if program.jetties[operation.jetty] != node {
                continue;
            }
            self.unposted.insert(0, index);
            if !operation.is_fetching() {
                let payload = program.payload(index);
                let start = index * SLOT;
                self.memories.0[self.own.index()][start..start + payload.len()]
                    .copy_from_slice(&payload);
            }
        }
    }

    /// Posts operation `index` of the program.
    pub(super) fn post(
        &mut self,
        program: &Program,
        index: usize,
        remote: SegmentId,
        now: Instant,
    ) -> Result<(), Finding> {
        let operation = &program.operations[index];
        let length = if operation.kind == Kind::Atomic { 0 } else { operation.bytes() as u32 };
        let local = LocalRange { segment: self.own, offset: (index * SLOT) as u64, length };
        let request = WorkRequest {
            id: index as u64,
            channel: self.channels[operation.node].expect("a channel to the target"),
            work: work(program, index, remote),
            local,
            signaled: operation.signaled,
            order: operation.order,
        };
        let jetty = self.jetties[operation.jetty].expect("a Jetty of this node");
        let posted = self.nic_mut().post(now, jetty, &request);
        posted.map_err(|error| format!("operation {index} was not taken: {error:?}").into())
    }

    /// The bytes that peers can access.
    pub(super) fn shared_bytes(&self) -> &[u8] {
        &self.memories.0[self.shared.index()]
    }

    /// The node's own bytes, which peers cannot access.
    pub(super) fn own_bytes(&self, offset: usize, length: usize) -> &[u8] {
        &self.memories.0[self.own.index()][offset..offset + length]
    }
}

fn work(program: &Program, index: usize, remote: SegmentId) -> Work {
    let operation = &program.operations[index];
    let token_value = if operation.token == Token::Wrong { SECRET ^ 1 } else { SECRET };
    let remote = RemoteRange { token_id: remote.token_id(), token_value, address: ADDRESS };
    let target = Target { jetty: JettyId::new(RECEIVER), token_value, hint: 0 };
    match operation.kind {
        Kind::Write(_) => Work::Write { remote },
        Kind::Read(_) => Work::Read { remote },
        Kind::Send(_) => Work::Send { target },
        Kind::WriteImmediate => Work::WriteImmediate { remote, target, immediate: index as u64 },
        Kind::Atomic => Work::Atomic {
            remote,
            width: 8,
            operator: AtomicOperator::Add,
            operand: program.operand(index),
            compare: 0,
        },
    }
}
