//! Shared receive queues. Each is a Jetty that no peer sends to; the Jetties of the queue pairs
//! that share it take their receives from it.

use std::collections::VecDeque;

use fairway::embed::Core;
use fairway_roce::{Event, PostError, ReceiveQueueId, ReceiveRequest};
use fairway_ub::wire::JettyId;
use fairway_ub::{JettyConfig, PostError as Refused, ReceiveRequest as EngineRequest};

use super::queue_pair::suspend;
use super::receive::remove;
use super::tables::{PAIRS_MAX, Verbs, free_place};
use crate::ProviderError;

/// Maximum number of shared receive queues of a provider.
pub(super) const SHARED_MAX: u32 = 1 << 14;

pub(super) struct Shared {
    pub(super) domain: u32,
    pub(super) users: u32,
    depth: u32,
    /// Number of remaining receives below which the owner is notified; 0 if no notification is
    /// pending.
    limit: u32,
    life: u32,
    /// Receives that were posted and have not completed, the oldest first.
    receives: VecDeque<u32>,
}

impl Shared {
    pub(super) fn receives(&self) -> &VecDeque<u32> {
        &self.receives
    }
}

/// Returns the Jetty of a shared queue. Its number is beyond those of queue pairs.
pub(super) fn jetty_of(queue: u32) -> JettyId {
    JettyId::new(PAIRS_MAX + queue)
}

impl Verbs {
    pub(super) fn create_shared(
        &mut self,
        core: &mut Core,
        domain: u32,
        depth: u32,
    ) -> Result<ReceiveQueueId, ProviderError> {
        let index = free_place(&mut self.shared) as u32;
        if index >= SHARED_MAX {
            return Err(ProviderError::Limit("shared receive queues"));
        }
        let jetty = jetty_of(index);
        let number = Some(jetty.value());
        let config =
            JettyConfig { number, ..JettyConfig::new(self.engine_queue, self.engine_queue) };
        let refused = |_| ProviderError::Limit("shared receive queues");
        core.nic.create_jetty(&config).map_err(refused)?;
        suspend(core, jetty);
        self.lives = self.lives.wrapping_add(1);
        let (life, receives) = (self.lives, VecDeque::new());
        let shared = Shared { domain, users: 0, depth, limit: 0, life, receives };
        self.shared[index as usize] = Some(shared);
        Ok(ReceiveQueueId::new(index))
    }

    pub(super) fn limit_shared(
        &mut self,
        id: ReceiveQueueId,
        limit: u32,
    ) -> Result<(), ProviderError> {
        let shared = self.shared_queue(id)?;
        if limit > shared.depth {
            return Err(ProviderError::Parameter("limit"));
        }
        shared.limit = limit;
        self.note_limit(id.index() as u32);
        Ok(())
    }

    pub(super) fn destroy_shared(
        &mut self,
        core: &mut Core,
        id: ReceiveQueueId,
    ) -> Result<(), ProviderError> {
        let shared = self.shared_queue(id)?;
        if shared.users > 0 {
            return Err(ProviderError::Busy);
        }
        let receives = std::mem::take(&mut shared.receives);
        self.shared[id.index()] = None;
        let jetty = jetty_of(id.index() as u32);
        // No queue pair uses it any more, so no message is on its way into its receives.
        let _ = core.nic.destroy_jetty(jetty);
        core.drain_events();
        for index in receives {
            self.free_receive(core, index);
        }
        Ok(())
    }

    pub(super) fn post_shared(
        &mut self,
        core: &mut Core,
        id: ReceiveQueueId,
        requests: &[ReceiveRequest],
    ) -> (usize, Option<PostError>) {
        for (count, request) in requests.iter().enumerate() {
            if let Err(error) = self.post_one_shared(core, id, request) {
                return (count, Some(error));
            }
        }
        (requests.len(), None)
    }

    fn post_one_shared(
        &mut self,
        core: &mut Core,
        id: ReceiveQueueId,
        request: &ReceiveRequest,
    ) -> Result<(), PostError> {
        let shared = self.shared_queue(id).map_err(|_| PostError::Missing)?;
        if shared.receives.len() >= shared.depth as usize {
            return Err(PostError::Full);
        }
        let (life, domain) = (shared.life, shared.domain);
        let (index, local) = match self.regions.holds(domain, &request.local) {
            // It is not known whether a datagram will arrive, whose header goes in front.
            true => self.take_receive(core, request, life, false)?,
            // The queue pair that takes this receive ends with a protection error.
            false => self.take_unusable(core, request, life)?,
        };
        let number = id.index() as u32;
        self.receives[index as usize].share(number);
        let posting = EngineRequest { id: u64::from(life) << 32 | u64::from(index), local };
        if let Err(error) = core.nic.post_receive(jetty_of(number), &posting) {
            self.free_receive(core, index);
            return Err(match error {
                Refused::CompletionQueueFull | Refused::TooManyReceives => PostError::Full,
                _ => PostError::State,
            });
        }
        if let Ok(shared) = self.shared_queue(id) {
            shared.receives.push_back(index);
        }
        Ok(())
    }

    /// Removes a completed receive from its shared queue.
    pub(super) fn take_from_shared(&mut self, queue: u32, index: u32) {
        if let Some(Some(shared)) = self.shared.get_mut(queue as usize) {
            remove(&mut shared.receives, index);
        }
        self.note_limit(queue);
    }

    fn note_limit(&mut self, queue: u32) {
        if let Some(Some(shared)) = self.shared.get_mut(queue as usize)
            && (shared.receives.len() as u32) < shared.limit
        {
            shared.limit = 0;
            self.event(Event::ReceiveLimit { queue: ReceiveQueueId::new(queue) });
        }
    }
}
