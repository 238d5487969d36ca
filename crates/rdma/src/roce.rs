//! Verbs over RoCEv2: real packets, on sockets.
//!
//! `sockets` opens the sockets; `routes` contains addresses and the ways to them; `network`
//! authenticates arriving packets, and forwards those for other processes; `packets` encodes
//! outgoing packets, and `transmit` gathers their payload; `core` contains all of that behind one
//! lock, with the protocol ([`roce::RoceDevice`](fairway_roce::RoceDevice)), in the form that the
//! live driver requires ([`Protocol`](fairway_runtime::Protocol)); `endpoint` is a process without
//! queue pairs. Each provider has a separate slot, even if its process has several.
//!
//! The requests in one peer's packets are executed while the lock is held, including copies. When a
//! call that takes memory away has returned, nothing accesses that memory any more.

mod arming;
mod core;
mod endpoint;
mod limits;
mod network;
mod outside;
mod packets;
mod reorder_buffer;
mod routes;
mod sockets;
mod transmit;

use std::fmt;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use fairway_port::Waiter;
use fairway_roce::{
    Change, ChangeError, Completion, Counters, MemoryRegion, MemoryRequest, PostError,
    QueuePairConfig, QueuePairState, ReceiveQueueId, ReceiveRequest, RoceDevice, Transport,
    WorkRequest,
};
use fairway_runtime::{
    self as runtime, BACKGROUND, Eagerness, Io, Memory, OTHERS, Shared, SmallPosts, Sockets, clock,
    run_background, start_thread,
};
use fairway_ub::policy::Scheduler;
use fairway_ub::wire::Qpn;
use fairway_ub::{CompletionQueueId, Rights, SegmentId, SetupError};

use self::core::RoceCore;
use self::limits::{limits, profile};
use self::network::Network;
use self::outside::Outside;
use self::packets::{Packets, RoceIo};

pub(super) use self::endpoint::Endpoint;
pub(super) use self::limits::LIMITS;

use super::slot::{Claimed, Service, Slot};
use super::{
    DEVICE_ADDRESSES, ForeignMemory, Gid, LEAVING, Listener, NetworkCounters, PolicySpec, Provider,
    ProviderError, ProviderKind, ProviderOptions, ServiceClaim, ServiceLevels, ServiceReservation,
};

/// Number of polls after which all sockets are checked, even if none is known to have packets.
const POLLS_PER_CHECK: u32 = 8;

/// A provider over RoCEv2.
struct Roce {
    driver: Driver<RoceCore>,
    gids: Vec<Gid>,
    mtu: u32,
    slot: u8,
    service_levels: ServiceLevels,
}

/// Opens a provider, on a separate slot.
pub(super) fn open(
    options: &ProviderOptions,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    check(options)?;
    scheduler(options)?;
    start(options, sockets::open(options)?, listener)
}

fn check(options: &ProviderOptions) -> Result<(), ProviderError> {
    if !matches!(options.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(ProviderError::Parameter("mtu"));
    }
    if !(1..=DEVICE_ADDRESSES).contains(&options.addresses.len()) {
        return Err(ProviderError::Parameter("addresses"));
    }
    Ok(())
}

fn start(
    options: &ProviderOptions,
    opened: sockets::Opened,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let slot = opened.slot.number();
    let received = opened.datapath.port().granted().receive_bytes;
    let limits = limits(slot);
    let seed = super::random()?;
    let mut host = RoceDevice::new(&limits, &profile(options, received), seed);
    host.shuffle_numbers(super::random()?);
    host.set_scheduler(clock::now(), scheduler(options)?);
    let parts = assemble(opened)?;
    let core = RoceCore::new(host, parts.network);
    let driver = Driver::start(core, parts.io, parts.background, parts.slot, listener)?;
    let mut addresses = options.addresses.clone();
    addresses.sort_by_key(IpAddr::is_ipv6);
    let gids = addresses.into_iter().map(Gid::from).collect();
    let service_levels = options.service_levels;
    Ok(Arc::new(Roce { driver, gids, mtu: options.mtu, slot, service_levels }))
}

/// Returns the scheduler that the policy names, if it names one. Other kinds of policies do not
/// apply to RoCE.
fn scheduler(options: &ProviderOptions) -> Result<Option<Box<dyn Scheduler>>, ProviderError> {
    let Some(text) = &options.policy else { return Ok(None) };
    let wrong = |reason: &dyn fmt::Display| {
        ProviderError::Setting(format!("policy can't be {text:?}: {reason}"))
    };
    let policy: PolicySpec = text.parse().map_err(|error| wrong(&error))?;
    if !ProviderKind::Roce.takes(&policy) {
        return Err(wrong(&"RoCE takes a scheduler alone, as sched=drr"));
    }
    Ok(policy.scheduler_of_nic(LIMITS.queue_pairs))
}

/// The parts of a process that the driver uses.
struct Parts {
    network: Network,
    io: RoceIo,
    /// The waiter in which the background thread sleeps.
    background: Waiter,
    slot: Arc<Slot>,
}

/// Sets up the wait for the sockets of a process and for its slot.
fn assemble(opened: sockets::Opened) -> Result<Parts, ProviderError> {
    let sockets::Opened { slot, datapath, locals, segmentation, dscp } = opened;
    let failed = |error| ProviderError::Io("watch the sockets", error);
    let port = datapath.port();
    let (background, look) = (port.waiter().map_err(failed)?, port.waiter().map_err(failed)?);
    background.watch(slot.fd(), OTHERS).map_err(failed)?;
    let slot = Arc::new(slot);
    let network = Network::new(slot.clone(), locals, port.local_addrs().to_vec());
    let mut sockets = Sockets::new(datapath, Some(look), POLLS_PER_CHECK);
    sockets.watch_other(slot.fd()).map_err(failed)?;
    let io = Io::new(0, sockets, Packets::new(segmentation)).with_dscp(dscp);
    Ok(Parts { network, io, background, slot })
}

/// A protocol on these sockets, and the background thread that drives it.
struct Driver<P: Process> {
    shared: Arc<Shared<P>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The protocol of a process on RoCE's network.
trait Process: runtime::Protocol<Own = Packets, Outside = Outside> + 'static {
    fn network(&mut self) -> &mut Network;

    /// Returns the number of an address that the program names; `None` if the table is full.
    fn name(&mut self, ip: IpAddr) -> Option<u64>;
}

impl<P: Process> Driver<P> {
    fn start(
        core: P,
        io: RoceIo,
        background: Waiter,
        slot: Arc<Slot>,
        listener: Arc<dyn Listener>,
    ) -> Result<Self, ProviderError> {
        let outside = Outside::new(slot, listener);
        let shared = Arc::new(Shared::new(core, Some(io), vec![background], true, outside));
        let driven = shared.clone();
        let thread = start_thread("fairway-roce", move || run_background(&driven))
            .map_err(|error| ProviderError::Io("start a thread", error))?;
        Ok(Driver { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Calls `work` with the protocol, then does what that makes due.
    fn with<R>(&self, work: impl FnOnce(&mut P) -> R) -> R {
        self.shared.with(work)
    }

    /// As [`Driver::with`], with the sockets.
    fn with_io<R>(&self, work: impl FnOnce(&mut P, &mut RoceIo) -> R) -> R {
        let mut locked = self.shared.lock();
        let runtime::Locked { core, io, .. } = &mut *locked;
        let result = work(core, io.as_mut().expect("there is one engine"));
        self.shared.run_pending_and_unlock(locked);
        result
    }

    fn network_counters(&self) -> NetworkCounters {
        let mut counters = self.with_io(|core, io| {
            let gone = core.parts().1.counters.gone;
            let mut counters = core.network().counters;
            counters.memory_gone += gone;
            counters.send_errors += io.sockets.errors;
            counters
        });
        self.shared.outside.add_counters(&mut counters);
        counters
    }

    /// As [`Provider::send_management`].
    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), ProviderError> {
        self.with_io(|core, io| core.network().send_management(io, clock::now(), to, bytes))
    }

    /// Returns the address from which packets to another host are sent.
    fn leaves_from(&self, to: u64) -> Option<IpAddr> {
        let way = self.with(|core| core.network().routes.way(to)).ok()?;
        Some(way.from.ip()).filter(|_| !way.here)
    }

    /// Returns this process's number for a network address to which there is a route.
    fn resolve(&self, ip: IpAddr) -> Result<u64, ProviderError> {
        self.with(|core| {
            let number = core.name(ip).ok_or(ProviderError::Limit("addresses"))?;
            let routes = &mut core.network().routes;
            routes.renewed(number)?.reachable(ip)?;
            Ok(number)
        })
    }

    /// As [`Provider::claim_service`].
    fn claim_service(
        &self,
        service: ServiceReservation,
    ) -> Result<Box<dyn ServiceClaim>, ProviderError> {
        let service = Arc::new(Service::from(service));
        let failed = |error| ProviderError::Io("watch a service", error);
        let watched = |core: &mut P, io: &mut RoceIo| -> std::io::Result<()> {
            io.sockets.watch_other(service.fd())?;
            core.network().add_service(&service);
            Ok(())
        };
        self.with_io(watched).map_err(failed)?;
        let background = &self.shared.sleepers[BACKGROUND];
        background.watch(service.fd().as_fd(), OTHERS).map_err(failed)?;
        Ok(Box::new(Claimed::new(service)))
    }
}

impl<P: Process> Drop for Driver<P> {
    fn drop(&mut self) {
        self.shared.stop();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // If the thread panicked, the panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Process for RoceCore {
    fn network(&mut self) -> &mut Network {
        &mut self.network
    }

    fn name(&mut self, ip: IpAddr) -> Option<u64> {
        let host = &self.host;
        self.network.routes.name(ip, || host.peers().collect())
    }
}

impl Roce {
    /// Calls `work`, which posts receives: only calls of the listener have to follow.
    fn post_receives<R>(&self, work: impl FnOnce(&mut RoceCore) -> R) -> R {
        let mut locked = self.driver.shared.lock();
        let result = work(&mut locked.core);
        if locked.core.has_notices() {
            self.driver.shared.run_pending_and_unlock(locked);
        }
        result
    }
}

impl Provider for Roce {
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
        self.driver.with(|core| *core.host.counters())
    }

    fn network_counters(&self) -> NetworkCounters {
        self.driver.network_counters()
    }

    fn register(
        &self,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, ProviderError> {
        if request.length != memory.len() as u64 {
            return Err(ProviderError::Parameter("length"));
        }
        self.driver.with(|core| {
            let region = core.host.register(request).map_err(refused)?;
            core.host.set_place(region.segment, memory.start() as u64);
            if let Some(start) = NonNull::new(memory.start()) {
                // SAFETY: whatever made the `ForeignMemory` promised that the bytes are the
                // program's until they are deregistered, which removes them from this table, and
                // that there are no references to them.
                let memory = unsafe { Memory::from_raw(start, memory.len()) };
                core.memories.insert(region.segment, Arc::new(memory));
            }
            Ok(region)
        })
    }

    fn change_memory(
        &self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), ProviderError> {
        let changed = |core: &mut RoceCore| core.host.change_region(segment, rights, domain);
        self.driver.with(changed).map_err(refused)
    }

    fn deregister(&self, segment: SegmentId) -> Result<(), ProviderError> {
        self.driver.shared.catch_up();
        self.driver.with(|core| {
            core.host.deregister(segment).map_err(refused)?;
            core.memories.remove(segment);
            Ok(())
        })
    }

    fn create_completion_queue(&self, depth: u32) -> Result<CompletionQueueId, ProviderError> {
        self.driver.with(|core| core.host.create_completion_queue(depth).map_err(refused))
    }

    fn resize_completion_queue(
        &self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), ProviderError> {
        let resized = |core: &mut RoceCore| core.host.resize_completion_queue(queue, depth);
        self.driver.with(resized).map_err(refused)
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueId) -> Result<(), ProviderError> {
        self.driver.with(|core| core.host.destroy_completion_queue(queue).map_err(refused))
    }

    /// Takes completions. If there are none, runs a poll first, if the caller is to drive.
    fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        let shared = &self.driver.shared;
        shared.progress_lock.touch();
        let mut locked = shared.lock();
        let mut count = locked.core.take(queue, out);
        let may_drive = count == 0 && !shared.poll_detector.is_driven();
        if may_drive && !locked.core.delayed_ack.take_precedes_answer() {
            let alone = locked.asleep[BACKGROUND].is_none();
            let eagerness = locked.core.poll_begins(clock::now(), alone);
            locked.poll_as(eagerness, true);
            count = locked.core.take(queue, out);
            if count > 0 {
                locked.core.delayed_ack.completed();
            }
        }
        if count == 0 {
            locked.core.arming.polled_in_vain();
        }
        shared.end_verbs_poll(locked, count > 0);
        count
    }

    fn has_completions(&self, number: Qpn) -> bool {
        self.driver.with(|core| core.host.has_completions(number))
    }

    fn arm(&self, queue: CompletionQueueId, solicited_only: bool) -> Result<(), ProviderError> {
        self.driver.with(|core| core.arm(queue, solicited_only)).map_err(refused)?;
        self.driver.shared.demand_background();
        Ok(())
    }

    fn create_receive_queue(
        &self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, ProviderError> {
        self.driver.with(|core| core.host.create_receive_queue(domain, depth)).map_err(refused)
    }

    fn limit_receive_queue(&self, queue: ReceiveQueueId, limit: u32) -> Result<(), ProviderError> {
        self.driver.with(|core| core.host.limit_receive_queue(queue, limit)).map_err(refused)
    }

    fn destroy_receive_queue(&self, queue: ReceiveQueueId) -> Result<(), ProviderError> {
        self.driver.with(|core| core.host.destroy_receive_queue(queue)).map_err(refused)
    }

    fn create_queue_pair(&self, config: &QueuePairConfig) -> Result<Qpn, ProviderError> {
        self.driver.with(|core| {
            let number = core.host.create_queue_pair(config).map_err(refused)?;
            core.host.set_share(number, self.service_levels.share(0)).map_err(refused)?;
            if config.transport != Transport::Rc {
                core.unacknowledged.insert(number);
            }
            Ok(number)
        })
    }

    fn destroy_queue_pair(&self, number: Qpn) -> Result<(), ProviderError> {
        self.driver.with_io(|core, io| {
            // Packets that have arrived for a connection are acknowledged. Those for another queue
            // pair are dropped: a program may have unmapped the memory of its receives by now,
            // without deregistering it (UCX does), because an adapter would have pinned it.
            if !core.unacknowledged.remove(&number) {
                core.finish_arrivals(io);
            }
            core.host.destroy_queue_pair(number).map_err(refused)
        })
    }

    fn modify(&self, number: Qpn, change: &Change) -> Result<(), ChangeError> {
        self.driver.with_io(|core, io| {
            if matches!(change, Change::Error | Change::Reset) {
                // Arrived packets are processed, and the acknowledgement due to the peer is sent,
                // which may have been delayed.
                core.finish_arrivals(io);
            }
            core.host.modify(number, change)?;
            runtime::transmit(core, io, clock::now());
            Ok(())
        })
    }

    fn set_service_level(&self, number: Qpn, level: u8) {
        let share = self.service_levels.share(level);
        // A queue pair that does not exist is ignored; weights are never zero.
        let _ = self.driver.with(|core| core.host.set_share(number, share));
    }

    fn state(&self, number: Qpn) -> Option<QueuePairState> {
        self.driver.with(|core| core.host.state(number))
    }

    fn is_draining(&self, number: Qpn) -> bool {
        self.driver.with(|core| core.host.is_draining(number))
    }

    fn resolve(&self, gid: Gid) -> Result<u64, ProviderError> {
        self.driver.resolve(gid.ip())
    }

    fn gid_of(&self, address: u64) -> Option<Gid> {
        self.driver.with(|core| core.network.routes.address(address).map(Gid::from))
    }

    fn leaves_from(&self, address: u64) -> Option<Gid> {
        self.driver.leaves_from(address).map(Gid::from)
    }

    fn post_send(&self, number: Qpn, requests: &[WorkRequest]) -> (usize, Option<PostError>) {
        // The thread that posts will poll, too.
        self.driver.shared.progress_lock.touch();
        let shared = &self.driver.shared;
        let mut locked = shared.lock();
        let runtime::Locked { core, io, .. } = &mut *locked;
        let io = io.as_mut().expect("there is one engine");
        let now = clock::now();
        shared.poll_detector.posted(now);
        core.delayed_ack.posted(now);
        let before = core.host.sends_posted(number);
        let posted = all(requests, |request| core.host.post_send(now, number, request));
        let under_way = before.saturating_sub(io.burst.waiting());
        let small = SmallPosts { began: now, count: posted.0 as u32, under_way };
        let small = core.are_small(number, requests).then_some(small);
        let waits = !runtime::transmit_posted(core, io, small);
        if waits && !core.has_notices() {
            return posted;
        }
        shared.run_pending_and_unlock(locked);
        if !waits {
            // Sending may have taken long.
            shared.poll_detector.posted(clock::now());
        }
        posted
    }

    fn check_sends(&self, number: Qpn, requests: &[WorkRequest]) -> Result<(), PostError> {
        self.driver.with(|core| core.host.check_sends(number, requests))
    }

    fn post_receive(&self, number: Qpn, requests: &[ReceiveRequest]) -> (usize, Option<PostError>) {
        self.post_receives(|core| all(requests, |request| core.host.post_receive(number, request)))
    }

    fn post_shared_receive(
        &self,
        queue: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>) {
        self.post_receives(|core| {
            all(requests, |request| core.host.post_shared_receive(queue, request))
        })
    }

    fn acknowledge(&self) {
        if let Some(mut locked) = self.driver.shared.lock_within(LEAVING) {
            locked.poll_as(Eagerness::TakeAll, false);
            self.driver.shared.run_pending_and_unlock(locked);
        }
    }

    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), ProviderError> {
        self.driver.send_management(to, bytes)
    }

    fn claim_service(
        &self,
        service: ServiceReservation,
    ) -> Result<Box<dyn ServiceClaim>, ProviderError> {
        self.driver.claim_service(service)
    }
}

/// Posts requests one after the other. Returns how many were accepted, and the error of the next.
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

fn refused(error: SetupError) -> ProviderError {
    match error {
        SetupError::Limit(name) => ProviderError::Limit(name),
        SetupError::Number => ProviderError::Parameter("number"),
        SetupError::Parameter(name) => ProviderError::Parameter(name),
        SetupError::Missing => ProviderError::Missing,
        SetupError::Busy => ProviderError::Busy,
    }
}
