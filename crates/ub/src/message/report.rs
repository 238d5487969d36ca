//! The completion of one operation: its content, and whether it has been reported.

use crate::api::{ChannelId, Status};

/// Whether the completion of an operation has been reported.
#[derive(Clone, Copy, Debug)]
enum State {
    /// The operation has not ended.
    Pending,
    /// The operation has ended. Its completion waits for those of earlier operations.
    Unreported(Unreported),
    /// The completion has been reported, or there is none.
    Reported,
}

/// A completion that waits for those of earlier operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreported {
    pub(crate) status: Status,
    /// Set if the transport does not need the record any more.
    pub(crate) is_released: bool,
}

/// The completion of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    /// The application's number for the operation.
    id: u64,
    /// The channel to which the operation was posted. The identifier outlives the channel.
    channel: ChannelId,
    /// Set if success is reported too.
    is_signaled: bool,
    /// Set if the operation failed, in memory order. Later operations are not reported before the
    /// target has acknowledged that it does not wait for this one.
    bars_later: bool,
    state: State,
}

impl Report {
    /// The completion of an operation that was just posted.
    pub(super) fn new(id: u64, channel: ChannelId, is_signaled: bool) -> Report {
        Report { id, channel, is_signaled, bars_later: false, state: State::Pending }
    }

    /// The report of an answer to a peer, which is not reported.
    pub(super) fn none(channel: ChannelId) -> Report {
        Report { state: State::Reported, ..Report::new(0, channel, false) }
    }

    /// The application's number for the operation.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The channel to which the operation was posted.
    #[inline]
    pub(crate) fn channel(&self) -> ChannelId {
        self.channel
    }

    /// True if success is reported too.
    pub(crate) fn is_signaled(&self) -> bool {
        self.is_signaled
    }

    /// True if the operation has not ended.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.state, State::Pending)
    }

    /// True if the completion has been reported, or there is none.
    #[inline]
    pub(crate) fn is_reported(&self) -> bool {
        matches!(self.state, State::Reported)
    }

    /// True if the record is only kept until its completion is reported.
    pub(crate) fn is_released(&self) -> bool {
        matches!(self.state, State::Unreported(Unreported { is_released: true, .. }))
    }

    /// Makes the completion wait for those of earlier operations.
    pub(crate) fn add_unreported(&mut self, status: Status) {
        self.state = State::Unreported(Unreported { status, is_released: false });
    }

    /// Ends the wait of a completion, which is to be reported at once. `None` if it does not wait.
    pub(crate) fn take_unreported_next(&mut self) -> Option<Unreported> {
        let State::Unreported(waiting) = self.state else { return None };
        self.state = State::Reported;
        Some(waiting)
    }

    /// Changes a success that waits to be reported into a failure. False if none waits.
    pub(crate) fn fail_unreported(&mut self, failure: Status) -> bool {
        match &mut self.state {
            State::Unreported(Unreported { status, .. }) if *status == Status::Success => {
                *status = failure;
                true
            }
            _ => false,
        }
    }

    /// Notes that the completion is reported.
    pub(crate) fn note_reported(&mut self) {
        self.state = State::Reported;
    }

    /// Notes that the transport does not need the record any more. True if nothing else does.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        match &mut self.state {
            State::Pending => debug_assert!(false, "a message was released before it had ended"),
            State::Unreported(waiting) => waiting.is_released = true,
            State::Reported => {}
        }
        self.is_reported()
    }

    // ---- later operations ----

    /// Sets whether completions of later operations have to wait for the target.
    pub(crate) fn set_bars_later(&mut self, bars: bool) {
        self.bars_later = bars;
    }

    /// True if completions of later operations have to wait for the target.
    pub(crate) fn bars_later(&self) -> bool {
        self.bars_later
    }

    /// Lets completions of later operations proceed. False if they did not wait.
    pub(crate) fn lift_bar(&mut self) -> bool {
        core::mem::take(&mut self.bars_later)
    }
}
