//! RoCEv2 RC: [`RoceDevice`].

use super::{
    BASE, Done, EXPOSED, EngineCounters, Failure, LOCAL, Outgoing, Packet, Placing, Post,
    ProtocolAdapter, RECEIVE_DEPTH, RECEIVES, Role, Token, memory_bytes, placing,
};
use crate::config::{Config, Stack, Verb};
use crate::error::{ConfigError, ModelError};
use fairway_device::drive::Driver;
use fairway_roce::{
    Change, CompletionKind, Limits, MemoryRequest, OutOfOrder, Peer, Profile, QueuePairConfig,
    RateControl, ReceiveQueueId, ReceiveRequest, Received, Reliability, RemoteAddress, RoceDevice,
    Status, Transport, Work, WorkRequest,
};
use fairway_ub::policy::DcqcnRateParameters;
use fairway_ub::wire::roce::{self, Operation, RnrTimer, Tail};
use fairway_ub::wire::{Duration, Ecn, Instant, Psn, Qpn};
use fairway_ub::{CompletionQueueId, LocalRange, Rights, SegmentId};

const OUTER_BYTES: u32 = 42;
const DOMAIN: u32 = 1;

/// A host with RoCE.
pub(crate) struct RoceSide {
    driver: Driver<RoceDevice, Vec<u8>>,
    queue: CompletionQueueId,
    segments: [SegmentId; 3],
    /// Keys to the exposed memory of each peer.
    r_keys: Vec<u32>,
    r_key: u32,
    /// Queue pairs for own operations: by peer, and by Jetty, connection and remote Jetty.
    pairs: Vec<Vec<Qpn>>,
    /// Numbers of the peers' ends of `pairs`.
    peers: Vec<Vec<Qpn>>,
    /// Queue pairs that peers send to, in the order of their receives.
    passive: Vec<Qpn>,
    shape: [u32; 2],
    receive_bytes: u32,
    /// Number of endpoints that a sender can address.
    addressed: u32,
    /// Shared receive queue of all endpoints, if they share one.
    shared: Option<ReceiveQueueId>,
    /// True if every receive has memory of its own, because the workload examines it.
    is_looked_at: bool,
}

impl RoceSide {
    /// Makes all hosts, connected.
    pub(crate) fn all(config: &Config) -> Result<Vec<RoceSide>, ModelError> {
        let hosts = config.hosts as usize;
        let shape = if config.oracle {
            [1, 1, 1]
        } else {
            [config.jetties, config.connections, config.addressed()]
        };
        let per_peer = shape.iter().product::<u32>();
        let mut adapters: Vec<RoceSide> = Vec::new();
        for host in 0..hosts {
            adapters.push(RoceSide::new(config, host, shape, per_peer)?);
        }
        let keys: Vec<u32> = adapters.iter().map(|adapter| adapter.r_key).collect();
        for adapter in &mut adapters {
            adapter.r_keys.clone_from(&keys);
        }
        for a in 0..hosts {
            let all = config.is_mesh();
            for b in (0..hosts).filter(|&b| b != a && (all || (a != 1 && b == 1))) {
                for _ in 0..per_peer {
                    connect(&mut adapters, a, b, config)?;
                }
            }
        }
        Ok(adapters)
    }

    fn new(config: &Config, host: usize, shape: [u32; 3], pairs: u32) -> Result<Self, ModelError> {
        let text = |error| ModelError::Device { protocol: "RoCE", error };
        let number = 2 * pairs * config.peers_of(host);
        let selective = config.stack == Stack::RoceIrn;
        let limits = Limits {
            queue_pairs: number,
            segments: 4,
            completion_queues: 1,
            completions: 65_536 / (config.hosts / 8 + 1) + number * RECEIVE_DEPTH,
            receive_queues: number + 1,
            receives: number * RECEIVE_DEPTH + 1,
            read_depth: READ_DEPTH,
            buffered: if selective { config.constants.irn_kept as u32 } else { 0 },
            ..Limits::default()
        };
        let window = config.constants.irn_window as u32;
        if !window.is_power_of_two() || window > 65_536 {
            return Err(ConfigError::Window(window).into());
        }
        let out_of_order = selective
            .then_some(OutOfOrder { window, tolerance: config.constants.irn_tolerance as u32 });
        let profile = Profile { out_of_order, ..profile(config)? };
        let mut engine = RoceDevice::new(&limits, &profile, config.seed << 8 | host as u64);
        let scheduler = config.policies()?.scheduler_of_nic(limits.queue_pairs);
        engine.set_scheduler(Instant::ZERO, scheduler);
        let bytes = memory_bytes(config);
        let mut segments = [SegmentId::default(); 3];
        let mut r_key = 0;
        for (index, segment) in segments.iter_mut().enumerate() {
            let rights = if index == EXPOSED { Rights::ALL } else { Rights::NONE };
            let length = bytes[index] as u64;
            let request = MemoryRequest { domain: DOMAIN, address: BASE, length, rights };
            let region = engine.register(&request).map_err(text)?;
            *segment = region.segment;
            if index == EXPOSED {
                r_key = region.r_key;
            }
        }
        let queue = engine.create_completion_queue(limits.completions).map_err(text)?;
        let peers = config.hosts as usize;
        let shared = match config.fanout() {
            Some(fanout) if fanout.shared => {
                let depth = number * RECEIVE_DEPTH;
                Some(engine.create_receive_queue(DOMAIN, depth).map_err(text)?)
            }
            _ => None,
        };
        Ok(RoceSide {
            driver: Driver::new(engine, limits.buffered as usize),
            queue,
            segments,
            r_keys: Vec::new(),
            r_key,
            pairs: vec![Vec::new(); peers],
            peers: vec![Vec::new(); peers],
            passive: Vec::new(),
            shape: [shape[1], shape[2]],
            receive_bytes: config.payload.next_multiple_of(64),
            addressed: shape[2],
            shared,
            is_looked_at: config.fanout().is_some(),
        })
    }

    fn pair(&mut self) -> Result<Qpn, ModelError> {
        let config = QueuePairConfig {
            transport: Transport::Rc,
            domain: DOMAIN,
            send_queue: self.queue,
            receive_queue: self.queue,
            shared_receives: self.shared,
            send_depth: 4096,
            receive_depth: RECEIVE_DEPTH,
        };
        self.host()
            .create_queue_pair(&config)
            .map_err(|error| ModelError::Device { protocol: "RoCE", error })
    }

    fn ready(&mut self, pair: Qpn, peer: Peer, config: &Config) -> Result<(), ModelError> {
        let rto = Duration::from_ps(crate::constants::ps(config.constants.rto_us * 1000.0));
        let reliability =
            Reliability { timeout: rto, read_depth: READ_DEPTH, ..Reliability::default() };
        // Packets are placed as they arrive, as by adapters with out-of-order placement.
        let rights = Rights::ALL.with(Rights::RELAXED);
        let rnr_timer = RnrTimer::from_code(1);
        let changes = [
            Change::Init { rights, p_key: roce::DEFAULT_P_KEY, q_key: 0 },
            Change::ReadyToReceive {
                peer,
                mtu: config.mtu,
                expected: Psn::new(1),
                read_depth: READ_DEPTH,
                rnr_timer,
            },
            Change::ReadyToSend { first: Psn::new(1), reliability },
        ];
        for change in &changes {
            let changed = self.host().modify(pair, change);
            changed?;
        }
        Ok(())
    }

    /// Returns which of the addressable endpoints a queue pair of this host is.
    fn endpoint(&self, pair: Qpn, receive: bool) -> u32 {
        if !receive || !self.is_looked_at {
            return 0;
        }
        let place = self.passive.iter().position(|&other| other == pair).unwrap_or(0);
        place as u32 % self.addressed
    }

    fn host(&mut self) -> &mut RoceDevice {
        self.driver.device_mut()
    }

    fn index(&self, post: &Post) -> usize {
        let [connections, remotes] = self.shape;
        ((post.jetty * connections + post.connection) * remotes + post.remote_jetty) as usize
    }
}

/// READs and atomics in flight per queue pair, as supported by a ConnectX adapter.
const READ_DEPTH: u8 = 16;
/// Fewest packets of a window.
const WINDOW_PACKETS_MIN: u64 = 8;

/// The engine's default with the rate control that the policies select.
fn profile(config: &Config) -> Result<Profile, ConfigError> {
    let usual = Profile::default();
    let line_bits = (config.constants.link_gbps * 1e9) as u64;
    Ok(match config.rate_control()? {
        RateControl::Dcqcn => Profile { dcqcn: Some(DcqcnRateParameters::new(line_bits)), ..usual },
        RateControl::Window(bytes) => {
            let packets = (bytes / u64::from(config.mtu)).max(WINDOW_PACKETS_MIN);
            let window_packets = packets.min(usual.window_packets.into()) as u32;
            let acknowledge_every = usual.acknowledge_every.min(window_packets);
            Profile { window_packets, acknowledge_every, ..usual }
        }
    })
}

/// Connects a queue pair of `a` for its operations to `b`.
fn connect(
    adapters: &mut [RoceSide],
    a: usize,
    b: usize,
    config: &Config,
) -> Result<(), ModelError> {
    let (own, theirs) = (adapters[a].pair()?, adapters[b].pair()?);
    adapters[a].ready(own, Peer { address: b as u64, queue_pair: theirs }, config)?;
    adapters[b].ready(theirs, Peer { address: a as u64, queue_pair: own }, config)?;
    adapters[a].pairs[b].push(own);
    adapters[a].peers[b].push(theirs);
    adapters[b].passive.push(theirs);
    if config.verb == Verb::Send {
        let first = (adapters[b].passive.len() as u64 - 1) * u64::from(RECEIVE_DEPTH);
        for receive in first..first + u64::from(RECEIVE_DEPTH) {
            adapters[b].repost(receive);
        }
    }
    Ok(())
}

impl ProtocolAdapter for RoceSide {
    fn post(&mut self, now: u64, post: &Post) -> Result<bool, ModelError> {
        let remote = RemoteAddress { address: BASE + post.remote, r_key: self.r_keys[post.peer] };
        let work = match post.verb {
            Verb::Read | Verb::Load => Work::Read { remote },
            Verb::Write | Verb::Store => Work::Write { remote, immediate: None },
            Verb::Send => Work::Send { tail: Tail::Nothing },
            Verb::FetchAdd => Work::FetchAdd { remote, add: post.operand },
            Verb::CompareSwap => {
                Work::CompareSwap { remote, compare: post.compare, swap: post.operand }
            }
        };
        let (segment, offset, length) = (self.segments[LOCAL], post.local, post.length);
        let local = LocalRange { segment, offset, length };
        let request = WorkRequest {
            id: post.id,
            work,
            local: local.into(),
            signaled: true,
            solicited: false,
            fence: false,
        };
        let pair = self.pairs[post.peer][self.index(post)];
        use fairway_roce::PostError;
        match self.host().post_send(Instant::from_ps(now), pair, &request) {
            Ok(()) => Ok(true),
            Err(PostError::Full | PostError::CompletionQueueFull) => Ok(false),
            Err(error) => Err(ModelError::RocePost { verb: post.verb, error }),
        }
    }

    fn transmit(&mut self, now: u64) -> Option<Outgoing> {
        let transmit = self.driver.poll_transmit(Instant::from_ps(now))?;
        let packet = transmit.packet;
        let payload = transmit.gather.length();
        let role = match packet.operation {
            Operation::Acknowledge(_) | Operation::Cnp => Role::Control,
            operation if operation.is_response() => Role::Response,
            _ => Role::Request,
        };
        let length = roce::datagram_len(&packet, payload as usize) as u32;
        // A queue pair's requests are one stream; its responses and acknowledgements are another.
        let answers = u32::from(role != Role::Request);
        Some(Outgoing {
            stream: Some((transmit.queue_pair.value() & 0x7FFF) << 1 | answers),
            to: transmit.to as usize,
            role,
            header_bytes: length - payload + OUTER_BYTES,
            packet: Packet::Roce(packet),
            gather: transmit.gather.ranges().to_vec(),
        })
    }

    fn receive(
        &mut self,
        now: u64,
        from: usize,
        packet: &Packet,
        payload: Vec<u8>,
        ecn: Ecn,
    ) -> Option<Placing> {
        let Packet::Roce(packet) = *packet else { return None };
        let (source, length) = (from as u64, payload.len() as u32);
        let received = Received { source, packet, payload: length, ecn };
        let outcome = self.driver.handle_packet(Instant::from_ps(now), &received, || payload);
        Some(placing(outcome.access()?, Token::Roce))
    }

    fn recalled(&mut self, now: u64) -> Option<Placing> {
        Some(placing(self.driver.poll_replay(Instant::from_ps(now))?, Token::Roce))
    }

    fn execution(&mut self) -> Option<Placing> {
        Some(placing(self.driver.poll_execution()?, Token::Roce))
    }

    fn placed(&mut self, now: u64, token: &Token, old: u64) {
        if let Token::Roce(token) = *token {
            self.driver.handle_placed(Instant::from_ps(now), token, old);
        }
    }

    fn completion(&mut self) -> Option<Done> {
        let queue = self.queue;
        let completion = self.host().poll_completion(queue)?;
        let receive =
            matches!(completion.kind, CompletionKind::Receive | CompletionKind::ReceiveWrite);
        let status = completion.status;
        let failure = (status != Status::Success).then_some(Failure::Roce(status));
        let endpoint = self.endpoint(completion.queue_pair, receive);
        Some(Done { id: completion.id, failure, value: completion.value, receive, endpoint })
    }

    fn repost(&mut self, receive: u64) {
        let pair = self.passive[(receive / u64::from(RECEIVE_DEPTH)) as usize];
        let request = ReceiveRequest { id: receive, local: self.receive_buffer(receive).into() };
        let posted = match self.shared {
            Some(queue) => self.host().post_shared_receive(queue, &request),
            None => self.host().post_receive(pair, &request),
        };
        assert!(posted.is_ok(), "a receive that was used can be posted again: {posted:?}");
    }

    fn receive_buffer(&self, receive: u64) -> LocalRange {
        let length = self.receive_bytes;
        // If the workload does not examine receives, all endpoints share the receive memory of one.
        let depth = u64::from(RECEIVE_DEPTH);
        let place = if self.is_looked_at { receive } else { receive % depth };
        let offset = place * u64::from(length);
        LocalRange { segment: self.segments[RECEIVES], offset, length }
    }

    fn timeout(&self) -> Option<u64> {
        self.driver.poll_timeout().map(Instant::as_ps)
    }

    fn handle_timeout(&mut self, now: u64) {
        self.host().handle_timeout(Instant::from_ps(now));
    }

    fn counters(&self) -> EngineCounters {
        let counters = self.driver.device().counters();
        EngineCounters {
            sent: counters.sent_packets,
            resent: counters.resent_packets,
            timeouts: counters.timeouts,
            duplicates: counters.duplicate_requests,
            gated: 0,
        }
    }

    fn contexts(&self, post: &Post) -> (u32, u32) {
        let index = self.index(post);
        let place = |number: Qpn| number.value() & 0x7FFF;
        (place(self.pairs[post.peer][index]), place(self.peers[post.peer][index]))
    }
}
