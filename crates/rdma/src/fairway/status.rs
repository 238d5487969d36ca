//! The statuses of the protocol as those of verbs.

use fairway_roce::Status;

/// Converts the status of an engine operation to that of verbs.
pub(super) fn status_of(status: fairway_ub::Status) -> Status {
    use fairway_ub::Status as S;
    match status {
        S::Success => Status::Success,
        S::RemoteAccess | S::RemoteRights => Status::RemoteAccess,
        S::RemoteLength | S::RemoteMisaligned => Status::RemoteInvalidRequest,
        S::ReceiverNotReady => Status::RnrRetryExceeded,
        // A queue pair that does not exist does not answer.
        S::RemoteNoJetty | S::TimedOut | S::PeerDead | S::PeerClosed => Status::RetryExceeded,
        S::RemoteOperation | S::RemoteResources | S::RemoteNoMailbox | S::RemoteEpoch => {
            Status::RemoteOperation
        }
        S::Flushed => Status::Flushed,
        S::LocalMemory => Status::LocalProtection,
    }
}
