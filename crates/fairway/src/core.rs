//! The NIC behind the lock: the protocol, the sockets, and the tables of the objects on them.

mod channels;
mod ending;
mod hints;
mod interests;
mod jetties;
mod mailboxes;
mod tenant;

use crate::peer_state::PeerState;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_observe::{Counters, HostSignals, NicCounters, Probe};
use fairway_port::PortCounters;
use fairway_runtime::{DelayedAck, Destination, Memories, Memory, SmallPosts, Unregistered, clock};
use fairway_sandbox::Policies;
use fairway_ub::control::{ProcessorStats, Steering};
use fairway_ub::wire::{self, Instant, JettyId, TokenId};
use fairway_ub::{
    ChannelId, JettyState, Limits, Profile, ReceiveRequest, Rights, SegmentId, SegmentRequest,
    SetupError, Status, UbDevice, Usage, WorkRequest,
};

use crate::connect::Connecting;
use crate::control::ControlPool;
use crate::datapath::DatapathKind;
use crate::error::Error;
use crate::key::SegmentKey;
use crate::protocol::Io;
use crate::setup::guesses::Guesses;
use crate::setup::numbers::Numbers;
use crate::setup::{Identity, Padded};
use crate::socket_shortage::SocketShortage;

pub(crate) use channels::{Channel, Channels};
use hints::HintWords;
pub(crate) use interests::{Due, Interests, WaitCondition, WakeTarget};
use jetties::Jetties;
use mailboxes::Mailboxes;
pub use tenant::Tenant;

/// Maximum number of events kept for an application that does not poll them; the oldest are dropped
/// first.
const NOTICES_MAX: usize = 1024;

/// Length of the longest word of an atomic, in bytes, which is the required alignment.
const ATOMIC_ALIGNMENT: usize = size_of::<u64>();

/// The state of a context. One thread at a time has access.
pub struct Core {
    /// The state machine of the protocol.
    pub nic: UbDevice,
    /// Records of the engines, by engine number.
    pub(crate) engines: Vec<EngineNote>,
    /// Set when an operation was posted or ended, so that there may be packets to send.
    pub(crate) wants_send: bool,
    /// Small operations that the current call has posted.
    pub(crate) small_posts: Option<SmallPosts>,
    /// Set while operations of the tenant wait for others ([`Core::posts_wait`]).
    pub(crate) has_waiting_posts: bool,
    /// Engines for which system calls use the application's memory now, without the lock: a bit
    /// each.
    pub(crate) io_in_flight: u32,
    /// Incremented whenever memory is returned to which unsent packets may refer.
    pub(crate) teardown_epoch: u32,
    /// Set when a peer times out while a system call uses application memory. No new I/O starts
    /// until the peer has been declared dead.
    pub(crate) teardown_pending: bool,
    /// Set when a peer closes while a system call uses application memory: until this time, at
    /// which the peer has repeated its close, no new I/O starts.
    close_pending_until: Option<Instant>,
    /// Until this time payloads are copied before they are sent, because the kernel could not
    /// read one.
    pub(crate) careful_until: Option<wire::Instant>,
    local_addrs: Vec<SocketAddr>,
    pub(crate) datapath: DatapathKind,
    /// This process emulates the network.
    pub(crate) is_emulated: bool,
    /// Sockets that the paths lack.
    pub shortage: Option<SocketShortage>,
    /// Why packets take UDP, although another way was requested.
    pub(crate) fallback: Option<String>,
    pub(crate) channels: Channels,
    /// Registered memory.
    pub memories: Memories,
    pub(crate) connecting: Connecting,
    /// First channels of peers that have used too many wrong keys and are to be closed.
    pub(crate) guessers: Vec<ChannelId>,
    /// Channels over which the protocol sends nothing any more, to be closed.
    pub(crate) silenced: Vec<ChannelId>,
    /// Wrong keys of peers that the protocol had counted when the last packet was handled.
    pub(crate) keys_refused: u64,
    pub(crate) notices: VecDeque<Notice>,
    pub(crate) interests: Interests,
    /// Set when a message of a peer has arrived.
    pub(crate) has_delivered: bool,
    /// Number of events that a sleeping thread may wait for.
    pub(crate) changes: u64,
    pub(crate) counters: NicCounters,
    pub(crate) policy: Policies,
    jetties: Jetties,
    mailboxes: Mailboxes,
    hints: HintWords,
    /// Owner of further Jetties and channels, such as queue pairs.
    pub(crate) tenant: Option<Box<dyn Tenant>>,
    /// Decides whether an acknowledgement may wait for the application's answer.
    pub delayed_ack: DelayedAck,
    state: State,
    /// Resources that the host is short of; `None` if they are not measured.
    pub(crate) host: Option<HostSignals>,
    /// The threads that run schedulers and congestion controls, if they have separate ones.
    pub(crate) control: Option<ControlPool>,
    /// Measures control latency, if the builder requested that.
    pub(crate) probe: Option<Arc<Probe>>,
    /// Set when one of the segments is the staging memory.
    has_staging: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// Closing or closed: nothing new is started.
    ShutDown,
    /// Neither receives nor sends: a simulated crash.
    Crashed,
}

/// A peer that closes repeats its close within this time.
const CLOSE_REPEATED_WITHIN: wire::Duration = wire::Duration::from_ms(200);

/// The core's record of an engine. The engine's thread owns its sockets.
#[derive(Debug, Default)]
pub(crate) struct EngineNote {
    /// Set-up messages that the engine has to send, with their destinations.
    pub(crate) outbox: VecDeque<(Destination, Padded)>,
    /// Set while the engine has packets that refer to memory and have not been sent.
    unsent: bool,
    /// Counters of its sockets, as of its last poll.
    port: PortCounters,
    io_errors: u64,
    last_error: Option<String>,
}

/// Maximum number of set-up messages that wait for an engine. Further messages are dropped; the
/// set-up protocol repeats them.
const OUTBOX_MAX: usize = 64;

/// Parameters from which a core is built.
pub(crate) struct CoreConfig<'a> {
    pub(crate) limits: Limits,
    pub(crate) profile: Profile,
    pub(crate) policy: Policies,
    /// Number of threads that run schedulers and congestion controls; zero for none.
    pub(crate) control_threads: u32,
    /// Measures the reaction time of this side (`Builder::measure_control_latency`).
    pub(crate) probe: Option<Arc<Probe>>,
    pub(crate) identity: Identity,
    /// Way of the packets.
    pub(crate) datapath: DatapathKind,
    /// This process emulates the network.
    pub(crate) is_emulated: bool,
    /// Sockets that the paths lack.
    pub(crate) shortage: Option<SocketShortage>,
    /// True if set-up may open further sockets.
    pub(crate) detours: bool,
    /// Idle time after which connections are closed if few channels are left.
    pub(crate) evict_idle: Option<wire::Duration>,
    /// The sockets and buffers of each engine.
    pub(crate) ios: &'a [Io],
}

/// An event, before it is converted for the application.
pub(crate) enum Notice {
    Connected(Arc<PeerState>),
    PeerDead(Arc<PeerState>),
    PeerClosed(Arc<PeerState>),
    KeysRefused(Arc<PeerState>),
    ExecutionLost(Arc<PeerState>),
    Evicted(Arc<PeerState>),
    PathShortened(Arc<PeerState>),
    PathDown(Arc<PeerState>, u8),
    PathUp(Arc<PeerState>, u8),
    ChannelDead(Arc<PeerState>, u32),
    JettyFault { jetty: JettyId, status: Status, state: JettyState },
    JettyDrained { jetty: JettyId },
}

impl Core {
    pub(crate) fn new(config: CoreConfig<'_>) -> Result<Core, Error> {
        let CoreConfig { limits, profile, policy, control_threads, probe, identity, ios, .. } =
            config;
        let (detours, evict_idle, datapath) = (config.detours, config.evict_idle, config.datapath);
        let packet_bytes = u32::from(identity.limits.mtu_bytes);
        // The staging memory is a segment too, and must not reduce the number available to the
        // application.
        let segments = limits.segments.saturating_add(1).min(TokenId::MAX);
        let with_staging = limits.segments(segments).engines(ios.len() as u32);
        let addresses = ios.iter().flat_map(|io| io.sockets.datapath.port().local_addrs());
        let fallback = ios.iter().find_map(|io| io.sockets.datapath.fallback());
        let mut core = Core {
            nic: UbDevice::new(identity.cna, &with_staging, &profile, clock::random()?),
            engines: ios.iter().map(|_| EngineNote::default()).collect(),
            wants_send: false,
            small_posts: None,
            has_waiting_posts: false,
            io_in_flight: 0,
            teardown_epoch: 0,
            teardown_pending: false,
            close_pending_until: None,
            careful_until: None,
            local_addrs: addresses.copied().collect(),
            datapath,
            is_emulated: config.is_emulated,
            shortage: config.shortage,
            fallback: fallback.map(str::to_owned),
            channels: Channels::new(limits.channels, Numbers::new(clock::random_bytes()?)),
            memories: Memories::new(Unregistered::Bug),
            connecting: Connecting::new(identity, detours, evict_idle, Guesses::new(&profile))?,
            guessers: Vec::new(),
            silenced: Vec::new(),
            keys_refused: 0,
            notices: VecDeque::with_capacity(NOTICES_MAX),
            interests: Interests::new(),
            has_delivered: false,
            changes: 0,
            counters: NicCounters::default(),
            policy: Policies::default(),
            jetties: Jetties::default(),
            mailboxes: Mailboxes::default(),
            hints: HintWords::default(),
            tenant: None,
            delayed_ack: DelayedAck::default(),
            state: State::Running,
            host: None,
            control: None,
            probe,
            has_staging: false,
        };
        if control_threads > 0 {
            let steering = Steering::new(control_threads);
            let processors = core.nic.detach_congestion_to(steering);
            core.control = Some(ControlPool::start(processors, steering, core.probe.as_ref())?);
        }
        core.set_policy(&policy);
        core.make_staging(limits.deferred, packet_bytes)?;
        Ok(core)
    }

    /// Gives the protocol staging memory for the payload of packets that arrive too early.
    fn make_staging(&mut self, places: u32, packet_bytes: u32) -> Result<(), Error> {
        let length = places as usize * packet_bytes as usize;
        if length == 0 {
            return Ok(());
        }
        let memory = Arc::new(Memory::zeroed(length)?);
        let (id, _) = self.register(&memory, Rights::NONE, 0)?;
        let refused = |error| Error::setup(error, "staging memory", None);
        self.nic.set_staging(id, packet_bytes).map_err(refused)?;
        self.memories.reserve_scratch(packet_bytes as usize);
        self.has_staging = true;
        Ok(())
    }

    /// Replaces the scheduler, and the policy that grants credit if the congestion control is
    /// another one. The other policies apply to channels that are opened from now on.
    pub(crate) fn set_policy(&mut self, policies: &Policies) {
        let policy = policies.built_in();
        let controller = policies.scheduler_of_nic(self.nic.limits().flows);
        match (&mut self.control, controller) {
            (Some(control), Some(controller)) => {
                control.set_scheduler(Some(self.nic.detach_scheduler(clock::now(), controller)));
            }
            (control, controller) => {
                self.nic.set_scheduler(clock::now(), controller);
                if let Some(control) = control {
                    control.set_scheduler(None);
                }
            }
        }
        // The policy that grants credit keeps accounts, so the same policy is not replaced.
        if policy.congestion != self.policy.built_in().congestion {
            self.nic.set_credit_policy(policy.build_credit(self.nic.limits().channels));
        }
        self.policy = policies.clone();
    }

    /// Sets the hint of a Jetty, which applies to everything that the Jetty sends.
    pub(crate) fn set_hint(&mut self, jetty: JettyId, hint: u64) {
        self.hints.forget(jetty);
        self.nic.set_hint(jetty, hint);
    }

    pub(crate) fn set_hint_word(&mut self, jetty: JettyId, memory: &Arc<Memory>, offset: usize) {
        self.hints.set(jetty, memory, offset);
        self.hints.read(&mut self.nic);
    }

    /// Reads the words in which applications store hints.
    #[inline]
    pub(crate) fn read_hints(&mut self) {
        if !self.hints.is_empty() {
            self.hints.read(&mut self.nic);
        }
    }

    /// Records the resources that the host is short of now.
    pub(crate) fn note_host_pressure(&mut self, signals: HostSignals) {
        self.nic.set_pressure(signals.concerns_peers());
        self.nic.set_transmit_pressure(signals.concerns_transmit());
        self.host = Some(signals);
    }

    /// Hands the congestion controls of newly opened channels to the threads that run them.
    pub(crate) fn send_controllers(&mut self) {
        if let Some(control) = &self.control {
            while let Some(controller) = self.nic.poll_controller() {
                control.adopt(controller);
            }
        }
    }

    /// Statistics of the scheduler, wherever it runs.
    pub(crate) fn scheduler_stats(&self) -> Option<ProcessorStats> {
        let elsewhere = self.control.as_ref().and_then(ControlPool::scheduler_stats);
        elsewhere.or_else(|| self.nic.scheduler_stats())
    }

    /// Statistics of the congestion controls; `None` if they are called for every packet.
    pub(crate) fn congestion_stats(&self) -> Option<ProcessorStats> {
        let elsewhere = self.control.as_ref().map(ControlPool::congestion_stats);
        elsewhere.or_else(|| self.nic.congestion_stats())
    }

    /// Records in use, excluding the segment of the staging memory.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = self.nic.usage();
        usage.segments -= u32::from(self.has_staging);
        usage
    }

    /// Addresses of the sockets.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local_addrs
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut counters =
            Counters { engine: *self.nic.counters(), nic: self.counters, ..Counters::default() };
        let memory = self.memories.counters;
        counters.nic.placed_copied = memory.placed;
        counters.nic.bytes_copied = memory.bytes;
        counters.nic.placed_late = memory.placed_late;
        counters.nic.atomics = memory.atomics;
        counters.nic.memory_gone = memory.gone;
        for engine in &self.engines {
            counters.port += engine.port;
            counters.nic.io_errors += engine.io_errors;
            counters.last_error = engine.last_error.clone().or(counters.last_error);
        }
        counters
    }

    /// Records the state and counters of an engine, for other threads to read.
    pub(crate) fn note(&mut self, io: &Io) {
        self.note_unsent(io);
        let note = &mut self.engines[io.engine as usize];
        note.port = *io.sockets.datapath.port().counters();
        if note.io_errors != io.sockets.errors {
            note.io_errors = io.sockets.errors;
            note.last_error.clone_from(&io.sockets.last_error);
        }
    }

    /// Records whether an engine has packets that wait to be sent.
    pub(crate) fn note_unsent(&mut self, io: &Io) {
        self.engines[io.engine as usize].unsent = !io.outbox.is_idle();
    }

    /// Records that an engine's thread has ended, and its packets with it.
    pub(crate) fn note_gone(&mut self, engine: u32) {
        self.engines[engine as usize].unsent = false;
        self.free_released_memory();
    }

    /// True if no packet that waits to be sent, or is being sent, refers to memory.
    fn has_nothing_unsent(&self) -> bool {
        self.engines.iter().all(|engine| !engine.unsent)
    }

    /// True if a system call that uses application memory may start without the lock.
    pub(crate) fn may_start_io(&mut self, now: Instant) -> bool {
        let over = |until: &Instant| now.is_at_or_after(*until);
        self.close_pending_until.take_if(|until| over(until));
        !self.teardown_pending && self.close_pending_until.is_none()
    }

    /// True if a peer's close, which returns memory, may be processed now. False while I/O is in
    /// flight: the peer repeats its close.
    pub(crate) fn can_close(&mut self, now: Instant) -> bool {
        let may = self.io_in_flight == 0;
        self.close_pending_until = (!may).then_some(now + CLOSE_REPEATED_WITHIN);
        may
    }

    /// Frees memory of released segments to which no packet refers any more.
    pub(crate) fn free_released_memory(&mut self) {
        let still = self.has_nothing_unsent();
        self.memories.free_released_memory(still);
    }

    /// Queues a set-up message for an engine to send.
    pub(crate) fn send_setup(&mut self, engine: u32, bound: Destination, message: &Padded) {
        let outbox = &mut self.engines[engine as usize].outbox;
        if outbox.len() < OUTBOX_MAX {
            outbox.push_back((bound, *message));
        }
        self.wants_send = true;
    }

    pub(crate) fn check_running(&self) -> Result<(), Error> {
        if self.state == State::Running { Ok(()) } else { Err(Error::ShutDown) }
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.state == State::Crashed
    }

    // ---- segments ----

    /// Registers memory, with the first byte at `address` for peers.
    pub fn register(
        &mut self,
        memory: &Arc<Memory>,
        rights: Rights,
        address: u64,
    ) -> Result<(SegmentId, SegmentKey), Error> {
        self.check_running()?;
        let needs_writing = rights.contains(Rights::WRITE) || rights.contains(Rights::ATOMIC);
        if needs_writing && !memory.is_writable() {
            return Err(Error::ReadOnly);
        }
        if rights.contains(Rights::ATOMIC) {
            check_alignment(memory, address)?;
        }
        let length = memory.len() as u64;
        let token_value = clock::random()? as u32;
        let request = SegmentRequest { address, length, rights, token_value };
        let id = self
            .nic
            .register(&request)
            .map_err(|error| Error::setup(error, "segment address", None))?;
        self.nic.set_segment_place(id, memory.start().as_ptr() as u64);
        self.memories.insert(id, memory.clone());
        let token_id = id.token_id().value();
        Ok((id, SegmentKey { token_id, token_value, address, length }))
    }

    /// Revokes the peers' access to a segment, and frees its memory once no operation uses it.
    pub fn deregister(&mut self, id: SegmentId) {
        // A segment that still has operations is released by an event.
        if matches!(self.nic.deregister(id), Ok(true)) {
            self.memories.release(id);
            self.free_released_memory();
        }
    }

    // ---- operations ----

    /// Posts requests, whose packets leave when the lock is released, or soon after. Returns how
    /// many requests were accepted, from the front.
    pub(crate) fn post(
        &mut self,
        jetty: JettyId,
        requests: &[WorkRequest],
    ) -> Result<usize, Error> {
        self.check_running()?;
        let now = clock::now();
        let mut posted = 0;
        for request in requests {
            match self.nic.post(now, jetty, request) {
                Ok(()) => {
                    self.note_post(now, request);
                    posted += 1;
                }
                Err(error) if posted == 0 => {
                    let peer = self.channels.get(request.channel).map(|c| c.peer.address());
                    return Err(Error::post(error, peer));
                }
                Err(_) => break,
            }
        }
        if posted > 0 {
            self.delayed_ack.posted(now);
        }
        Ok(posted)
    }

    pub(crate) fn post_receive(
        &mut self,
        jetty: JettyId,
        request: &ReceiveRequest,
    ) -> Result<(), Error> {
        self.check_running()?;
        self.nic.post_receive(jetty, request).map_err(|error| Error::post(error, None))
    }

    // ---- channels ----

    pub(crate) fn peer_state(&self, channel: ChannelId) -> Option<Arc<PeerState>> {
        self.channels.get(channel).map(|record| record.peer.clone())
    }

    pub(crate) fn peer_states(&self) -> Vec<Arc<PeerState>> {
        let alive =
            |channel: &&Channel| channel.leads() && channel.peer.alive.load(Ordering::Acquire);
        self.channels.iter().filter(alive).map(|channel| channel.peer.clone()).collect()
    }

    pub(crate) fn close_channel(&mut self, channel: ChannelId) -> Result<(), SetupError> {
        let now = clock::now();
        let record = self.channels.get_mut(channel).ok_or(SetupError::Missing)?;
        if !record.peer.alive.swap(false, Ordering::AcqRel) {
            return Err(SetupError::Missing);
        }
        self.nic.close_channel(now, channel)?;
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
        if let Some(record) = self.channels.get_mut(channel) {
            record.is_closing = true;
        }
        self.wants_send = true;
        Ok(())
    }

    pub(crate) fn simulate_crash(&mut self) {
        self.changes += 1;
        self.state = State::Crashed;
    }

    /// True if every peer has answered this side's close.
    pub(crate) fn is_silent(&self) -> bool {
        self.has_crashed() || !self.channels.iter().any(|channel| channel.is_closing)
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
        }
        self.notices.push_back(notice);
    }
}

/// Checks that words aligned in the peers' address space, which starts at `address`, are aligned
/// for the CPU.
fn check_alignment(memory: &Memory, address: u64) -> Result<(), Error> {
    let refuse = |name, value, remedy| Err(Error::Parameter { name, value, remedy });
    let start = memory.start().as_ptr() as usize;
    if !memory.is_empty() && !start.is_multiple_of(ATOMIC_ALIGNMENT) {
        let remedy =
            "memory for atomics begins at a multiple of 8: take Memory::zeroed, or align it";
        return refuse("memory address", format!("{start:#x}"), remedy);
    }
    if !address.is_multiple_of(ATOMIC_ALIGNMENT as u64) {
        let remedy = "a segment for atomics begins at a multiple of 8: round it";
        return refuse("segment address", format!("{address:#x}"), remedy);
    }
    Ok(())
}
