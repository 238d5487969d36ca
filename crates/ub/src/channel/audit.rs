//! Consistency checks of a channel that must hold between any two calls, made on demand.

use super::Channel;
use crate::send_window::{ACKNOWLEDGED, LOST, SendBlocks};

impl Channel {
    /// Recounts the packets in flight and lost, and compares the results with the counts.
    ///
    /// # Panics
    /// If a count is wrong, which is always a bug of this implementation, never the peer's fault.
    pub(crate) fn audit(&mut self, send_blocks: &mut SendBlocks) {
        let mut flight = 0;
        let (mut lost, mut lost_bytes) = (0, 0);
        let mut on_path = alloc::vec![0; self.paths.count()];
        let mut psn = self.tp.oldest();
        while psn != self.tp.next() {
            let sent = *self.send.record(psn, send_blocks);
            if sent.is(LOST) && !sent.is(ACKNOWLEDGED) {
                lost += 1;
                lost_bytes += u64::from(sent.bytes);
            } else if !sent.is(ACKNOWLEDGED) {
                flight += u32::from(sent.bytes);
                on_path[usize::from(sent.path)] += 1;
            }
            psn = psn.next();
        }
        assert_eq!(flight, self.tp.flight(), "bytes in flight");
        self.paths.audit(&on_path);
        self.send.audit(lost, lost_bytes, send_blocks);
        assert!(!self.congestion.is_overdrawn(), "credit that was not requested");
    }
}
