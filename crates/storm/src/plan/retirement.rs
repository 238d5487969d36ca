//! Worlds in which channels of groups die while their groups go on.

use super::{NodeFault, Plan};
use crate::adversary::ChannelOutage;
use fairway_device::random::Random;
use fairway_ub::wire::{Duration, Instant};

/// Part of the seed that draws these worlds. It is chosen so that no seed recorded before they
/// existed (`seeds.txt`, `recorded.rs`) draws one.
pub(super) const RETIREMENT: u64 = 116_458;

/// Worlds in which channels of groups die while their groups go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retirement {
    /// Both sides of every group have agreed that it goes on without a dead channel.
    pub(crate) agreed: bool,
    /// The applications only write and read, without order, so that nothing forbids a group to go
    /// on.
    pub(crate) plain: bool,
    pub(crate) outages: Vec<ChannelOutage>,
}

impl Retirement {
    /// The time after which no packet is left of those that the outages delay.
    pub(crate) fn late(&self) -> Duration {
        self.outages.iter().map(|outage| outage.late).fold(Duration::ZERO, Duration::max)
    }
}

/// Makes three of ten worlds with groups such worlds. Peers are found dead soon there, and the time
/// with faults is long enough for that.
pub(super) fn draw(seed: u64, plan: &mut Plan) {
    let random = &mut Random::fork(seed, RETIREMENT);
    let groups: Vec<usize> =
        (0..plan.links.len()).filter(|index| plan.links[*index].channels > 1).collect();
    if groups.is_empty() || !random.chance(300) {
        return;
    }
    let keep_alive = Duration::from_us(random.pick(&[300, 1_000]));
    let peer_dead = keep_alive.times(random.range(4, 8));
    for profile in &mut plan.profiles {
        (profile.keep_alive, profile.peer_dead) = (keep_alive, peer_dead);
    }
    for fault in &mut plan.node_faults {
        // Pauses were drawn for the earlier time after which a peer is dead.
        if let NodeFault::Pause { span, .. } = fault {
            *span = (*span).min(peer_dead.times(2));
        }
    }
    let span = plan.span.max(peer_dead.times(random.range(3, 6)));
    // The number of ticks, and so the memory that applications use up, stays the same.
    plan.tick =
        Duration::from_ps(plan.tick.as_ps() / 1_000 * (span.as_ps() * 1_000 / plan.span.as_ps()));
    plan.span = span;
    plan.retirement.agreed = true;
    if random.chance(400) {
        plan.be_plain();
    }
    let span = plan.span.as_ps();
    for _ in 0..random.range(1, 3) {
        let link = random.pick(&groups);
        let begin = Instant::from_ps(random.below(span / 2) + 1);
        let lasts = match random.chance(500) {
            true => plan.span,
            false => Duration::from_ps(random.range(peer_dead.as_ps() / 2, 3 * peer_dead.as_ps())),
        };
        plan.retirement.outages.push(ChannelOutage {
            link,
            member: random.below(u64::from(plan.links[link].channels)) as u32,
            side: random.pick(&[None, None, Some(0), Some(1)]),
            begin,
            end: begin + lasts,
            lost: random.pick(&[0, 0, 300, 1000]),
            late: peer_dead.times(random.pick(&[1, 2, 4])),
        });
    }
}

impl Plan {
    /// Leaves only WRITEs and READs without order.
    fn be_plain(&mut self) {
        self.retirement.plain = true;
        (self.ordered, self.atomics, self.unreliable) = (0, 0, 0);
        (self.mail.puts, self.close) = (0, 0);
        (self.extras.bypasses, self.extras.memory_order, self.extras.missing) = (0, 0, 0);
        self.extras.untimely = 0;
    }
}
