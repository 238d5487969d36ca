//! Worlds in which channels of groups die while their groups go on.

use super::{NodeFault, Plan};
use crate::adversary::{ChannelOutage, Damage};
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
    /// Notices of dead channels that are lost, in thousandths.
    pub(crate) lost_notices: u32,
}

impl Retirement {
    /// The time after which no packet is left of those that the outages delay.
    pub(crate) fn late(&self) -> Duration {
        let damages = self.outages.iter().flat_map(|outage| outage.damage);
        let most = damages.map(|damage| damage.late.0.saturating_add(damage.late.1));
        most.fold(Duration::ZERO, Duration::max)
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
    plan.retirement.lost_notices = random.pick(&[0, 300, 900]);
    if plan.retirement.plain && random.chance(500) {
        // Payload is often being placed when a channel dies. (With memory order, a channel sends
        // nothing while payload is copied whose turn has come, and would be found dead.)
        plan.config.late_placement = 300;
        plan.config.placement_delay = peer_dead.times(2);
    }
    for _ in 0..random.range(1, 3) {
        let link = random.pick(&groups);
        let outage = draw_outage(random, plan, link, peer_dead);
        plan.retirement.outages.push(outage);
    }
}

/// An outage of a channel in both directions, or in one. In that case some packets of the other
/// direction are late, so that only one side finds the channel dead, while packets are under way
/// that the other side would accept.
fn draw_outage(
    random: &mut Random,
    plan: &Plan,
    link: usize,
    peer_dead: Duration,
) -> ChannelOutage {
    let more = peer_dead.times(random.pick(&[1, 2, 4]));
    let late = (peer_dead.times(3).divided_by(2), more);
    let all = Damage { held: 1000, lost: random.pick(&[0, 0, 300, 1000]), late };
    let some = Damage {
        held: random.pick(&[200, 500, 800]),
        lost: random.pick(&[0, 0, 500]),
        late: (peer_dead.divided_by(4), peer_dead.times(2)),
    };
    let damage = random.pick(&[[all, all], [all, some], [some, all]]);
    let begin = Instant::from_ps(random.below(plan.span.as_ps() / 2) + 1);
    let lasts = match random.chance(600) {
        true => plan.span,
        false => Duration::from_ps(random.range(peer_dead.as_ps() / 2, 3 * peer_dead.as_ps())),
    };
    let member = random.below(u64::from(plan.links[link].channels)) as u32;
    ChannelOutage { link, member, damage, begin, end: begin + lasts }
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
