//! The client's side of connection set-up.
//!
//! | state | WELCOME, long | WELCOME, short | ACCEPT | REJECT: stale cookie | other REJECT | no listener | retry timer | deadline |
//! |---|---|---|---|---|---|---|---|---|
//! | requesting | confirming | searching | — | — | refused | no listener | HELLO, later a short one, too | timed out |
//! | searching | confirming, if it is the longest | — | — | — | refused | — | HELLOs of several lengths; confirming, if it was long enough | timed out |
//! | confirming | — | — | open | requesting (a few times) | refused | — | CONFIRM | timed out |
//! | done | — | — | — | — | — | — | — | — |
//!
//! The module `ladder` explains the search. A client that need not search sends short HELLOs, and
//! treats their answers as answers to long ones.

use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;

use fairway_wire::{
    Accept, Cna, Confirm, Duration, Endpoint, Hello, Instant, Joins, KEY_LEN, PADDED_HELLOS,
    Parameters, Psn, Reject, RejectReason, SETUP_LEN, Setup, SetupMessage, Tpn, Welcome,
};

use super::established::Established;
use super::identity::{Identity, versions};
use super::ladder::{HelloLength, Offer, Search};
use super::lengths::packet_length;
use super::padded::Padded;
use super::terms::{End, Terms};

/// The first wait for an answer; it doubles up to [`INTERVAL_MAX`].
const INTERVAL_MIN: Duration = Duration::from_ms(20);
const INTERVAL_MAX: Duration = Duration::from_ms(500);
/// How often a stale cookie sends the client back to the start.
const STALE_COOKIES_MAX: u8 = 3;
/// HELLOs of an attempt differ in their nonces, which answers repeat: the nonce of a long HELLO is
/// the attempt's with the MTU mixed in, that of a short HELLO has this bit as well.
const SHORT: u64 = 1 << 16;

/// One attempt to open a channel.
#[derive(Debug)]
pub struct Attempt {
    server: SocketAddr,
    source: Cna,
    /// The first HELLO; the others differ in nonce and MTU.
    hello: Hello,
    /// True if long HELLOs are sent.
    searches: bool,
    /// Number of times that the client has sent its messages in this state.
    attempts: u32,
    /// The client's public key.
    key: [u8; KEY_LEN],
    state: State,
    send_at: Instant,
    interval: Duration,
    deadline: Instant,
    stale_cookies: u8,
}

#[derive(Debug)]
enum State {
    Requesting,
    Searching(Search),
    Confirming(Offer),
    Done(Outcome),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server has opened its end.
    Open {
        /// The server's node address.
        server: Cna,
        /// The server's end of the channel, and the agreed parameters.
        accept: Accept,
    },
    /// The server refuses.
    Refused(Reject),
    /// The network reports that no program listens there.
    NoListener,
    /// No answer in time.
    TimedOut,
}

/// The parameters of an attempt.
pub struct OpenRequest {
    /// The server's address.
    pub server: SocketAddr,
    /// The client's number for the channel.
    pub tpn: Tpn,
    /// The first PSN that the client will send.
    pub first_psn: Psn,
    /// A random number by which answers are recognized.
    pub nonce: u64,
    /// The group that the channel joins.
    pub joins: Option<Joins>,
    /// The longest payload of a packet in bytes, if the identity's limits allow as much.
    pub mtu_bytes: u16,
    /// When the attempt gives up.
    pub deadline: Instant,
    /// The public key of a key pair that the client generated for this channel alone.
    pub key: [u8; KEY_LEN],
}

impl Attempt {
    /// Starts an attempt.
    pub fn new(now: Instant, identity: &Identity, request: OpenRequest) -> Self {
        let limits = identity.limits;
        let mtu_bytes = limits.mtu_bytes.min(request.mtu_bytes);
        let hello = Hello {
            versions: versions(),
            nonce: request.nonce,
            client: Endpoint {
                tpn: request.tpn,
                initial_psn: request.first_psn,
                ports: identity.ports_for(request.joins),
            },
            requested: Parameters { mtu_bytes, ..limits },
            joins: request.joins,
        };
        Attempt {
            server: request.server,
            source: identity.cna,
            hello,
            // A channel that joins a group has the MTU of the group's first channel, which is
            // proven.
            searches: request.joins.is_none() && packet_length(mtu_bytes) > SETUP_LEN,
            attempts: 0,
            key: request.key,
            state: State::Requesting,
            send_at: now,
            interval: INTERVAL_MIN,
            deadline: request.deadline,
            stale_cookies: 0,
        }
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Time at which the attempt gives up.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The group that the channel joins.
    pub fn joins(&self) -> Option<Joins> {
        self.hello.joins
    }

    /// The terms that both sides know of the channel that `server` has opened, for the key of its
    /// header checks.
    pub fn terms(&self, server: Cna, accept: &Accept) -> Terms {
        Terms {
            nonce: accept.nonce,
            client: End { cna: self.source, tpn: self.hello.client.tpn, key: self.key },
            server: End { cna: server, tpn: accept.server.tpn, key: accept.key },
        }
    }

    /// The client's end of the channel that `server` has opened.
    pub fn established(&self, server: Cna, accept: &Accept) -> Established {
        Established {
            remote: server,
            endpoint: accept.server,
            first_psn: self.hello.client.initial_psn,
            agreed: accept.agreed,
        }
    }

    /// How the attempt ended, if it did.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Processes a received set-up message. False if it does not belong to this attempt.
    pub fn handle_message(&mut self, now: Instant, from: SocketAddr, setup: &Setup) -> bool {
        // The server answers from the port that received the message, which need not be the one
        // that was named.
        if from.ip() != self.server.ip() || setup.destination != self.source {
            return false;
        }
        match (&self.state, &setup.message) {
            (State::Requesting | State::Searching(_), SetupMessage::Welcome(welcome)) => match self
                .answered_hello(welcome)
            {
                Some(length) => {
                    self.offered(now, Offer { length, server: setup.source, welcome: *welcome });
                }
                None => return self.is_about_us(&setup.message),
            },
            (State::Confirming(offer), SetupMessage::Accept(accept))
                if agrees(&offer.welcome, accept) =>
            {
                let server = setup.source;
                self.state = State::Done(Outcome::Open { server, accept: *accept });
            }
            (State::Done(_), _) => return self.is_about_us(&setup.message),
            (_, SetupMessage::Reject(reject)) if self.is_ours(reject.nonce) => {
                self.rejected(now, *reject);
            }
            _ => return self.is_about_us(&setup.message),
        }
        true
    }

    /// The messages to send, if any are due.
    pub fn poll_transmit(&mut self, now: Instant) -> Vec<Padded> {
        if matches!(self.state, State::Done(_)) {
            return Vec::new();
        }
        if now.is_at_or_after(self.deadline) {
            self.state = State::Done(Outcome::TimedOut);
            return Vec::new();
        }
        if let State::Searching(search) = &self.state
            && let Some(offer) = search.decided(now)
        {
            self.enter(now, State::Confirming(offer));
        }
        if now.is_before(self.send_at) {
            return Vec::new();
        }
        self.send_at = now + self.interval;
        self.interval = Duration::from_ps((self.interval.as_ps() * 2).min(INTERVAL_MAX.as_ps()));
        self.attempts = self.attempts.saturating_add(1);
        match &self.state {
            State::Requesting if !self.searches => vec![self.hello_message(HelloLength::Short)],
            State::Requesting => {
                let long = self.hello_message(HelloLength::Long(self.hello.requested.mtu_bytes));
                let short = (self.attempts > 1).then(|| self.hello_message(HelloLength::Short));
                [long].into_iter().chain(short).collect()
            }
            State::Searching(search) => {
                search.candidates().map(|mtu| self.hello_message(HelloLength::Long(mtu))).collect()
            }
            State::Confirming(offer) => vec![self.confirmation(offer)],
            State::Done(_) => Vec::new(),
        }
    }

    /// The HELLO for an MTU, which has a nonce of its own.
    fn hello_message(&self, length: HelloLength) -> Padded {
        let hello = self.hello_of(length);
        let message = SetupMessage::Hello(hello);
        let setup = Setup { source: self.source, destination: Cna::default(), message };
        match length {
            HelloLength::Short => Padded::short(setup),
            HelloLength::Long(mtu) => Padded::to_mtu(setup, mtu),
        }
    }

    fn hello_of(&self, length: HelloLength) -> Hello {
        let (bit, mtu_bytes) = match length {
            HelloLength::Short => (SHORT, self.hello.requested.mtu_bytes),
            HelloLength::Long(mtu) => (0, mtu),
        };
        let nonce = self.hello.nonce ^ bit ^ u64::from(mtu_bytes);
        Hello { nonce, requested: Parameters { mtu_bytes, ..self.hello.requested }, ..self.hello }
    }

    fn confirmation(&self, offer: &Offer) -> Padded {
        let Offer { length, server, welcome } = offer;
        Padded::short(Setup {
            source: self.source,
            destination: *server,
            message: SetupMessage::Confirm(Confirm {
                hello: self.hello_of(*length),
                version: welcome.version,
                cookie: welcome.cookie,
                agreed: welcome.offer,
                key: self.key,
            }),
        })
    }

    /// True while the server has not answered at all.
    pub fn is_unanswered(&self) -> bool {
        matches!(self.state, State::Requesting)
    }

    /// Processes the network's report that no program listens at the server's port. It does not
    /// count once the server has answered, because such a report is easily forged.
    pub fn handle_no_listener(&mut self) {
        if self.is_unanswered() {
            self.state = State::Done(Outcome::NoListener);
        }
    }

    /// Time at which [`Attempt::poll_transmit`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.state {
            State::Done(_) => None,
            State::Searching(_) => {
                let decide_at = self.decide_at().unwrap_or(self.deadline);
                Some(self.send_at.min(self.deadline).min(decide_at))
            }
            _ => Some(self.send_at.min(self.deadline)),
        }
    }

    fn enter(&mut self, now: Instant, state: State) {
        self.state = state;
        self.send_at = now;
        self.interval = INTERVAL_MIN;
        self.attempts = 0;
    }

    fn decide_at(&self) -> Option<Instant> {
        match &self.state {
            State::Searching(search) => search.decide_at(),
            _ => None,
        }
    }

    /// Processes a server's offer of a channel.
    fn offered(&mut self, now: Instant, offer: Offer) {
        let parameters = offer.welcome.offer;
        let searches = self.searches && parameters.capabilities & PADDED_HELLOS != 0;
        match (&mut self.state, offer.length) {
            (State::Requesting, HelloLength::Short) if searches => {
                let search = Search::new(now, parameters.mtu_bytes);
                self.enter(now, State::Searching(search));
            }
            (State::Requesting, _) => self.enter(now, State::Confirming(offer)),
            (State::Searching(search), HelloLength::Long(_)) => {
                search.take(now, self.deadline, offer);
                if let Some(offer) = search.decided(now) {
                    self.enter(now, State::Confirming(offer));
                }
            }
            (State::Searching(_), HelloLength::Short)
            | (State::Confirming(_) | State::Done(_), _) => {}
        }
    }

    fn rejected(&mut self, now: Instant, reject: Reject) {
        let confirming = matches!(self.state, State::Confirming(..));
        match reject.reason {
            // A REJECT for a stale cookie in state `Requesting` answers an earlier CONFIRM.
            RejectReason::StaleCookie if !confirming => {}
            RejectReason::StaleCookie if self.stale_cookies < STALE_COOKIES_MAX => {
                self.stale_cookies += 1;
                self.enter(now, State::Requesting);
            }
            _ => self.state = State::Done(Outcome::Refused(reject)),
        }
    }

    /// The HELLO that a WELCOME answers, if it grants no more than was requested.
    fn answered_hello(&self, welcome: &Welcome) -> Option<HelloLength> {
        let mixed = welcome.nonce ^ self.hello.nonce;
        let long = u16::try_from(mixed & !SHORT).ok()?;
        let length = if mixed & SHORT == 0 { HelloLength::Long(long) } else { HelloLength::Short };
        let hello = self.hello_of(length);
        let accepts = hello.nonce == welcome.nonce
            && long <= self.hello.requested.mtu_bytes
            && versions().agree(hello.versions) == Some(welcome.version)
            && welcome.offer.agree(&hello.requested) == welcome.offer;
        accepts.then_some(length)
    }

    /// True if the nonce is that of one of this attempt's HELLOs.
    fn is_ours(&self, nonce: u64) -> bool {
        nonce ^ self.hello.nonce < SHORT << 1
    }

    fn is_about_us(&self, message: &SetupMessage) -> bool {
        let nonce = match message {
            SetupMessage::Welcome(welcome) => welcome.nonce,
            SetupMessage::Accept(accept) => accept.nonce,
            SetupMessage::Reject(reject) => reject.nonce,
            SetupMessage::Hello(_) | SetupMessage::Confirm(_) => return false,
        };
        self.is_ours(nonce)
    }
}

fn agrees(welcome: &Welcome, accept: &Accept) -> bool {
    accept.nonce == welcome.nonce
        && accept.version == welcome.version
        && accept.agreed == welcome.offer
}
