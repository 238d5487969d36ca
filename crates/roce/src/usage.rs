//! Memory of a device's state, computed from the types that hold it.

use super::api::Completion;
use super::limits::Limits;
use super::queue_pair::QueuePair;
use super::resources::Resource;
use super::work::{Pending, Receive, ReceiveQueue, Send};
use fairway_device::StateSize;
use fairway_device::segment::Segment;

impl Limits {
    /// The state that a device with these limits keeps for `pairs` queue pairs. Pools count with
    /// their capacity.
    pub fn state(&self, pairs: u64) -> [StateSize; 8] {
        let line = |name, bytes, count, pooled| StateSize { name, bytes, count, pooled };
        let resources = pairs * u64::from(self.read_depth);
        [
            line("queue pair", size_of::<QueuePair>(), pairs, false),
            line("READ or atomic being served", size_of::<Resource>(), resources, false),
            line("segment", size_of::<Segment>(), u64::from(self.segments), true),
            line("receive queue", size_of::<ReceiveQueue>(), u64::from(self.receive_queues), true),
            line("send", size_of::<Send>(), u64::from(self.sends), true),
            line("receive", size_of::<Receive>(), u64::from(self.receives), true),
            line("packet not in place", size_of::<Pending>(), u64::from(self.pending), true),
            line("completion", size_of::<Completion>(), u64::from(self.completions), true),
        ]
    }
}
