//! The states of a queue pair (10.3.1).

use super::api::{Change, ChangeError, Transport};
use core::fmt;

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum QueuePairState {
    /// The queue pair was created or reset; nothing may be posted.
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive: the queue pair answers its peer.
    ReadyToReceive,
    /// Ready to send.
    ReadyToSend,
    /// Send queue drained: sends that have begun are finished, and no new ones begin.
    SendDrained,
    /// Send queue error (UC, UD): an operation failed, and those behind it were flushed. The queue
    /// pair still receives.
    SendError,
    /// Everything is flushed.
    Error,
}

impl QueuePairState {
    /// Every state, in the order of their numbers.
    pub const ALL: [QueuePairState; 7] = [
        QueuePairState::Reset,
        QueuePairState::Init,
        QueuePairState::ReadyToReceive,
        QueuePairState::ReadyToSend,
        QueuePairState::SendDrained,
        QueuePairState::SendError,
        QueuePairState::Error,
    ];

    /// True if packets of the peer are accepted.
    pub const fn receives(self) -> bool {
        matches!(
            self,
            QueuePairState::ReadyToReceive
                | QueuePairState::ReadyToSend
                | QueuePairState::SendDrained
                | QueuePairState::SendError
        )
    }

    /// True if sends may be posted (in the error states they are flushed at once).
    pub const fn takes_sends(self) -> bool {
        !matches!(
            self,
            QueuePairState::Reset | QueuePairState::Init | QueuePairState::ReadyToReceive
        )
    }

    /// True if receives may be posted (in the error state they are flushed at once).
    pub const fn takes_receives(self) -> bool {
        !matches!(self, QueuePairState::Reset)
    }

    /// The state to which `change` leads.
    ///
    /// # Errors
    /// `State`: the change is not allowed in this state.
    pub fn after(
        self,
        transport: Transport,
        change: &Change,
    ) -> Result<QueuePairState, ChangeError> {
        use QueuePairState as S;
        match (self, change) {
            (_, Change::Reset) => Ok(S::Reset),
            (_, Change::Error) => Ok(S::Error),
            (S::Reset | S::Init, Change::Init { .. }) => Ok(S::Init),
            (S::Init, Change::ReadyToReceive { .. }) => Ok(S::ReadyToReceive),
            (S::ReadyToReceive, Change::ReadyToSend { .. }) => Ok(S::ReadyToSend),
            (S::ReadyToSend, Change::Drain) => Ok(S::SendDrained),
            (S::SendDrained, Change::Resume) => Ok(S::ReadyToSend),
            // A reliable queue pair has no send queue error.
            (S::SendError, Change::Resume) if transport != Transport::Rc => Ok(S::ReadyToSend),
            (
                S::ReadyToReceive | S::ReadyToSend | S::SendDrained | S::SendError,
                Change::Adjust(_),
            ) => Ok(self),
            (
                S::Reset
                | S::Init
                | S::ReadyToReceive
                | S::ReadyToSend
                | S::SendDrained
                | S::SendError
                | S::Error,
                Change::Init { .. }
                | Change::ReadyToReceive { .. }
                | Change::ReadyToSend { .. }
                | Change::Drain
                | Change::Resume
                | Change::Adjust(_),
            ) => Err(ChangeError::State(self)),
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Missing => f.write_str("there is no such queue pair"),
            ChangeError::State(state) => {
                write!(f, "the queue pair does not allow this in the state {state:?}")
            }
            ChangeError::Parameter(name) => write!(f, "the parameter {name} is out of range"),
        }
    }
}

impl core::error::Error for ChangeError {}
