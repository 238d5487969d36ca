//! Do packets of full size get through to a peer?
//!
//! Set-up has proven it for the ports that it used (`fairway_engine::setup`). Networks choose a path by a
//! packet's ports, and some of their paths may be shorter than others, so that data of some ports
//! never arrives. Once a channel is open, a node therefore asks its peer as it asks for a
//! connection, with questions as long as its longest packets, from ports of their own. The answers
//! are as long, and open nothing.

use crate::peer_state::{LongPackets, PeerState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_engine::wire::{
    Decoded, Duration, Instant, SETUP_LEN, Setup, SetupMessage, decode, encode_setup,
};
use fairway_port::Knock;

/// Before that most short connections are over.
const BEGIN_AFTER: Duration = Duration::from_ms(100);
/// Between a question and the next, times the number of those that were sent.
const INTERVAL: Duration = Duration::from_ms(100);
/// When so many were sent and none was answered, long packets count as lost.
const QUESTIONS: u32 = 6;
/// Answers are looked for so often.
const LOOK_EVERY: Duration = Duration::from_ms(10);

/// Questions of full size to a peer.
#[derive(Debug)]
pub(crate) struct SizeProbe {
    peer: Arc<PeerState>,
    local: SocketAddr,
    /// What is asked, and how long it is with its padding.
    question: Setup,
    length: usize,
    knocks: Vec<Knock>,
    ask_at: Instant,
    look_at: Instant,
}

impl SizeProbe {
    /// Begins to ask soon. `question` is a HELLO with a nonce of its own.
    pub(crate) fn new(
        now: Instant,
        peer: Arc<PeerState>,
        local: SocketAddr,
        question: Setup,
        length: usize,
    ) -> Self {
        let (knocks, ask_at) = (Vec::new(), now + BEGIN_AFTER);
        SizeProbe { peer, local, question, length, knocks, ask_at, look_at: ask_at }
    }

    /// When [`SizeProbe::advance`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Instant {
        if self.knocks.is_empty() { self.ask_at } else { self.ask_at.min(self.look_at) }
    }

    /// Asks, and takes answers. True once it is over; the peer's state says how it went.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if !self.peer.alive.load(Ordering::Acquire) {
            return true;
        }
        if self.is_answered() {
            self.peer.set_long_packets(LongPackets::Arrive);
            return true;
        }
        self.look_at = now + LOOK_EVERY;
        if now.is_before(self.ask_at) {
            return false;
        }
        if self.knocks.len() as u32 == QUESTIONS {
            self.peer.set_long_packets(LongPackets::Vanish);
            return true;
        }
        // Without a socket nothing is learnt.
        let Ok(()) = self.ask() else { return true };
        let sent = self.knocks.len() as u64;
        self.ask_at = now + Duration::from_ps(INTERVAL.as_ps() * sent);
        false
    }

    fn ask(&mut self) -> io::Result<()> {
        let knock = Knock::new(self.local, self.peer.address)?;
        knock.probe_length()?;
        let mut message = vec![0; self.length.max(SETUP_LEN)];
        encode_setup(&self.question, &mut message);
        knock.send(&message);
        self.knocks.push(knock);
        Ok(())
    }

    fn is_answered(&self) -> bool {
        let SetupMessage::Hello(hello) = &self.question.message else { return false };
        let mut bytes = [0; SETUP_LEN];
        self.knocks.iter().any(|knock| match knock.receive(&mut bytes) {
            Some(Ok(length)) => match decode(&bytes[..length.min(SETUP_LEN)], length) {
                Ok(Decoded::Setup(Setup { message: SetupMessage::Welcome(welcome), .. })) => {
                    welcome.nonce == hello.nonce
                }
                Ok(Decoded::Setup(Setup { message: SetupMessage::Reject(reject), .. })) => {
                    reject.nonce == hello.nonce
                }
                _ => false,
            },
            _ => false,
        })
    }
}
