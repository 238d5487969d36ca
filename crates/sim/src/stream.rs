//! What tenants send on and on, as a scenario says it.

use fairway_engine::policy::Share;
use fairway_sandbox::Policies;

/// How the bytes of a stream come to their destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verb {
    /// The source writes them there.
    #[default]
    Write,
    /// The destination reads them.
    Read,
}

impl Verb {
    /// Both, with the names by which they are chosen.
    pub const NAMES: [(&'static str, Verb); 2] = [("write", Verb::Write), ("read", Verb::Read)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Verb::NAMES[self as usize].0
    }
}

/// A stream. Times are in picoseconds.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The host that the bytes come from.
    pub source: u32,
    /// The host that they go to.
    pub destination: u32,
    /// How.
    pub verb: Verb,
    /// Bytes of each message.
    pub bytes: u32,
    /// Messages under way at a time, at most.
    pub depth: u32,
    /// When the first may be posted.
    pub start_ps: u64,
    /// From when on none is posted any more.
    pub end_ps: u64,
    /// Megabits per second at which messages are posted, as far as `depth` lets; without, another
    /// is posted as soon as one is complete.
    pub megabits: Option<u64>,
    /// Its tenant and its weights; the default if it reads, because answers do not name streams.
    pub share: Share,
    /// When its application asks the scheduler for something, and for what.
    pub hint: Option<(u64, u64)>,
    /// Paths of its pair of hosts, if not [`super::Scenario::paths`]: the first stream of a pair
    /// that says so decides.
    pub paths: Option<u32>,
    /// Policies of its pair of hosts, if not [`super::Scenario::policy`]; likewise.
    pub policy: Option<Policies>,
}

impl Stream {
    /// The host that posts its messages.
    pub(crate) fn poster(&self) -> u32 {
        if self.verb == Verb::Read { self.destination } else { self.source }
    }

    /// The host that does not.
    pub(crate) fn peer(&self) -> u32 {
        if self.verb == Verb::Read { self.source } else { self.destination }
    }
}
