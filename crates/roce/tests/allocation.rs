//! Tests that nothing is allocated once a queue pair has been created.
//!
//! This is a test binary of its own: its allocator counts, and no other test may run beside it.

use fairway_roce::wire::roce::{RnrTimer, Tail};
use fairway_roce::wire::{Duration, Ecn, Instant, Psn, Qpn};
use fairway_roce::{
    Change, CompletionQueueId, Limits, MemoryRegion, MemoryRequest, OwnVerdict, Peer, Profile,
    QueuePairConfig, ReceiveRequest, Received, Reliability, RemoteAddress, RoceDevice, ScatterList,
    Status, Transport, Verdict, Work, WorkRequest,
};
use fairway_roce::{LocalRange, Rights};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// True in the test's own thread: the thread of the harness may allocate at any time.
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WATCHED.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two devices with a connection between them.
struct Connected {
    hosts: [RoceDevice; 2],
    regions: [MemoryRegion; 2],
    queues: [CompletionQueueId; 2],
    pairs: [Qpn; 2],
    /// Packets that were sent.
    packets: u64,
}

impl Connected {
    fn new() -> Connected {
        let limits = Limits { queue_pairs: 4, ..Limits::default() };
        let mut hosts = [1, 2].map(|seed| RoceDevice::new(&limits, &Profile::default(), seed));
        let memory = MemoryRequest { domain: 1, address: 0, length: 1 << 20, rights: Rights::ALL };
        let regions = [0, 1].map(|n: usize| hosts[n].register(&memory).unwrap());
        let queues = [0, 1].map(|n: usize| hosts[n].create_completion_queue(256).unwrap());
        let pairs = [0, 1].map(|n: usize| {
            let config = QueuePairConfig {
                transport: Transport::Rc,
                domain: 1,
                send_queue: queues[n],
                receive_queue: queues[n],
                shared_receives: None,
                send_depth: 64,
                receive_depth: 64,
            };
            hosts[n].create_queue_pair(&config).unwrap()
        });
        for n in 0..2 {
            let peer = Peer { address: 0, queue_pair: pairs[1 - n] };
            let (expected, rnr_timer) = (Psn::new(5), RnrTimer::from_code(1));
            let reliability = Reliability::default();
            for change in [
                Change::Init { rights: Rights::ALL, p_key: 0xffff, q_key: 0 },
                Change::ReadyToReceive { peer, mtu: 1024, expected, read_depth: 16, rnr_timer },
                Change::ReadyToSend { first: expected, reliability },
            ] {
                hosts[n].modify(pairs[n], &change).unwrap();
            }
        }
        Connected { hosts, regions, queues, pairs, packets: 0 }
    }

    fn list(&self, n: usize, length: u32) -> ScatterList {
        LocalRange { segment: self.regions[n].segment, offset: 0, length }.into()
    }

    /// Posts a receive, and one operation of each kind. Returns the number of operations.
    fn post(&mut self, now: Instant, id: u64) -> usize {
        let remote = RemoteAddress { address: 64, r_key: self.regions[1].r_key };
        let works = [
            (Work::Write { remote, immediate: None }, 5_000),
            (Work::Send { tail: Tail::Nothing }, 3_000),
            (Work::Read { remote }, 4_000),
            (Work::FetchAdd { remote, add: 1 }, 8),
        ];
        let receive = ReceiveRequest { id, local: self.list(1, 4096) };
        self.hosts[1].post_receive(self.pairs[1], &receive).unwrap();
        for (work, length) in works {
            let local = self.list(0, length);
            let request =
                WorkRequest { id, work, local, signaled: true, solicited: false, fence: false };
            self.hosts[0].post_send(now, self.pairs[0], &request).unwrap();
        }
        works.len()
    }

    /// Delivers the packets that host `n` sends, except one in 97.
    fn exchange(&mut self, now: Instant, n: usize) {
        self.hosts[n].handle_timeout(now);
        while let Some(transmit) = self.hosts[n].poll_transmit(now) {
            self.packets += 1;
            if self.packets.is_multiple_of(97) {
                continue;
            }
            let (packet, payload) = (transmit.packet, transmit.gather.length());
            let received = Received { source: 0, packet, payload, ecn: Ecn::NotCapable };
            let target = &mut self.hosts[1 - n];
            match target.handle_packet(now, &received) {
                Verdict::Place(placement) => target.handle_placed(now, placement.token, 0),
                Verdict::Own(OwnVerdict::Store { token, .. }) => {
                    target.handle_placed(now, token, 0);
                }
                Verdict::Own(OwnVerdict::Buffer { .. }) => unreachable!("nothing comes early"),
                Verdict::Done | Verdict::Drop(_) => {}
            }
            while let Some(execution) = target.poll_execution() {
                target.handle_placed(now, execution.token, 0);
            }
        }
    }
}

#[test]
fn queue_pair_allocates_nothing_after_its_creation() {
    let mut pair = Connected::new();
    WATCHED.set(true);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut now = Instant::ZERO;
    let mut completed = 0;
    for round in 0..2_000 {
        let posted = pair.post(now, round);
        let mut done = 0;
        while done < posted {
            now = now + Duration::from_us(100);
            (0..2).for_each(|n| pair.exchange(now, n));
            while let Some(completion) = pair.hosts[0].poll_completion(pair.queues[0]) {
                assert_eq!(completion.status, Status::Success);
                done += 1;
            }
            while pair.hosts[1].poll_completion(pair.queues[1]).is_some() {
                completed += 1;
            }
        }
    }
    assert_eq!(completed, 2_000);
    assert!(pair.hosts[0].counters().resent_packets > 100, "losses were mended");
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
