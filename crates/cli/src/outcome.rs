//! Why operations on a peer have failed, and what to do about each reason.

use fairway::{Context, Event, Peer, Status};

use crate::failure::Failure;

/// Reason for which an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Packets as long as set-up proved to arrive no longer do; the connection was closed.
    PathShortened,
    /// The operation completed with this status.
    Status(Status),
}

impl Reason {
    /// The reason behind the status of a completion. Takes the context's events, because a
    /// connection that has ended flushes its operations whatever has ended it.
    pub(crate) fn of(context: &Context, peer: &Peer, status: Status) -> Reason {
        Reason::among(&context.poll_events(), peer, status)
    }

    fn among(events: &[Event], peer: &Peer, status: Status) -> Reason {
        let ended =
            events.iter().filter(|event| event.peer() == Some(peer)).find_map(
                |event| match event {
                    Event::PathShortened(_) => Some(Reason::PathShortened),
                    Event::PeerDead(_) => Some(Reason::Status(Status::PeerDead)),
                    Event::PeerClosed(_) => Some(Reason::Status(Status::PeerClosed)),
                    _ => None,
                },
            );
        match status {
            Status::Flushed | Status::PeerDead | Status::PeerClosed => {
                ended.unwrap_or(Reason::Status(status))
            }
            _ => Reason::Status(status),
        }
    }

    /// What has happened, and what to do.
    pub(crate) fn text(self) -> String {
        let text = match self {
            Reason::PathShortened => {
                "the path there has become shorter, so that long packets no longer arrive: try \
                 again; the next connection finds the length that fits"
            }
            Reason::Status(Status::PeerDead) => {
                "the server no longer answers: look whether it and the network still run, and try \
                 again"
            }
            Reason::Status(Status::PeerClosed) => {
                "the server has ended the connection: look whether it was stopped, and try again"
            }
            Reason::Status(Status::Flushed) => "this side has closed the connection: try again",
            Reason::Status(Status::LocalMemory) => {
                "memory of this side is gone or can't be read: look whether this host is short of \
                 memory, and try again"
            }
            Reason::Status(
                Status::RemoteAccess
                | Status::RemoteRights
                | Status::RemoteNoJetty
                | Status::RemoteNoMailbox,
            ) => {
                "the server has released what it served, or can't access it: look whether it was \
                 stopped, and at its messages, and try again"
            }
            Reason::Status(Status::TimedOut) => {
                "it was repeated, and no copy was answered: look whether the server and the \
                 network still run, and try again"
            }
            Reason::Status(Status::ReceiverNotReady) => {
                "the server has posted no buffer for it in time: look whether it hangs"
            }
            Reason::Status(status) => {
                return format!(
                    "it ended with {status:?}: run the same release on both sides, or report it"
                );
            }
        };
        text.to_owned()
    }

    /// A failure of `what`, such as "a write of 8 bytes to 192.0.2.1:4820".
    pub(crate) fn failure(self, what: &str) -> Failure {
        Failure::failed(format!("{what} failed: {}", self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    #[test]
    fn event_that_ended_a_connection_is_the_reason() {
        let context = || {
            let builder = Context::builder().bind(Ipv4Addr::LOCALHOST.into());
            builder.buffer_bytes(1 << 20).build().expect("a context")
        };
        let (server, client) = (context(), context());
        let timeout = Duration::from_secs(60);
        let peer = client.connect(server.local_addrs()[0], timeout).expect("a connection");
        let other = server.wait_event(timeout).expect("an event");
        let other = other.peer().expect("the client").clone();
        let shortened = [Event::PeerClosed(other), Event::PathShortened(peer.clone())];
        let among = |status| Reason::among(&shortened, &peer, status);
        assert_eq!(among(Status::Flushed), Reason::PathShortened);
        assert_eq!(among(Status::LocalMemory), Reason::Status(Status::LocalMemory));
        let closed = [Event::PeerClosed(peer.clone())];
        let found = Reason::among(&closed, &peer, Status::Flushed);
        assert_eq!(found, Reason::Status(Status::PeerClosed));
        let flushed = Reason::among(&[], &peer, Status::Flushed);
        assert_eq!(flushed, Reason::Status(Status::Flushed));
    }

    #[test]
    fn every_reason_has_a_remedy() {
        let statuses = [
            Status::RemoteAccess,
            Status::RemoteLength,
            Status::TimedOut,
            Status::ReceiverNotReady,
            Status::PeerDead,
            Status::PeerClosed,
            Status::Flushed,
            Status::LocalMemory,
        ];
        let reasons = statuses.map(Reason::Status).into_iter().chain([Reason::PathShortened]);
        for reason in reasons {
            let text = reason.text();
            let (_, remedy) = text.split_once(": ").expect("a remedy");
            assert!(["try", "look", "run"].iter().any(|word| remedy.starts_with(word)), "{text}");
        }
    }
}
