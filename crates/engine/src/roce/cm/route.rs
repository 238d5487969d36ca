//! Whose a management datagram is. Many processes of a host share its queue pair 1.

use fairway_wire::roce::cm::{
    self, CommunicationId, Datagram, Disconnected, Message, Names, Reason, Refused, Reject,
    ServiceReply, ServiceStatus,
};

/// Bits of a communication id below those of the slot.
pub(super) const LOCAL_BITS: u32 = 24;

/// Whose a management datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The process of this slot: it made the name the datagram is for.
    Slot(u8),
    /// The process that offers this service.
    Service(u64),
    /// Any process's, or nobody's: it names nothing.
    Anyone,
}

/// Whose a management datagram is, from its bytes alone.
pub fn route(bytes: &[u8]) -> Route {
    let Ok(datagram) = cm::parse(bytes) else { return Route::Anyone };
    match datagram.message {
        Message::Request(request) => Route::Service(request.service),
        Message::ServiceRequest(request) => Route::Service(request.service),
        Message::Acknowledgement(message) => by_name(message.names.remote),
        Message::Reject(message) => by_name(message.names.remote),
        Message::Reply(message) => by_name(message.names.remote),
        Message::ReadyToUse(message) => by_name(message.names.remote),
        Message::Disconnect(message) => by_name(message.names.remote),
        Message::Disconnected(message) => by_name(message.names.remote),
        Message::ServiceReply(message) => by_name(message.id),
        Message::Path(message) => by_name(message.names.remote),
    }
}

fn by_name(id: CommunicationId) -> Route {
    match id {
        // A REJ of who gave up before it heard from us.
        CommunicationId(0) => Route::Anyone,
        CommunicationId(id) => Route::Slot((id >> LOCAL_BITS) as u8),
    }
}

/// The answer to a datagram that nobody takes, if it deserves one.
pub fn refuse(bytes: &[u8]) -> Option<[u8; cm::MAD_LEN]> {
    let Datagram { transaction, message } = cm::parse(bytes).ok()?;
    let message = match message {
        // 12.9.8.3: nobody listens.
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
        Message::Reply(reply) => rejection(turned(reply.names), Refused::Reply, Reason::INVALID_ID),
        // The peer believes in a connection that is no more.
        Message::ReadyToUse(ready) => {
            rejection(turned(ready.names), Refused::Other, Reason::INVALID_ID)
        }
        // Whatever connection it was, it is no more: DREQ need not be repeated.
        Message::Disconnect(disconnect) => Message::Disconnected(Disconnected {
            names: turned(disconnect.names),
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

fn turned(names: Names) -> Names {
    Names { local: names.remote, remote: names.local }
}

/// A REJ without more to say.
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
