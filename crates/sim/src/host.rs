//! A host: a real engine NIC, the flows it sends, and the memory that it receives into.

use super::control::Control;
use super::nic::HostNic;
use super::opening::OnUse;
use super::plan::Plan;
use super::ranks::{Ranks, jetty_of};
use super::streams::{self, Streams};
use crate::application::Application;
use crate::endpoint::{MESSAGES, MESSAGES_OF_MANY, PEERS_MANY, Posted, SLOT_BITS, TOKEN, address};
use crate::intake::Intake;
use crate::members::{self, Members};
use crate::prefetch::{request_bytes, request_value};
use crate::stream::Verb;
use fairway_device::drive::Driver;
use fairway_device::random::Random;
use fairway_ub::policy::{Eager, MemoryVisitor};
use fairway_ub::wire::{Instant, JettyId};
use fairway_ub::{
    ChannelId, CompletionQueueId, JettyConfig, Limits, LocalRange, OrderRequest, PostError,
    Profile, RemoteRange, Rights, SegmentId, SegmentRequest, SetupError, UbDevice, Work,
    WorkRequest,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A host and its NIC.
pub(crate) struct Host {
    pub(crate) nic: HostNic,
    pub(crate) queue: CompletionQueueId,
    /// The host's port, or the first of several.
    pub(crate) wire: u32,
    /// Time at which a host with several wires next checks whether it may send; 0 before it has
    /// sent.
    pub(crate) pull_at: u64,
    /// Armed wake-ups for the protocol's timers.
    pub(crate) wakes: TimerSlots,
    /// Flows that are ready and that the NIC has not accepted yet.
    pub(crate) ready: VecDeque<u32>,
    /// Flows that wait only for their start time, with that time.
    pub(crate) later: BinaryHeap<Reverse<(u64, u32)>>,
    /// Number of the plan's flows that have been considered.
    pub(crate) next_start: usize,
    jetty: JettyId,
    pub(crate) segment: SegmentId,
    /// Channels by peer host, sorted.
    pub(crate) peers: Vec<(u32, ChannelId)>,
    /// Hosts by channel, sorted; a peer has as many channels as the scenario's split says.
    pub(crate) hosts_of_channels: Vec<(ChannelId, u32)>,
    /// The host's ranks, of a program or of a group, if there are any.
    pub(crate) ranks: Option<Box<Application>>,
    /// The streams that the host posts or sends, if any.
    pub(crate) streams: Option<Box<Streams>>,
    /// Opens the host's channels when they are used, if they are not open from the start.
    pub(crate) on_use: Option<Box<OnUse>>,
    /// The queue in which data waits for the host, if its rate is limited.
    pub(crate) intake: Option<Box<Intake>>,
}

/// Armed timer wake-ups, the earliest first; `u64::MAX` is none. Four are remembered so that a
/// distant one is not armed again after each near one. When all four slots are taken, the third
/// entry is dropped; its event later fires as a no-op.
pub(crate) struct TimerSlots([u64; 4]);

impl Default for TimerSlots {
    fn default() -> Self {
        TimerSlots([u64::MAX; 4])
    }
}

impl TimerSlots {
    /// Arms a wake-up at `due`. Returns true if it was new, and false if one is armed that is not
    /// later.
    #[inline]
    pub(crate) fn arm(&mut self, due: u64) -> bool {
        let TimerSlots([first, second, third, last]) = self;
        if due >= *first {
            return false;
        }
        if *last == u64::MAX {
            *last = *third;
        }
        (*third, *second, *first) = (*second, *first, due);
        true
    }

    /// Takes the wake-up that fires at `now`. Returns false if its entry was dropped.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> bool {
        let TimerSlots([first, second, third, last]) = *self;
        if first != now {
            return false;
        }
        *self = TimerSlots([second, third, last, u64::MAX]);
        true
    }
}

/// Limits of a NIC, counted from what this run needs, because thousands of NICs have to fit into
/// memory.
fn limits(plan: &Plan, host: u32, peers: u32) -> Limits {
    let window = plan.scenario.window();
    let out = plan.outbound[host as usize].len() as u32;
    let most = if peers > PEERS_MANY { MESSAGES_OF_MANY } else { MESSAGES };
    let messages = out.min(most);
    let slots = (plan.scenario.flows.len() as u32).div_ceil(plan.pairs.len().max(1) as u32);
    let slots = (2 * slots).clamp(2, 64);
    let channels = peers.max(1) * plan.scenario.split;
    Limits::new()
        .channels(channels)
        .engines(1)
        .jetties(2)
        .segments(1)
        .completion_queues(1)
        .completions(messages + 16)
        .messages(2 * messages + 2 * channels + 16)
        .receives(1)
        .arrivals(channels * slots + 1)
        .window_packets(window)
        .send_blocks(channels + (2 + channels.min(8)) * (window / 64 + 1))
        .bitmap_blocks(channels.min(64) * (window / 16 + 2) + 2 * channels)
        .message_slots(slots)
        // Also the most packets that may go without an acknowledgement: see
        // `Profile::acknowledge_every`.
        .read_slots(64)
        .paths(plan.scenario.paths)
        .withheld(8)
        .order_records(1)
        .bypass_answers(1)
        .groups(1)
        .deferred(1)
        .mailboxes(1)
        .mailbox_buffers(1)
        .put_streams(1)
        .flows(2 * channels)
        .allocates_on_use(true)
}

/// Limits of a NIC with ranks of a program.
fn rank_limits(plan: &Plan, host: u32, peers: u32) -> Limits {
    let base = limits(plan, host, peers);
    let (Some(program), Some(neighbours)) = (plan.scenario.program, &plan.neighbours) else {
        return base;
    };
    let links = neighbours.links(&program, host);
    let receives = program.receives(links);
    let slots = (2 * links / peers.max(1)).clamp(4, 64);
    base.jetties(program.ranks_per_host + 2)
        .segments(2)
        .completions(8 * links + receives + 16)
        .messages(16 * links + 4 * base.channels + 16)
        .receives(receives)
        .arrivals(base.channels * slots + 2 * links + 1)
        .message_slots(slots)
        .withheld(32)
        .order_records(program.ranks_per_host + links + 1)
        .deferred(links + 1)
        .mailboxes(links + 1)
        .mailbox_buffers(links * program.buffers + 1)
        .put_streams(2 * links + 1)
}

/// Limits of a NIC with ranks of a group.
fn member_limits(plan: &Plan, host: u32, peers: u32) -> Limits {
    let base = limits(plan, host, peers);
    let Some(group) = &plan.group else { return base };
    let (ranks, pairs) = (group.on_host(host), group.pairs(host));
    let receives = ranks.iter().map(|rank| group.receives(*rank)).sum::<u32>();
    let slots = group.group.means.slots;
    // Messages with bytes under way between two hosts, each way: no more than there are slots.
    let each = (slots * pairs.div_ceil(peers.max(1))).clamp(4, 256);
    base.jetties(ranks.len() as u32 + 2)
        .completions(receives + pairs * slots + 16)
        .messages(2 * receives + 4 * base.channels + 16)
        .receives(receives.max(1))
        .arrivals(base.channels * each + receives + 1)
        .message_slots(each)
}

/// Limits of a NIC for the streams that its host posts, sends and receives.
fn stream_limits(plan: &Plan, host: u32, peers: u32) -> Limits {
    let base = limits(plan, host, peers);
    let stream = |number: &u32| &plan.scenario.streams[*number as usize];
    let messages = |numbers: &[u32]| numbers.iter().map(|number| stream(number).depth).sum::<u32>();
    let (posted, sent) = (&plan.streams_posted[host as usize], &plan.streams_out[host as usize]);
    let received = &plan.streams_in[host as usize];
    let slots = messages(sent).max(messages(received)).clamp(64, 256);
    let is_ordered = |number: &u32| is_ordered(plan, *number);
    // Transactions that the target answers after their acknowledgement take a slot, as READs do.
    let answered = |number: &u32| stream(number).verb == Verb::Read || is_ordered(number);
    let answered = posted.iter().chain(sent).chain(received).any(answered);
    // A message record exists until the message completes: at the host that posts it and, for READ
    // responses, also at the host that sends them. So do the records of its parts, one for each
    // channel of its pair.
    let answers = sent.iter().filter(|number| stream(number).verb == Verb::Read);
    let answers = answers.map(|number| stream(number).depth).sum::<u32>();
    let split = plan.scenario.split;
    let records = (messages(posted) + answers) * if split > 1 { 1 + split } else { 1 };
    let targeted = ordered_at_target(plan, host);
    let ordered = targeted.clone().map(|number| stream(&number).depth).sum::<u32>();
    // The target tracks each Jetty whose messages it orders, and so does the poster.
    let trackers =
        (targeted.count() as u32).max(posted.iter().filter(|at| is_ordered(at)).count() as u32);
    base.jetties(posted.len() as u32 + 2)
        .deferred(ordered.max(1))
        .order_records(trackers.max(1))
        .segments(base.segments + 1)
        .completions(messages(posted) + 16)
        .messages(2 * records + 64 * base.channels + 16)
        .arrivals(base.channels * slots + 1)
        .message_slots(slots)
        .read_slots(if answered { 256 } else { base.read_slots })
        .flows(2 * (posted.len().max(sent.len()) as u32 + base.channels))
}

/// True if messages of the stream request order.
fn is_ordered(plan: &Plan, number: u32) -> bool {
    plan.scenario.streams[number as usize].order != OrderRequest::default()
}

/// The streams with order whose messages the host executes and does not post.
fn ordered_at_target(plan: &Plan, host: u32) -> impl Iterator<Item = u32> + Clone + '_ {
    let ends = plan.streams_in[host as usize].iter().chain(&plan.streams_out[host as usize]);
    ends.copied().filter(move |number| {
        is_ordered(plan, *number) && plan.scenario.streams[*number as usize].peer() == host
    })
}

/// Makes a host with a Fairway NIC and no channels.
///
/// # Errors
/// Names the protocol's limit that does not fit the run.
pub(crate) fn make_host(
    plan: &Plan,
    host: u32,
    peers: u32,
    profile: &Profile,
) -> Result<Host, SetupError> {
    let limits = match plan.scenario.program {
        Some(_) => rank_limits(plan, host, peers),
        None if plan.group.is_some() => member_limits(plan, host, peers),
        None if !plan.scenario.streams.is_empty() => stream_limits(plan, host, peers),
        None => limits(plan, host, peers),
    };
    let seed = Random::fork(plan.scenario.seed, u64::from(host) << 8 | 1).number();
    let mut nic = UbDevice::new(address(host), &limits, profile, seed);
    if let Some(policies) = plan.scenario.policy.as_ref() {
        nic.set_scheduler(Instant::ZERO, policies.scheduler_of_nic(limits.flows));
        nic.set_credit_policy(policies.built_in().build_credit(limits.channels));
    }
    let queue = nic.create_completion_queue(limits.completions)?;
    let config = JettyConfig { number: Some(1), ..JettyConfig::new(queue, queue) };
    let jetty = nic.create_jetty(&config)?;
    let flows = plan.outbound[host as usize].len().max(plan.inbound[host as usize].len());
    let flows = flows.max(plan.streams_in[host as usize].len());
    let links = plan.scenario.program.zip(plan.neighbours.as_ref());
    let links = links.map_or(0, |(program, neighbours)| neighbours.links(&program, host));
    let members = plan.group.as_ref().map_or(0, |group| group.on_host(host).len());
    let pieces = flows.max(links as usize + 1).max(members * members::PIECES as usize);
    // For programs, two more pieces: receives, and notes.
    let length = (pieces as u64 + 1) << SLOT_BITS;
    let rights = Rights::READ_WRITE;
    let request = SegmentRequest { address: 0, length, rights, token_value: TOKEN };
    let segment = nic.register(&request)?;
    let base = Host::new(plan, host, HostNic::Fairway(Driver::new(nic, 0)), queue);
    Ok(Host { jetty, segment, peers: Vec::with_capacity(peers as usize), ..base })
}

impl Host {
    /// Makes a host with this NIC and nothing posted.
    pub(crate) fn new(plan: &Plan, host: u32, nic: HostNic, queue: CompletionQueueId) -> Host {
        Host {
            nic,
            queue,
            wire: plan.scenario.network.first_port[host as usize],
            pull_at: 0,
            wakes: TimerSlots::default(),
            ready: VecDeque::with_capacity(plan.outbound[host as usize].len()),
            later: BinaryHeap::new(),
            next_start: 0,
            jetty: JettyId::new(0),
            segment: SegmentId::default(),
            peers: Vec::new(),
            hosts_of_channels: Vec::new(),
            ranks: None,
            streams: None,
            on_use: None,
            intake: Intake::of(&plan.scenario.drains, plan.scenario.receive_queue, host),
        }
    }

    /// Prefetches memory that the next packets touch, beside the host's own value.
    #[inline]
    pub(crate) fn prefetch(&self, stage: u8) {
        if stage == 0 {
            request_value(&self.wakes);
            request_value(&self.segment);
            request_value(&self.on_use);
        }
        if let HostNic::Fairway(driver) = &self.nic {
            let visit = &mut request_bytes;
            driver.device().visit_memory(stage, &mut MemoryVisitor::new(visit));
        }
    }

    /// Creates a Jetty for each stream that this host posts, and a processor for the scheduler of
    /// the streams that it sends, unless the scheduler runs inline.
    pub(crate) fn add_streams(&mut self, plan: &Plan, host: u32) -> Result<(), SetupError> {
        if ordered_at_target(plan, host).next().is_some() {
            self.add_staging(plan)?;
        }
        let posted = &plan.streams_posted[host as usize];
        let sent = plan.streams_out[host as usize].len();
        if posted.is_empty() && sent == 0 {
            return Ok(());
        }
        let nic = self.nic.fairway();
        for (place, number) in posted.iter().enumerate() {
            let jetty = streams::jetty_of(place);
            let config = JettyConfig {
                number: Some(jetty.value()),
                ..JettyConfig::new(self.queue, self.queue)
            };
            nic.create_jetty(&config)?;
            nic.set_share(jetty, plan.scenario.streams[*number as usize].share)?;
        }
        let controller = plan
            .scenario
            .policy
            .as_ref()
            .and_then(|policies| policies.scheduler_of_nic(nic.limits().flows));
        let control = plan.scenario.control.as_ref().zip(controller).map(|(spec, controller)| {
            let controller =
                if spec.until_threshold { controller } else { Box::new(Eager(controller)) };
            let processor = nic.detach_scheduler(Instant::ZERO, controller);
            Control::new(processor, spec, plan.scenario.measure_ps)
        });
        let peers = &self.peers;
        let channel = |other: u32| {
            let at = peers.binary_search_by_key(&other, |peer| peer.0);
            peers[at.expect("a channel for every pair")].1
        };
        self.streams = Some(Box::new(Streams::new(plan, host, channel, control)));
        Ok(())
    }

    /// Registers the memory in which the NIC keeps packets until it is their turn.
    fn add_staging(&mut self, plan: &Plan) -> Result<(), SetupError> {
        let nic = self.nic.fairway();
        let length = u64::from(nic.limits().deferred) * u64::from(plan.scenario.mtu);
        let request =
            SegmentRequest { address: 0, length, rights: Rights::NONE, token_value: TOKEN };
        let staging = nic.register(&request)?;
        nic.set_staging(staging, plan.scenario.mtu)
    }

    /// Creates the Jetties, mailboxes and receives of this host's ranks, and the ranks themselves.
    pub(crate) fn add_ranks(&mut self, plan: &Plan, host: u32) -> Result<(), SetupError> {
        let (Some(program), Some(neighbours)) = (plan.scenario.program, &plan.neighbours) else {
            return Ok(());
        };
        self.add_staging(plan)?;
        let nic = self.nic.fairway();
        for rank in program.ranks_of(host).skip(1) {
            let number = Some(jetty_of(&program, rank).value());
            let config = JettyConfig { number, ..JettyConfig::new(self.queue, self.queue) };
            nic.create_jetty(&config)?;
        }
        let peers = &self.peers;
        let channel = |other: u32| {
            let at = peers.binary_search_by_key(&other, |peer| peer.0);
            peers[at.expect("a channel for every pair")].1
        };
        let segment = self.segment;
        let ranks = Ranks::new((program, neighbours), host, nic, segment, channel);
        self.ranks = Some(Box::new(ranks.into()));
        Ok(())
    }

    /// Creates the Jetties and receives of this host's ranks of the group, and the ranks.
    pub(crate) fn add_members(&mut self, plan: &Plan, host: u32) -> Result<(), SetupError> {
        let count = plan.group.as_ref().map_or(0, |group| group.on_host(host).len());
        if count == 0 {
            return Ok(());
        }
        let nic = self.nic.fairway();
        for place in 1..count as u32 {
            let number = Some(members::jetty_of(place).value());
            let config = JettyConfig { number, ..JettyConfig::new(self.queue, self.queue) };
            nic.create_jetty(&config)?;
        }
        let channels = (self.peers.clone(), self.hosts_of_channels.clone());
        let members = Members::new(plan, host, nic, self.segment, channels);
        self.ranks = Some(Box::new(members.into()));
        Ok(())
    }

    /// Posts a flow to the NIC.
    ///
    /// # Panics
    /// If the NIC refuses the flow for a reason other than a full queue or a dead peer, which means
    /// that the run was set up wrongly.
    pub(crate) fn post(&mut self, now: u64, plan: &Plan, index: u32) -> Posted {
        if let HostNic::Roce(nic) = &mut self.nic {
            return nic.post(now, plan, index);
        }
        let flow = &plan.scenario.flows[index as usize];
        let channel = if self.on_use.is_some() {
            self.open_toward(now, flow.destination)
        } else {
            let peer = self.peers.binary_search_by_key(&flow.destination, |peer| peer.0);
            self.peers[peer.expect("a channel for every flow")].1
        };
        let nic = self.nic.fairway();
        let slot = u64::from(plan.slot[index as usize]);
        // All segments are alike: each is the first of its NIC and begins at address 0.
        let remote = RemoteRange {
            token_id: self.segment.token_id(),
            token_value: TOKEN,
            address: slot << SLOT_BITS,
        };
        let local = LocalRange { segment: self.segment, offset: 0, length: flow.bytes };
        let request = WorkRequest {
            id: u64::from(index),
            channel,
            work: Work::Write { remote },
            local,
            signaled: true,
            order: OrderRequest::default(),
        };
        match nic.post(Instant::from_ps(now), self.jetty, &request) {
            Ok(()) => Posted::Now,
            Err(PostError::CompletionQueueFull | PostError::TooManyMessages) => Posted::Later,
            Err(PostError::NoChannel) => Posted::Never,
            Err(error) => panic!("flow {index} cannot be posted: {error:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TimerSlots;

    /// A distant wake-up stays armed while nearer ones are armed, and each remembered one fires in
    /// order.
    #[test]
    fn distant_wakes_are_armed_once() {
        let mut wakes = TimerSlots::default();
        assert!(wakes.arm(1000) && !wakes.arm(1000) && !wakes.arm(2000));
        for near in (1..100).step_by(10) {
            assert!(wakes.arm(near + 5) && wakes.arm(near) && !wakes.arm(near + 3));
            assert!(!wakes.take(near + 5) && wakes.take(near) && wakes.take(near + 5));
        }
        assert!(!wakes.arm(1000) && wakes.take(1000) && !wakes.take(1000));
        assert!(wakes.arm(3000));
    }

    /// When all slots are taken, the last but one is dropped.
    #[test]
    fn the_last_but_one_is_forgotten() {
        let mut wakes = TimerSlots::default();
        (1..=6).rev().for_each(|due| assert!(wakes.arm(due)));
        let came: Vec<u64> = (1..=6).filter(|due| wakes.take(*due)).collect();
        assert_eq!(came, [1, 2, 3, 6]);
    }
}
