//! Questions whether a queue pair is ready, and the Jetty that asks them ([`super::readiness`]).

use fairway::embed::Core;
use fairway_ub::wire::{Duration, Instant, JettyId, ServiceMode, Tag};
use fairway_ub::{
    ChannelId, Completion, CompletionQueueId, JettyConfig, LocalRange, OrderRequest, Work,
    WorkRequest,
};

use super::memory::remote;
use crate::ProviderError;

/// The Jetty that asks. Its number belongs to management, so no queue pair has it.
pub(super) const QUESTIONS: JettyId = JettyId::new(0);
/// Time between two examinations of the queue pairs with operations under way.
const INTERVAL: Duration = Duration::from_ms(20);

/// What is known about the progress of a queue pair's operations, and the readiness of its peer.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    /// True if the queue pair is in `Watched::pairs`.
    pub(super) is_watched: bool,
    /// Life of the queue pair and number of its oldest operation when they were last examined, and
    /// since when they have been the same.
    pub(super) oldest: Option<((u32, u32), Instant)>,
    /// Life of the queue pair when the question was asked that has not been answered.
    pub(super) asked: Option<u32>,
    /// Messages that have ended without a receive before it was known whether the peer is ready.
    pub(super) undecided: Vec<Completion>,
}

/// The queue pairs with operations under way.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) pairs: Vec<u32>,
    pub(super) examined_at: Option<Instant>,
}

impl Watched {
    /// Time of the next examination.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.examined_at.map(|at| at + INTERVAL)
    }
}

/// Creates the Jetty that asks.
pub(super) fn create_questions(
    core: &mut Core,
    queue: CompletionQueueId,
) -> Result<(), ProviderError> {
    let limit = |_| ProviderError::Limit("queue pairs");
    let number = Some(QUESTIONS.value());
    let jetty = JettyConfig { number, ..JettyConfig::new(queue, queue) };
    core.nic.create_jetty(&jetty).map_err(limit)?;
    core.nic.set_jetty_not_ready_retries(QUESTIONS, Some(0)).map_err(limit)
}

/// Returns a WRITE of no bytes by way of a Jetty.
pub(super) fn question(
    id: u64,
    channel: ChannelId,
    via: JettyId,
    nothing: LocalRange,
) -> WorkRequest {
    let order = OrderRequest { mode: ServiceMode::Rol, tag: Tag::No, ..OrderRequest::default() };
    let work = Work::Write { remote: remote(0, 0, via) };
    WorkRequest { id, channel, work, local: nothing, signaled: true, order }
}
