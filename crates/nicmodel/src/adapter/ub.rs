//! UB: [`UbDevice`].

use super::{
    BASE, Done, EXPOSED, EngineCounters, Failure, LOCAL, Outgoing, Packet, Placing, Post,
    ProtocolAdapter, RECEIVE_DEPTH, RECEIVES, Role, STASH, Token, memory_bytes, placing,
};
use crate::config::{Config, Dispatching, Ordering, Verb};
use crate::error::ModelError;
use crate::fanout::Fanout;
use fairway_device::drive::Driver;
use fairway_ub::policy::PolicySpec;
use fairway_ub::wire::{
    self, AtomicOperator, BypassOperation, Cna, Duration, Ecn, Instant, JettyId, Msn, Operation,
    Psn, ServiceMode, Tag, Target,
};
use fairway_ub::{
    ChannelConfig, ChannelId, CompletionKind, CompletionQueueId, Dispatch, DropReason, GroupConfig,
    JettyConfig, Limits, LocalRange, OrderRequest, PostError, Profile, ReceiveRequest, Received,
    RemoteRange, Rights, SegmentId, SegmentRequest, Status, Transmit, UbDevice, Work, WorkRequest,
};

const TOKEN: u32 = 0xFA12_3A59;
/// Bytes of Ethernet, IPv4 and UDP headers.
const OUTER_BYTES: u32 = 42;

/// A host with UB.
pub(crate) struct UbSide {
    driver: Driver<UbDevice, Vec<u8>>,
    queue: CompletionQueueId,
    segments: [SegmentId; 4],
    jetties: Vec<JettyId>,
    /// Channels by peer and connection.
    channels: Vec<Vec<ChannelId>>,
    /// True if every Jetty has channels of its own.
    unsplit: bool,
    connections: u32,
    receive_bytes: u32,
    /// Number of Jetties that take receives from the first one's queue.
    shared: u32,
    remote_tokens: [SegmentId; 4],
    /// Target of a fan-out's SENDs, if it is a single endpoint.
    service: Option<JettyId>,
}

/// Returns the limits of a NIC with `number` Jetties and `channels` channels.
fn limits(config: &Config, number: u32, channels: u32) -> Limits {
    // Many hosts have many pools, each of which is used less.
    let many = config.hosts / 8 + 1;
    Limits::new()
        .channels(channels)
        .jetties(number + 8)
        .segments(8)
        .completion_queues(1)
        .completions(32_768 / many + number * RECEIVE_DEPTH)
        .messages(16_384 / many)
        .receives(number * RECEIVE_DEPTH + 1)
        .arrivals(16_384 / many)
        .window_packets(if channels > 64 { 256 } else { 4096 })
        .send_blocks(4096.max(2 * channels))
        .bitmap_blocks(16_384.max(4 * channels))
        .read_slots(128)
        .paths(1)
}

/// Returns the timing of a NIC.
fn profile(config: &Config) -> Profile {
    let rto = Duration::from_ps(crate::constants::ps(config.constants.rto_us * 1000.0));
    Profile::new()
        .timeout_min(rto)
        .timeout_initial(rto)
        .acknowledge_delay(rto.divided_by(4))
        .bypass_retries(50)
        .not_ready_delay(Duration::from_ps(crate::constants::ps(config.constants.rnr_us * 1000.0)))
        .not_ready_retries(255)
        // A run ends before a peer could be declared dead.
        .keep_alive(Duration::from_secs(1000))
        .peer_dead(Duration::from_secs(10_000))
}

impl UbSide {
    /// Makes all hosts, connected.
    pub(crate) fn all(config: &Config) -> Result<Vec<UbSide>, ModelError> {
        let text = |error| ModelError::Device { protocol: "UB", error };
        let hosts = config.hosts as usize;
        let (jetties, connections) =
            if config.oracle { (1, 1) } else { (config.jetties, config.connections) };
        let per_peer = if config.without.split { jetties * connections } else { connections };
        let mut adapters = Vec::new();
        for host in 0..hosts {
            adapters.push(UbSide::new(config, host, jetties, per_peer).map_err(text)?);
        }
        let spec = config.policies()?;
        for adapter in &mut adapters {
            adapter.connections = connections;
            let nic = adapter.nic();
            let flows = nic.limits().flows;
            nic.set_scheduler(Instant::ZERO, spec.scheduler_of_nic(flows));
        }
        for a in 0..hosts {
            for b in (a + 1..hosts).filter(|&b| config.is_mesh() || a == 1 || b == 1) {
                for _ in 0..per_peer {
                    connect(&mut adapters, [a, b], config, &spec).map_err(text)?;
                }
            }
        }
        Ok(adapters)
    }

    fn new(
        config: &Config,
        host: usize,
        jetties: u32,
        per_peer: u32,
    ) -> Result<UbSide, fairway_ub::SetupError> {
        let number = jetties.max(config.remote_jetties);
        let limits = limits(config, number, per_peer * config.peers_of(host) + 1);
        let seed = config.seed << 8 | host as u64;
        let mut nic = UbDevice::new(Cna::new(host as u32 + 1), &limits, &profile(config), seed);
        let bytes = memory_bytes(config);
        let mut segments = [SegmentId::default(); 4];
        for (index, segment) in segments.iter_mut().enumerate() {
            let rights = if index == EXPOSED { Rights::ALL } else { Rights::NONE };
            let length = bytes[index] as u64;
            let request = SegmentRequest { address: BASE, length, rights, token_value: TOKEN };
            *segment = nic.register(&request)?;
        }
        // Staging memory in which strict operations of mode ROT wait.
        nic.set_staging(segments[STASH], config.mtu)?;
        let queue = nic.create_completion_queue(limits.completions)?;
        let mut list = Vec::new();
        for index in 0..number {
            let config = JettyConfig::new(queue, queue);
            list.push(nic.create_jetty(&JettyConfig { number: Some(index + 1), ..config })?);
        }
        let mut adapter = UbSide {
            driver: Driver::new(nic, 0),
            queue,
            segments,
            jetties: list,
            channels: vec![Vec::new(); config.hosts as usize],
            unsplit: config.without.split,
            connections: per_peer,
            receive_bytes: config.payload.next_multiple_of(64),
            shared: 0,
            remote_tokens: segments,
            service: None,
        };
        if let Some(fanout) = config.fanout() {
            adapter.serve(fanout)?;
        }
        if config.verb == Verb::Send {
            for receive in 0..u64::from(number * RECEIVE_DEPTH) {
                adapter.repost(receive);
            }
        }
        Ok(adapter)
    }

    fn nic(&mut self) -> &mut UbDevice {
        self.driver.device_mut()
    }

    /// Sets up the members of a service as senders address them: as a group, as one Jetty, or
    /// individually.
    fn serve(&mut self, fanout: Fanout) -> Result<(), fairway_ub::SetupError> {
        let members: Vec<JettyId> = self.jetties[..fanout.members as usize].to_vec();
        if fanout.shared {
            for &member in &members[1..] {
                self.nic().share_receives(member, members[0])?;
            }
            self.shared = fanout.members;
        }
        let dispatch = match fanout.dispatch {
            Dispatching::Direct => return Ok(()),
            Dispatching::Cpu => {
                self.service = Some(members[0]);
                return Ok(());
            }
            Dispatching::Hint => Dispatch::Hint,
            Dispatching::Turn => Dispatch::RoundRobin,
            Dispatching::Depth => Dispatch::LeastDepth,
        };
        let number = Some(self.jetties.len() as u32 + 1);
        let group = self.nic().create_group(&GroupConfig { number, dispatch, token_value: 0 })?;
        for &member in &members {
            self.nic().join_group(group, member)?;
        }
        self.service = Some(group);
        Ok(())
    }

    fn channel(&self, post: &Post) -> ChannelId {
        let own = if self.unsplit { post.jetty * self.connections } else { 0 };
        self.channels[post.peer][(own + post.connection) as usize]
    }

    fn work(&self, post: &Post) -> Work {
        let remote = RemoteRange {
            // Every host registers in the same order, so tokens are the same everywhere.
            token_id: self.remote_tokens[EXPOSED].token_id(),
            token_value: TOKEN,
            address: BASE + post.remote,
        };
        let atomic = |operator| Work::Atomic {
            remote,
            width: 8,
            operator,
            operand: post.operand,
            compare: post.compare,
        };
        // All hosts are set up alike, so the service has the same number everywhere.
        let jetty = self.service.unwrap_or(JettyId::new(post.remote_jetty + 1));
        let target = Target { jetty, hint: post.hint, ..Target::default() };
        match post.verb {
            Verb::Load if post.bypass => Work::Load { remote },
            Verb::Store if post.bypass => Work::Store { remote },
            Verb::Read | Verb::Load => Work::Read { remote },
            Verb::Write | Verb::Store => Work::Write { remote },
            Verb::Send => Work::Send { target },
            Verb::FetchAdd => atomic(AtomicOperator::Add),
            Verb::CompareSwap => atomic(AtomicOperator::CompareSwap),
        }
    }
}

fn connect(
    adapters: &mut [UbSide],
    ends: [usize; 2],
    config: &Config,
    spec: &PolicySpec,
) -> Result<(), fairway_ub::SetupError> {
    let [a, b] = ends;
    let ids = [adapters[a].nic().reserve_channel()?, adapters[b].nic().reserve_channel()?];
    for (own, end) in ends.into_iter().enumerate() {
        let other = 1 - own;
        let limits = *adapters[end].nic().limits();
        // The paper stores and forwards whole messages, not packets.
        let mtu = if config.oracle { crate::config::UB_MTU } else { config.mtu };
        let setup = ChannelConfig {
            leader: None,
            engine: 0,
            remote: Cna::new(ends[other] as u32 + 1),
            remote_tpn: ids[other].tpn(),
            first_psn: Psn::new(1),
            remote_first_psn: Psn::new(1),
            first_message: Msn::new(0),
            unreliable: true,
            bypass: true,
            parts: true,
            retires: true,
            carried_acks: false,
            mtu,
            paths: 1,
            remote_window: limits.receive_window(),
            remote_message_slots: limits.message_slots,
            remote_read_slots: limits.read_slots,
            policy: spec.build(mtu),
        };
        adapters[end].nic().open_channel(Instant::ZERO, ids[own], setup)?;
        adapters[end].channels[ends[other]].push(ids[own]);
    }
    Ok(())
}

fn order(order: Ordering) -> OrderRequest {
    let strict = |mode| OrderRequest { mode, tag: Tag::So, ..OrderRequest::default() };
    match order {
        Ordering::None => OrderRequest::default(),
        Ordering::Roi => strict(ServiceMode::Roi),
        Ordering::Rot => strict(ServiceMode::Rot),
        Ordering::Rol => strict(ServiceMode::Rol),
        Ordering::Fence => OrderRequest { fence: true, ..OrderRequest::default() },
        Ordering::Uno => OrderRequest { mode: ServiceMode::Uno, ..OrderRequest::default() },
    }
}

fn role(packet: &wire::Packet) -> Role {
    match packet {
        wire::Packet::Data(data) => match data.operation {
            Operation::ReadResponse | Operation::AtomicResponse { .. } | Operation::Done { .. } => {
                Role::Response
            }
            _ => Role::Request,
        },
        wire::Packet::Bypass(bypass) => match bypass.operation {
            BypassOperation::Load { .. } | BypassOperation::Store { .. } => Role::Request,
            _ => Role::Response,
        },
        wire::Packet::Datagram(_) => Role::Request,
        wire::Packet::Ack(_)
        | wire::Packet::Nak(_)
        | wire::Packet::Void(_)
        | wire::Packet::Close(_)
        | wire::Packet::Retire(_)
        | wire::Packet::CreditRequest(_)
        | wire::Packet::Credit(_)
        | wire::Packet::Probe(_) => Role::Control,
    }
}

impl ProtocolAdapter for UbSide {
    fn post(&mut self, now: u64, post: &Post) -> Result<bool, ModelError> {
        let (segment, offset, length) = (self.segments[LOCAL], post.local, post.length);
        let request = WorkRequest {
            id: post.id,
            channel: self.channel(post),
            work: self.work(post),
            local: LocalRange { segment, offset, length },
            signaled: true,
            order: order(post.order),
        };
        let jetty = self.jetties[post.jetty as usize];
        match self.nic().post(Instant::from_ps(now), jetty, &request) {
            Ok(()) => Ok(true),
            Err(PostError::TooManyMessages | PostError::CompletionQueueFull) => Ok(false),
            Err(error) => Err(ModelError::UbPost { verb: post.verb, error }),
        }
    }

    fn transmit(&mut self, now: u64) -> Option<Outgoing> {
        let transmit = self.driver.poll_transmit(Instant::from_ps(now))?;
        let Transmit { channel, route, packet, gather } = transmit;
        // Requests and responses of a channel share one stream; other packets have no PSN.
        let stream = matches!(packet, wire::Packet::Data(_)).then(|| channel.index() as u32);
        Some(Outgoing {
            stream,
            to: route.destination.value() as usize - 1,
            role: role(&packet),
            header_bytes: wire::header_len(&packet) as u32 + OUTER_BYTES,
            packet: Packet::Ub(route, packet),
            gather: if gather.length == 0 { Vec::new() } else { vec![gather] },
        })
    }

    fn receive(
        &mut self,
        now: u64,
        _from: usize,
        packet: &Packet,
        payload: Vec<u8>,
        ecn: Ecn,
    ) -> Option<Placing> {
        let Packet::Ub(route, packet) = *packet else { return None };
        let received = Received { route, packet, payload: payload.len() as u32, ecn, hops: 0 };
        let outcome = self.driver.handle_packet(Instant::from_ps(now), &received, || payload);
        Some(placing(outcome.access()?, Token::Ub))
    }

    fn execution(&mut self) -> Option<Placing> {
        Some(placing(self.driver.poll_execution()?, Token::Ub))
    }

    fn placed(&mut self, now: u64, token: &Token, old: u64) {
        if let Token::Ub(token) = *token {
            self.driver.handle_placed(Instant::from_ps(now), token, old);
        }
    }

    fn completion(&mut self) -> Option<Done> {
        let queue = self.queue;
        let completion = self.nic().poll_completion(queue)?;
        let receive =
            matches!(completion.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite);
        let status = completion.status;
        let failure = (status != Status::Success).then_some(Failure::Ub(status));
        let endpoint = completion.jetty.value().saturating_sub(1);
        Some(Done { id: completion.id, failure, value: completion.value, receive, endpoint })
    }

    fn repost(&mut self, receive: u64) {
        let owner = (receive / u64::from(RECEIVE_DEPTH)) as usize;
        let owner = if owner < self.shared as usize { 0 } else { owner };
        let local = self.receive_buffer(receive);
        let jetty = self.jetties[owner];
        let posted = self.nic().post_receive(jetty, &ReceiveRequest { id: receive, local });
        assert!(posted.is_ok(), "a receive that was used can be posted again: {posted:?}");
    }

    fn receive_buffer(&self, receive: u64) -> LocalRange {
        let length = self.receive_bytes;
        let offset = receive * u64::from(length);
        LocalRange { segment: self.segments[RECEIVES], offset, length }
    }

    fn timeout(&self) -> Option<u64> {
        self.driver.poll_timeout().map(Instant::as_ps)
    }

    fn handle_timeout(&mut self, now: u64) {
        self.nic().handle_timeout(Instant::from_ps(now));
    }

    fn counters(&self) -> EngineCounters {
        let counters = self.driver.device().counters();
        EngineCounters {
            sent: counters.data_sent,
            resent: counters.data_resent + counters.bypass_repeated,
            timeouts: counters.timeouts,
            duplicates: counters.dropped(DropReason::Duplicate),
            gated: counters.gated,
        }
    }

    fn contexts(&self, post: &Post) -> (u32, u32) {
        let index = self.channel(post).index() as u32;
        // Channels between two hosts are opened in pairs.
        (index, index)
    }
}
