//! Congestion controllers and path choices that were added later. They are drawn separately, so
//! that old seeds keep their policies where none of these is drawn.

use super::{Extras, Link};
use crate::recorded::is_older_than_signals;
use fairway_device::random::Random;
use fairway_ub::policy::{
    CaqmParameters, CongestionSpec, CubicParameters, DcqcnParameters, Explore, FlowletParameters,
    HpccParameters, Late, LossSpec, Memory, NsccParameters, PathSpec, PlbParameters, PolicySpec,
    PowerOfTwoParameters, ProbeSpec, RepsParameters, TimelyParameters,
};
use fairway_ub::wire::Duration;

/// In three worlds of ten, gives some ends of links a newer policy.
pub(super) fn override_some(random: &mut Random, links: &mut [Link]) {
    if !random.chance(300) {
        return;
    }
    for policies in links.iter_mut().flat_map(|link| &mut link.policies) {
        if random.chance(800) {
            policies.congestion = draw_congestion(random);
        }
        if random.chance(400) {
            policies.path = PathSpec::Plb(draw_plb(random));
        }
    }
}

/// In some worlds, gives senders a policy that needs credit, or one with a window per path. Not
/// every receiver supports credit.
pub(super) fn give_credit(random: &mut Random, links: &mut [Link], nodes: &mut [PolicySpec]) {
    if !random.chance(200) {
        return;
    }
    let spec = |text: &str| text.parse::<PolicySpec>().expect("a policy");
    let name = random.pick(&["cc=eqds", "cc=eqds:line=1Gbps", "cc=homa", "cc=backpressure"]);
    let congestion = spec(name).congestion;
    for policies in links.iter_mut().flat_map(|link| &mut link.policies) {
        if random.chance(800) {
            policies.congestion = congestion;
        }
        if random.chance(300) {
            policies.path = spec("path=mp-rdma").path;
        }
    }
    for node in nodes {
        if random.chance(700) {
            node.congestion = congestion;
        }
    }
}

/// In one world of five, makes some ends of links measure round trips by probes outside the data
/// stream.
pub(super) fn probe_some(random: &mut Random, links: &mut [Link]) {
    if !random.chance(200) {
        return;
    }
    for policies in links.iter_mut().flat_map(|link| &mut link.policies) {
        let interval = Duration::from_us(random.pick(&[2_000, 20_000]));
        policies.probe = match random.below(4) {
            0 => ProbeSpec::Off,
            1 => ProbeSpec::Periodic { interval },
            2 => ProbeSpec::Sampled { bytes: 4096 + random.magnitude(100_000) },
            _ => ProbeSpec::Anomaly { times: random.range(1, 4) as u32 },
        };
    }
}

/// In one world of four, gives some ends of links NSCC, paths that are used again as they deliver,
/// or loss detection by time.
pub(super) fn use_signals(seed: u64, links: &mut [Link]) {
    let random = &mut Random::fork(seed, 16);
    if is_older_than_signals(seed) || !random.chance(250) {
        return;
    }
    for policies in links.iter_mut().flat_map(|link| &mut link.policies) {
        if random.chance(600) {
            policies.loss = LossSpec::Rack;
        }
        if random.chance(400) {
            policies.congestion = CongestionSpec::Nscc(draw_nscc(random));
        }
        if random.chance(500) {
            let explore = random.pick(&[Explore::Bitmap, Explore::Random]);
            policies.path = match random.chance(400) {
                true => PathSpec::Bitmap,
                false => PathSpec::Reps(RepsParameters { explore, late: Late::default() }),
            };
        }
    }
}

/// In worlds with pressure, which are newer than all recorded ones, gives some ends of links paths
/// by flowlets, by the least round trip, or by the better of two with a memory.
pub(super) fn use_flowlets(seed: u64, extras: &Extras, links: &mut [Link]) {
    if extras.pressure == 0 {
        return;
    }
    let random = &mut Random::fork(seed, 17);
    for policies in links.iter_mut().flat_map(|link| &mut link.policies) {
        let gap = Duration::from_us(random.pick(&[0, 0, 5, 200]));
        policies.path = match random.below(4) {
            0 => PathSpec::LeastRoundTrip,
            1 => PathSpec::Flowlet(FlowletParameters { gap }),
            2 => PathSpec::PowerOfTwo(PowerOfTwoParameters { memory: Memory::On }),
            _ => continue,
        };
    }
}

/// Packets that the smallest windows of these worlds have at most: every time-out resends such a
/// window, and the bound on retransmissions allows for so many (`bounds.rs`).
const WINDOW_MIN_PACKETS: u64 = 32;

/// In worlds whose switches write congestion information, gives some ends of links a law that
/// follows it.
pub(super) fn follow_hints(seed: u64, hint: u32, links: &mut [Link]) {
    if hint == 0 {
        return;
    }
    let random = &mut Random::fork(seed, 19);
    for link in links {
        let least_max = WINDOW_MIN_PACKETS * u64::from(link.mtu);
        for policies in &mut link.policies {
            policies.congestion = match random.below(3) {
                0 => CongestionSpec::Caqm(draw_caqm(random, least_max)),
                1 => CongestionSpec::Hpcc(draw_hpcc(random, least_max)),
                _ => continue,
            };
        }
    }
}

fn draw_caqm(random: &mut Random, least_max: u64) -> CaqmParameters {
    let mut caqm = CaqmParameters::default();
    if random.chance(500) {
        caqm.increase_packets = random.range(1, 8);
        caqm.fast_permille = random.below(1001);
        caqm.min_bytes = random.magnitude(least_max);
        caqm.max_bytes = caqm.min_bytes + random.magnitude(1_000_000);
        caqm.initial_bytes = random.magnitude(caqm.max_bytes);
    }
    caqm
}

fn draw_hpcc(random: &mut Random, least_max: u64) -> HpccParameters {
    let mut hpcc = HpccParameters::default();
    if random.chance(500) {
        hpcc.target_permille = random.range(1, 1000);
        hpcc.stages = random.range(1, 8);
        hpcc.increase_bytes = random.magnitude(64 * 1024);
        hpcc.min_bytes = random.magnitude(least_max);
        hpcc.max_bytes = hpcc.min_bytes + random.magnitude(1_000_000);
        hpcc.initial_bytes = random.magnitude(hpcc.max_bytes);
    }
    hpcc
}

fn draw_nscc(random: &mut Random) -> NsccParameters {
    let mut nscc = NsccParameters::default();
    if random.chance(500) {
        nscc.base = Duration::from_us(random.below(200));
        nscc.target = Duration::from_us(random.below(500));
        nscc.min_bytes = random.magnitude(100_000);
        nscc.max_bytes = nscc.min_bytes + random.magnitude(1_000_000);
        nscc.initial_bytes = random.magnitude(nscc.max_bytes);
        nscc.tolerated_loss_permille = random.below(100);
    }
    nscc
}

/// Draws a congestion controller, half of the time with defaults and half with random limits.
fn draw_congestion(random: &mut Random) -> CongestionSpec {
    let plain = random.chance(500);
    match random.below(4) {
        0 => {
            let mut cubic = CubicParameters::default();
            if !plain {
                cubic.min_bytes = random.magnitude(100_000);
                cubic.max_bytes = cubic.min_bytes + random.magnitude(1_000_000);
                cubic.initial_bytes = random.magnitude(cubic.max_bytes);
                cubic.tolerated_loss_permille = random.below(100);
            }
            CongestionSpec::Cubic(cubic)
        }
        1 => {
            let mut timely = TimelyParameters::default();
            if !plain {
                timely.low = Duration::from_us(random.range(1, 100));
                timely.high = timely.low.saturating_add(Duration::from_us(random.range(1, 500)));
                timely.min_rtt = Duration::from_us(random.range(1, 50));
                timely.segment_bytes = random.magnitude(64 * 1024);
                timely.min_bits = 10_000_000 + random.magnitude(1_000_000_000);
                timely.max_bits = timely.min_bits + random.magnitude(100_000_000_000);
                timely.window_bytes = random.magnitude(1 << 21);
            }
            CongestionSpec::Timely(timely)
        }
        2 => {
            let mut dcqcn = DcqcnParameters::default();
            if !plain {
                dcqcn.min_bits = 10_000_000 + random.magnitude(1_000_000_000);
                dcqcn.line_bits = dcqcn.min_bits + random.magnitude(100_000_000_000);
                dcqcn.gain = random.pick(&[1, 2, 16, 1024]);
                dcqcn.timer = Duration::from_us(random.range(1, 300));
                dcqcn.counter_bytes = 1 + random.magnitude(1_000_000);
                dcqcn.spacing = Duration::from_us(random.below(100));
                dcqcn.window_bytes = random.magnitude(1 << 21);
            }
            CongestionSpec::Dcqcn(dcqcn)
        }
        _ => {
            let mut caqm = CaqmParameters::default();
            if !plain {
                caqm.beta_permille = random.below(1000);
                caqm.increase_packets = random.range(1, 8);
                caqm.min_bytes = random.magnitude(100_000);
                caqm.max_bytes = caqm.min_bytes + random.magnitude(1_000_000);
            }
            CongestionSpec::Caqm(caqm)
        }
    }
}

fn draw_plb(random: &mut Random) -> PlbParameters {
    let idle_rounds = random.range(1, 4);
    let rounds = idle_rounds + random.below(12);
    PlbParameters { threshold_permille: random.pick(&[1, 100, 500]), idle_rounds, rounds }
}

#[cfg(test)]
mod tests;
