//! Asks a peer whether packets of full size get through, from sockets of their own.
//!
//! `fairway_engine::setup::LengthProbe` says what is asked, and when.

use crate::peer_state::{LongPackets, PeerState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_engine::setup::{LengthProbe, Padded, ProbeOutcome};
use fairway_engine::wire::{Decoded, Duration, Instant, SETUP_LEN, decode, encode_setup};
use fairway_port::Knock;

/// Answers are looked for so often.
const LOOK_EVERY: Duration = Duration::from_ms(10);

/// Questions of full size to a peer.
#[derive(Debug)]
pub(crate) struct SizeProbe {
    peer: Arc<PeerState>,
    local: SocketAddr,
    probe: LengthProbe,
    /// The sockets that have asked.
    knocks: Vec<Knock>,
    look_at: Instant,
}

impl SizeProbe {
    /// Begins to ask soon, from ports of the address of `local`.
    pub(crate) fn new(
        now: Instant,
        peer: Arc<PeerState>,
        local: SocketAddr,
        probe: LengthProbe,
    ) -> Self {
        SizeProbe { peer, local, probe, knocks: Vec::new(), look_at: now }
    }

    /// When [`SizeProbe::advance`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let ask_at = self.probe.poll_timeout()?;
        Some(if self.knocks.is_empty() { ask_at } else { ask_at.min(self.look_at) })
    }

    /// Asks, and takes answers. True once it is over; the peer's state says how it went.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if !self.peer.alive.load(Ordering::Acquire) {
            return true;
        }
        self.look();
        self.look_at = now + LOOK_EVERY;
        // Without a socket nothing is learnt.
        if let Some(question) = self.probe.poll_transmit(now)
            && self.ask(&question).is_err()
        {
            return true;
        }
        let Some(outcome) = self.probe.outcome() else { return false };
        self.peer.set_long_packets(match outcome {
            ProbeOutcome::Arrived => LongPackets::Arrive,
            ProbeOutcome::Vanished => LongPackets::Vanish,
        });
        true
    }

    fn ask(&mut self, question: &Padded) -> io::Result<()> {
        let knock = Knock::new(self.local, self.peer.address)?;
        knock.probe_length()?;
        let mut message = vec![0; question.length];
        encode_setup(&question.setup, &mut message);
        knock.send(&message);
        self.knocks.push(knock);
        Ok(())
    }

    /// Takes an answer from each socket, if there is one.
    fn look(&mut self) {
        let mut bytes = [0; SETUP_LEN];
        for knock in &self.knocks {
            if let Some(Ok(length)) = knock.receive(&mut bytes)
                && let Ok(Decoded::Setup(setup)) = decode(&bytes[..length.min(SETUP_LEN)], length)
            {
                self.probe.handle_message(&setup);
            }
        }
    }
}
