//! Bugs that are planted on purpose, so that the tests of memory order can show that they would
//! find them.

/// A planted bug. Only builds with the feature `canary` ever act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Send an operation that overlaps a READ before that is answered.
    SendOverRead,
    /// Make the answer to a READ after later packets were placed where it reads.
    AnswerLate,
    /// Place packets before an atomic in front of them is executed.
    OvertakeAtomic,
    /// Place packets of later messages as they come.
    PlaceLaterMessages,
    /// Place the end of a message as it comes.
    PlaceEndEarly,
}

impl Canary {
    /// Every canary.
    pub const ALL: [Canary; 5] = [
        Canary::SendOverRead,
        Canary::AnswerLate,
        Canary::OvertakeAtomic,
        Canary::PlaceLaterMessages,
        Canary::PlaceEndEarly,
    ];
}
