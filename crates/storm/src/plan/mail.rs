//! Amount and kind of mailbox traffic in a world.

use fairway_device::random::Random;

/// Amount and kind of mailbox traffic in a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MailPlan {
    pub(crate) puts: u64,
    /// Bytes of a buffer reserved for one put, where senders choose offsets.
    pub(crate) slot: u32,
    /// Probabilities in thousandths.
    pub(crate) wrong: u32,
    pub(crate) rough: u32,
    pub(crate) named: u32,
    pub(crate) ordered: u32,
    pub(crate) lazy: u32,
    /// Number of records for streams of puts, on each side.
    pub(crate) streams: u32,
}

impl MailPlan {
    pub(crate) fn draw(seed: u64) -> MailPlan {
        let mut random = Random::fork(seed, 9);
        let mut sometimes = |permille, values: &[u32]| {
            let value = random.pick(values);
            if random.chance(permille) { value } else { 0 }
        };
        let puts = u64::from(sometimes(400, &[3, 21, 42, 60]));
        MailPlan {
            puts,
            slot: [64, 64, 300, 3_000][puts as usize % 4],
            wrong: sometimes(400, &[20, 200]),
            rough: sometimes(400, &[60, 300]),
            named: sometimes(400, &[100, 500]),
            ordered: sometimes(300, &[200, 800]),
            lazy: sometimes(500, &[300, 900]),
            streams: 64 - sometimes(200, &[40, 60, 63]),
        }
    }
}
