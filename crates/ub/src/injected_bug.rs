//! Bugs that tests inject on purpose, to show that the storm would find them.

/// An injected bug. Only builds with the feature `injected-bugs` ever act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InjectedBug {
    /// Accept a packet although it had arrived before.
    SkipDuplicateCheck,
    /// Compare sequence numbers as plain integers.
    WrapPsnEarly,
    /// Acknowledge before the payload is in place.
    AcknowledgeBeforePlacement,
    /// Carry an acknowledgement although the payload of a packet that it covers is not in place.
    CarryBeforePlacement,
    /// Never arm the retransmission timer.
    ForgetTimer,
    /// Do not free a message's slot.
    LeakSlot,
    /// Deliver a refused SEND again after it was refused for good.
    ReviveRefused,
    /// Accept packets that do not come from the channel's peer.
    TrustStrangers,
    /// Execute a strict transaction before those that it must follow.
    StrictOvertakes,
    /// Complete in-order operations at once.
    CompleteAtOnce,
    /// Complete in-order receives at once.
    ReceivesAtOnce,
    /// Execute a store again when a copy of it arrives.
    StoreAgain,
    /// Execute a store however late it comes.
    StoreLate,
    /// Flush an operation of a failed Jetty without a completion.
    LoseFlushed,
    /// Report that a Jetty is drained while it is not.
    DrainedEarly,
    /// Let a Jetty that leaves a group continue to receive for it.
    StayMember,
    /// Let operations pass their fences.
    IgnoreFence,
    /// Admit every put as if nothing were missing before it.
    PutsOvertake,
    /// Continue to place puts whose buffer was rewound.
    PlaceRewound,
    /// Track order by channel, although a group of channels carries what is ordered.
    TrackPerChannel,
    /// Let the other channels of a group continue when one ends.
    EndAlone,
    /// Check only the memory of a part of an operation, and not that of the whole.
    CheckPartAlone,
    /// Complete an operation in parts with the first part that ends.
    CompleteFirstPart,
    /// Complete an operation in parts as if no part had failed.
    ForgetFailedPart,
    /// Match the receives of a Jetty in sequence to messages in the order of arrival.
    MatchByArrival,
    /// Complete receives in sequence although earlier operations have not been executed yet.
    ReceiveBeforeExecuted,
    /// Forget a flow that has had its turn.
    ForgetSpent,
    /// Forget a packet that was to be sent again as a probe.
    ForgetProbed,
    /// Count a probe that was acknowledged before it was sent as a spurious loss.
    RevokeProbe,
    /// Send acknowledgements on one channel of a group that is being closed although payload whose
    /// turn had come was dropped with another channel.
    CloseApart,
    /// Let a message that waits for its turn in memory order consume the last receive.
    TakeAhead,
    /// Retransmit lost packets in the order in which the losses were found.
    OldestLast,
    /// Retry a message that found no receive before all others of its flow.
    RefusedFirst,
    /// Acknowledge, in memory order, a message that may wait for an answer to an earlier Jetty of
    /// the same number.
    ForgetStrict,
    /// Forget what blocks later operations in memory order when its Jetty is destroyed.
    ForgetBarring,
    /// Begin no new round of flows while messages without a flow are queued.
    WaitForFlowless,
    /// Keep room for puts that come after a put which waits for a buffer.
    KeepRoom,
    /// Report a refused put's number to the receiver only if later puts are not refused as well.
    ForgetNoted,
    /// Attribute an acknowledgement that comes too soon to a second copy, if the copy's path was
    /// not measured; and judge later copies as [`InjectedBug::HastyCopies`] does.
    TrustNewPath,
    /// Let a flow that begins wait until all others have had their turn.
    BeginSpent,
    /// Ignore a refusal in a transaction acknowledgement if its message is not sent completely.
    IgnoreEarlyRefusal,
    /// Judge the third and later copies of a packet as the first two.
    HastyCopies,
    /// Take no round-trip samples from packets that were sent several times, and give their later
    /// copies no extra time while no round trip is known.
    NeverMeasured,
    /// Report a missing receive when a deferred transaction finds no record.
    BlameReceives,
    /// Request credit once, and do not repeat a request that was lost.
    AskOnce,
    /// Give an early message the last receive, although the next message in sequence has lost its
    /// own.
    TakeLast,
    /// Count a refusal of a message that came before others against its retries.
    CountOvertaking,
    /// Retry a message that came before others as often as any other.
    RetryAtOnce,
    /// Limit the wait of a refused message that came before others to sixteen retry intervals.
    RetrySoon,
    /// Place messages in memory order as they come.
    PlaceAhead,
    /// Let memory that a READ in memory order returns change before the READ's answer has arrived.
    ReadLate,
    /// Acknowledge while payload whose turn has come is being copied.
    AcknowledgeAside,
    /// Accept a datagram however often it arrives.
    RepeatDatagrams,
    /// Count a payload as placed although its memory is missing.
    PlaceNowhere,
    /// Answer a copy of a store that could not be placed as if the store had succeeded.
    ForgetUnplaced,
    /// Keep the record of a message that its sender has given up in the middle.
    KeepCutShort,
    /// Accept a close whatever its sequence number is.
    TrustCloses,
    /// Answer only one of several paths that are probed at once.
    AnswerOneProbe,
    /// Apply records of receives that will never come to other messages, when a group ends.
    KeepSkipped,
    /// Retry all refused messages that came before others whenever the oldest has completed.
    RetryAll,
    /// Skip a receive whose sender has given up although its message waits for its turn.
    SkipParked,
    /// End a refused READ while a part of its answer is being placed.
    EndUnplaced,
    /// Wait for the pacing time although nothing is in flight.
    PaceIdle,
    /// Retransmit an answer that cannot be gathered until there is a record for its refusal.
    WaitForRecord,
    /// End a flow that has had its turn while others wait for the next round.
    EndInRound,
    /// Accept credit that was not requested.
    TrustCredits,
    /// Do not report a message that was acknowledged and could not be executed when its turn came.
    ForgetLate,
    /// Refuse a message as in [`InjectedBug::ForgetLate`] with a packet of a message that ends by
    /// its answer.
    AnyCause,
    /// Report an unreliable message as sent although its payload is missing.
    SendNothing,
    /// Ignore the last further transaction of a transaction acknowledgement.
    SkipLastExecuted,
    /// Acknowledge operations of different Jetties together, and take the numbers of one for those
    /// of another.
    JoinAnyJetty,
    /// Give a send-window block that is freed to the channel whose turn is first, not to the one
    /// that has waited for it.
    TakeFreedBlock,
    /// Let a failure that an abort reports change the state of the Jetty.
    FaultWhileAborting,
    /// Keep a receive whose sender gave up, while its payload was being placed, for a turn that has
    /// passed.
    KeepPast,
    /// Resend a trimmed packet that is not under way any more.
    ResendAnyTrimmed,
    /// Leave packets in flight on a path that probes take out of use.
    LeaveInFlight,
    /// Report congestion information again that an acknowledgement has reported.
    KeepCongestion,
    /// Repeat the WRITEs of a retired channel before the peer has ended its side.
    RepeatUnconfirmed,
    /// Answer the notice that a channel is retired, and go on accepting its packets.
    AnswerUnretired,
    /// Move what a retired channel had under way, and answer its peer, while payload of the channel
    /// is being placed.
    ForgetPlacing,
    /// Expect the last packet again that a channel received before its rest.
    RestBehind,
    /// Parts of an operation have one transaction number.
    ShareTransaction,
    /// Send keep-alive messages by the path of the policy, however long they stay unanswered.
    StayWithPath,
    /// Take a path whose packets time out for one that delivers.
    TrustTimedOut,
    /// Accept the notice of an abandoned operation although its number is too far ahead to be
    /// tracked.
    LoseAbandoned,
    /// Place the answer to a READ of an aborted Jetty.
    PlaceAborted,
    /// End the operations of an aborted Jetty in the reverse order of posting.
    AbortBackwards,
    /// Number READs and atomics that request their receives in order, although they take none.
    NumberFetches,
    /// Number the puts of a stream whose record was used for another one from 0 again.
    NumberAfresh,
    /// Issue all puts of such a stream at once.
    IssueAnew,
}

impl InjectedBug {
    /// Every injected bug.
    pub const ALL: [InjectedBug; 90] = [
        InjectedBug::SkipDuplicateCheck,
        InjectedBug::WrapPsnEarly,
        InjectedBug::AcknowledgeBeforePlacement,
        InjectedBug::CarryBeforePlacement,
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
        InjectedBug::CheckPartAlone,
        InjectedBug::CompleteFirstPart,
        InjectedBug::ForgetFailedPart,
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
        InjectedBug::SkipLastExecuted,
        InjectedBug::JoinAnyJetty,
        InjectedBug::TakeFreedBlock,
        InjectedBug::FaultWhileAborting,
        InjectedBug::KeepPast,
        InjectedBug::ResendAnyTrimmed,
        InjectedBug::LeaveInFlight,
        InjectedBug::KeepCongestion,
        InjectedBug::RepeatUnconfirmed,
        InjectedBug::AnswerUnretired,
        InjectedBug::ForgetPlacing,
        InjectedBug::RestBehind,
        InjectedBug::ShareTransaction,
        InjectedBug::StayWithPath,
        InjectedBug::TrustTimedOut,
        InjectedBug::LoseAbandoned,
        InjectedBug::PlaceAborted,
        InjectedBug::AbortBackwards,
        InjectedBug::NumberFetches,
        InjectedBug::NumberAfresh,
        InjectedBug::IssueAnew,
    ];
}
