//! One of the two hosts, with memory, a queue pair and completion queues, and the actions of its
//! application.

use fairway_device::drive::Driver;
use fairway_roce::{
    Change, CompletionKind, Event, Limits, MemoryRequest, OutOfOrder, Peer, Profile,
    QueuePairConfig, QueuePairState, ReceiveQueueId, ReceiveRequest, Reliability, RemoteAddress,
    RoceDevice, Status, Transport, Work, WorkRequest,
};
use fairway_ub::policy::DcqcnRateParameters;
use fairway_ub::wire::roce::{MAX_HEADER, Packet, RnrTimer, Tail, encode};
use fairway_ub::wire::{Duration, Instant, Psn, Qpn};
use fairway_ub::{CompletionQueueId, LocalRange, Rights};

use crate::books::{Books, Loan, Memory, Piece};
use crate::script::Script;

pub(super) const MTU: u32 = 256;
/// First sequence numbers, shortly before they wrap.
pub(super) const FIRST_PSN: [Psn; 2] = [Psn::new(0xff_fff0), Psn::new(0xff_ff00)];
/// Address at which peers access the memory.
pub(super) const BASE: u64 = 0x5000;
pub(super) const Q_KEY: u32 = 0x1111;

const OPEN_BYTES: u64 = 2048;
const OWN_BYTES: u64 = 4096;
const READ_DEPTH: u8 = 4;
/// Line rate in bits per second. With rate control, a packet has to wait some microseconds.
const LINE_BITS: u64 = 1_000_000_000;
/// Bit in the number of an operation that reports failures only and is not tracked.
const SILENT: u64 = 1 << 32;

const LIMITS: Limits = Limits {
    queue_pairs: 2,
    number_bits: 24,
    number_base: 0,
    segments: 8,
    completion_queues: 2,
    completions: 64,
    receive_queues: 2,
    sends: 12,
    receives: 8,
    pending: 8,
    buffered: 8,
    read_depth: READ_DEPTH,
};

pub(super) struct Side {
    /// The host; payload has no bytes.
    pub(super) driver: Driver<RoceDevice, ()>,
    pub(super) pair: Qpn,
    pub(super) transport: Transport,
    pub(super) books: Books,
    /// Keys of all memory, in the order of the segments.
    pub(super) keys: [u32; 4],
    /// Keys of the peer's memory.
    pub(super) peer_keys: [u32; 4],
    peer: Peer,
    queues: [CompletionQueueId; 2],
    /// The shared receive queue, if the queue pair has no queue of its own.
    shared: Option<ReceiveQueueId>,
    next_id: u64,
}

/// Makes two hosts whose queue pairs are connected. The bits of `settings`: 1 and 2 select the
/// transport, 4 out-of-order reception, 8 an adaptive window, 16 relaxed ordering, 32 rate control
/// (DCQCN), 128 a shared receive queue.
pub(super) fn two(settings: u8) -> [Side; 2] {
    let mut sides = [0, 1].map(|number| Side::new(number, settings));
    let ends = [0, 1].map(|n: usize| (sides[n].pair, sides[n].keys));
    for (n, side) in sides.iter_mut().enumerate() {
        let (queue_pair, keys) = ends[1 - n];
        side.peer = Peer { address: 1, queue_pair };
        side.peer_keys = keys;
        side.connect([FIRST_PSN[n], FIRST_PSN[1 - n]], settings & 16 != 0);
    }
    sides
}

impl Side {
    fn new(number: u64, settings: u8) -> Side {
        let out_of_order = (settings & 4 != 0).then_some(OutOfOrder { window: 16, tolerance: 4 });
        let profile = Profile {
            window_packets: 32,
            window_adapts: settings & 8 != 0,
            acknowledge_every: 4,
            out_of_order,
            dcqcn: (settings & 32 != 0).then(|| DcqcnRateParameters::new(LINE_BITS)),
            ..Profile::default()
        };
        let mut host = RoceDevice::new(&LIMITS, &profile, number + 1);
        let mut books = Books::default();
        let kinds = [
            (Memory::Open, OPEN_BYTES, Rights::ALL, 3),
            (Memory::Own, OWN_BYTES, Rights::NONE, 3),
            (Memory::Closed, OPEN_BYTES, Rights::ALL, 4),
            (Memory::Secret, OPEN_BYTES, Rights::ALL, 3),
        ];
        let any_order = if settings & 16 != 0 { Rights::RELAXED } else { Rights::NONE };
        let keys = kinds.map(|(memory, length, rights, domain)| {
            let rights = rights.with(any_order);
            let request = MemoryRequest { domain, address: BASE, length, rights };
            let region = host.register(&request).expect("there is room");
            books.pieces.push(Piece { id: region.segment, memory, length, released: false });
            // Without different places, regions count as views of the same bytes.
            host.set_place(region.segment, (region.segment.index() as u64) << 32);
            region.r_key
        });
        let queues = [(); 2].map(|()| host.create_completion_queue(30).expect("there is room"));
        let transport =
            [Transport::Rc, Transport::Rc, Transport::Uc, Transport::Ud][usize::from(settings & 3)];
        let shared = (settings & 128 != 0).then(|| {
            let queue = host.create_receive_queue(3, 6).expect("there is room");
            host.limit_receive_queue(queue, 2).expect("it is there");
            queue
        });
        let config = QueuePairConfig {
            transport,
            domain: 3,
            send_queue: queues[0],
            receive_queue: queues[1],
            shared_receives: shared,
            send_depth: 8,
            receive_depth: 6,
        };
        let pair = host.create_queue_pair(&config).expect("there is room");
        Side {
            driver: Driver::new(host, LIMITS.buffered as usize),
            pair,
            transport,
            books,
            keys,
            peer_keys: keys,
            peer: Peer::default(),
            queues,
            shared,
            next_id: 0,
        }
    }

    fn connect(&mut self, [first, expected]: [Psn; 2], relaxed: bool) {
        let any_order = if relaxed { Rights::RELAXED } else { Rights::NONE };
        let rights = Rights::ALL.with(any_order);
        let reliability = Reliability {
            timeout: Duration::from_us(500),
            retries: 3,
            rnr_retries: 3,
            read_depth: READ_DEPTH,
        };
        for change in [
            Change::Init { rights, p_key: 0xffff, q_key: Q_KEY },
            Change::ReadyToReceive {
                peer: self.peer,
                mtu: MTU,
                expected,
                read_depth: READ_DEPTH,
                rnr_timer: RnrTimer::from_code(6),
            },
            Change::ReadyToSend { first, reliability },
        ] {
            self.driver.device_mut().modify(self.pair, &change).expect("it is new");
        }
    }

    /// True if the packet contains the key that the peer does not have.
    pub(super) fn is_secret(&self, packet: &Packet) -> bool {
        let mut bytes = [0; MAX_HEADER];
        let length = encode(packet, 0, &mut bytes);
        bytes[..length].windows(4).any(|some| some == self.keys[3].to_be_bytes())
    }

    fn own(&self, offset: u64, length: u32) -> LocalRange {
        LocalRange { segment: self.books.segment(Memory::Own), offset, length }
    }

    /// Posts an operation, mostly with valid numbers.
    pub(super) fn post(&mut self, now: Instant, script: &mut Script<'_>) {
        let kind = script.byte();
        let offset = u64::from(script.byte());
        let remote = RemoteAddress { address: BASE + offset * 8, r_key: self.peer_keys[0] };
        let length = script.pick(&[8, MTU, 0, 2 * MTU + 5, 1, 3 * MTU]);
        let immediate = (kind & 16 != 0).then_some(7);
        let tail = [Tail::Nothing, Tail::Immediate(7), Tail::Invalidate(self.peer_keys[2])]
            [usize::from(kind >> 6) % 3];
        let work = match (self.transport, kind & 7) {
            (Transport::Ud, _) => Work::Datagram { to: self.peer, q_key: Q_KEY, immediate },
            (Transport::Rc, 0) => Work::Send { tail },
            (Transport::Uc, 0..=3) => Work::Send { tail: Tail::Nothing },
            (Transport::Rc, 1..=3) => Work::Read { remote },
            (Transport::Rc, 4) => Work::FetchAdd { remote, add: 1 },
            (Transport::Rc, 5) => Work::CompareSwap { remote, compare: 0, swap: 1 },
            _ => Work::Write { remote, immediate },
        };
        let is_atomic = matches!(work, Work::FetchAdd { .. } | Work::CompareSwap { .. });
        let length = match work {
            Work::Datagram { .. } => length.min(MTU),
            _ if is_atomic => 8,
            _ => length,
        };
        let brings = is_atomic || matches!(work, Work::Read { .. });
        let is_silent = kind & 8 != 0 && !brings;
        let id = self.next_id() | if is_silent { SILENT } else { 0 };
        let local = self.own(u64::from(script.byte() & 15) * 64, length);
        let request = WorkRequest {
            id,
            work,
            local: local.into(),
            signaled: !is_silent,
            solicited: false,
            fence: kind & 32 != 0,
        };
        if self.driver.device_mut().post_send(now, self.pair, &request).is_ok() && !is_silent {
            let lent = LocalRange { length: if brings { length } else { 0 }, ..local };
            self.books.lend(Loan::Operation(id), lent);
        }
    }

    pub(super) fn post_receive(&mut self, script: &mut Script<'_>) {
        let id = self.next_id();
        let length = script.pick(&[MTU + 40, 3 * MTU, 8, 0]);
        let local = self.own(2048 + u64::from(script.byte()), length);
        let request = ReceiveRequest { id, local: local.into() };
        let posted = match self.shared {
            Some(queue) => self.driver.device_mut().post_shared_receive(queue, &request),
            None => self.driver.device_mut().post_receive(self.pair, &request),
        };
        if posted.is_ok() {
            self.books.lend(Loan::Receive(id, 0), local);
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Puts the queue pair into the error state, which flushes everything.
    pub(super) fn end(&mut self) {
        let _ = self.driver.device_mut().modify(self.pair, &Change::Error);
        self.collect();
    }

    pub(super) fn change(&mut self, some: usize) {
        let change = if some & 1 != 0 { Change::Drain } else { Change::Resume };
        let _ = self.driver.device_mut().modify(self.pair, &change);
    }

    pub(super) fn deregister_open(&mut self) {
        let segment = self.books.segment(Memory::Open);
        if self.driver.device_mut().deregister(segment) == Ok(true) {
            self.books.released(segment);
        }
    }

    /// Handles completions and events.
    pub(super) fn collect(&mut self) {
        while let Some(event) = self.driver.device_mut().poll_event() {
            match event {
                Event::SegmentReleased { segment } => self.books.released(segment),
                Event::Overrun { .. } => panic!("the queues hold all that is posted"),
                _ => {}
            }
        }
        for queue in self.queues {
            while let Some(completion) = self.driver.device_mut().poll_completion(queue) {
                let id = completion.id;
                match completion.kind {
                    CompletionKind::Receive | CompletionKind::ReceiveWrite => {
                        self.books.settle(|loan| *loan == Loan::Receive(id, 0));
                    }
                    _ if id & SILENT != 0 => assert_ne!(completion.status, Status::Success),
                    _ => self.books.settle(|loan| *loan == Loan::Operation(id)),
                }
            }
        }
    }

    /// Releases all resources after the connection has ended, and checks that none is left.
    pub(super) fn strip(&mut self) {
        assert_eq!(self.driver.device().state(self.pair), Some(QueuePairState::Error));
        if let Some(queue) = self.shared {
            // Receives left in a shared queue are dropped together with it.
            self.driver.device_mut().destroy_queue_pair(self.pair).expect("it is there");
            self.driver.device_mut().destroy_receive_queue(queue).expect("nothing uses it");
            self.books.drop_all(|loan| matches!(loan, Loan::Receive(..)));
        }
        assert_eq!((self.driver.device().in_use(), self.driver.device().buffered()), ([0; 3], 0));
        assert!(self.books.is_settled(), "something has not completed");
        if self.shared.is_none() {
            self.driver.device_mut().destroy_queue_pair(self.pair).expect("it is there");
        }
        for queue in self.queues {
            self.driver.device_mut().destroy_completion_queue(queue).expect("nothing uses it");
        }
        for piece in &self.books.pieces {
            let gone = piece.released || self.driver.device_mut().deregister(piece.id) == Ok(true);
            assert!(gone, "{piece:?} is still in use");
        }
    }
}
