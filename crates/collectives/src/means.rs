//! The means of a rank for messages, and what follows from them for a call.

use crate::call::Call;
use crate::rank::Protocol;

/// Number of messages into which a piece is divided, if they are long enough.
const PARTS: u64 = 4;
/// Length from which on messages are long enough, in bytes.
const LEAST_PART: u64 = 32 << 10;
/// Messages of a rank that need no slot, besides returns of slots, of which there are as many as
/// slots at most: its introduction, what it can do, and the end of the group.
const WITHOUT_SLOT: u32 = 3;

/// What each rank of a group has for the messages of each other rank. All ranks have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Number of slots, from [`Schedule::SLOTS_MIN`](crate::Schedule::SLOTS_MIN) to
    /// [`Schedule::SLOTS_MAX`](crate::Schedule::SLOTS_MAX).
    pub slots: u32,
    /// Length of a slot in bytes, a multiple of 8.
    pub slot_bytes: u32,
    /// Length of output buffers, in bytes, from which on messages go straight to their place
    /// instead of through slots.
    pub direct_from: u64,
}

impl Default for Means {
    /// 16 slots of 256 KiB, and straight to their place from 128 KiB on.
    fn default() -> Means {
        Means { slots: 16, slot_bytes: 256 << 10, direct_from: 128 << 10 }
    }
}

impl Means {
    /// Longest message of a call: short enough that several follow each other on each way, which
    /// keeps all ranks busy, and as long as a slot at most.
    pub fn message_bytes(&self, call: &Call, ranks: u32) -> u32 {
        let bytes = match call {
            Call::AllReduce { bytes, .. } => *bytes / u64::from(ranks),
            Call::ReduceScatter { pieces, .. } | Call::AllGather { pieces } => {
                pieces.iter().copied().max().unwrap_or(0)
            }
            Call::Broadcast { bytes, .. } | Call::Reduce { bytes, .. } => *bytes,
            _ => return self.slot_bytes,
        };
        let part = (bytes / PARTS).max(LEAST_PART).next_multiple_of(64);
        part.min(u64::from(self.slot_bytes)) as u32
    }

    /// How bytes reach the output buffers of a call: the same at all ranks.
    pub fn protocol(&self, call: &Call) -> Protocol {
        let bytes = match call {
            Call::AllReduce { bytes, .. } | Call::Broadcast { bytes, .. } => *bytes,
            Call::AllGather { pieces } | Call::Gather { pieces, .. } => pieces.iter().sum(),
            Call::Scatter { pieces, .. } => pieces.iter().sum(),
            _ => 0,
        };
        match bytes >= self.direct_from.max(1) {
            true => Protocol::Direct,
            false => Protocol::Staged,
        }
    }

    /// Number of receives that a rank of a group of so many needs, so that every message finds one.
    pub fn receives(&self, ranks: u32) -> u32 {
        ranks * (2 * self.slots + WITHOUT_SLOT)
    }
}
