//! Where congestion controls run: called directly, on events in line, or elsewhere.

use super::{UbDevice, channel_at};
use crate::api::{ChannelConfig, ChannelId};
use crate::control::{
    CongestionController, CongestionKind, CongestionProcessor, ProcessorStats, ReadyQueue,
    Steering, controller_proxy,
};
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use fairway_policy::FlowId;
use fairway_wire::Instant;

/// Where the congestion controls of channels opened from now on run.
pub(super) enum Controllers {
    /// The data path calls them, packet by packet.
    Direct,
    /// On events, of which at most `budget` are processed between two packets.
    InLine { processor: Box<CongestionProcessor>, budget: u32 },
    /// The caller runs them on processors, each with its own queue; `leaving` holds the controllers
    /// of new channels until the caller fetches them.
    Elsewhere {
        queues: Box<[Arc<ReadyQueue<CongestionKind>>]>,
        steering: Steering,
        leaving: VecDeque<CongestionController>,
    },
}

impl UbDevice {
    /// Makes the congestion controls of channels opened from now on run on accumulated events, of
    /// which at most `budget` are processed between two packets. With `None` they are called
    /// directly, as by default. Call this before channels are opened: the controllers of open
    /// channels stay as they are, with the processor that is dropped here.
    pub fn coalesce_congestion(&mut self, budget: Option<u32>) {
        let channels = self.shared.config.limits().channels;
        let processor = || Box::new(CongestionProcessor::new(channels));
        self.controllers = match budget {
            None => Controllers::Direct,
            Some(budget) => Controllers::InLine { processor: processor(), budget },
        };
    }

    /// Like [`Self::coalesce_congestion`], but the caller runs the controllers
    /// ([`CongestionProcessor::run`]): the data path only adds events, and reads windows, rates and
    /// credit. The caller must fetch the controller of every channel that is opened
    /// ([`Self::poll_controller`]).
    pub fn detach_congestion(&mut self) -> CongestionProcessor {
        let mut processors = self.detach_congestion_to(Steering::new(1)).into_vec();
        processors.pop().expect("one processor for one thread")
    }

    /// Like [`Self::detach_congestion`], with a processor for each thread of `steering`. A channel
    /// belongs to the processor to which `steering` assigns its index, and the processors share
    /// nothing with each other, so each may run on a thread of its own.
    pub fn detach_congestion_to(&mut self, steering: Steering) -> Box<[CongestionProcessor]> {
        let channels = self.shared.config.limits().channels;
        let processors: Box<[CongestionProcessor]> =
            (0..steering.threads()).map(|_| CongestionProcessor::new(channels)).collect();
        let queues = processors.iter().map(|processor| processor.ready().clone()).collect();
        let leaving = VecDeque::with_capacity(channels as usize);
        self.controllers = Controllers::Elsewhere { queues, steering, leaving };
        processors
    }

    /// The next controller that a processor of [`Self::detach_congestion`] has to adopt: the one of
    /// the thread to which its channel ([`CongestionController::channel`]) is steered. Until then
    /// the channel uses the controller's initial decisions.
    pub fn poll_controller(&mut self) -> Option<CongestionController> {
        match &mut self.controllers {
            Controllers::Elsewhere { leaving, .. } => leaving.pop_front(),
            _ => None,
        }
    }

    /// Statistics of congestion controls on events, if they run in line.
    pub fn congestion_stats(&self) -> Option<ProcessorStats> {
        match &self.controllers {
            Controllers::InLine { processor, .. } => Some(*processor.stats()),
            _ => None,
        }
    }

    /// Installs a new channel's congestion control where it will run.
    pub(super) fn place_controller(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut config: ChannelConfig,
    ) -> ChannelConfig {
        let ready = match &self.controllers {
            Controllers::Direct => return config,
            Controllers::InLine { processor, .. } => processor.ready(),
            Controllers::Elsewhere { queues, steering, .. } => {
                &queues[steering.thread_of(id.index() as u32) as usize]
            }
        };
        let owner = (FlowId(id.index() as u32), config.mtu);
        let (controller_proxy, controller) =
            controller_proxy(config.policy.congestion, owner, ready, now);
        config.policy.congestion = Box::new(controller_proxy);
        match &mut self.controllers {
            Controllers::Direct => {}
            Controllers::InLine { processor, .. } => processor.adopt(controller),
            Controllers::Elsewhere { leaving, .. } => leaving.push_back(controller),
        }
        config
    }

    /// Runs in-line controllers on pending events; their channels then use the new decisions.
    #[inline]
    pub(super) fn run_controllers(&mut self, now: Instant) {
        if matches!(self.controllers, Controllers::InLine { .. }) {
            self.run_controllers_in_line(now);
        }
    }

    // A separate function, because every packet passes `run_controllers`, which by default runs
    // none.
    #[inline(never)]
    fn run_controllers_in_line(&mut self, now: Instant) {
        let Controllers::InLine { processor, budget } = &mut self.controllers else { return };
        for _ in 0..*budget {
            let Some(index) = processor.run_one() else { return };
            if let Some(channel) = channel_at(&mut self.entries, ChannelIndex::of(index)) {
                channel.queue_credit_request(&mut self.shared.schedule, now);
                channel.mark_ready(&mut self.shared.schedule);
            }
        }
    }
}
