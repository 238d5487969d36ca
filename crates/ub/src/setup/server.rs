//! The server's side of connection set-up. It keeps nothing until a cookie came back.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

use fairway_wire::{
    Accept, Cna, Confirm, Duration, Endpoint, Hello, Instant, KEY_LEN, Parameters, Psn, Reject,
    RejectReason, Setup, SetupMessage, Tpn, Welcome,
};

use super::cookie::{CookieJar, Subject};
use super::established::Established;
use super::identity::{Identity, versions};
use super::terms::{End, Terms};

/// Acceptances kept, so that a CONFIRM that arrives again is answered again and opens nothing.
const REMEMBERED_MAX: usize = 1024;
/// Time for which acceptances are kept, which is longer than a cookie lasts.
const REMEMBERED_FOR: Duration = Duration::from_secs(30);

/// Answers clients that request channels.
pub struct Listener {
    identity: Identity,
    jar: CookieJar,
    accepted: VecDeque<Accepted>,
}

struct Accepted {
    at: Instant,
    from: SocketAddr,
    client: Cna,
    cookie: [u8; 16],
    accept: Accept,
}

/// What the caller must do after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The caller need not do anything.
    Ignore,
    /// Send this message to the address that the received message came from. An ACCEPT repeats an
    /// earlier one: if its channel has ended, [`Listener::ended`] has the answer instead.
    Answer(Setup),
    /// Open a channel, then call [`Listener::opened`] or [`Listener::refuse`].
    Open(Opening),
}

/// A channel to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The client's address.
    pub from: SocketAddr,
    /// The client's node address.
    pub client: Cna,
    /// The client's CONFIRM.
    pub confirm: Confirm,
}

impl Opening {
    /// The server's end of the channel. `first_psn` is the first PSN that the server will send.
    pub fn established(&self, first_psn: Psn) -> Established {
        Established {
            remote: self.client,
            endpoint: self.confirm.hello.client,
            first_psn,
            agreed: self.confirm.agreed,
        }
    }
}

impl Listener {
    /// Creates a listener. `random` is the key material of the cookies.
    pub fn new(identity: Identity, random: [u8; 32]) -> Self {
        Listener { identity, jar: CookieJar::new(random), accepted: VecDeque::new() }
    }

    /// Processes a received set-up message. `mtu_bytes` is the longest payload on the way to its
    /// sender.
    pub fn handle_message(
        &mut self,
        now: Instant,
        from: SocketAddr,
        mtu_bytes: u16,
        setup: &Setup,
    ) -> Reaction {
        match &setup.message {
            SetupMessage::Hello(hello) => {
                let limits = Parameters {
                    mtu_bytes: self.identity.limits.mtu_bytes.min(mtu_bytes),
                    ..self.identity.limits
                };
                Reaction::Answer(self.welcome(now, from, setup.source, hello, &limits))
            }
            SetupMessage::Confirm(confirm) if setup.destination == self.identity.setup_cna => {
                self.confirmed(now, from, setup.source, confirm)
            }
            // The CONFIRM is meant for an earlier incarnation of this node.
            SetupMessage::Confirm(confirm) => {
                let reason = RejectReason::StaleCookie;
                Reaction::Answer(self.reject(setup.source, confirm.hello.nonce, reason))
            }
            SetupMessage::Welcome(_) | SetupMessage::Accept(_) | SetupMessage::Reject(_) => {
                Reaction::Ignore
            }
        }
    }

    /// The terms that both sides know of the channel of `opening`, with the server's number for it
    /// and the server's public key.
    pub fn terms(&self, opening: &Opening, tpn: Tpn, key: [u8; KEY_LEN]) -> Terms {
        let Confirm { hello, key: client_key, .. } = &opening.confirm;
        Terms {
            nonce: hello.nonce,
            client: End { cna: opening.client, tpn: hello.client.tpn, key: *client_key },
            server: End { cna: self.identity.cna, tpn, key },
        }
    }

    /// Returns the answer for the channel of `opening`, which is open. The answer is repeated for
    /// as long as the CONFIRM may arrive again. `key` is the server's public key for the channel.
    pub fn opened(
        &mut self,
        now: Instant,
        opening: &Opening,
        (tpn, initial_psn): (Tpn, Psn),
        key: [u8; KEY_LEN],
    ) -> Setup {
        let accept = Accept {
            version: opening.confirm.version,
            nonce: opening.confirm.hello.nonce,
            server: Endpoint {
                tpn,
                initial_psn,
                ports: self.identity.ports_for(opening.confirm.hello.joins),
            },
            agreed: opening.confirm.agreed,
            key,
        };
        if self.accepted.len() == REMEMBERED_MAX {
            self.accepted.pop_front();
        }
        self.accepted.push_back(Accepted {
            at: now,
            from: opening.from,
            client: opening.client,
            cookie: opening.confirm.cookie,
            accept,
        });
        self.accept(opening.client, accept)
    }

    /// Returns the answer to a CONFIRM that arrives again, in place of `accept`, which repeats that
    /// of a channel that has ended meanwhile. The client begins again.
    pub fn ended(&self, accept: &Setup) -> Setup {
        let nonce = match &accept.message {
            SetupMessage::Accept(accept) => accept.nonce,
            _ => 0,
        };
        self.reject(accept.destination, nonce, RejectReason::StaleCookie)
    }

    /// Returns the answer if the channel of `opening` can't be opened.
    pub fn refuse(&self, opening: &Opening, reason: RejectReason) -> Setup {
        self.reject(opening.client, opening.confirm.hello.nonce, reason)
    }

    fn welcome(
        &self,
        now: Instant,
        from: SocketAddr,
        client: Cna,
        hello: &Hello,
        limits: &Parameters,
    ) -> Setup {
        let Some(version) = versions().agree(hello.versions) else {
            return self.reject(client, hello.nonce, RejectReason::Version);
        };
        let offer = limits.agree(&hello.requested);
        if offer.fault().is_some() {
            return self.reject(client, hello.nonce, RejectReason::Parameters);
        }
        let subject = Subject { from, source: client, hello, offer: &offer };
        let welcome =
            Welcome { version, nonce: hello.nonce, cookie: self.jar.bake(now, &subject), offer };
        self.answer(client, SetupMessage::Welcome(welcome))
    }

    fn confirmed(
        &mut self,
        now: Instant,
        from: SocketAddr,
        client: Cna,
        confirm: &Confirm,
    ) -> Reaction {
        while self.accepted.front().is_some_and(|old| now.since(old.at) > REMEMBERED_FOR) {
            self.accepted.pop_front();
        }
        let again = self.accepted.iter().find(|accepted| {
            accepted.from == from
                && accepted.client == client
                && accepted.cookie == confirm.cookie
                && accepted.accept.nonce == confirm.hello.nonce
        });
        if let Some(accepted) = again {
            return Reaction::Answer(self.accept(client, accepted.accept));
        }
        let subject =
            Subject { from, source: client, hello: &confirm.hello, offer: &confirm.agreed };
        let spoken = versions().agree(confirm.hello.versions) == Some(confirm.version);
        if !spoken || !self.jar.check(now, &subject, &confirm.cookie) {
            let nonce = confirm.hello.nonce;
            return Reaction::Answer(self.reject(client, nonce, RejectReason::StaleCookie));
        }
        Reaction::Open(Opening { from, client, confirm: *confirm })
    }

    fn reject(&self, client: Cna, nonce: u64, reason: RejectReason) -> Setup {
        let reject = Reject { versions: versions(), nonce, reason };
        self.answer(client, SetupMessage::Reject(reject))
    }

    /// The answer to a client that has proven its address: it names the node's own.
    fn accept(&self, client: Cna, accept: Accept) -> Setup {
        let message = SetupMessage::Accept(accept);
        Setup { source: self.identity.cna, destination: client, message }
    }

    fn answer(&self, client: Cna, message: SetupMessage) -> Setup {
        Setup { source: self.identity.setup_cna, destination: client, message }
    }
}
