//! Where congestion controls run: called directly, on events in line, or elsewhere.

use super::{Nic, channel_at};
use crate::api::{ChannelConfig, ChannelId};
use crate::control::{
    CongestionKind, CongestionLaw, CongestionProcessor, News, ProcessorStats, stand_in,
};
use crate::names::ChannelIndex;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use fairway_policy::FlowId;
use fairway_wire::Instant;

/// Where the congestion controls of channels run that are opened from now on.
pub(super) enum Laws {
    /// The data path calls them, packet by packet.
    Direct,
    /// On events, so many of which are dealt with between two packets.
    InLine { processor: Box<CongestionProcessor>, budget: u32 },
    /// The caller runs them; those of new channels are on their way there.
    Elsewhere { news: Arc<News<CongestionKind>>, leaving: VecDeque<CongestionLaw> },
}

impl Nic {
    /// Has the congestion controls of channels that are opened from now on run on events that have
    /// come together, of which `budget` at most are dealt with between two packets; `None` has them
    /// called directly, as before this is called. To be set before channels are opened: the laws of
    /// those that are open stay as they are with the processor that is given up here.
    pub fn coalesce_congestion(&mut self, budget: Option<u32>) {
        let channels = self.shared.config.limits().channels;
        let processor = || Box::new(CongestionProcessor::new(channels));
        self.laws = match budget {
            None => Laws::Direct,
            Some(budget) => Laws::InLine { processor: processor(), budget },
        };
    }

    /// Like [`Self::coalesce_congestion`], but the laws run where the caller has them run
    /// ([`CongestionProcessor::run`]): the data path only leaves events, and reads windows, rates
    /// and credit. The law of every channel that is opened is to be fetched ([`Self::poll_law`]).
    pub fn detach_congestion(&mut self) -> CongestionProcessor {
        let channels = self.shared.config.limits().channels;
        let processor = CongestionProcessor::new(channels);
        let leaving = VecDeque::with_capacity(channels as usize);
        self.laws = Laws::Elsewhere { news: processor.news().clone(), leaving };
        processor
    }

    /// The next law that the processor of [`Self::detach_congestion`] is to adopt. Until then its
    /// channel goes by what the law says at its beginning.
    pub fn poll_law(&mut self) -> Option<CongestionLaw> {
        match &mut self.laws {
            Laws::Elsewhere { leaving, .. } => leaving.pop_front(),
            _ => None,
        }
    }

    /// What congestion controls have done on events, if they run in line.
    pub fn congestion_stats(&self) -> Option<ProcessorStats> {
        match &self.laws {
            Laws::InLine { processor, .. } => Some(*processor.stats()),
            _ => None,
        }
    }

    /// Puts a new channel's congestion control where it is to run.
    pub(super) fn place_law(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut config: ChannelConfig,
    ) -> ChannelConfig {
        let news = match &self.laws {
            Laws::Direct => return config,
            Laws::InLine { processor, .. } => processor.news(),
            Laws::Elsewhere { news, .. } => news,
        };
        let owner = (FlowId(id.index() as u32), config.mtu);
        let (stand_in, law) = stand_in(config.policy.congestion, owner, news, now);
        config.policy.congestion = Box::new(stand_in);
        match &mut self.laws {
            Laws::Direct => {}
            Laws::InLine { processor, .. } => processor.adopt(law),
            Laws::Elsewhere { leaving, .. } => leaving.push_back(law),
        }
        config
    }

    /// Has laws that run in line deal with what has come; their channels go on by what they say.
    #[inline]
    pub(super) fn run_laws(&mut self, now: Instant) {
        if matches!(self.laws, Laws::InLine { .. }) {
            self.run_laws_in_line(now);
        }
    }

    // A function of its own, because every packet passes `run_laws` and by default runs none.
    #[inline(never)]
    fn run_laws_in_line(&mut self, now: Instant) {
        let Laws::InLine { processor, budget } = &mut self.laws else { return };
        for _ in 0..*budget {
            let Some(index) = processor.run_one() else { return };
            if let Some(channel) = channel_at(&mut self.entries, ChannelIndex::of(index)) {
                channel.ask_for_credit(&mut self.shared.schedule, now);
                channel.mark_ready(&mut self.shared.schedule);
            }
        }
    }
}
