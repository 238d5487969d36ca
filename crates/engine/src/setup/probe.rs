//! Do packets of full size get through to a peer?
//!
//! Set-up has proven it for the ports that it used. Networks choose a path by a packet's ports, and
//! some of their paths may be shorter than others, so that data of some ports never arrives. Once a
//! channel is open, a client therefore asks its peer as it asks for a connection, with questions as
//! long as its longest packets, each from a port of its own. The answers are as long, and open
//! nothing.

use fairway_wire::{
    Cna, Duration, Endpoint, Hello, Instant, PADDED_QUESTIONS, Parameters, Psn, Setup,
    SetupMessage, Tpn,
};

use super::identity::{Identity, versions};
use super::padded::Padded;

/// Every network carries packets with so much payload: 1,280 bytes with all headers (RFC 8200).
const PASSES_EVERYWHERE: u16 = 1024;
/// Before that most short connections are over.
const BEGIN_AFTER: Duration = Duration::from_ms(100);
/// Between a question and the next, times the number of those that were sent.
const INTERVAL: Duration = Duration::from_ms(100);
/// When so many were sent and none was answered, long packets count as lost.
const QUESTIONS: u64 = 6;

/// Questions of full size to a peer.
#[derive(Debug)]
pub struct LengthProbe {
    question: Padded,
    nonce: u64,
    asked: u64,
    ask_at: Instant,
    outcome: Option<ProbeOutcome>,
}

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A question was answered: long packets arrive.
    Arrived,
    /// No question was answered: long packets vanish.
    Vanished,
}

impl LengthProbe {
    /// Begins to probe a peer with which a channel was opened, soon after `now`. `None` if that is
    /// of no use: the peer does not answer padded questions, or packets are short.
    pub fn new(
        now: Instant,
        identity: &Identity,
        nonce: u64,
        agreed: &Parameters,
    ) -> Option<LengthProbe> {
        let answers = agreed.capabilities & PADDED_QUESTIONS != 0;
        if !answers || agreed.mtu_bytes <= PASSES_EVERYWHERE {
            return None;
        }
        // The question opens nothing, so it names no channel.
        let client = Endpoint {
            tpn: Tpn::default(),
            initial_psn: Psn::default(),
            ports: identity.ports_for(None),
        };
        let message = SetupMessage::Hello(Hello {
            versions: versions(),
            nonce,
            client,
            wish: Parameters { mtu_bytes: agreed.mtu_bytes, ..identity.limits },
            joins: None,
        });
        let setup = Setup { source: identity.cna, destination: Cna::default(), message };
        let question = Padded::to_mtu(setup, agreed.mtu_bytes);
        Some(LengthProbe { question, nonce, asked: 0, ask_at: now + BEGIN_AFTER, outcome: None })
    }

    /// A set-up message came. False if it answers none of the probe's questions.
    pub fn handle_message(&mut self, setup: &Setup) -> bool {
        let nonce = match &setup.message {
            SetupMessage::Welcome(welcome) => welcome.nonce,
            SetupMessage::Reject(reject) => reject.nonce,
            SetupMessage::Hello(_) | SetupMessage::Confirm(_) | SetupMessage::Accept(_) => {
                return false;
            }
        };
        let is_ours = nonce == self.nonce;
        if is_ours {
            self.outcome.get_or_insert(ProbeOutcome::Arrived);
        }
        is_ours
    }

    /// The question to send, from a port that no question used before, if it is time for one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Padded> {
        if self.outcome.is_some() || now.is_before(self.ask_at) {
            return None;
        }
        if self.asked == QUESTIONS {
            self.outcome = Some(ProbeOutcome::Vanished);
            return None;
        }
        self.asked += 1;
        self.ask_at = now + Duration::from_ps(INTERVAL.as_ps() * self.asked);
        Some(self.question)
    }

    /// When [`LengthProbe::poll_transmit`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.outcome.is_none().then_some(self.ask_at)
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<ProbeOutcome> {
        self.outcome
    }
}
