//! Hosts with RoCEv2: the queue pairs of [`roce::RoceDevice`], which also runs live beneath verbs.
//!
//! Each pair of hosts with traffic has `split` queue pairs, each with a single path of its own.
//! Flows are WRITEs and use the queue pairs in turn. Programs and streams are not supported.

use super::nic::{NicCounts, Outgoing};
use super::packets::PacketHeaders;
use super::plan::Plan;
use super::scenario::{Routing, Scenario, Stack};
use crate::endpoint::{MESSAGES, Posted, SLOT_BITS};
use crate::error::SimulationError;
use fairway_device::drive::Driver;
use fairway_device::random::Random;
use fairway_roce::{
    Change, Limits, MemoryRegion, MemoryRequest, OutOfOrder, Peer, PostError, Profile,
    QueuePairConfig, QueuePairState, RateControl, Received, Reliability, RemoteAddress, RoceDevice,
    Status, Transport, Work, WorkRequest,
};
use fairway_ub::policy::{DcqcnRateParameters, SchedulerSpec};
use fairway_ub::wire::roce::{RnrTimer, datagram_len};
use fairway_ub::wire::{Duration, Ecn, Instant, Priority, Psn, Qpn};
use fairway_ub::{CompletionQueueId, LocalRange, Rights};

/// Protection domain of all queue pairs and memory.
const DOMAIN: u32 = 1;
/// Maximum length of an RC message in bytes, and in packets.
const BYTES_MAX: u32 = 1 << 31;
const PACKETS_MAX: u32 = 1 << 22;
/// Maximum number of early packets that the responder keeps; further ones are dropped.
const KEPT_MAX: u32 = 4096;

/// The RoCE NIC of a host, and its connections.
pub(crate) struct RoceNic {
    pub(crate) driver: Driver<RoceDevice, ()>,
    /// The host's number in the network.
    own: u32,
    queue: CompletionQueueId,
    region: MemoryRegion,
    /// Its queue pairs, in the order of its pairs of hosts.
    pairs: Vec<Qpn>,
    split: u32,
    /// For each queue pair number, sorted: its index among the queue pairs between the two hosts.
    members: Vec<(Qpn, u8)>,
    /// For each peer host, sorted: the index of its first queue pair, and the key to its memory.
    peers: Vec<(u32, u32, u32)>,
    /// Packets with payload that the NIC has sent.
    data_sent: u64,
}

/// Queue pairs and memory key of a host, which its peers need to connect.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pairs: Vec<Qpn>,
    key: u32,
}

/// Checks that RoCE supports a scenario.
///
/// # Errors
/// Names the unsupported setting and what to do instead.
pub(crate) fn check(scenario: &Scenario) -> Result<(), SimulationError> {
    if scenario.ranks() > 0 || !scenario.streams.is_empty() {
        return Err(SimulationError::RoceFlowsOnly);
    }
    if !matches!(scenario.mtu, 256 | 512 | 1024 | 2048 | 4096) {
        return Err(SimulationError::RoceMtu(scenario.mtu));
    }
    let longest = scenario.flows.iter().map(|flow| flow.bytes).max().unwrap_or(0);
    let most = u64::from(BYTES_MAX).min(u64::from(PACKETS_MAX) * u64::from(scenario.mtu));
    if u64::from(longest) > most {
        return Err(SimulationError::RoceBytes { bytes: longest, most });
    }
    rates(scenario).map(drop)
}

/// Parameters of the rate control, if there is one, and the fixed window that replaces it
/// otherwise.
type Rates = (Option<DcqcnRateParameters>, Option<u64>);

/// Returns the rate control that the policy selects, or the fixed window that replaces it.
fn rates(scenario: &Scenario) -> Result<Rates, SimulationError> {
    let line = scenario.network.links[0].megabits * 1_000_000;
    // The published increases are for a link of 40 Gb/s.
    let dcqcn = DcqcnRateParameters {
        increase_bits: line / 1000,
        hyper_bits: line / 100,
        ..DcqcnRateParameters::new(line)
    };
    let Some(policies) = &scenario.policy else { return Ok((Some(dcqcn), None)) };
    let built_in = policies.built_in();
    let has_scheduler = built_in.scheduler != SchedulerSpec::default();
    let control = match policies.has_modules() || has_scheduler {
        true => None,
        false => RateControl::of(built_in),
    };
    match control {
        Some(RateControl::Dcqcn) => Ok((Some(dcqcn), None)),
        Some(RateControl::Window(bytes)) => Ok((None, Some(bytes))),
        None => Err(SimulationError::RocePolicy { policies: policies.to_string() }),
    }
}

fn profile(scenario: &Scenario) -> Result<Profile, SimulationError> {
    let (dcqcn, fixed) = rates(scenario)?;
    let packets = |bytes: u64| (bytes / u64::from(scenario.mtu)).clamp(8, 1 << 16) as u32;
    let timing = scenario.profile.unwrap_or_else(|| scenario.timing());
    let selective = scenario.stack == Stack::RoceIrn;
    // Go-back-N has no window except the message; IRN has one bandwidth-delay product.
    let usual = if selective { packets(scenario.bdp_bytes()) } else { 1 << 16 };
    let window_packets = fixed.map(packets).or(scenario.window_packets).unwrap_or(usual);
    let window_packets = window_packets.clamp(8, 1 << 16);
    // Where all packets of a path take the same way, a packet overtaken by a later one is lost.
    let late = match scenario.routing {
        Routing::Ecmp | Routing::Source | Routing::Dimension => 1,
        Routing::Spray | Routing::Adaptive | Routing::Valiant | Routing::Ugal => {
            timing.reorder_tolerance.clamp(1, window_packets / 2)
        }
    };
    let out_of_order = selective
        .then(|| OutOfOrder { window: window_packets.next_power_of_two(), tolerance: late });
    Ok(Profile {
        window_packets,
        acknowledge_every: timing.acknowledge_every.clamp(1, window_packets),
        dcqcn,
        out_of_order,
        pacing_burst: timing.pacing_burst,
        ..Profile::default()
    })
}

/// Returns the shortest time-out that verbs can express, 4.096 us times a power of two, that is not
/// shorter than the profile's minimum.
fn reliability(scenario: &Scenario) -> Reliability {
    let timing = scenario.profile.unwrap_or_else(|| scenario.timing());
    let codes = (0..31).map(|code| Duration::from_ns(4_096 << code));
    let mut long_enough = codes.skip_while(|span| *span < timing.timeout_min);
    let timeout = long_enough.next().unwrap_or(Duration::from_ns(4_096 << 31));
    Reliability { timeout, read_depth: 1, ..Reliability::default() }
}

/// Returns the longest time-out before a retransmission: the requester doubles it twice.
pub(crate) fn longest_timeout(scenario: &Scenario) -> Duration {
    reliability(scenario).timeout.times(4)
}

impl RoceNic {
    /// Makes a NIC with queue pairs for its peers. Returns it with the offer that the peers need.
    ///
    /// # Errors
    /// Names the limit that is too small for the run.
    pub(crate) fn new(
        plan: &Plan,
        host: u32,
        peers: u32,
    ) -> Result<(RoceNic, Offer), SimulationError> {
        let scenario = &plan.scenario;
        let profile = profile(scenario)?;
        let number = peers * scenario.split;
        let messages = (plan.outbound[host as usize].len() as u32).min(MESSAGES);
        let window = profile.out_of_order.map_or(0, |option| option.window);
        let limits = Limits {
            queue_pairs: number,
            number_bits: 24,
            number_base: 0,
            segments: 1,
            completion_queues: 1,
            completions: messages + 16,
            receive_queues: number,
            sends: messages.max(1),
            receives: 1,
            pending: 16,
            buffered: (window * number.min(4)).min(KEPT_MAX),
            read_depth: 1,
        };
        let seed = Random::fork(scenario.seed, u64::from(host) << 8 | 1).number();
        let mut engine = RoceDevice::new(&limits, &profile, seed);
        let made = |error| SimulationError::Nic { host, error };
        let queue = engine.create_completion_queue(limits.completions).map_err(made)?;
        let flows = plan.outbound[host as usize].len().max(plan.inbound[host as usize].len());
        let request = MemoryRequest {
            domain: DOMAIN,
            address: 0,
            length: (flows as u64 + 1) << SLOT_BITS,
            rights: Rights::READ_WRITE,
        };
        let region = engine.register(&request).map_err(made)?;
        let config = QueuePairConfig {
            transport: Transport::Rc,
            domain: DOMAIN,
            send_queue: queue,
            receive_queue: queue,
            shared_receives: None,
            send_depth: messages.max(1),
            receive_depth: 0,
        };
        let pairs: Result<Vec<Qpn>, _> =
            (0..number).map(|_| engine.create_queue_pair(&config)).collect();
        let pairs = pairs.map_err(made)?;
        let members = pairs.iter().enumerate();
        let mut members: Vec<(Qpn, u8)> =
            members.map(|(at, pair)| (*pair, (at as u32 % scenario.split) as u8)).collect();
        members.sort_unstable();
        let offer = Offer { pairs: pairs.clone(), key: region.r_key };
        let nic = RoceNic {
            driver: Driver::new(engine, limits.buffered as usize),
            own: host,
            queue,
            region,
            pairs,
            split: scenario.split,
            members,
            peers: Vec::with_capacity(peers as usize),
            data_sent: 0,
        };
        Ok((nic, offer))
    }

    /// Connects the queue pairs of a pair of hosts, from index `place` among those of this host and
    /// `there` among those of `peer`. `psns` draws the first PSNs of a queue pair, on this side and
    /// on the peer's.
    ///
    /// # Errors
    /// Names the step that was refused.
    pub(crate) fn connect(
        &mut self,
        scenario: &Scenario,
        (place, peer, there): (u32, u32, u32),
        offer: &Offer,
        mut psns: impl FnMut() -> [Psn; 2],
    ) -> Result<(), SimulationError> {
        for member in 0..self.split {
            let own = self.pairs[(place * self.split + member) as usize];
            let theirs = offer.pairs[(there * self.split + member) as usize];
            let [first, expected] = psns();
            // Packets are placed as they arrive, as by adapters with out-of-order placement.
            let rights = Rights::READ_WRITE.with(Rights::RELAXED);
            let steps = [
                Change::Init { rights, p_key: 0xFFFF, q_key: 0 },
                Change::ReadyToReceive {
                    peer: Peer { address: u64::from(peer), queue_pair: theirs },
                    mtu: scenario.mtu,
                    expected,
                    read_depth: 1,
                    rnr_timer: RnrTimer::from_code(1),
                },
                Change::ReadyToSend { first, reliability: reliability(scenario) },
            ];
            for step in &steps {
                self.driver.device_mut().modify(own, step).map_err(|error| {
                    let state = match step {
                        Change::Init { .. } => "INIT",
                        Change::ReadyToReceive { .. } => "RTR",
                        _ => "RTS",
                    };
                    SimulationError::QueuePair { host: self.own, peer, state, error }
                })?;
            }
        }
        self.peers.push((peer, place * self.split, offer.key));
        Ok(())
    }

    /// Completion queue of its sends.
    pub(crate) fn queue(&self) -> CompletionQueueId {
        self.queue
    }

    /// Sorts the peers after the last one has been added.
    pub(crate) fn sort_peers(&mut self) {
        self.peers.sort_unstable();
    }

    /// Returns the next packet to send.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        let transmit = self.driver.device_mut().poll_transmit(now)?;
        let (packet, payload) = (transmit.packet, transmit.gather.length());
        let whole = datagram_len(&packet, payload as usize) as u32;
        let received = Received { source: u64::from(self.own), packet, payload, ecn: Ecn::Capable };
        self.data_sent += u64::from(payload > 0);
        let member = self.members.binary_search_by_key(&transmit.queue_pair, |member| member.0);
        Some(Outgoing {
            headers: PacketHeaders::Roce(received),
            header: whole - payload,
            payload,
            destination: transmit.to as u32,
            path: member.map_or(0, |at| self.members[at].1),
            priority: if payload == 0 { Priority::CONTROL } else { Priority::DATA },
        })
    }

    /// Returns the next completed operation: its number, and whether it succeeded.
    pub(crate) fn poll_completion(&mut self) -> Option<(u64, bool)> {
        // Events of queue pairs are ignored, because completions report the same.
        while self.driver.device_mut().poll_event().is_some() {}
        let done = self.driver.device_mut().poll_completion(self.queue)?;
        Some((done.id, done.status == Status::Success))
    }

    /// Posts a flow to the NIC.
    ///
    /// # Panics
    /// If the NIC refuses the flow for a reason other than a full queue or a dead peer, which means
    /// that the run was set up wrongly.
    pub(crate) fn post(&mut self, now: u64, plan: &Plan, index: u32) -> Posted {
        let flow = &plan.scenario.flows[index as usize];
        let slot = plan.slot[index as usize];
        let at = self.peers.binary_search_by_key(&flow.destination, |peer| peer.0);
        let (_, first, r_key) = self.peers[at.expect("queue pairs for every flow")];
        let pair = self.pairs[(first + slot % self.split) as usize];
        if self.driver.device().state(pair) != Some(QueuePairState::ReadyToSend) {
            // The NIC has given up the peer.
            return Posted::Never;
        }
        let local = LocalRange { segment: self.region.segment, offset: 0, length: flow.bytes };
        let remote = RemoteAddress { address: u64::from(slot) << SLOT_BITS, r_key };
        let request = WorkRequest {
            id: u64::from(index),
            work: Work::Write { remote, immediate: None },
            local: local.into(),
            signaled: true,
            solicited: false,
            fence: false,
        };
        match self.driver.device_mut().post_send(Instant::from_ps(now), pair, &request) {
            Ok(()) => Posted::Now,
            Err(PostError::Full | PostError::CompletionQueueFull) => Posted::Later,
            Err(error) => panic!("flow {index} cannot be posted: {error:?}"),
        }
    }

    pub(crate) fn counts(&self) -> NicCounts {
        let counters = self.driver.device().counters();
        NicCounts {
            data_sent: self.data_sent,
            resent: counters.resent_packets,
            spurious: counters.duplicate_requests,
            acks_sent: counters.acks_sent,
            timeouts: counters.timeouts,
            not_ready: counters.rnr_naks_sent,
            early_max: 0,
            deferred_max: 0,
        }
    }
}
