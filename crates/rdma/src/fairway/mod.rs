//! Verbs over Jetties and shared TP channels.
//!
//! **The mapping.** A provider has a separate context, bound to [`fairway_port`] of its slot. A
//! queue pair is a Jetty whose number is the lower 16 bits of the queue pair's, so the address and
//! the number of a queue pair determine where to connect, and to which Jetty to send. All queue
//! pairs to one process share one channel ([`links`]), with its paths, windows and losses. A shared
//! receive queue is a Jetty that no peer sends to and from which other Jetties take receives. A key
//! is the segment's number and 12 bits drawn at random for every registration, which peers send as
//! the segment's secret. All state is behind the lock of the context ([`tables`]);
//! [`process_completions`] converts the protocol's completions whenever that lock is about to be
//! released, and the listener is called after the release.
//!
//! **The order** that a reliable connection guarantees, and the mechanism for each guarantee:
//!
//! | guarantee | mechanism |
//! |---|---|
//! | sends complete in posting order, unsignaled ones report no success, those after an error are flushed | [`send`]: the protocol completes operations in any order, and only the oldest is ever reported |
//! | a SEND consumes the receives in order; operations posted before it are in place when its receive completes | the target's Jetty is *in sequence*: the k-th message gets the k-th receive, however early it arrives, and is reported when everything before has been executed |
//! | memory changes as if operations were executed in posting order; a READ returns the bytes of its turn | all are in *memory order*: the target sets early payload aside, defers READs and atomics until their turn, and defers payload that overlaps a READ's answer until that has arrived |
//! | the fence | [`send`]: the operation begins when READs and atomics before it have completed |
//!
//! Operations are numbered, and without a fence none waits at the initiator for another one. The
//! target keeps track of 128 operations beyond the first missing one, so at most 96 of a queue pair
//! are under way.
//!
//! **Visible differences** from RoCE:
//!
//! * WRITEs into regions, or by way of queue pairs, with relaxed ordering are placed in any order
//!   among themselves, and one may be in place before a SEND posted earlier is.
//! * A message that was set aside when its region was deregistered is dropped, although its sender
//!   has received an acknowledgement for it.
//! * Operations posted behind one that fails may have been executed; they complete as flushed. A
//!   SEND behind one that is too long for its receive, or another queue pair's with the same shared
//!   queue, may take that receive; then the next one fails.
//! * The responder's queue pair fails when the requester's library says that the refused request
//!   has completed ([`refusal`]), and not before.
//! * WRITEs, READs and atomics name the target's queue pair, and need its state, rights and
//!   protection domain, as in RoCE; but the target does not check that their sender is the queue
//!   pair that it is connected to. (SENDs reach only the peer's queue pair, by a secret made of
//!   both numbers.) A READ that has been accepted is answered completely, even if the queue pair
//!   ends.
//! * Of the numbers of READs and atomics that may be in flight, at either end, only 0 is a limit.
//! * Time-outs are the channel's: a process that is gone is noticed within about 3 seconds. A
//!   process that has ended and a queue pair that does not exist are noticed at once, and reported
//!   when the queue pair's retries would have been used up. The status is always `RetryExceeded`.
//!   A SEND that finds no receive is tried again after 100 µs, whatever the RNR timer says, and as
//!   often as fits into the retries of an adapter, by the timer of its own queue pair. Operations
//!   to a queue pair in the reset or init state are repeated, too, and fail with `RetryExceeded`
//!   when the sender's retries would have been used up ([`readiness`]).
//! * A region whose address differs from the IOVA modulo 8 grants no atomics.
//! * If the memory of a receive moves to another protection domain while it is posted, it is
//!   filled, and its sender is successful; the receive fails, and the message after it.
//! * A WRITE or READ of no bytes needs the peer's queue pair and its rights, and no key, as in
//!   RoCE; but with immediate data it is a SEND, and needs no right.
//! * Unreliable connections lose only messages that are refused.
//! * Datagrams to an unreachable process delay the completions of those behind them for up to a
//!   second.
//! * A device is reached at its first seven addresses, whatever their families. Two processes have
//!   a channel for each address by which one reaches the other.

mod delayed_errors;
mod deregister;
mod header;
mod immediate_tag;
mod link;
mod links;
mod memory;
mod notice;
mod parked;
mod process_completions;
mod question;
mod queue;
mod queue_pair;
mod readiness;
mod receive;
mod refusal;
mod send;
mod shared;
mod tables;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fairway::embed::{self, Core, Handle, Tenant};
use fairway::{Builder, Error, SocketShortage};
use fairway_roce::{
    Change, ChangeError, Completion, Counters, MemoryRegion, MemoryRequest, PostError,
    QueuePairConfig, QueuePairState, ReceiveQueueId, ReceiveRequest, Transport, WorkRequest,
};
use fairway_runtime::{Eagerness, Locked, clock};
use fairway_ub::wire::{self, Qpn};
use fairway_ub::{CompletionQueueId, Limits, Profile, Rights, SegmentId};

pub(crate) use tables::Verbs;

use super::addresses::{NOWHERE, ipv4_of, number_of_ipv4};
use super::management;
use super::roce::Endpoint;
use super::slot::Slot;
use super::{
    ForeignMemory, Gid, LEAVING, Listener, Provider, ProviderError, ProviderLimits,
    ProviderOptions, ServiceClaim, ServiceLevels, ServiceReservation, fairway_port,
};

/// Limits for programs.
pub(super) const PROVIDER_LIMITS: ProviderLimits = ProviderLimits {
    queue_pairs: tables::PAIRS_MAX - tables::FIRST_LOCAL,
    completion_queues: tables::QUEUES_MAX,
    regions: REGIONS,
    receive_queues: shared::SHARED_MAX,
};

/// Limits of the protocol. More is not needed for the queue pairs that are active at the same time.
const LIMITS: Limits = Limits::new()
    .channels(1024)
    .engines(1)
    .jetties(tables::PAIRS_MAX + shared::SHARED_MAX)
    .segments(REGIONS)
    .completion_queues(1)
    .completions(MESSAGES + RECEIVES)
    .messages(MESSAGES)
    .receives(RECEIVES)
    .arrivals(1 << 16)
    .window_packets(32_768)
    .send_blocks(65_536)
    .bitmap_blocks(262_144)
    .message_slots(64)
    .read_slots(256)
    .paths(256)
    .withheld(256)
    .order_records(tables::PAIRS_MAX)
    .bypass_answers(16)
    .groups(1)
    // As many as a channel's window has packets, so that no message of a single peer is refused.
    .deferred(32_768)
    .mailboxes(1)
    .mailbox_buffers(1)
    .put_streams(1)
    .flows(1 << 14);
/// Regions of memory, those of bounce buffers among them.
const REGIONS: u32 = 1 << 18;
const MESSAGES: u32 = 1 << 17;
/// Enough for 512 shared receive queues of 4096 receives each. A record takes memory (less than 300
/// bytes) once it is used; until then it takes address space only.
const RECEIVES: u32 = 1 << 21;

/// Messages of up to this many bytes share a path, and so a call that sends: two packets of the
/// default size. libfabric sends long messages in pieces of 16,448 bytes.
const SMALL_MESSAGE_BYTES: u32 = 2 * 8856;

/// Maximum time to wait for the release of memory that peers still read.
const RELEASE: Duration = Duration::from_secs(10);

/// A provider that uses the Fairway protocol.
struct Fairway {
    handle: Arc<Handle>,
    gids: Vec<Gid>,
    mtu: u32,
    /// The endpoint for management datagrams, which owns the slot.
    management: Endpoint,
    service_levels: ServiceLevels,
}

/// Opens a provider.
pub(super) fn open(
    options: &ProviderOptions,
    listener: Arc<dyn Listener>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    if !matches!(options.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(ProviderError::Parameter("mtu"));
    }
    let mut addresses = options.addresses.clone();
    addresses.sort_by_key(|address| address.is_ipv6());
    if addresses.is_empty() {
        return Err(ProviderError::Parameter("addresses"));
    }
    let (slot, handle) = Slot::claim(|number| match build(options, &addresses, number) {
        Ok(handle) => Ok(Some(handle)),
        // Another program uses the port of this slot.
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AddrInUse => Ok(None),
        Err(Error::Io { source, .. }) => Err(ProviderError::Io("open the sockets", source)),
        Err(error) => Err(ProviderError::Setting(error.to_string())),
    })?;
    let for_management = listener.clone();
    let made = handle.shared.with(|core| {
        let verbs = Verbs::new(core, listener, slot.number(), options.mtu, LIMITS.completions);
        verbs.map(|verbs| core.set_tenant(Box::new(verbs)))
    });
    made?;
    let gids = addresses.iter().map(|&address| address.into()).collect();
    let numbers = handle.clone();
    let management = management::open(options, slot, for_management, move |datagram| {
        let number = |core: &mut Core| {
            core.with_tenant(|verbs: &mut Verbs, _| verbs.number_of_sender(datagram))
        };
        let known = number_of_ipv4(datagram.from);
        known.or_else(|| numbers.shared.with(number)).unwrap_or(NOWHERE)
    })?;
    let (mtu, service_levels) = (options.mtu, options.service_levels);
    Ok(Arc::new(Fairway { handle, gids, mtu, management, service_levels }))
}

fn build(options: &ProviderOptions, addresses: &[IpAddr], slot: u8) -> Result<Arc<Handle>, Error> {
    let profile = Profile::new()
        .not_ready_retries(7)
        .small_message_bytes(SMALL_MESSAGE_BYTES)
        // Keys have few random bits, so few wrong ones are allowed.
        .refused_keys(256)
        .refused_key_interval(wire::Duration::from_secs(10));
    let others = addresses[1..].iter().map(|ip| options.socket_address(*ip, 0)).collect();
    let mut builder = Builder::default()
        .bind(addresses[0])
        .limits(LIMITS)
        .profile(profile)
        // A queue pair may be idle for as long as its program likes.
        .evict_idle(None);
    if let Some((spec, seed)) = &options.emulate {
        builder = builder.emulate(spec.clone(), *seed);
    }
    if let Some(policy) = &options.policy {
        builder = builder.policy_named(policy);
    }
    if let Some(dscp) = options.dscp {
        builder = builder.dscp(dscp);
    }
    if let Some(datapath) = options.datapath {
        builder = builder.datapath(datapath);
    }
    if let Some(paths) = options.paths {
        builder = builder.paths(paths);
    }
    embed::build(builder, fairway_port(slot), others)
}

impl Fairway {
    /// Calls `work` with the tables.
    fn with<R>(&self, work: impl FnOnce(&mut Verbs, &mut Core) -> R) -> R {
        let result = self.handle.shared.with(|core| core.with_tenant(work));
        // The tables exist as long as the provider does.
        result.expect("the provider's tables")
    }

    /// As [`Fairway::with`], to post receives: only sends that wait for others, and calls of the
    /// listener, have to follow.
    fn post_receives<R>(&self, work: impl FnOnce(&mut Verbs, &mut Core) -> R) -> R {
        let mut locked = self.handle.shared.lock();
        let posted = locked.core.with_tenant(|verbs, core| (work(verbs, core), verbs.has_calls()));
        // The tables exist as long as the provider does.
        let (result, has_calls) = posted.expect("the provider's tables");
        let sends_wait = locked.io.as_ref().is_none_or(|io| io.burst.waits());
        if has_calls || sends_wait {
            self.handle.shared.run_pending_and_unlock(locked);
        }
        result
    }

    /// Acknowledges all packets that have arrived, and processes the acknowledgements of peers, as
    /// an adapter would have done by the time at which a program ends a queue pair.
    fn finish_arrivals(&self) {
        self.with(|_, core| core.nic.acknowledge_at_once());
        self.handle.shared.catch_up();
    }
}

impl Provider for Fairway {
    fn name(&self) -> &'static str {
        "fairway"
    }

    fn gids(&self) -> &[Gid] {
        &self.gids
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn slot(&self) -> u8 {
        self.management.slot()
    }

    fn socket_shortage(&self) -> Option<SocketShortage> {
        self.handle.shared.with(|core| core.shortage)
    }

    fn counters(&self) -> Counters {
        let counters = self.handle.shared.counters();
        let engine = &counters.engine;
        Counters {
            sent_packets: engine.data_sent + engine.data_resent + engine.datagrams_sent,
            resent_packets: engine.data_resent,
            received_packets: engine.data_received + engine.datagrams_received,
            duplicate_requests: engine.spurious,
            rnr_naks_sent: engine.not_ready,
            ..Counters::default()
        }
    }

    fn register(
        &self,
        memory: ForeignMemory,
        request: &MemoryRequest,
    ) -> Result<MemoryRegion, ProviderError> {
        self.with(|verbs, core| verbs.regions.register(core, memory, request))
    }

    fn change_memory(
        &self,
        segment: SegmentId,
        rights: Rights,
        domain: u32,
    ) -> Result<(), ProviderError> {
        self.with(|verbs, core| verbs.regions.change(core, segment, rights, domain))
    }

    fn deregister(&self, segment: SegmentId) -> Result<(), ProviderError> {
        self.handle.shared.catch_up();
        let Some(generation) = self.with(|verbs, core| verbs.deregister(core, segment))? else {
            return Ok(());
        };
        let released = self.handle.shared.wait_for("memory", Some(RELEASE), None, |core| {
            core.with_tenant(|verbs: &mut Verbs, core| verbs.is_released(core, segment, generation))
                .unwrap_or(true)
                .then_some(())
        });
        if released.is_err() {
            // A peer that is still reading has stopped acknowledging. From now on its READ returns
            // zeros.
            self.with(|verbs, core| verbs.take_away(core, segment, generation));
        }
        Ok(())
    }

    fn create_completion_queue(&self, depth: u32) -> Result<CompletionQueueId, ProviderError> {
        self.with(|verbs, _| verbs.create_queue(depth))
    }

    fn resize_completion_queue(
        &self,
        queue: CompletionQueueId,
        depth: u32,
    ) -> Result<(), ProviderError> {
        self.with(|verbs, core| {
            verbs.process_completions(core);
            let due = verbs.due_completions(queue);
            match verbs.queue(queue)?.resize(depth, due) {
                true => Ok(()),
                false => Err(ProviderError::Parameter("depth")),
            }
        })
    }

    fn destroy_completion_queue(&self, queue: CompletionQueueId) -> Result<(), ProviderError> {
        self.with(|verbs, _| verbs.destroy_queue(queue))
    }

    fn poll(&self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        let shared = &self.handle.shared;
        let mut take = |verbs: &mut Verbs| verbs.queue(queue).map_or(0, |queue| queue.take(out));
        let mut locked = shared.lock();
        let taken = locked.core.with_tenant(|verbs, _| take(verbs)).unwrap_or_default();
        shared.progress_lock.touch();
        if taken > 0
            || shared.poll_detector.is_driven()
            || locked.core.delayed_ack.take_precedes_answer()
        {
            // Available completions are returned at once, without a poll.
            shared.end_verbs_poll(locked, taken > 0);
            return taken;
        }
        locked.poll_briefly();
        let taken = locked.core.with_tenant(|verbs: &mut Verbs, core| {
            verbs.process_completions(core);
            take(verbs)
        });
        let taken = taken.unwrap_or_default();
        if taken > 0 {
            locked.core.delayed_ack.completed();
        }
        shared.end_verbs_poll(locked, taken > 0);
        taken
    }

    fn has_completions(&self, number: Qpn) -> bool {
        self.with(|verbs, core| {
            // Some completions may not have been moved to their queue yet.
            verbs.process_completions(core);
            verbs.has_completions(number)
        })
    }

    fn arm(&self, queue: CompletionQueueId, solicited_only: bool) -> Result<(), ProviderError> {
        self.with(|verbs, _| verbs.arm(queue, solicited_only))?;
        // A thread that arms a queue is about to sleep, even if it has polled just now.
        self.handle.shared.demand_background();
        Ok(())
    }

    fn create_receive_queue(
        &self,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, ProviderError> {
        self.with(|verbs, core| verbs.create_shared(core, domain, depth))
    }

    fn limit_receive_queue(&self, queue: ReceiveQueueId, limit: u32) -> Result<(), ProviderError> {
        self.with(|verbs, _| verbs.limit_shared(queue, limit))
    }

    fn destroy_receive_queue(&self, queue: ReceiveQueueId) -> Result<(), ProviderError> {
        self.with(|verbs, core| verbs.destroy_shared(core, queue))
    }

    fn create_queue_pair(&self, config: &QueuePairConfig) -> Result<Qpn, ProviderError> {
        let number = self.with(|verbs, core| verbs.create_pair(core, config))?;
        self.set_service_level(number, 0);
        Ok(number)
    }

    fn destroy_queue_pair(&self, number: Qpn) -> Result<(), ProviderError> {
        // A program may have unmapped the receives of a queue pair for datagrams by now, without
        // deregistering them (UCX does), because an adapter would have pinned them.
        let transport = self.with(|verbs, _| verbs.pair(number).map(|pair| pair.config.transport));
        if transport == Some(Transport::Rc) {
            self.finish_arrivals();
        }
        self.with(|verbs, core| verbs.destroy_pair(core, number))
    }

    fn modify(&self, number: Qpn, change: &Change) -> Result<(), ChangeError> {
        match change {
            Change::Error | Change::Reset => self.finish_arrivals(),
            // Sends that wait for others begin before.
            Change::Drain => self.with(|_, _| ()),
            _ => {}
        }
        self.with(|verbs, core| verbs.modify(core, number, change))
    }

    fn set_service_level(&self, number: Qpn, level: u8) {
        let share = self.service_levels.share(level);
        self.with(|verbs, core| {
            if let Some(pair) = verbs.pair(number) {
                // Its Jetty exists, and weights are never zero.
                let _ = core.nic.set_share(pair.jetty(), share);
            }
        });
    }

    fn state(&self, number: Qpn) -> Option<QueuePairState> {
        self.with(|verbs, _| verbs.pair(number).map(|pair| pair.state))
    }

    fn is_draining(&self, number: Qpn) -> bool {
        self.with(|verbs, core| {
            // Some sends may have completed at the protocol only.
            verbs.process_completions(core);
            verbs.pair(number).is_some_and(|pair| pair.draining)
        })
    }

    fn resolve(&self, gid: Gid) -> Result<u64, ProviderError> {
        let ip = gid.ip();
        self.with(|verbs, _| match verbs.reaches(ip) {
            true => verbs.name(ip).ok_or(ProviderError::Limit("addresses")),
            false => Err(ProviderError::Unreachable(ip)),
        })
    }

    fn gid_of(&self, address: u64) -> Option<Gid> {
        // This is called while a process ends, when the lock may never be released any more.
        let known = ipv4_of(address);
        let known = known.or_else(|| self.with(|verbs, _| verbs.addresses.address(address)));
        known.map(Gid::from)
    }

    fn leaves_from(&self, address: u64) -> Option<Gid> {
        self.management.leaves_from(self.gid_of(address)?.ip()).map(Gid::from)
    }

    fn post_send(&self, number: Qpn, requests: &[WorkRequest]) -> (usize, Option<PostError>) {
        let shared = &self.handle.shared;
        // The thread that posts will poll, too.
        shared.progress_lock.touch();
        let mut locked = shared.lock();
        let now = clock::now();
        shared.poll_detector.posted(now);
        let Locked { core, io, .. } = &mut *locked;
        let burst = io.as_mut().map(|io| &mut io.burst);
        let posted = core.with_tenant(|verbs: &mut Verbs, core| {
            verbs.post_send(core, (number, requests), burst, now)
        });
        // The tables exist as long as the provider does.
        let (posted, waits) = posted.expect("the provider's tables");
        if !waits {
            shared.run_pending_and_unlock(locked);
            // Sending may have taken long.
            shared.poll_detector.posted(clock::now());
        }
        posted
    }

    fn check_sends(&self, number: Qpn, requests: &[WorkRequest]) -> Result<(), PostError> {
        self.with(|verbs, _| verbs.check_sends(number, requests))
    }

    fn post_receive(&self, number: Qpn, requests: &[ReceiveRequest]) -> (usize, Option<PostError>) {
        self.post_receives(|verbs, core| verbs.post_receive(core, number, requests))
    }

    fn post_shared_receive(
        &self,
        queue: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>) {
        self.post_receives(|verbs, core| verbs.post_shared(core, queue, requests))
    }

    fn channels(&self) -> Option<usize> {
        Some(self.handle.shared.with(|core| core.connections()))
    }

    fn acknowledge(&self) {
        if let Some(mut locked) = self.handle.shared.lock_within(LEAVING) {
            locked.core.nic.acknowledge_at_once();
            locked.poll_as(Eagerness::TakeAll, false);
            self.handle.shared.run_pending_and_unlock(locked);
        }
    }

    fn send_management(&self, to: u64, bytes: &[u8; 256]) -> Result<(), ProviderError> {
        let to = self.gid_of(to).ok_or(ProviderError::Missing)?;
        self.management.send(to.ip(), bytes)
    }

    fn claim_service(
        &self,
        service: ServiceReservation,
    ) -> Result<Box<dyn ServiceClaim>, ProviderError> {
        self.management.claim_service(service)
    }
}
