//! The asking side.
//!
//! | state | WELCOME | ACCEPT | REJECT: stale cookie | other REJECT | no listener | time to ask again | too late |
//! |---|---|---|---|---|---|---|---|
//! | asking | confirming | — | — | refused | no listener | HELLO | timed out |
//! | confirming | — | open | asking (a few times) | refused | — | CONFIRM | timed out |
//! | done | — | — | — | — | — | — | — |

use std::net::SocketAddr;

use fairway_engine::wire::{
    Accept, CheckKey, Cna, Confirm, Duration, Endpoint, Hello, Instant, Joins, Parameters, Psn,
    Reject, RejectReason, Setup, SetupMessage, Tpn, Welcome,
};

use super::keys::{End, KeyPair, Terms};
use super::{Identity, versions};

/// The first wait for an answer; it doubles up to [`INTERVAL_MAX`].
const INTERVAL_MIN: Duration = Duration::from_ms(20);
const INTERVAL_MAX: Duration = Duration::from_ms(500);
/// How often a stale cookie sends us back to the start.
const STALE_COOKIES_MAX: u8 = 3;

/// One attempt to open a channel.
#[derive(Debug)]
pub(crate) struct Attempt {
    server: SocketAddr,
    source: Cna,
    hello: Hello,
    keys: KeyPair,
    state: State,
    ask_at: Instant,
    interval: Duration,
    deadline: Instant,
    stale_cookies: u8,
}

#[derive(Debug)]
enum State {
    Asking,
    /// The server's address for set-up, and its offer.
    Confirming(Cna, Welcome),
    Done(Outcome),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server has opened its end.
    Open {
        /// The server's node address.
        server: Cna,
        /// Its end of the channel, and what was agreed.
        accept: Accept,
    },
    /// The server will not.
    Refused(Reject),
    /// The network reports that no program listens there.
    NoListener,
    /// No answer in time.
    TimedOut,
}

/// What an attempt needs to know.
pub(crate) struct Question {
    pub(crate) server: SocketAddr,
    pub(crate) tpn: Tpn,
    pub(crate) first_psn: Psn,
    pub(crate) nonce: u64,
    /// The group that it joins.
    pub(crate) joins: Option<Joins>,
    /// No longer packets than this, whatever the identity's limits say.
    pub(crate) mtu_bytes: u16,
    pub(crate) deadline: Instant,
    /// For this channel alone.
    pub(crate) keys: KeyPair,
}

impl Attempt {
    /// Starts asking.
    pub(crate) fn new(now: Instant, identity: &Identity, question: Question) -> Self {
        let limits = identity.limits;
        let mtu_bytes = limits.mtu_bytes.min(question.mtu_bytes);
        let hello = Hello {
            versions: versions(),
            nonce: question.nonce,
            client: Endpoint {
                tpn: question.tpn,
                initial_psn: question.first_psn,
                ports: identity.ports_for(question.joins),
            },
            wish: Parameters { mtu_bytes, ..limits },
            joins: question.joins,
        };
        Attempt {
            server: question.server,
            source: identity.cna,
            hello,
            keys: question.keys,
            state: State::Asking,
            ask_at: now,
            interval: INTERVAL_MIN,
            deadline: question.deadline,
            stale_cookies: 0,
        }
    }

    /// Whom it asks.
    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// The first PSN it promised to send.
    pub(crate) fn first_psn(&self) -> Psn {
        self.hello.client.initial_psn
    }

    /// When it gives up.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The group that it joins.
    pub(crate) fn joins(&self) -> Option<Joins> {
        self.hello.joins
    }

    /// The key of the channel's header checks; `None` if the server's public key is one that gives
    /// no secret.
    pub(crate) fn check_key(&self, server: Cna, accept: &Accept) -> Option<CheckKey> {
        let tpn = self.hello.client.tpn;
        let terms = Terms {
            nonce: self.hello.nonce,
            client: End { cna: self.source, tpn, key: self.keys.public() },
            server: End { cna: server, tpn: accept.server.tpn, key: accept.key },
        };
        self.keys.agree(&accept.key, &terms)
    }

    /// How it ended, if it did.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// A set-up message came. False if it is none of this attempt's.
    pub(crate) fn handle_message(&mut self, now: Instant, from: SocketAddr, setup: &Setup) -> bool {
        // The server answers from the port that was asked, which need not be the one that was named.
        if from.ip() != self.server.ip() || setup.destination != self.source {
            return false;
        }
        match (&self.state, &setup.message) {
            (State::Asking, SetupMessage::Welcome(welcome)) if self.accepts(welcome) => {
                self.enter(now, State::Confirming(setup.source, *welcome));
            }
            (State::Confirming(_, welcome), SetupMessage::Accept(accept))
                if self.agrees(welcome, accept) =>
            {
                let server = setup.source;
                self.state = State::Done(Outcome::Open { server, accept: *accept });
            }
            (State::Asking | State::Confirming(..), SetupMessage::Reject(reject))
                if reject.nonce == self.hello.nonce =>
            {
                self.rejected(now, *reject);
            }
            _ => return self.is_about_us(&setup.message),
        }
        true
    }

    /// The next message to send, if it is time for one.
    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Setup> {
        if matches!(self.state, State::Done(_)) {
            return None;
        }
        if now.is_at_or_after(self.deadline) {
            self.state = State::Done(Outcome::TimedOut);
            return None;
        }
        if now.is_before(self.ask_at) {
            return None;
        }
        self.ask_at = now + self.interval;
        self.interval = Duration::from_ps((self.interval.as_ps() * 2).min(INTERVAL_MAX.as_ps()));
        match &self.state {
            State::Asking => Some(Setup {
                source: self.source,
                destination: Cna::default(),
                message: SetupMessage::Hello(self.hello),
            }),
            State::Confirming(server, welcome) => Some(Setup {
                source: self.source,
                destination: *server,
                message: SetupMessage::Confirm(Confirm {
                    hello: self.hello,
                    version: welcome.version,
                    cookie: welcome.cookie,
                    agreed: welcome.offer,
                    key: self.keys.public(),
                }),
            }),
            State::Done(_) => None,
        }
    }

    /// True while the server has not answered at all.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.state, State::Asking)
    }

    /// The network reports that no program listens there. It does not count once the server has
    /// answered: such a report is easily forged.
    pub(crate) fn refuse(&mut self) {
        if self.is_unanswered() {
            self.state = State::Done(Outcome::NoListener);
        }
    }

    /// When [`Attempt::poll_transmit`] has something to say or do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Done(_) => None,
            _ => Some(self.ask_at.min(self.deadline)),
        }
    }

    fn enter(&mut self, now: Instant, state: State) {
        self.state = state;
        self.ask_at = now;
        self.interval = INTERVAL_MIN;
    }

    fn rejected(&mut self, now: Instant, reject: Reject) {
        let confirming = matches!(self.state, State::Confirming(..));
        match reject.reason {
            // A stale cookie while asking is an answer to an earlier CONFIRM.
            RejectReason::StaleCookie if !confirming => {}
            RejectReason::StaleCookie if self.stale_cookies < STALE_COOKIES_MAX => {
                self.stale_cookies += 1;
                self.enter(now, State::Asking);
            }
            _ => self.state = State::Done(Outcome::Refused(reject)),
        }
    }

    /// Is this an answer to our question that gives no more than we asked for?
    fn accepts(&self, welcome: &Welcome) -> bool {
        welcome.nonce == self.hello.nonce
            && versions().agree(self.hello.versions) == Some(welcome.version)
            && welcome.offer.agree(&self.hello.wish) == welcome.offer
    }

    fn agrees(&self, welcome: &Welcome, accept: &Accept) -> bool {
        accept.nonce == self.hello.nonce
            && accept.version == welcome.version
            && accept.agreed == welcome.offer
    }

    fn is_about_us(&self, message: &SetupMessage) -> bool {
        let nonce = match message {
            SetupMessage::Welcome(welcome) => welcome.nonce,
            SetupMessage::Accept(accept) => accept.nonce,
            SetupMessage::Reject(reject) => reject.nonce,
            SetupMessage::Hello(_) | SetupMessage::Confirm(_) => return false,
        };
        nonce == self.hello.nonce
    }
}
