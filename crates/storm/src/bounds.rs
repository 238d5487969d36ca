//! The bounds of time and packets that the storm checks the protocol against.

use crate::adversary::Fault;
use crate::finding::Finding;
use crate::mail::HEAD;
use crate::plan::{Link, Plan};
use crate::world::World;
use fairway_ub::policy::CongestionSpec;
use fairway_ub::wire::Duration;
use fairway_ub::{Counters, DropReason};

/// Maximum number of needless retransmissions per packet, on average, where payload is placed soon.
const SPURIOUS: u64 = 4;

/// Bytes of headers that a congestion control counts for each packet.
const HEADER: u32 = 80;

/// Mean virtual time between ticks of an application after the network has been healed.
pub(crate) const TICK_HEALED: Duration = Duration::from_us(200);

/// Retransmissions per time-out, averaged over all time-outs of a run: one on each path.
const PER_TIMEOUT: u64 = 32;

/// Returns the virtual time within which all pending operations must finish after healing.
///
/// A sender that has backed off the furthest waits for its longest time-out; a channel whose peer
/// is gone waits for the peer to be declared dead. The factors leave room for a few rounds of each.
/// Data that is still to be sent takes its time on the wire or, where windows or slots are small,
/// one round trip per window.
pub(crate) fn timeout(plan: &Plan) -> Duration {
    let longest = plan.profiles.iter().map(|profile| {
        let timeouts = profile.timeout_max.times(12);
        let silence = profile.peer_dead.saturating_add(profile.keep_alive).times(3);
        // Where one path is left, a packet may have to be sent again by all others first, after
        // each request for credit has been.
        let paths = plan.links.iter().map(|link| u64::from(link.paths)).max().unwrap_or(1);
        let tries = if plan.last_path.is_some() { 4 * paths } else { 1 };
        let timeouts = timeouts.times(tries);
        timeouts.saturating_add(silence).saturating_add(profile.path_probe.times(4))
    });
    let bytes = operations(plan) * (plan.bytes_max + 10_000);
    let wire = plan.config.byte_time.times(bytes).saturating_add(pacing(plan, bytes));
    let (config, network_faults) = (&plan.config, &plan.network_faults);
    let one_way = network_faults.latency.saturating_add(network_faults.latency_spread);
    let round_trip = one_way.saturating_add(config.turn_delay).times(2);
    let round_trip = round_trip.saturating_add(config.placement_delay);
    longest
        .fold(Duration::from_ms(60), Duration::max)
        .saturating_add(wire)
        .saturating_add(plan.network_faults.late.max(plan.retirement.late()))
        .saturating_add(round_trip.times(rounds(plan)))
        .saturating_add(crowding(plan))
        .saturating_add(receives(plan))
        .saturating_add(missing(plan))
}

/// Time for loads and stores whose memory at the initiator is missing. Each is retried until it is
/// given up, and the 65th waits for the first.
fn missing(plan: &Plan) -> Duration {
    if plan.extras.missing == 0 || plan.extras.bypasses == 0 {
        return Duration::ZERO;
    }
    let each = plan.profiles.iter().map(|profile| {
        let retries = u64::from(profile.bypass_retries) + 1;
        profile.timeout_max.times(retries)
    });
    let longest = each.fold(Duration::ZERO, Duration::max);
    longest.times(operations(plan) / 64 + 1)
}

/// Time until enough receives are posted. Applications post them at their ticks. Where early
/// messages hold up all others, each operation waits for a receive: for the next tick, and for the
/// sender's next try.
fn receives(plan: &Plan) -> Duration {
    let delays = plan.profiles.iter().map(|profile| profile.not_ready_delay);
    let turn = plan.tick.max(TICK_HEALED).saturating_add(delays.max().unwrap_or_default());
    turn.times(operations(plan))
}

/// Time lost at a receiver that can set few packets aside while their payload is placed. It drops
/// further packets, and the rest of a window then takes a time-out for every few packets.
fn crowding(plan: &Plan) -> Duration {
    let Some(fewest) = plan.limits.iter().map(|limits| limits.withheld).min() else {
        return Duration::ZERO;
    };
    if fewest >= 64 || plan.config.late_placement == 0 {
        return Duration::ZERO;
    }
    let timeouts = plan.profiles.iter().map(|profile| profile.timeout_min);
    let longest = timeouts.fold(Duration::ZERO, Duration::max);
    let packets = plan
        .links
        .iter()
        .map(|link| (plan.bytes_max / u64::from(link.mtu)).min(plan.packets_max) + HEAD as u64);
    let most = operations(plan) * packets.max().unwrap_or_default();
    longest.times(most / u64::from(fewest))
}

/// Time that pacing adds to the time on the wire if the rate never rises above its minimum.
fn pacing(plan: &Plan, bytes: u64) -> Duration {
    let rates = plan.links.iter().flat_map(|link| &link.policies).filter_map(|policies| {
        match policies.congestion {
            CongestionSpec::Timely(timely) => Some(timely.min_bits),
            CongestionSpec::Dcqcn(dcqcn) => Some(dcqcn.min_bits),
            CongestionSpec::Backpressure(pressure) => Some(pressure.min_bits),
            CongestionSpec::Fixed { .. }
            | CongestionSpec::Swift(_)
            | CongestionSpec::Cubic(_)
            | CongestionSpec::Eqds(_)
            | CongestionSpec::Homa(_)
            | CongestionSpec::Nscc(_)
            | CongestionSpec::Hpcc(_)
            | CongestionSpec::Caqm(_) => None,
        }
    });
    let slowest = rates.min().unwrap_or(u64::MAX);
    Duration::from_ns(bytes.saturating_mul(8_000_000_000) / slowest)
}

/// Number of operations, including puts and the gets that accompany them.
fn operations(plan: &Plan) -> u64 {
    plan.operations + plan.bursts.operations() + 2 * plan.mail.puts
}

/// Number of round trips if each channel sends one window per round trip.
fn rounds(plan: &Plan) -> u64 {
    let least = plan.links.iter().map(|link| {
        let packets = (plan.bytes_max / u64::from(link.mtu)).min(plan.packets_max) + 1;
        let packets = packets.max(HEAD as u64 / u64::from(link.mtu));
        let window = link.policies.iter().map(|policies| match policies.congestion {
            CongestionSpec::Fixed { window_bytes } => window_bytes,
            CongestionSpec::Swift(swift) => swift.min_bytes,
            CongestionSpec::Cubic(cubic) => cubic.min_bytes,
            CongestionSpec::Caqm(caqm) => caqm.min_bytes,
            CongestionSpec::Timely(timely) => timely.window_bytes,
            CongestionSpec::Dcqcn(dcqcn) => dcqcn.window_bytes,
            CongestionSpec::Backpressure(pressure) => pressure.window_bytes,
            CongestionSpec::Nscc(nscc) => nscc.min_bytes,
            CongestionSpec::Hpcc(hpcc) => hpcc.min_bytes,
            CongestionSpec::Eqds(eqds) => eqds.quantum_bytes.min(eqds.window_bytes),
            CongestionSpec::Homa(homa) => homa.quantum_bytes.min(homa.window_bytes),
        });
        let window = window.min().unwrap_or_default() / u64::from(link.mtu + HEADER);
        // Two round trips per operation for waiting for slots.
        operations(plan) * (packets / window.max(1) + 2)
    });
    least.max().unwrap_or_default()
}

/// Most packets of a message that NSCC lets leave after a time-out. Its window loses only as many
/// bytes as were lost, so the next time-out may find it as wide.
fn window_after_timeout(plan: &Plan) -> u64 {
    let of_link = |link: &Link| {
        let windows = link.policies.iter().map(|policies| match policies.congestion {
            CongestionSpec::Nscc(nscc) => nscc.max_bytes,
            _ => 0,
        });
        windows.max().unwrap_or_default() / u64::from(link.mtu + HEADER)
    };
    plan.links.iter().map(of_link).max().unwrap_or_default().min(plan.packets_max)
}

/// Needless retransmissions per packet that are allowed, on average. Packets are acknowledged when
/// they have been placed. Where placement takes many round trips and ends in any order, a packet
/// that waits for it seems lost once in every few of them.
fn needless(plan: &Plan) -> u64 {
    let round_trip = plan.network_faults.latency.times(2).max(Duration::from_us(1));
    let late = plan.config.placement_delay.times(u64::from(plan.config.late_placement));
    SPURIOUS + late.as_ps() / round_trip.as_ps() / 8_000
}

/// Checks the numbers of packets sent. Each lost copy excuses one retransmission. Beyond that, a
/// packet is retransmitted needlessly at most [`needless`] times on average, plus a few at every
/// time-out of a paused peer. Acknowledgements respond to packets and probes, at most two for each.
pub(crate) fn check_packets(world: &World, plan: &Plan) -> Result<(), Finding> {
    let faults = &world.adversary.faults;
    let at_fault = [
        Fault::Loss,
        Fault::Trim,
        Fault::CorruptHeader,
        Fault::CorruptPayload,
        Fault::Partition,
        Fault::Blackhole,
        Fault::PauseOverflow,
        Fault::MissingMemory,
        Fault::DeadChannel,
    ];
    let lost: u64 = at_fault.iter().map(|fault| faults[*fault as usize]).sum();
    let mut lost = lost + world.tally.unheard;
    let copies = faults[Fault::Duplicate as usize] + faults[Fault::LateDuplicate as usize];
    for node in &world.nodes {
        // Packets that a NIC dropped before it crashed count as lost, too.
        let all: u64 = node.drops.iter().sum();
        lost += all - node.drops[DropReason::Duplicate as usize];
    }
    let mut sum = Counters::default();
    for nic in world.nodes.iter().filter_map(|node| node.nic()) {
        let counters = nic.counters();
        let all: u64 = counters.drops.iter().sum();
        lost += all - counters.dropped(DropReason::Duplicate);
        sum.data_sent += counters.data_sent;
        sum.data_resent += counters.data_resent + counters.voids_sent;
        sum.timeouts += counters.timeouts;
        sum.acks_sent += counters.acks_sent;
        sum.probes_sent += counters.probes_sent;
    }
    let per_timeout = PER_TIMEOUT.max(window_after_timeout(plan));
    let most = lost + needless(plan) * sum.data_sent + per_timeout * sum.timeouts + 200;
    if sum.data_resent > most {
        let resent = sum.data_resent;
        return Err(format!("{resent} packets were resent, for a reason {most}: {sum:?}").into());
    }
    let received = sum.data_sent + sum.data_resent + copies + sum.probes_sent;
    // A crashed node has lost its counters.
    let whole = faults[Fault::Crash as usize] == 0;
    if whole && sum.acks_sent > 2 * received + 200 {
        return Err(format!("too many acknowledgements for {received} packets: {sum:?}").into());
    }
    Ok(())
}
