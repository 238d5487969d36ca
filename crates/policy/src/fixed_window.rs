//! A window that never changes.
//!
//! **Control law:** `window = constant`. It reacts to nothing, which is right on a dedicated link,
//! for a baseline, and to measure the cost of everything else.
//!
//! **Source:** UCCL's and RDMA hardware's "no congestion control" setting.

use crate::chunk::{chunk_bytes, packet_bytes};
use crate::{AckSample, CongestionControl, LossSample};

/// The constant window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    window_bytes: u64,
}

impl FixedWindow {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "fixed";
    /// The window if none is specified.
    pub const DEFAULT_BYTES: u64 = 2 * 1024 * 1024;

    /// Creates a window of `window_bytes`, at least one packet.
    pub fn new(window_bytes: u64, mtu_bytes: u32) -> Self {
        FixedWindow { window_bytes: window_bytes.max(packet_bytes(mtu_bytes)) }
    }
}

impl CongestionControl for FixedWindow {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn window_bytes(&self) -> u64 {
        self.window_bytes
    }

    fn on_ack(&mut self, _sample: &AckSample) {}

    fn on_loss(&mut self, _sample: &LossSample) {}

    fn chunk_bytes(&self, remaining: u64) -> u32 {
        chunk_bytes(self.window_bytes, remaining)
    }
}

#[cfg(test)]
mod tests;
