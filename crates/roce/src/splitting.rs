//! WRITEs that are sent as WRITEs of one packet each
//! ([`Profile::split_writes`](super::Profile::split_writes)).
//!
//! Whether a WRITE is split is decided when it is posted, so that its packets are the same when
//! they are sent again, and the messages behind it are counted as the peer counts them.

use super::api::Work;

/// WRITEs that are sent whole after a loss. Where packets come out of order, a receiver places
/// those of one WRITE at once, but keeps those of later messages in buffers.
const WHOLE_AFTER_LOSS: u32 = 1024;

/// Decides which WRITEs of a queue pair are split.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Splitting {
    /// Number of the next long WRITEs that are sent whole, because a packet was lost.
    whole: u32,
}

impl Splitting {
    /// Whether a work request of `packets` packets that is posted now is split.
    pub(crate) fn splits(&mut self, work: &Work, packets: u32) -> bool {
        let is_long = packets > 1 && matches!(work, Work::Write { immediate: None, .. });
        if is_long && self.whole > 0 {
            self.whole -= 1;
            return false;
        }
        is_long
    }

    /// Has the next WRITEs sent whole, because a packet was lost.
    pub(crate) fn note_loss(&mut self) {
        self.whole = WHOLE_AFTER_LOSS;
    }
}
