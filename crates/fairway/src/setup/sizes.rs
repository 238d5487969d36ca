//! Probes whether packets of full size reach a peer, from separate sockets.
//!
//! `fairway_ub::setup::LengthProbe` decides what is sent, and when. On a connection that has
//! stalled, each long probe is sent with a short one beside it.

use crate::peer_state::{LongPackets, PeerState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fairway_port::Knock;
use fairway_ub::setup::{LengthProbe, Padded, ProbeOutcome};
use fairway_ub::wire::{
    Decoded, Duration, Hello, Instant, SETUP_LEN, Setup, SetupMessage, decode, encode_setup,
};

/// Interval at which the sockets are checked for answers.
const CHECK_PERIOD: Duration = Duration::from_ms(10);
/// Number of answered short probes, without an answered long one, from which the path counts as
/// short.
const SHORT_ANSWERS: u32 = 4;

/// Maximum number of answers per socket, which sends a long probe and perhaps a short one.
const ANSWERS_EACH: usize = 2;

/// Probes of full size to a peer.
#[derive(Debug)]
pub(crate) struct SizeProbe {
    peer: Arc<PeerState>,
    local: SocketAddr,
    probe: LengthProbe,
    /// The sockets that have sent probes.
    knocks: Vec<Knock>,
    /// On a connection that has stalled: the short probes beside the long ones.
    short: Option<Short>,
    look_at: Instant,
}

/// Probes without padding, which show that the peer answers at all.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    /// Distinguishes their answers from those to the long probes.
    nonce: u64,
    answers: u32,
}

impl SizeProbe {
    /// Starts to probe soon, from ports of the address of `local`.
    pub(crate) fn new(
        now: Instant,
        peer: Arc<PeerState>,
        local: SocketAddr,
        probe: LengthProbe,
    ) -> Self {
        SizeProbe { peer, local, probe, knocks: Vec::new(), short: None, look_at: now }
    }

    /// Adds a short probe beside each long one.
    pub(crate) fn beside_short_ones(self) -> Self {
        SizeProbe { short: Some(Short::default()), ..self }
    }

    /// The peer that is probed.
    pub(crate) fn peer(&self) -> &Arc<PeerState> {
        &self.peer
    }

    /// True if this probes `peer`.
    pub(crate) fn is_of(&self, peer: &Arc<PeerState>) -> bool {
        Arc::ptr_eq(&self.peer, peer)
    }

    /// True once short probes were answered and the long ones beside them were not.
    pub(crate) fn only_short_ones_arrive(&self) -> bool {
        self.probe.outcome() == Some(ProbeOutcome::Lost)
            && self.short.is_some_and(|short| short.answers >= SHORT_ANSWERS)
    }

    /// Time at which [`SizeProbe::advance`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let send_at = self.probe.poll_timeout()?;
        Some(if self.knocks.is_empty() { send_at } else { send_at.min(self.look_at) })
    }

    /// Sends probes and receives answers. Returns true once the probing has ended; the peer's state
    /// contains the result.
    pub(crate) fn advance(&mut self, now: Instant) -> bool {
        if !self.peer.alive.load(Ordering::Acquire) {
            return true;
        }
        self.receive_answers();
        self.look_at = now + CHECK_PERIOD;
        // Without a socket the probing ends without a result.
        if let Some(hello) = self.probe.poll_transmit(now)
            && self.send(&hello).is_err()
        {
            return true;
        }
        let Some(outcome) = self.probe.outcome() else { return false };
        self.peer.set_long_packets(match outcome {
            ProbeOutcome::Arrived => LongPackets::Arrive,
            ProbeOutcome::Lost => LongPackets::AreLost,
        });
        true
    }

    fn send(&mut self, padded: &Padded) -> io::Result<()> {
        let knock = Knock::new(self.local, self.peer.named)?;
        knock.probe_length()?;
        let mut message = vec![0; padded.length];
        encode_setup(&padded.setup, &mut message);
        knock.send(&message);
        if let Some(short) = &mut self.short
            && let SetupMessage::Hello(hello) = padded.setup.message
        {
            short.nonce = !hello.nonce;
            let hello = Hello { nonce: short.nonce, ..hello };
            let setup = Setup { message: SetupMessage::Hello(hello), ..padded.setup };
            encode_setup(&setup, &mut message);
            knock.send(&message[..SETUP_LEN]);
        }
        self.knocks.push(knock);
        Ok(())
    }

    /// Receives an answer to each probe, if there is one.
    fn receive_answers(&mut self) {
        let mut bytes = [0; SETUP_LEN];
        for knock in &self.knocks {
            for _ in 0..ANSWERS_EACH {
                if let Some(Ok(length)) = knock.receive(&mut bytes)
                    && let Ok(Decoded::Setup(setup)) =
                        decode(&bytes[..length.min(SETUP_LEN)], length)
                {
                    self.probe.handle_message(&setup);
                    if let Some(short) = &mut self.short {
                        short.answers += u32::from(answers(&setup, short.nonce));
                    }
                }
            }
        }
    }
}

/// True if a message answers the probe with this nonce.
fn answers(setup: &Setup, nonce: u64) -> bool {
    match &setup.message {
        SetupMessage::Welcome(welcome) => welcome.nonce == nonce,
        SetupMessage::Reject(reject) => reject.nonce == nonce,
        SetupMessage::Hello(_) | SetupMessage::Confirm(_) | SetupMessage::Accept(_) => false,
    }
}
