//! What must hold between any two calls, checked on demand.

use super::Channel;
use crate::pool::NONE;
use crate::send_window::{ACKNOWLEDGED, LOST};
use crate::shared::Shared;

impl Channel {
    /// Recounts what is in flight.
    ///
    /// # Panics
    /// If a count is wrong: our own mistake, never a peer's.
    pub(crate) fn audit(&mut self, shared: &mut Shared) {
        let mut flight = 0;
        let (mut lost, mut lost_bytes) = (0, 0);
        let mut on_path = alloc::vec![0; self.paths.count()];
        let mut psn = self.tp.oldest;
        while psn != self.tp.next {
            let sent = *self.send.record(psn, &mut shared.send_blocks);
            if sent.is(LOST) && !sent.is(ACKNOWLEDGED) {
                lost += 1;
                lost_bytes += u64::from(sent.bytes);
            } else if !sent.is(ACKNOWLEDGED) {
                flight += u32::from(sent.bytes);
                on_path[usize::from(sent.path)] += 1;
            }
            psn = psn.next();
        }
        assert_eq!(flight, self.tp.flight, "bytes in flight");
        assert_eq!(lost_bytes, self.lost_bytes, "bytes to be resent");
        self.paths.audit(&on_path);
        let mut listed = 0;
        let mut at = self.lost.head();
        while at != NONE {
            listed += 1;
            let psn = fairway_wire::Psn::new(at);
            at = self.send.record(psn, &mut shared.send_blocks).links.next();
        }
        assert_eq!(lost, listed, "packets waiting to be resent");
        assert!(!self.credit.is_overdrawn(), "credit that was not requested");
    }
}
