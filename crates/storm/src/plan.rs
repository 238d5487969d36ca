//! The choices that a seed determines before a run.

mod aborts;
mod bursts;
mod condition;
mod habits;
mod last_path;
mod mail;
mod mishaps;
mod one_order;
mod placement;
mod policies;
mod resting;
mod retirement;

use bursts::Bursts;
pub use condition::Condition;
pub(crate) use last_path::LastPath;
pub(crate) use mail::MailPlan;
pub(crate) use placement::ControllerPlacement;
use resting::Resting;
use retirement::Retirement;

use crate::adversary::{NetworkFaults, Outage};
use crate::node::WorldConfig;
use fairway_device::random::Random;
use fairway_ub::policy::{
    CongestionSpec, LossSpec, PathSpec, PolicySpec, PowerOfTwoParameters, SwiftParameters,
};
use fairway_ub::wire::{Duration, Instant};
use fairway_ub::{Limits, Profile};

/// A connection between two nodes, and its properties.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) nodes: [usize; 2],
    pub(crate) mtu: u32,
    pub(crate) paths: u32,
    pub(crate) policies: [PolicySpec; 2],
    /// Channels of the group between them.
    pub(crate) channels: u32,
}

/// A fault of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeFault {
    Pause { node: usize, at: Instant, span: Duration },
    Crash { node: usize, at: Instant, span: Duration },
}

/// All choices that are made in advance.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) limits: Vec<Limits>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) links: Vec<Link>,
    pub(crate) config: WorldConfig,
    pub(crate) network_faults: NetworkFaults,
    pub(crate) outages: Vec<Outage>,
    pub(crate) node_faults: Vec<NodeFault>,
    /// Time during which faults are injected.
    pub(crate) span: Duration,
    pub(crate) operations: u64,
    pub(crate) bytes_max: u64,
    pub(crate) packets_max: u64,
    pub(crate) jetties: u32,
    /// Probabilities in thousandths.
    pub(crate) wrong: u32,
    pub(crate) unsignaled: u32,
    pub(crate) lazy_receives: u32,
    pub(crate) deregister: u32,
    pub(crate) close: u32,
    pub(crate) destroy: u32,
    pub(crate) hostile: u32,
    pub(crate) ordered: u32,
    pub(crate) atomics: u32,
    pub(crate) unreliable: u32,
    /// Whether nodes give their NIC staging memory for early packets.
    pub(crate) staging: bool,
    pub(crate) tick: Duration,
    pub(crate) mail: MailPlan,
    pub(crate) extras: Extras,
    pub(crate) retirement: Retirement,
    pub(crate) resting: Resting,
    pub(crate) last_path: Option<LastPath>,
    pub(crate) bursts: Bursts,
    /// Data packets may carry acknowledgements.
    pub(crate) carried_acks: bool,
    /// Scheduler of each node.
    pub(crate) schedulers: Vec<PolicySpec>,
    /// Placement of the congestion controllers of each node.
    pub(crate) controllers: Vec<ControllerPlacement>,
}

/// Features that were added later. They are drawn separately, so that the worlds of old seeds stay
/// the same where none of these is drawn. Probabilities in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extras {
    /// Share of operations that are loads and stores.
    pub(crate) bypasses: u32,
    /// Limit of pending responses to loads and stores at a node, if it is small.
    pub(crate) answers: Option<u32>,
    /// If true, loads and stores are given up at once and the network is slow, so that requests
    /// arrive after they were given up.
    pub(crate) gives_up_at_once: bool,
    /// Ticks of an application at which it changes the state of a Jetty.
    pub(crate) states: u32,
    /// Jetties that are suspended, or fail, when one of their operations fails.
    pub(crate) exceptions: u32,
    /// Number of Jetty groups of every node.
    pub(crate) groups: u32,
    /// Messages that are sent to a group.
    pub(crate) to_groups: u32,
    /// Ticks at which a Jetty joins or leaves a group, or a group is destroyed or created.
    pub(crate) regroup: u32,
    /// If true, Jetties match receives by sequence, and messages are sent between Jetties of the
    /// same number.
    pub(crate) in_sequence: bool,
    /// Share of operations that keep memory order.
    pub(crate) memory_order: u32,
    /// Share of those that are WRITEs and READs of shared memory.
    pub(crate) to_boards: u32,
    /// Ticks of an application at which it makes registered memory inaccessible.
    pub(crate) missing: u32,
    /// Ticks of an application at which it closes a connection because it is an untimely moment:
    /// payload is being copied, or receives wait for others to be reported. Where this is not zero,
    /// some destroyed Jetties are created again at once, and healed applications leave each mailbox
    /// only one buffer at a time.
    pub(crate) untimely: u32,
    /// Ticks of an application at which its host begins or ceases to be short of resources: it
    /// signals pressure to its peers, or slows its own transmission down.
    pub(crate) pressure: u32,
    /// Ticks of an application at which it aborts a Jetty.
    pub(crate) aborts: u32,
    /// Share of the operations without a receive that nevertheless request receive order.
    pub(crate) one_order: u32,
    /// A side that opens a channel probes its first path at once.
    pub(crate) first_probes: bool,
}

/// Constant that separates the draw of missing memory from the others. It is chosen so that no seed
/// recorded before missing memory existed (`seeds.txt`, `recorded.rs`) draws any; those
/// seeds still stand for the worlds in which they failed.
const MISSING: u64 = 2784;

/// The same for actions at untimely moments.
const UNTIMELY: u64 = 4363;

/// The same for pressure.
const PRESSURE: u64 = 156_503;

/// The same for packets that switches trim.
const TRIMMING: u64 = 200_735;

/// The same for congestion information that switches write.
const HINTS: u64 = 10_020;
/// Part of the seed that draws worlds in which hosts know how long packets have waited; chosen as
/// [`resting::RESTING`] is.
const WAITS: u64 = 10_025;
/// The same for worlds in which data packets may carry acknowledgements.
const CARRIED_ACKS: u64 = 2_938_187;
/// The same for worlds in which a side that opens a channel probes its first path.
const FIRST_PROBES: u64 = 3_510;

impl Extras {
    fn draw(random: &mut Random) -> Extras {
        let bypasses = sometimes(random, 300, &[100, 300, 900]);
        let few = random.range(1, 4) as u32;
        let answers = random.chance(100).then_some(few);
        let gives_up_at_once = random.chance(300) && bypasses > 0;
        let groups = if random.chance(200) { random.range(1, 2) as u32 } else { 0 };
        Extras {
            bypasses,
            answers,
            gives_up_at_once,
            states: sometimes(random, 250, &[20, 100, 300]),
            exceptions: sometimes(random, 150, &[300, 1000]),
            groups,
            to_groups: random.pick(&[200, 500, 900]),
            regroup: random.pick(&[0, 50, 200, 500]),
            in_sequence: random.chance(500),
            memory_order: 0,
            to_boards: 0,
            missing: 0,
            untimely: 0,
            pressure: 0,
            aborts: 0,
            one_order: 0,
            first_probes: false,
        }
    }

    /// Draws what was added last.
    fn draw_later(&mut self, seed: u64, is_pair: bool) {
        self.draw_memory_order(&mut Random::fork(seed, 13), is_pair);
        self.missing = sometimes(&mut Random::fork(seed, MISSING), 125, &[20, 100, 400]);
        self.untimely = sometimes(&mut Random::fork(seed, UNTIMELY), 125, &[30, 200, 1000]);
        self.pressure = sometimes(&mut Random::fork(seed, PRESSURE), 125, &[20, 100, 500]);
    }

    /// Four worlds of ten have operations that keep memory order. If two nodes have one link, some
    /// of these operations share memory.
    fn draw_memory_order(&mut self, random: &mut Random, is_pair: bool) {
        self.memory_order = sometimes(random, 400, &[200, 700, 1000]);
        self.to_boards = sometimes(random, 800, &[300, 700]);
        if !is_pair {
            self.to_boards = 0;
        }
    }

    /// Adapts the rest of the world to the extras.
    fn adjust(
        &self,
        limits: &mut [Limits],
        profiles: &mut [Profile],
        network_faults: &mut NetworkFaults,
    ) {
        for limits in limits {
            limits.bypass_answers = self.answers.unwrap_or(limits.bypass_answers);
        }
        if self.gives_up_at_once {
            profiles.iter_mut().for_each(|profile| profile.bypass_retries = 0);
            network_faults.delay = network_faults.delay.max(200);
            network_faults.delay_by = network_faults.delay_by.max(Duration::from_us(1_000));
        }
    }
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut plan = Plan::draw_first(seed);
        retirement::draw(seed, &mut plan);
        resting::draw(seed, &mut plan);
        plan.config.knows_waits = Random::fork(seed, WAITS).chance(60);
        plan.carried_acks = Random::fork(seed, CARRIED_ACKS).chance(150);
        plan.extras.first_probes = Random::fork(seed, FIRST_PROBES).chance(66);
        last_path::draw(seed, &mut plan);
        bursts::draw(seed, &mut plan);
        aborts::draw(seed, &mut plan);
        one_order::draw(seed, &mut plan);
        plan
    }

    /// Draws what was not added last.
    fn draw_first(seed: u64) -> Plan {
        let mut random = Random::fork(seed, 1);
        let nodes = random.pick(&[2, 2, 2, 2, 3, 3, 4, 5, 8]);
        let mut links = draw_links(&mut random, nodes);
        let span = Duration::from_us(random.pick(&[500, 2_000, 5_000, 20_000]));
        // The resources that a node needs to make progress depend on its number of channels.
        let busy = |node: usize| links.iter().filter(|link| link.nodes.contains(&node)).count();
        let most = (0..nodes).map(busy).max().unwrap_or(1);
        let (mut limits, mut profiles): (Vec<_>, Vec<_>) = if random.chance(500) {
            (vec![draw_limits(&mut random, most); nodes], vec![draw_profile(&mut random); nodes])
        } else {
            let limits = (0..nodes).map(|node| draw_limits(&mut random, busy(node))).collect();
            (limits, (0..nodes).map(|_| draw_profile(&mut random)).collect())
        };
        let mail = MailPlan::draw(seed);
        limits.iter_mut().for_each(|limits| limits.put_streams = mail.streams);
        let mut network_faults = draw_weather(seed);
        let mut extras = Extras::draw(&mut Random::fork(seed, 6));
        // With several links, a connection that shares a Jetty with ordered receive matching could
        // wait for the others.
        extras.in_sequence &= links.len() == 1;
        extras.draw_later(seed, links.len() == 1);
        extras.adjust(&mut limits, &mut profiles, &mut network_faults);
        draw_channel_groups(&mut Random::fork(seed, 7), &mut links, &mut limits, &mut profiles);
        habits::draw(seed, &mut profiles);
        let mut schedulers = draw_schedulers(&mut Random::fork(seed, 9), &mut limits);
        policies::override_some(&mut Random::fork(seed, 8), &mut links);
        policies::probe_some(&mut Random::fork(seed, 12), &mut links);
        policies::give_credit(&mut Random::fork(seed, 10), &mut links, &mut schedulers);
        policies::use_signals(seed, &mut links);
        policies::use_flowlets(seed, &extras, &mut links);
        policies::follow_hints(seed, network_faults.hint, &mut links);
        let random = &mut Random::fork(seed, 3);
        let operations = random.magnitude(300);
        Plan {
            schedulers,
            controllers: placement::draw(&mut Random::fork(seed, 11), nodes),
            config: draw_knobs(random, operations, &links),
            outages: draw_outages(random, &links, span),
            node_faults: mishaps::draw(random, nodes, span, &profiles),
            network_faults,
            span,
            operations,
            bytes_max: draw_bytes(random, nodes),
            packets_max: random.pick(&[1, 4, 30, 300]),
            jetties: random.range(1, 4) as u32,
            wrong: sometimes(random, 400, &[20, 100, 300]),
            unsignaled: sometimes(random, 500, &[100, 500]),
            lazy_receives: sometimes(random, 500, &[300, 800]),
            deregister: sometimes(random, 250, &[5, 50]),
            close: sometimes(random, 200, &[5, 30]),
            destroy: sometimes(random, 250, &[10, 100]),
            hostile: sometimes(random, 300, &[20, 300]),
            ordered: sometimes(random, 500, &[100, 500, 1000]),
            atomics: sometimes(random, 400, &[50, 300]),
            unreliable: sometimes(random, 200, &[50, 300]),
            staging: random.chance(800),
            tick: Duration::from_ps(span.as_ps() / random.range(10, 100)),
            limits,
            profiles,
            links,
            mail,
            extras,
            retirement: Retirement::default(),
            resting: Resting::default(),
            last_path: None,
            bursts: Bursts::default(),
            carried_acks: false,
        }
    }
}

/// Returns the most bytes of an operation; with many nodes few, because their memories are many.
fn draw_bytes(random: &mut Random, nodes: usize) -> u64 {
    if nodes > 4 { 8_000 } else { random.pick(&[2_000, 8_000, 16_000, 100_000]) }
}

/// Returns one of `values` with probability `permille`, otherwise 0.
fn sometimes(random: &mut Random, permille: u32, values: &[u32]) -> u32 {
    let value = random.pick(values);
    if random.chance(permille) { value } else { 0 }
}

fn draw_links(random: &mut Random, nodes: usize) -> Vec<Link> {
    let mut links = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            // At least a chain, so that every node has a peer.
            if b == a + 1 || random.chance(300) {
                links.push(draw_link(random, a, b));
            }
        }
    }
    // Sometimes two channels between the same nodes.
    if random.chance(200) {
        links.push(draw_link(random, 0, 1));
    }
    links
}

/// Gives some links several channels, and their nodes the additional resources.
fn draw_channel_groups(
    random: &mut Random,
    links: &mut [Link],
    limits: &mut [Limits],
    profiles: &mut [Profile],
) {
    if !random.chance(350) {
        return;
    }
    for link in links {
        link.channels = random.pick(&[1, 2, 2, 3, 5]);
        let more = link.channels - 1;
        for node in link.nodes {
            let limits = &mut limits[node];
            limits.arrivals += more * limits.message_slots;
            limits.send_blocks += more;
            limits.messages += 2 * more * limits.read_slots;
        }
    }
    for (limits, profile) in limits.iter_mut().zip(profiles) {
        limits.engines = random.pick(&[1, 2, 3]);
        profile.group_slack = random.pick(&[0, 2_000, 64 * 1024]);
    }
}

/// Draws the schedulers of the nodes and, sometimes, small limits of flows.
fn draw_schedulers(random: &mut Random, limits: &mut [Limits]) -> Vec<PolicySpec> {
    let draw = |limits: &mut Limits| {
        if random.chance(150) {
            limits.flows = random.below(6) as u32;
        }
        let quantum = random.pick(&["200", "4K", "32K"]);
        let line = random.pick(&["auto", "300Mbps", "10Gbps"]);
        let text = match random.below(8) {
            0 => format!("sched=static:line={line}:min=200Mbps"),
            1 => format!("sched=water-filling:line={line}:min=200Mbps"),
            2 | 3 => format!("sched=drr:quantum={quantum}"),
            _ => String::from("sched=greedy"),
        };
        text.parse::<PolicySpec>().expect("a policy")
    };
    limits.iter_mut().map(draw).collect()
}

fn draw_link(random: &mut Random, a: usize, b: usize) -> Link {
    let mtu = match random.below(6) {
        0 => random.range(1, 64),
        1 => random.range(1, 4096),
        2 => 4096,
        3 => 1,
        _ => random.pick(&[256, 1000, 1024, 1423]),
    };
    let paths = match random.below(4) {
        0 => 1,
        1 => random.range(2, 4),
        2 => random.pick(&[8, 16, 64, 65]),
        _ => random.magnitude(256),
    };
    Link {
        nodes: [a, b],
        mtu: mtu as u32,
        paths: paths as u32,
        policies: [draw_policies(random), draw_policies(random)],
        channels: 1,
    }
}

fn draw_policies(random: &mut Random) -> PolicySpec {
    let congestion = if random.chance(400) {
        CongestionSpec::Fixed { window_bytes: random.magnitude(1 << 21) }
    } else {
        let mut swift = SwiftParameters::default();
        if random.chance(300) {
            swift.target = Duration::from_us(random.range(1, 500));
            swift.min_bytes = random.magnitude(100_000);
            swift.max_bytes = swift.min_bytes + random.magnitude(1_000_000);
            swift.initial_bytes = random.magnitude(swift.max_bytes);
            swift.tolerated_loss_permille = random.below(100);
        }
        CongestionSpec::Swift(swift)
    };
    PolicySpec {
        congestion,
        path: random
            .pick(&[PathSpec::Spray, PathSpec::PowerOfTwo(PowerOfTwoParameters::default())]),
        loss: random.pick(&[
            LossSpec::PathOrder,
            LossSpec::SackThreshold,
            LossSpec::ReceiverDistance,
        ]),
        ..PolicySpec::default()
    }
}

/// Returns the smallest limits of each pool with which the protocol guarantees progress.
fn draw_limits(random: &mut Random, open: usize) -> Limits {
    let channels = 96;
    let open = open as u64;
    let window = random.pick(&[128, 128, 256, 512, 1024, 32_768]);
    let message_slots = random.pick(&[1, 1, 2, 3, 8, 64]);
    let read_slots = random.pick(&[1, 1, 2, 4, 16]);
    let arrivals = open * u64::from(message_slots) + 1;
    let mut limits = Limits::new()
        .channels(channels)
        .jetties(16)
        .segments(256)
        .completion_queues(16)
        .completions(16_384)
        .messages(1024)
        .receives(1024)
        .arrivals(1024)
        .window_packets(window)
        .send_blocks(1024)
        .bitmap_blocks(2048)
        .message_slots(message_slots)
        .read_slots(read_slots)
        .paths(256)
        .withheld(256)
        .mailboxes(16)
        .mailbox_buffers(256)
        .put_streams(64);
    if random.chance(150) {
        limits.order_records = random.range(1, 12) as u32;
    }
    if random.chance(150) {
        limits.deferred = random.below(6) as u32;
    }
    if random.chance(150) {
        limits.send_blocks = (open + random.below(8)) as u32;
    }
    if random.chance(150) {
        limits.bitmap_blocks = random.below(12) as u32;
    }
    if random.chance(250) {
        limits.arrivals = (arrivals + random.below(3)) as u32;
    }
    if random.chance(150) {
        limits.withheld = random.range(2, 40) as u32;
    }
    if random.chance(150) {
        limits.messages = (2 * open * u64::from(read_slots) + random.below(20)) as u32;
    }
    limits
}

fn draw_profile(random: &mut Random) -> Profile {
    let timeout_min = Duration::from_us(random.pick(&[100, 300, 1_000, 2_000]));
    let keep_alive = Duration::from_us(random.pick(&[1_000, 5_000, 20_000]));
    Profile::new()
        .timeout_min(timeout_min)
        .timeout_max(timeout_min.times(random.pick(&[4, 16, 64])))
        .timeout_initial(timeout_min.times(random.range(1, 4)))
        .acknowledge_delay(Duration::from_us(random.pick(&[1, 10, 50])))
        .acknowledge_every(random.pick(&[1, 2, 16, 64]))
        .reorder_tolerance(random.pick(&[1, 8, 64, 200]))
        .not_ready_delay(Duration::from_us(random.pick(&[1, 20, 200])))
        .not_ready_retries(random.pick(&[7, 7, 7, 0, 1, 6]))
        .bypass_retries(random.pick(&[0, 3, 10, 200]))
        .keep_alive(keep_alive)
        .peer_dead(keep_alive.times(random.range(4, 12)))
        .small_message_bytes(random.pick(&[0, 512, 8192]))
        .group_slack(0)
        .path_timeouts(random.range(1, 4) as u32)
        .path_probe(Duration::from_us(random.pick(&[200, 1_000, 5_000])))
        .probe_timeout(timeout_min)
        // No plan has enough refusals to reach this limit.
        .refused_keys(Profile::default().refused_keys)
        .refused_key_interval(Profile::default().refused_key_interval)
        .flow_idle(Duration::from_us(500))
}

fn draw_knobs(random: &mut Random, operations: u64, links: &[Link]) -> WorldConfig {
    let on_credit = |policies: &PolicySpec| {
        matches!(policies.congestion, CongestionSpec::Eqds(_) | CongestionSpec::Homa(_))
    };
    WorldConfig {
        spends_credit: links.iter().flat_map(|link| &link.policies).any(on_credit),
        burst: random.pick(&[1, 4, 16, 64]),
        byte_time: Duration::from_ps(random.pick(&[20, 80, 800])),
        turn_delay: Duration::from_ns(u64::from(sometimes(random, 300, &[200, 5_000]))),
        late_placement: sometimes(random, 400, &[100, 1000]),
        placement_delay: Duration::from_ns(random.pick(&[100, 5_000, 100_000])),
        intrusion: sometimes(random, 400, &[200, 1000]),
        intrusion_ahead: random.pick(&[1, 4, 16]),
        inbox: random.pick(&[8, 100, 2000]),
        knows_waits: false,
        // An audit examines all windows, so it runs after every packet only if there are few.
        audit_every: if operations < 30 { 1 } else { 128 },
    }
}

fn draw_weather(seed: u64) -> NetworkFaults {
    let random = &mut Random::fork(seed, 2);
    let mut sometimes = |permille, values: &[u32]| sometimes(random, permille, values);
    let mut network_faults = NetworkFaults {
        loss: sometimes(500, &[1, 10, 50, 200]),
        trim: 0,
        duplicate: sometimes(350, &[10, 100, 300]),
        late_duplicate: sometimes(250, &[10, 100]),
        late: Duration::from_us(u64::from(sometimes(1000, &[500, 5_000, 30_000]))),
        delay: sometimes(400, &[10, 200, 900]),
        delay_by: Duration::from_us(u64::from(sometimes(1000, &[1, 20, 200, 2_000]))),
        heavy_tail: sometimes(300, &[10, 100]),
        corrupt: sometimes(250, &[5, 50]),
        mark: sometimes(250, &[20, 300]),
        hint: 0,
        latency: Duration::from_ns(u64::from(sometimes(1000, &[500, 2_000, 20_000, 100_000]))),
        latency_spread: Duration::from_ns(u64::from(sometimes(500, &[100, 2_000, 50_000]))),
    };
    trim_some(seed, &mut network_faults);
    network_faults.hint = self::sometimes(&mut Random::fork(seed, HINTS), 100, &[50, 500, 1000]);
    network_faults
}

/// In one world of ten, switches trim some of the packets that would be lost.
fn trim_some(seed: u64, network_faults: &mut NetworkFaults) {
    let random = &mut Random::fork(seed, TRIMMING);
    network_faults.trim = sometimes(random, 100, &[300, 1000]);
    if network_faults.trim > 0 {
        network_faults.loss = network_faults.loss.max(random.pick(&[5, 30, 100]));
    }
}

fn draw_outages(random: &mut Random, links: &[Link], span: Duration) -> Vec<Outage> {
    let mut outages = Vec::new();
    let count = if random.chance(350) { random.range(1, 4) } else { 0 };
    for _ in 0..count {
        let link = &links[random.below(links.len() as u64) as usize];
        let begin = Instant::from_ps(random.below(span.as_ps()));
        let end = begin + Duration::from_ps(random.below(span.as_ps()) + 1);
        let turned = random.chance(500);
        let [a, b] = link.nodes;
        let (from, to) = if turned { (b, a) } else { (a, b) };
        let path = random.chance(600).then(|| random.below(u64::from(link.paths)) as u8);
        outages.push(Outage { from, to, path, begin, end });
        if random.chance(500) {
            outages.push(Outage { from: to, to: from, path, begin, end });
        }
    }
    outages
}

#[cfg(test)]
mod tests;
