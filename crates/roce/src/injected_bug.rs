//! Injected bugs, with which the tests of memory order prove that they would find real ones.

/// An injected bug. Only builds with the feature `injected-bugs` ever act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    /// Sends an operation that overlaps a READ before the READ is answered.
    SendOverRead,
    /// Creates the answer to a READ after later packets were placed into the memory that it reads.
    AnswerLate,
    /// Places packets before an earlier atomic has been executed.
    OvertakeAtomic,
    /// Places packets of later messages as they arrive.
    PlaceLaterMessages,
    /// Places the end of a message as it arrives.
    PlaceEndEarly,
}

impl InjectedBug {
    /// All injected bugs.
    pub const ALL: [InjectedBug; 5] = [
        InjectedBug::SendOverRead,
        InjectedBug::AnswerLate,
        InjectedBug::OvertakeAtomic,
        InjectedBug::PlaceLaterMessages,
        InjectedBug::PlaceEndEarly,
    ];
}
