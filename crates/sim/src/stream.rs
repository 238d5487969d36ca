//! Continuous traffic of tenants, as described in a scenario.

use fairway_sandbox::Policies;
use fairway_ub::OrderRequest;
use fairway_ub::policy::Share;

/// Operation by which the bytes of a stream move to their destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// The source WRITEs the bytes to the destination.
    #[default]
    Write,
    /// The destination READs the bytes from the source.
    Read,
}

impl Verb {
    /// All variants, with their names in settings.
    pub const NAMES: [(&'static str, Verb); 2] = [("write", Verb::Write), ("read", Verb::Read)];

    /// Name of the operation in settings.
    pub fn name(self) -> &'static str {
        Verb::NAMES[self as usize].0
    }
}

/// A sequence of equal messages. Times are in picoseconds.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Host that the bytes come from.
    pub source: u32,
    /// Host that the bytes go to.
    pub destination: u32,
    /// Operation that moves the bytes.
    pub verb: Verb,
    /// Bytes of each message.
    pub bytes: u32,
    /// Maximum number of messages in flight.
    pub depth: u32,
    /// Order of its messages.
    pub order: OrderRequest,
    /// Time from which messages may be posted.
    pub start_ps: u64,
    /// Time from which no message is posted any more.
    pub end_ps: u64,
    /// Rate in megabits per second at which messages are posted, within the limit of `depth`;
    /// `None` to post the next message as soon as one completes.
    pub megabits: Option<u64>,
    /// Tenant and weights; the default for READs, because READ responses do not name streams.
    pub share: Share,
    /// Time at which its application sends a hint to the scheduler, and the hint.
    pub hint: Option<(u64, u64)>,
    /// Paths of its pair of hosts, if not [`super::Scenario::paths`]. The first stream of a pair
    /// that sets a value decides.
    pub paths: Option<u32>,
    /// Policies of its pair of hosts, if not [`super::Scenario::policy`]. The first stream of a
    /// pair that sets a value decides.
    pub policy: Option<Policies>,
}

impl Stream {
    /// The host that posts the stream's messages.
    pub(crate) fn poster(&self) -> u32 {
        if self.verb == Verb::Read { self.destination } else { self.source }
    }

    /// The other host.
    pub(crate) fn peer(&self) -> u32 {
        if self.verb == Verb::Read { self.source } else { self.destination }
    }
}
