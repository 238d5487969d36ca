//! Conditions on plans, by which a search for rare circumstances skips the plans that cannot show
//! them.

use super::{NodeFault, Plan};

/// A condition on a quantity of a plan: a search skips seeds whose plan does not meet it.
///
/// Its text is a name ("not zero"), `NAME>=N` or `NAME<=N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    quantity: &'static Quantity,
    least: u64,
    most: u64,
}

/// A quantity of a plan and its name.
#[derive(Debug)]
struct Quantity {
    name: &'static str,
    of: fn(&Plan) -> u64,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.name == other.name
    }
}

impl Eq for Quantity {}

const fn quantity(name: &'static str, of: fn(&Plan) -> u64) -> Quantity {
    Quantity { name, of }
}

/// All quantities. Shares are in thousandths; for what nodes or ends of links have of their own, it
/// is the largest value, or the smallest where the name begins with `least-`.
static QUANTITIES: [Quantity; 58] = [
    quantity("nodes", |plan| plan.limits.len() as u64),
    quantity("links", |plan| plan.links.len() as u64),
    quantity("channels", |plan| {
        plan.links.iter().map(|link| link.channels).max().map_or(0, u64::from)
    }),
    quantity("paths", |plan| plan.links.iter().map(|link| link.paths).max().map_or(0, u64::from)),
    quantity("operations", |plan| plan.operations),
    quantity("bytes", |plan| plan.bytes_max),
    quantity("packets", |plan| plan.packets_max),
    quantity("jetties", |plan| u64::from(plan.jetties)),
    quantity("span-us", |plan| plan.span.as_us()),
    quantity("tick-us", |plan| plan.tick.as_us()),
    quantity("wrong", |plan| u64::from(plan.wrong)),
    quantity("unsignaled", |plan| u64::from(plan.unsignaled)),
    quantity("lazy-receives", |plan| u64::from(plan.lazy_receives)),
    quantity("deregister", |plan| u64::from(plan.deregister)),
    quantity("close", |plan| u64::from(plan.close)),
    quantity("destroy", |plan| u64::from(plan.destroy)),
    quantity("hostile", |plan| u64::from(plan.hostile)),
    quantity("ordered", |plan| u64::from(plan.ordered)),
    quantity("atomics", |plan| u64::from(plan.atomics)),
    quantity("unreliable", |plan| u64::from(plan.unreliable)),
    quantity("staging", |plan| u64::from(plan.staging)),
    quantity("bypasses", |plan| u64::from(plan.extras.bypasses)),
    quantity("states", |plan| u64::from(plan.extras.states)),
    quantity("exceptions", |plan| u64::from(plan.extras.exceptions)),
    quantity("in-sequence", |plan| u64::from(plan.extras.in_sequence)),
    quantity("memory-order", |plan| u64::from(plan.extras.memory_order)),
    quantity("to-boards", |plan| u64::from(plan.extras.to_boards)),
    quantity("missing", |plan| u64::from(plan.extras.missing)),
    quantity("untimely", |plan| u64::from(plan.extras.untimely)),
    quantity("pressure", |plan| u64::from(plan.extras.pressure)),
    quantity("puts", |plan| plan.mail.puts),
    quantity("puts-wrong", |plan| u64::from(plan.mail.wrong)),
    quantity("puts-rough", |plan| u64::from(plan.mail.rough)),
    quantity("puts-named", |plan| u64::from(plan.mail.named)),
    quantity("puts-lazy", |plan| u64::from(plan.mail.lazy)),
    quantity("loss", |plan| u64::from(plan.network_faults.loss)),
    quantity("trim", |plan| u64::from(plan.network_faults.trim)),
    quantity("waits", |plan| u64::from(plan.config.knows_waits)),
    quantity("carried-acks", |plan| u64::from(plan.carried_acks)),
    quantity("first-probes", |plan| u64::from(plan.extras.first_probes)),
    quantity("hint", |plan| u64::from(plan.network_faults.hint)),
    quantity("delay", |plan| u64::from(plan.network_faults.delay)),
    quantity("delay-us", |plan| plan.network_faults.delay_by.as_us()),
    quantity("latency-us", |plan| plan.network_faults.latency.as_us()),
    quantity("late-placement", |plan| u64::from(plan.config.late_placement)),
    quantity("placement-us", |plan| plan.config.placement_delay.as_us()),
    quantity("outages", |plan| plan.outages.len() as u64),
    quantity("channel-outages", |plan| plan.retirement.outages.len() as u64),
    quantity("last-path", |plan| u64::from(plan.last_path.is_some())),
    quantity("bursts", |plan| plan.bursts.count),
    quantity("aborts", |plan| u64::from(plan.extras.aborts)),
    quantity("one-order", |plan| u64::from(plan.extras.one_order)),
    quantity("put-streams", |plan| u64::from(plan.mail.streams)),
    quantity("resting", |plan| u64::from(plan.resting.chance)),
    quantity("plain", |plan| u64::from(plan.retirement.plain)),
    quantity("crashes", |plan| {
        let is_crash = |fault: &&NodeFault| matches!(fault, NodeFault::Crash { .. });
        plan.node_faults.iter().filter(is_crash).count() as u64
    }),
    quantity("acknowledge-every", |plan| {
        plan.profiles.iter().map(|profile| profile.acknowledge_every).max().map_or(0, u64::from)
    }),
    quantity("least-bitmap-blocks", |plan| {
        plan.limits.iter().map(|limits| limits.bitmap_blocks).min().map_or(0, u64::from)
    }),
];

impl Condition {
    /// Reads a condition. Returns `None` if the quantity is unknown or the number is none.
    pub fn parse(text: &str) -> Option<Condition> {
        let (name, least, most) = if let Some((name, least)) = text.split_once(">=") {
            (name, least.parse().ok()?, u64::MAX)
        } else if let Some((name, most)) = text.split_once("<=") {
            (name, 0, most.parse().ok()?)
        } else {
            (text, 1, u64::MAX)
        };
        let quantity = QUANTITIES.iter().find(|known| known.name == name)?;
        Some(Condition { quantity, least, most })
    }

    /// Names of the quantities that conditions may be about.
    pub fn quantities() -> impl Iterator<Item = &'static str> {
        QUANTITIES.iter().map(|quantity| quantity.name)
    }

    pub(crate) fn is_met(&self, plan: &Plan) -> bool {
        (self.least..=self.most).contains(&(self.quantity.of)(plan))
    }
}

#[cfg(test)]
mod tests;
