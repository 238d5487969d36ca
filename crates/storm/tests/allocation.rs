//! A warm engine allocates nothing.
//!
//! This is a separate test program because its allocator counts, and no other test may run beside
//! it.

use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{Cna, Duration, Ecn, Instant, JettyId, Msn, Psn, Target};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionQueueId, JettyConfig, Limits, LocalRange, OrderRequest,
    Profile, ReceiveRequest, Received, RemoteRange, Rights, SegmentId, SegmentRequest, UbDevice,
    Verdict, Work, WorkRequest,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

/// Two NICs that pass packets directly to each other.
struct Direct {
    nics: [UbDevice; 2],
    channels: [ChannelId; 2],
    segments: [SegmentId; 2],
    queues: [CompletionQueueId; 2],
    jetty: JettyId,
    now: Instant,
    posted: u64,
    completed: u64,
    lost: u64,
}

impl Direct {
    fn new() -> Direct {
        let now = Instant::from_ns(1);
        let cna = [Cna::new(1), Cna::new(2)];
        let (limits, profile) = (Limits::default(), Profile::default());
        let mut nics = cna.map(|cna| UbDevice::new(cna, &limits, &profile, 9));
        let channels = [0, 1].map(|n: usize| nics[n].reserve_channel().unwrap());
        for n in 0..2 {
            let config = ChannelConfig {
                leader: None,
                engine: 0,
                remote: cna[1 - n],
                remote_tpn: channels[1 - n].tpn(),
                first_psn: Psn::new(0xFF_FF00),
                remote_first_psn: Psn::new(0xFF_FF00),
                first_message: Msn::new(0),
                unreliable: true,
                bypass: true,
                parts: true,
                retires: true,
                carried_acks: true,
                mtu: 4096,
                paths: 16,
                remote_window: limits.receive_window(),
                remote_message_slots: limits.message_slots,
                remote_read_slots: limits.read_slots,
                policy: PolicySpec::default().build(4096),
            };
            nics[n].open_channel(now, channels[n], config).unwrap();
        }
        let segments = [0, 1].map(|n: usize| {
            let rights = Rights::READ_WRITE;
            let request = SegmentRequest { address: 0, length: 1 << 30, rights, token_value: 5 };
            nics[n].register(&request).unwrap()
        });
        let queues = [0, 1].map(|n: usize| nics[n].create_completion_queue(256).unwrap());
        let jetty = [0, 1].map(|n: usize| {
            let queue = queues[n];
            let config = JettyConfig { number: Some(1), ..JettyConfig::new(queue, queue) };
            nics[n].create_jetty(&config).unwrap()
        })[0];
        Direct { nics, channels, segments, queues, jetty, now, posted: 0, completed: 0, lost: 0 }
    }

    /// Keeps 32 operations of all kinds in flight, and moves a few packets in each direction.
    fn turn(&mut self) {
        while self.posted - self.completed < 32 {
            let jetty = self.jetty;
            let target = Target { jetty, ..Target::default() };
            let token_id = self.segments[1].token_id();
            let remote = RemoteRange { token_id, token_value: 5, address: 1 << 20 };
            let work = match self.posted % 4 {
                0 => Work::Write { remote },
                1 => Work::Read { remote },
                2 => Work::Send { target },
                _ => Work::WriteImmediate { remote, target, immediate: 1 },
            };
            let length = [64, 4096, 50_000, 0, 200_000][(self.posted % 5) as usize];
            let local = LocalRange { segment: self.segments[0], offset: 0, length };
            let landing =
                LocalRange { segment: self.segments[1], offset: 1 << 22, length: 200_000 };
            if self.posted % 4 >= 2 {
                let receive = ReceiveRequest { id: 0, local: landing };
                self.nics[1].post_receive(jetty, &receive).unwrap();
            }
            let (id, channel) = (self.posted, self.channels[0]);
            let request = WorkRequest {
                id,
                channel,
                work,
                local,
                signaled: true,
                order: OrderRequest::default(),
            };
            self.nics[0].post(self.now, jetty, &request).unwrap();
            self.posted += 1;
        }
        for n in 0..2 {
            self.now = self.now + Duration::from_us(2);
            for _ in 0..8 {
                let Some(transmit) = self.nics[n].poll_transmit(self.now) else { break };
                // One packet in 97 is lost, because recovery must not allocate either.
                self.lost += 1;
                if self.lost.is_multiple_of(97) {
                    continue;
                }
                let (route, packet) = (transmit.route, transmit.packet);
                let payload = transmit.gather.length;
                let received = Received { route, packet, payload, ecn: Ecn::Capable, hops: 0 };
                let peer = &mut self.nics[1 - n];
                if let Verdict::Place(placement) = peer.handle_packet(self.now, &received) {
                    peer.handle_placed(self.now, placement.token, 0);
                }
            }
            if self.nics[n].poll_timeout().is_some_and(|due| self.now.is_at_or_after(due)) {
                self.nics[n].handle_timeout(self.now);
            }
            while self.nics[n].poll_completion(self.queues[n]).is_some() {
                self.completed += u64::from(n == 0);
            }
            while self.nics[n].poll_event().is_some() {}
        }
    }
}

#[test]
fn a_warm_engine_allocates_nothing() {
    let mut direct = Direct::new();
    while direct.completed < 2_000 {
        direct.turn();
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    while direct.completed < 20_000 {
        direct.turn();
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let counters = direct.nics[0].counters();
    assert!(counters.data_resent > 100, "losses were recovered from: {counters:?}");
    assert_eq!(allocations, 0, "allocations in {} packets", counters.data_sent);
}
