//! Bugs that are injected on purpose, so that the storm can show that it would find them.

/// An injected bug. Only builds with the feature `injected-bugs` ever act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InjectedBug {
    /// Accept a packet although it had arrived before.
    SkipDuplicateCheck,
    /// Compare sequence numbers as plain integers.
    WrapPsnEarly,
    /// Acknowledge before the payload is in place.
    AcknowledgeBeforePlacement,
    /// Never arm the retransmission timer.
    ForgetTimer,
    /// Do not give a message's slot back.
    LeakSlot,
    /// Deliver a refused SEND again after it was refused for good.
    ReviveRefused,
    /// Take packets that do not come from the channel's peer.
    TrustStrangers,
    /// Execute a strict transaction before what it has to follow.
    StrictOvertakes,
    /// Complete in-order operations at once.
    CompleteAtOnce,
    /// Complete in-order receives at once.
    ReceivesAtOnce,
    /// Do a store again when a copy of it turns up.
    StoreAgain,
    /// Do a store however late it comes.
    StoreLate,
    /// Flush an operation of a failed Jetty without saying so.
    LoseFlushed,
    /// Say that a Jetty is drained while it is not.
    DrainedEarly,
    /// Let a Jetty that leaves a group go on receiving for it.
    StayMember,
    /// Let operations pass their fences.
    IgnoreFence,
    /// Take every put as if nothing were missing before it.
    PutsOvertake,
    /// Go on placing puts whose buffer was rewound.
    PlaceRewound,
    /// Track order by channel, although a group of them carries what is ordered.
    TrackPerChannel,
    /// Let the other channels of a group live on when one ends.
    EndAlone,
    /// Give messages the receives of a Jetty in sequence as they come.
    MatchByArrival,
    /// Complete receives in sequence whatever has not been executed yet.
    ReceiveBeforeExecuted,
    /// Forget a flow that has had its turn.
    ForgetSpent,
    /// Forget a packet that was to go again as a probe.
    ForgetProbed,
    /// Count a probe that was acknowledged before it left as a loss that was none.
    RevokeProbe,
    /// Acknowledge by one channel of a group that is being closed although payload whose turn had
    /// come was dropped with another.
    CloseApart,
    /// Let a message that waits for its turn in memory order take the last receive.
    TakeAhead,
    /// Send packets that were lost in the order in which that was found.
    OldestLast,
    /// Send a message that found no receive again before all others of its flow.
    RefusedFirst,
    /// Acknowledge in memory order what may wait for an answer to an earlier Jetty of the number.
    ForgetStrict,
    /// Forget what bars later operations in memory order when its Jetty goes.
    ForgetBarring,
    /// Begin no new round of flows while messages without one are in line.
    WaitForFlowless,
    /// Keep room for puts that come after one that waits for a buffer.
    KeepRoom,
    /// Tell the receiver of a refused put only if later ones are not refused as well.
    ForgetNoted,
    /// Take an acknowledgement that comes too soon for that of a second copy, if its path was not
    /// measured; and judge later copies as [`InjectedBug::HastyCopies`] does.
    TrustNewPath,
    /// Let a flow that begins wait until all others have had their turn.
    BeginSpent,
    /// Ignore a refusal by the transaction's acknowledgement of a message that is not all sent.
    IgnoreEarlyRefusal,
    /// Judge a third copy and later ones of a packet as the first ones.
    HastyCopies,
    /// Learn nothing of round trips from packets that were sent several times, and give their later
    /// copies no time while no round trip is known.
    NeverMeasured,
    /// Call it a missing receive that a held transaction finds no record.
    BlameReceives,
    /// Request credit once, and do not repeat a request that was lost.
    AskOnce,
    /// Give an early message the last receive, although the message that is next has lost its own.
    TakeLast,
    /// Count a refusal of a message that came before others against its retries.
    CountOvertaking,
    /// Try a message that came before others again as often as any other.
    RetryAtOnce,
    /// Let a refused message that came before others wait for sixteen times to try again at most.
    RetrySoon,
    /// Place messages in memory order as they come.
    PlaceAhead,
    /// Let memory that a READ in memory order returns change before its answer has arrived.
    ReadLate,
    /// Acknowledge while payload whose turn has come is being copied.
    AcknowledgeAside,
    /// Take a datagram however often it arrives.
    RepeatDatagrams,
    /// Count a payload as placed whose memory is missing.
    PlaceNowhere,
    /// Answer a copy of a store that could not be placed as if it had been done.
    ForgetUnplaced,
    /// Keep what is known of a message that its sender has given up in the middle.
    KeepCutShort,
    /// Take a close whatever its number is.
    TrustCloses,
    /// Answer one of several paths that are probed at once.
    AnswerOneProbe,
    /// Apply what is known of receives that will never come to others, when a group ends.
    KeepSkipped,
    /// Try all refused messages that came before others again whenever the oldest has completed.
    RetryAll,
    /// Pass over a receive whose sender has given up although its message waits for its turn.
    SkipParked,
    /// End a READ that is refused while a part of its answer is being put in place.
    EndUnplaced,
    /// Wait for the pace although nothing is in flight.
    PaceIdle,
    /// Send an answer that cannot be gathered again until there is a record for its refusal.
    WaitForRecord,
    /// End a flow that has had its turn while others wait for the next round.
    EndInRound,
    /// Take credit that was not requested.
    TrustCredits,
    /// Say nothing of a message that was acknowledged and could not be executed at its turn.
    ForgetLate,
    /// Refuse such a message with a packet of one that ends by its answer.
    AnyCause,
    /// Report an unreliable message as sent although its payload is missing.
    SendNothing,
}

impl InjectedBug {
    /// Every injected bug.
    pub const ALL: [InjectedBug; 65] = [
        InjectedBug::SkipDuplicateCheck,
        InjectedBug::WrapPsnEarly,
        InjectedBug::AcknowledgeBeforePlacement,
        InjectedBug::ForgetTimer,
        InjectedBug::LeakSlot,
        InjectedBug::ReviveRefused,
        InjectedBug::TrustStrangers,
        InjectedBug::StrictOvertakes,
        InjectedBug::CompleteAtOnce,
        InjectedBug::ReceivesAtOnce,
        InjectedBug::StoreAgain,
        InjectedBug::StoreLate,
        InjectedBug::LoseFlushed,
        InjectedBug::DrainedEarly,
        InjectedBug::StayMember,
        InjectedBug::IgnoreFence,
        InjectedBug::PutsOvertake,
        InjectedBug::PlaceRewound,
        InjectedBug::TrackPerChannel,
        InjectedBug::EndAlone,
        InjectedBug::MatchByArrival,
        InjectedBug::ReceiveBeforeExecuted,
        InjectedBug::ForgetSpent,
        InjectedBug::ForgetProbed,
        InjectedBug::RevokeProbe,
        InjectedBug::CloseApart,
        InjectedBug::TakeAhead,
        InjectedBug::OldestLast,
        InjectedBug::RefusedFirst,
        InjectedBug::ForgetStrict,
        InjectedBug::ForgetBarring,
        InjectedBug::WaitForFlowless,
        InjectedBug::KeepRoom,
        InjectedBug::ForgetNoted,
        InjectedBug::TrustNewPath,
        InjectedBug::BeginSpent,
        InjectedBug::IgnoreEarlyRefusal,
        InjectedBug::HastyCopies,
        InjectedBug::NeverMeasured,
        InjectedBug::BlameReceives,
        InjectedBug::AskOnce,
        InjectedBug::TakeLast,
        InjectedBug::CountOvertaking,
        InjectedBug::RetryAtOnce,
        InjectedBug::RetrySoon,
        InjectedBug::PlaceAhead,
        InjectedBug::ReadLate,
        InjectedBug::AcknowledgeAside,
        InjectedBug::RepeatDatagrams,
        InjectedBug::PlaceNowhere,
        InjectedBug::ForgetUnplaced,
        InjectedBug::KeepCutShort,
        InjectedBug::TrustCloses,
        InjectedBug::AnswerOneProbe,
        InjectedBug::KeepSkipped,
        InjectedBug::RetryAll,
        InjectedBug::SkipParked,
        InjectedBug::EndUnplaced,
        InjectedBug::PaceIdle,
        InjectedBug::WaitForRecord,
        InjectedBug::EndInRound,
        InjectedBug::TrustCredits,
        InjectedBug::ForgetLate,
        InjectedBug::AnyCause,
        InjectedBug::SendNothing,
    ];
}
