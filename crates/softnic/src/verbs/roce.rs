//! Verbs carried by RoCEv2: real packets, on sockets.
//!
//! `sockets` opens them; `routes` knows addresses and ways; `device` is all of that behind one lock, with the protocol
//! ([`roce::Host`](crate::roce::Host)), and one turn of it; `receive` and `transmit`
//! are the halves of a turn; `progress` says who runs turns, and tells the listener what came of
//! them. A carrier has a slot of its own, also if its process has several.
//!
//! What one peer's packets ask for is carried out while the lock is held, copying included: so when
//! a call that takes memory away has returned, nothing touches it any more.

mod device;
mod kept;
mod progress;
mod receive;
mod routes;
mod sockets;
mod transmit;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use fairway_engine::wire::Qpn;
use fairway_engine::{CompletionQueueId, Rights, SegmentId, SetupError, policy};
use fairway_port::Waiter;
use fairway_roce::{
    Change, ChangeError, Completion, Counters, Host, Limits, MemoryRegion, MemoryRequest,
    OutOfOrder, PostError, Profile, QueuePairConfig, QueuePairState, READ_DEPTH_MAX,
    ReceiveQueueId, ReceiveRequest, Transport, WorkRequest,
};

use self::device::{Device, LETTERS, Notice};
use self::progress::Shared;

use super::letter::MANAGEMENT_BYTES;
use super::slot::{Claimed, Service, Slot};
use super::{
    Carrier, CarrierError, CarrierOptions, DEVICE_ADDRESSES, ForeignMemory, Gid, LOCAL_BITS,
    Listener, NetworkCounters, ServiceClaim,
};
use crate::clock;
use crate::memory::Memory;

/// Queue pairs of a carrier: two of the bits of their numbers tell their uses apart.
const QUEUE_PAIRS: u32 = 1 << (LOCAL_BITS - 2);

/// The rate that DCQCN takes the link's to be. It only begins there.
const LINE_BITS: u64 = 100_000_000_000;

/// A carrier over RoCEv2.
struct Roce {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    gids: Vec<Gid>,
    mtu: u32,
    slot: u8,
}

/// Opens one, on a slot of its own.
pub(super) fn open(
    options: &CarrierOptions,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Carrier>, CarrierError> {
    check(options)?;
    start(options, sockets::open(options)?, listener)
}

/// Opens one, on this slot.
pub(super) fn open_on(
    options: &CarrierOptions,
    slot: Slot,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Carrier>, CarrierError> {
    check(options)?;
    start(options, sockets::open_on(options, slot)?, listener)
}

fn check(options: &CarrierOptions) -> Result<(), CarrierError> {
    if !matches!(options.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(CarrierError::Parameter("mtu"));
    }
    if !(1..=DEVICE_ADDRESSES).contains(&options.addresses.len()) {
        return Err(CarrierError::Parameter("addresses"));
    }
    Ok(())
}

fn start(
    options: &CarrierOptions,
    opened: sockets::Sockets,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Carrier>, CarrierError> {
    let slot = opened.slot.number();
    let received = opened.datapath.port().granted().receive_bytes;
    let limits = limits(slot);
    let seed = super::random()?;
    let host = Host::new(&limits, &profile(options, received), seed);
    let watch = |opened: &sockets::Sockets| -> std::io::Result<Waiter> {
        let waiter = opened.datapath.port().waiter()?;
        waiter.watch(opened.slot.fd(), LETTERS)?;
        Ok(waiter)
    };
    let failed = |error| CarrierError::Io("watch the sockets", error);
    let (background, look) = (watch(&opened).map_err(failed)?, watch(&opened).map_err(failed)?);
    let device = Device::new(host, opened, look);
    let shared = Arc::new(Shared::new(device, background, listener));
    let driven = shared.clone();
    let thread = std::thread::Builder::new()
        .name("fairway-roce".into())
        .spawn(move || progress::run_background(&driven))
        .map_err(|error| CarrierError::Io("start a thread", error))?;
    let mut addresses = options.addresses.clone();
    addresses.sort_by_key(IpAddr::is_ipv6);
    let gids = addresses.into_iter().map(Gid::from).collect();
    let thread = Mutex::new(Some(thread));
    Ok(Arc::new(Roce { shared, thread, gids, mtu: options.mtu, slot }))
}

fn limits(slot: u8) -> Limits {
    Limits {
        queue_pairs: QUEUE_PAIRS,
        number_bits: LOCAL_BITS,
        number_base: u32::from(slot) << LOCAL_BITS,
        segments: 1 << 16,
        completion_queues: 1 << 14,
        completions: 1 << 24,
        receive_queues: QUEUE_PAIRS + (1 << 12),
        sends: 1 << 19,
        receives: 1 << 19,
        pending: 1 << 14,
        kept: 1 << 10,
        read_depth: READ_DEPTH_MAX,
    }
}

/// `received`: bytes of a socket's receive buffer, as the kernel counts them.
fn profile(options: &CarrierOptions, received: usize) -> Profile {
    // The kernel counts up to twice what a packet has. What is on its way to one peer should find
    // room there even if somebody else's packets have half of it.
    let window = received / 4 / (options.mtu as usize + 512);
    // A peer that takes packets out of order takes none that comes earlier than by its window.
    let most = OutOfOrder::default().window as usize;
    let window_packets = window.clamp(16, most) as u32;
    // What a loss is known by has to fit into the window.
    let tolerance = OutOfOrder::default().tolerance.min(window_packets / 2);
    let selective = OutOfOrder { tolerance, ..OutOfOrder::default() };
    let out_of_order = options.out_of_order.then_some(selective);
    Profile {
        window_packets,
        // A socket's buffer overflows, above all if many send to it. Where only what is missing is
        // sent again, that fills no buffer anew.
        window_adapts: !options.out_of_order,
        acknowledge_every: (window_packets / 4).clamp(1, 64),
        out_of_order,
        dcqcn: options.dcqcn.then(|| policy::DcqcnRateParameters::new(LINE_BITS)),
        ..Profile::default()
    }
}

impl Drop for Roce {
    fn drop(&mut self) {
        self.shared.stop();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // Its panic, if it had one, was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Carrier for Roce {
    fn name(&self) -> &'static str {
        "roce"
    }

    fn gids(&self) -> &[Gid] {
        &self.gids
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn slot(&self) -> u8 {
        self.slot
    }

    fn counters(&self) -> Counters {
        self.shared.with(|device| *device.host.counters())
    }

    fn network_counters(&self) -> NetworkCounters {
        self.shared.with(|device| NetworkCounters {
            memory_gone: device.memories.counters.gone,
            ..device.counters
        })
    }

    fn register(
        &self,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, CarrierError> {
        if request.length != memory.len() as u64 {
            return Err(CarrierError::Parameter("length"));
        }
        self.shared.with(|device| {
            let region = device.host.register(request).map_err(refused)?;
            device.host.set_place(region.segment, memory.start() as u64);
            if let Some(start) = NonNull::new(memory.start()) {
                // SAFETY: whatever made the `ForeignMemory` promised that the bytes are the
                // program's until they are deregistered, which removes them from this table, and
                // that nobody has references to them.
                let memory = unsafe { Memory::from_raw(start, memory.len()) };
                device.memories.insert(region.segment, Arc::new(memory));
            }
            Ok(region)
        })
    }

    fn change_memory(
        &self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), CarrierError> {
        let changed = |device: &mut Device| device.host.change_region(segment, rights, domain);
        self.shared.with(changed).map_err(refused)
    }

    fn deregister(&self, segment: SegmentId) -> Result<(), CarrierError> {
        self.shared.with(|device| {
            device.host.deregister(segment).map_err(refused)?;
            device.forget_segment(segment);
            Ok(())
        })
    }

    fn create_completion_queue(&self, depth: u32) -> Result<CompletionQueueId, CarrierError> {
        self.shared.with(|device| device.host.create_completion_queue(depth).map_err(refused))
    }

    fn resize_completion_queue(
        &self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), CarrierError> {
        let resized = |device: &mut Device| device.host.resize_completion_queue(queue, depth);
        self.shared.with(resized).map_err(refused)
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueId) -> Result<(), CarrierError> {
        self.shared.with(|device| device.host.destroy_completion_queue(queue).map_err(refused))
    }

    fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        self.shared.poll(queue, out)
    }

    fn has_completions(&self, number: Qpn) -> bool {
        self.shared.with(|device| device.host.has_completions(number))
    }

    fn arm(&self, queue: CompletionQueueId, solicited_only: bool) -> Result<(), CarrierError> {
        self.shared.with(|device| device.host.arm(queue, solicited_only)).map_err(refused)?;
        self.shared.demand_background();
        Ok(())
    }

    fn create_receive_queue(
        &self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, CarrierError> {
        self.shared.with(|device| device.host.create_receive_queue(domain, depth)).map_err(refused)
    }

    fn limit_receive_queue(&self, queue: ReceiveQueueId, limit: u32) -> Result<(), CarrierError> {
        self.shared.with(|device| device.host.limit_receive_queue(queue, limit)).map_err(refused)
    }

    fn destroy_receive_queue(&self, queue: ReceiveQueueId) -> Result<(), CarrierError> {
        self.shared.with(|device| device.host.destroy_receive_queue(queue)).map_err(refused)
    }

    fn create_queue_pair(&self, config: &QueuePairConfig) -> Result<Qpn, CarrierError> {
        self.shared.with(|device| {
            let number = device.host.create_queue_pair(config).map_err(refused)?;
            if config.transport != Transport::Rc {
                device.unacknowledged.insert(number);
            }
            Ok(number)
        })
    }

    fn destroy_queue_pair(&self, number: Qpn) -> Result<(), CarrierError> {
        self.shared.with(|device| {
            // What has arrived for a connection is acknowledged. What has arrived for another queue
            // pair is dropped: a program may have unmapped the memory of its receives by now,
            // without deregistering it (UCX does), because an adapter would have it pinned.
            if !device.unacknowledged.remove(&number) {
                device.turn();
            }
            device.host.destroy_queue_pair(number).map_err(refused)
        })
    }

    fn modify(&self, number: Qpn, change: &Change) -> Result<(), ChangeError> {
        self.shared.with(|device| {
            if matches!(change, Change::Error | Change::Reset) {
                // What has come counts, and what it owes its peer is said: an acknowledgement may
                // wait for company.
                device.turn();
            }
            device.host.modify(number, change)?;
            device.transmit(clock::now());
            Ok(())
        })
    }

    fn state(&self, number: Qpn) -> Option<QueuePairState> {
        self.shared.with(|device| device.host.state(number))
    }

    fn resolve(&self, gid: Gid) -> Result<u64, CarrierError> {
        let ip = gid.ip();
        self.shared.with(|device| {
            let number = device.routes.number(ip).ok_or(CarrierError::Limit("addresses"))?;
            let way = device.routes.way(number)?;
            way.reachable(ip)?;
            Ok(number)
        })
    }

    fn gid_of(&self, address: u64) -> Option<Gid> {
        self.shared.with(|device| device.routes.address(address).map(Gid::from))
    }

    fn post_send(&self, number: Qpn, requests: &[WorkRequest]) -> (usize, Option<PostError>) {
        self.shared.vigil.posted();
        let posted = self.shared.with(|device| {
            let now = clock::now();
            device.promptness.posted(now);
            let posted = all(requests, |request| device.host.post_send(now, number, request));
            device.transmit(now);
            posted
        });
        self.shared.vigil.posted();
        posted
    }

    fn post_receive(&self, number: Qpn, requests: &[ReceiveRequest]) -> (usize, Option<PostError>) {
        self.shared
            .with(|device| all(requests, |request| device.host.post_receive(number, request)))
    }

    fn post_shared_receive(
        &self,
        queue: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>) {
        self.shared
            .with(|device| all(requests, |request| device.host.post_shared_receive(queue, request)))
    }

    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), CarrierError> {
        let bytes: &[u8; MANAGEMENT_BYTES] = bytes;
        self.shared.with(|device| {
            let way = device.routes.way(to)?;
            way.reachable(way.to.ip())?;
            if !way.here {
                return device.send_management(clock::now(), to, bytes);
            }
            // Whoever gets one says whose it is: so why not this process.
            let from = way.from.ip();
            let source = device.routes.number(from).ok_or(CarrierError::Limit("addresses"))?;
            let (bytes, handed) = (Box::new(*bytes), false);
            device.notices.push(Notice::Management { source, from, bytes, handed });
            Ok(())
        })
    }

    fn claim_service(&self, service: u64) -> Result<Box<dyn ServiceClaim>, CarrierError> {
        let service = Arc::new(Service::claim(service)?);
        let failed = |error| CarrierError::Io("watch a service", error);
        self.shared.with(|device| device.watch_service(&service)).map_err(failed)?;
        self.shared.background.watch(service.fd().as_fd(), LETTERS).map_err(failed)?;
        Ok(Box::new(Claimed::new(service)))
    }
}

/// Posts one after the other. How many were taken, and what was wrong with the next.
fn all<R>(
    requests: &[R],
    mut post: impl FnMut(&R) -> Result<(), PostError>,
) -> (usize, Option<PostError>) {
    for (count, request) in requests.iter().enumerate() {
        if let Err(error) = post(request) {
            return (count, Some(error));
        }
    }
    (requests.len(), None)
}

fn refused(error: SetupError) -> CarrierError {
    match error {
        SetupError::Limit(name) => CarrierError::Limit(name),
        SetupError::Number => CarrierError::Parameter("number"),
        SetupError::Parameter(name) => CarrierError::Parameter(name),
        SetupError::Missing => CarrierError::Missing,
        SetupError::Busy => CarrierError::Busy,
    }
}
