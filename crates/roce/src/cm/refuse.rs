//! Answers to datagrams for processes and services that do not exist.

use fairway_wire::roce::cm::{
    self, CommunicationId, Datagram, Disconnected, Message, Names, Reason, Refused, Reject,
    ServiceReply, ServiceStatus,
};

/// Number of unanswered requests that are remembered.
const UNANSWERED_MAX: usize = 64;

/// Refuses datagrams without a receiver, and remembers the requests that it left unanswered once.
#[derive(Clone, Debug)]
pub struct Refuser {
    /// Ring of the sender and id of each such request.
    unanswered: [Option<(u64, CommunicationId)>; UNANSWERED_MAX],
    next: usize,
}

impl Default for Refuser {
    fn default() -> Refuser {
        Refuser::new()
    }
}

impl Refuser {
    /// A refuser that has refused nothing.
    pub const fn new() -> Refuser {
        Refuser { unanswered: [None; UNANSWERED_MAX], next: 0 }
    }

    /// Returns the answer to a datagram without a receiver, if it is answered now. `from` is the
    /// sender's network address, in the caller's own numbers; `is_local` is true if it is an
    /// address of this host.
    ///
    /// The first copy of a request of this host is left unanswered; the sender repeats it soon. A
    /// program that starts to listen again, as perftest's does between its two connections, would
    /// otherwise be too late for a peer on the same host, whose request arrives at once.
    pub fn handle_datagram(
        &mut self,
        from: u64,
        is_local: bool,
        bytes: &[u8],
    ) -> Option<[u8; cm::MAD_LEN]> {
        if is_local && self.is_first(from, bytes) { None } else { refuse(bytes) }
    }

    /// True if the datagram is a request that was not seen before. It then counts as seen.
    fn is_first(&mut self, from: u64, bytes: &[u8]) -> bool {
        let name = match cm::parse(bytes) {
            Ok(Datagram { message: Message::Request(request), .. }) => request.local,
            Ok(Datagram { message: Message::ServiceRequest(request), .. }) => request.id,
            _ => return false,
        };
        let request = Some((from, name));
        if self.unanswered.contains(&request) {
            return false;
        }
        self.unanswered[self.next] = request;
        self.next = (self.next + 1) % UNANSWERED_MAX;
        true
    }
}

/// The answer to a datagram without a receiver, if there is one.
pub(super) fn refuse(bytes: &[u8]) -> Option<[u8; cm::MAD_LEN]> {
    let Datagram { transaction, message } = cm::parse(bytes).ok()?;
    let message = match message {
        // 12.9.8.3: there is no listener.
        Message::Request(request) => {
            let names = Names { local: CommunicationId(0), remote: request.local };
            rejection(names, Refused::Request, Reason::INVALID_SERVICE)
        }
        Message::ServiceRequest(request) => Message::ServiceReply(ServiceReply {
            id: request.id,
            status: ServiceStatus::UNSUPPORTED,
            queue_pair: fairway_wire::Qpn::new(0),
            service: request.service,
            q_key: 0,
            information_len: 0,
            information: [0; ServiceReply::INFORMATION_LEN],
            private: [0; ServiceReply::PRIVATE_LEN],
        }),
        Message::Reply(reply) => {
            rejection(swapped(reply.names), Refused::Reply, Reason::INVALID_ID)
        }
        // The peer's connection no longer exists.
        Message::ReadyToUse(ready) => {
            rejection(swapped(ready.names), Refused::Other, Reason::INVALID_ID)
        }
        // The connection no longer exists, so the peer need not repeat DREQ.
        Message::Disconnect(disconnect) => Message::Disconnected(Disconnected {
            names: swapped(disconnect.names),
            private: [0; Disconnected::PRIVATE_LEN],
        }),
        Message::Acknowledgement(_)
        | Message::Reject(_)
        | Message::Disconnected(_)
        | Message::ServiceReply(_)
        | Message::Path(_) => return None,
    };
    Some(cm::emit(&Datagram { transaction, message }))
}

fn swapped(names: Names) -> Names {
    Names { local: names.remote, remote: names.local }
}

/// A REJ without further information.
pub(super) fn rejection(names: Names, refused: Refused, reason: Reason) -> Message {
    Message::Reject(Reject {
        names,
        refused,
        reason,
        information_len: 0,
        information: [0; Reject::INFORMATION_LEN],
        private: [0; Reject::PRIVATE_LEN],
    })
}
