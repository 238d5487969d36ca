//! Where congestion controls run: called directly, on events in line, or elsewhere.

use super::{UbDevice, channel_at};
use crate::api::{ChannelConfig, ChannelId};
use crate::control::{
    CongestionController, CongestionKind, CongestionProcessor, ProcessorStats, ReadyQueue,
    controller_proxy,
};
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use fairway_policy::FlowId;
use fairway_wire::Instant;

/// Where the congestion controls of channels run that are opened from now on.
pub(super) enum Controllers {
    /// The data path calls them, packet by packet.
    Direct,
    /// On events, so many of which are dealt with between two packets.
    InLine { processor: Box<CongestionProcessor>, budget: u32 },
    /// The caller runs them; those of new channels are on their way there.
    Elsewhere { ready: Arc<ReadyQueue<CongestionKind>>, leaving: VecDeque<CongestionController> },
}

impl UbDevice {
    /// Has the congestion controls of channels that are opened from now on run on events that have
    /// come together, of which `budget` at most are dealt with between two packets; `None` has them
    /// called directly, as before this is called. To be set before channels are opened: the
    /// controllers of those that are open stay as they are with the processor that is given up
    /// here.
    pub fn coalesce_congestion(&mut self, budget: Option<u32>) {
        let channels = self.shared.config.limits().channels;
        let processor = || Box::new(CongestionProcessor::new(channels));
        self.controllers = match budget {
            None => Controllers::Direct,
            Some(budget) => Controllers::InLine { processor: processor(), budget },
        };
    }

    /// Like [`Self::coalesce_congestion`], but the controllers run where the caller has them run
    /// ([`CongestionProcessor::run`]): the data path only leaves events, and reads windows, rates
    /// and credit. The controller of every channel that is opened is to be fetched
    /// ([`Self::poll_controller`]).
    pub fn detach_congestion(&mut self) -> CongestionProcessor {
        let channels = self.shared.config.limits().channels;
        let processor = CongestionProcessor::new(channels);
        let leaving = VecDeque::with_capacity(channels as usize);
        self.controllers = Controllers::Elsewhere { ready: processor.ready().clone(), leaving };
        processor
    }

    /// The next controller that the processor of [`Self::detach_congestion`] is to adopt. Until
    /// then its channel goes by what the controller says at its beginning.
    pub fn poll_controller(&mut self) -> Option<CongestionController> {
        match &mut self.controllers {
            Controllers::Elsewhere { leaving, .. } => leaving.pop_front(),
            _ => None,
        }
    }

    /// What congestion controls have done on events, if they run in line.
    pub fn congestion_stats(&self) -> Option<ProcessorStats> {
        match &self.controllers {
            Controllers::InLine { processor, .. } => Some(*processor.stats()),
            _ => None,
        }
    }

    /// Puts a new channel's congestion control where it is to run.
    pub(super) fn place_controller(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut config: ChannelConfig,
    ) -> ChannelConfig {
        let ready = match &self.controllers {
            Controllers::Direct => return config,
            Controllers::InLine { processor, .. } => processor.ready(),
            Controllers::Elsewhere { ready, .. } => ready,
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

    /// Has controllers that run in line deal with what has come; their channels go on by what they
    /// say.
    #[inline]
    pub(super) fn run_controllers(&mut self, now: Instant) {
        if matches!(self.controllers, Controllers::InLine { .. }) {
            self.run_controllers_in_line(now);
        }
    }

    // A function of its own, because every packet passes `run_controllers` and by default runs
    // none.
    #[inline(never)]
    fn run_controllers_in_line(&mut self, now: Instant) {
        let Controllers::InLine { processor, budget } = &mut self.controllers else { return };
        for _ in 0..*budget {
            let Some(index) = processor.run_one() else { return };
            if let Some(channel) = channel_at(&mut self.entries, ChannelIndex::of(index)) {
                channel.ask_for_credit(&mut self.shared.schedule, now);
                channel.mark_ready(&mut self.shared.schedule);
            }
        }
    }
}
