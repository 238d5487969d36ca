//! Bugs that are injected on purpose, so that the tests of memory order can show that they would
//! find them.

/// An injected bug. Only builds with the feature `injected-bugs` ever act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
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

impl InjectedBug {
    /// Every injected bug.
    pub const ALL: [InjectedBug; 5] = [
        InjectedBug::SendOverRead,
        InjectedBug::AnswerLate,
        InjectedBug::OvertakeAtomic,
        InjectedBug::PlaceLaterMessages,
        InjectedBug::PlaceEndEarly,
    ];
}
