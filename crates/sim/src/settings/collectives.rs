//! Settings of collective operations: the ranks that execute them, their messages, and the experts
//! of `moe`.

use super::program::ProgramSettings;
use super::set;
use crate::error::SettingsError;
use crate::group::{Group, ROUNDS_MAX};
use crate::quantity::{bytes, count, rate};
use crate::traffic::{Collective, Moe, shuffled_hosts};
use fairway_collectives::{Means, Schedule};

/// Rate at which a rank combines elements, in megabits of one operand per second: the median of
/// `fairway_collectives::accumulate` with sums of f32, messages of 256 KiB and a buffer of 64 MiB,
/// on a core of a Xeon (f16: 13 Gb/s; copies: 64 Gb/s).
const COMBINE_MEGABITS: u64 = 64_000;

/// Settings of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CollectiveSettings {
    pub moe: Moe,
    /// Whether only the messages are simulated, and not the ranks; `None` for the stack's default.
    pub are_flows: Option<bool>,
    /// Longest message; `None` for whole pieces, or for the slot of a live rank.
    pub slot_bytes: Option<u32>,
    /// Bytes of a message before another one of its channel; `None` for those of a slot.
    turn_bytes: Option<u32>,
    slots: u32,
    direct_from: u64,
    pub rounds: u32,
    combine_megabits: u64,
    /// True if ranks are on hosts drawn at random.
    is_random: bool,
}

impl Default for CollectiveSettings {
    fn default() -> Self {
        let means = Means::default();
        CollectiveSettings {
            moe: Moe::default(),
            are_flows: None,
            slot_bytes: None,
            turn_bytes: None,
            slots: means.slots,
            direct_from: means.direct_from,
            rounds: 1,
            combine_megabits: COMBINE_MEGABITS,
            is_random: false,
        }
    }
}

impl CollectiveSettings {
    /// Returns `None` if the setting is of another kind, and `Some(None)` if the value is invalid.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Option<Option<()>> {
        Some(match name {
            "collectives" => {
                let named = [("ranks", false), ("flows", true)];
                let named = named.iter().find(|(name, _)| *name == value);
                set(&mut self.are_flows, named.map(|(_, flows)| Some(*flows)))
            }
            "placement" => {
                let named = [("order", false), ("random", true)];
                let named = named.iter().find(|(name, _)| *name == value);
                set(&mut self.is_random, named.map(|(_, random)| *random))
            }
            "slot" => {
                let fits = |bytes: &u32| *bytes >= 8 && bytes.is_multiple_of(8);
                set(&mut self.slot_bytes, bytes(value).filter(fits).map(Some))
            }
            "slots" => set(&mut self.slots, count(value, Schedule::SLOTS_MIN, Schedule::SLOTS_MAX)),
            "direct-from" => set(&mut self.direct_from, bytes(value).map(u64::from)),
            "rounds" => set(&mut self.rounds, count(value, 1, ROUNDS_MAX)),
            "combine" => set(&mut self.combine_megabits, rate(value)),
            "turn" => set(&mut self.turn_bytes, bytes(value).map(Some)),
            "tokens" => set(&mut self.moe.tokens, count(value, 1, 1 << 16)),
            "skew" => set(&mut self.moe.skew_permille, count(value, 0, 1000)),
            "experts" => {
                let pair = value
                    .split_once(':')
                    .and_then(|(all, each)| Some((count(all, 1, 4096)?, count(each, 1, 64)?)));
                let pair = pair.filter(|(all, each)| each <= all);
                set(&mut self.moe.experts, pair.map(|(all, _)| all))
                    .and_then(|()| set(&mut self.moe.each, pair.map(|(_, each)| each)))
            }
            _ => return None,
        })
    }

    /// Bytes of a message that a channel sends before another one's turn, as of live ranks if there
    /// are any; 0 for a chunk.
    pub(super) fn turn_bytes(&self, group: Option<&Group>) -> u32 {
        let slot_bytes = group.map(|group| group.means.slot_bytes).or(self.slot_bytes);
        self.turn_bytes.or(slot_bytes).unwrap_or(0)
    }

    /// The hosts of so many ranks, `each` on a host.
    pub(super) fn hosts(&self, hosts: u32, each: u32, seed: u64) -> Vec<u32> {
        let order = match self.is_random {
            true => shuffled_hosts(hosts, seed),
            false => (0..hosts).collect(),
        };
        order.into_iter().flat_map(|host| std::iter::repeat_n(host, each as usize)).collect()
    }

    /// The ranks that execute an operation of so many bytes on so many hosts.
    ///
    /// # Errors
    /// There are too few or too many of them.
    pub(super) fn group(
        &self,
        (collective, bytes): (Collective, u32),
        ranks: &ProgramSettings,
        (hosts, seed): (u32, u64),
    ) -> Result<Group, SettingsError> {
        let slot_bytes = self.slot_bytes.unwrap_or(Means::default().slot_bytes);
        let group = Group {
            collective,
            bytes,
            rounds: self.rounds,
            hosts: self.hosts(hosts, ranks.ranks_per_node, seed),
            means: Means { slots: self.slots, slot_bytes, direct_from: self.direct_from },
            host_ps: ranks.host_ps,
            copy_megabits: ranks.copy_megabits,
            combine_megabits: self.combine_megabits,
        };
        match group.has_valid_size() {
            true => Ok(group),
            false => Err(SettingsError::GroupSize { ranks: group.ranks() }),
        }
    }
}
