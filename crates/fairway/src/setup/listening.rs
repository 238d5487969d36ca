//! Sends requests of an attempt by several ways, and finds out whether a program listens at the
//! peer.
//!
//! Networks choose a packet's way by its addresses and ports, so that one dead switch among several
//! takes all packets of some pairs of ports. An attempt that receives no answer therefore sends
//! from other local ports: from all sockets of its address in turn, and from sockets that are
//! opened for this alone, whose ports no two attempts share. The answer returns to the port that
//! sent the request, from the port that received it, so the ways of both directions change with the
//! port.

use std::io;
use std::net::SocketAddr;

use fairway_port::Knock;
use fairway_ub::wire::{Decoded, Duration, Instant, SETUP_LEN, Setup, decode, encode_setup};

use super::Padded;

/// Age of an attempt from which a refusal counts. Until then the peer's program may be starting,
/// and a single forged or late report does no harm.
const CREDIBLE_AFTER: Duration = Duration::from_ms(250);
/// Number of sockets that each repeated request opens.
const DETOURS: usize = 4;
/// Maximum number of sockets that an attempt keeps, for late answers.
const DETOURS_MAX: usize = 16;
/// Interval at which these sockets are checked for answers.
const CHECK_PERIOD: Duration = Duration::from_ms(2);
/// Maximum number of answers and reports that are taken from a socket at once.
const ANSWERS_MAX: usize = 4;

/// The ways of an attempt to connect, and the network's reports about its peer's port.
#[derive(Debug)]
pub(crate) struct Listening {
    begun: Instant,
    /// True if the attempt ends when the port is reported to be closed. Otherwise it repeats its
    /// request until its time is up.
    heeds: bool,
    /// True if answers to the sockets below are received. False if the network is emulated, because
    /// the emulation does not cover these sockets.
    detours: bool,
    requests: u32,
    /// Sockets that receive reports, with their numbers, the newest last.
    knocks: Vec<(u32, Knock)>,
    opened: u32,
    look_at: Instant,
    /// The latest report of the network.
    report: Option<io::Error>,
}

impl Listening {
    pub(crate) fn new(now: Instant, detours: bool) -> Self {
        let (knocks, report) = (Vec::new(), None);
        Listening {
            begun: now,
            heeds: false,
            detours,
            requests: 0,
            knocks,
            opened: 0,
            look_at: now,
            report,
        }
    }

    /// Makes the attempt end when the port is reported to be closed.
    pub(crate) fn heed(&mut self) {
        self.heeds = true;
    }

    /// Number of requests that the attempt has sent.
    pub(crate) fn requests(&self) -> usize {
        self.requests as usize
    }

    /// Records that the attempt sends a request to `server`. From the second request on, it is also
    /// sent from other sockets; the first one is usually answered before that.
    pub(crate) fn requests_sent(
        &mut self,
        now: Instant,
        local: SocketAddr,
        server: SocketAddr,
        messages: &[Padded],
    ) {
        self.requests += 1;
        if self.requests < 2 {
            return;
        }
        self.look_at = now + CHECK_PERIOD;
        if self.detours {
            let spare = (self.knocks.len() + DETOURS).saturating_sub(DETOURS_MAX);
            self.knocks.drain(..spare);
        }
        let fresh = if self.detours { DETOURS } else { usize::from(self.knocks.is_empty()) };
        let first = self.knocks.len();
        for _ in 0..fresh {
            match long_knock(local, server) {
                Ok(knock) => self.knocks.push((self.opened, knock)),
                Err(error) => self.report = Some(error),
            }
            self.opened += 1;
        }
        let first = if self.detours { first } else { 0 };
        for (_, knock) in &self.knocks[first..] {
            messages.iter().for_each(|message| send_probe(knock, message));
        }
    }

    /// Sends a message from the socket of number `detour`. If it is lost, set-up repeats it.
    pub(crate) fn confirms(&mut self, now: Instant, detour: u32, message: &Padded) {
        self.look_at = now + CHECK_PERIOD;
        let knock = self.knocks.iter().find(|(number, _)| *number == detour);
        knock.into_iter().for_each(|(_, knock)| send_probe(knock, message));
    }

    /// Time at which [`Listening::poll_answers`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.detours && !self.knocks.is_empty()).then_some(self.look_at)
    }

    /// Receives answers and reports. `take` receives each answer, and the number of its socket.
    pub(crate) fn poll_answers(&mut self, now: Instant, mut take: impl FnMut(u32, &Setup)) {
        if !self.detours || now.is_before(self.look_at) {
            return;
        }
        self.look_at = now + CHECK_PERIOD;
        let mut bytes = [0; SETUP_LEN];
        for (number, knock) in &self.knocks {
            for _ in 0..ANSWERS_MAX {
                match knock.receive(&mut bytes) {
                    None => break,
                    Some(Err(error)) => self.report = Some(error),
                    Some(Ok(length)) => {
                        let answer = &bytes[..length.min(SETUP_LEN)];
                        if let Ok(Decoded::Setup(setup)) = decode(answer, length) {
                            take(*number, &setup);
                        }
                    }
                }
            }
        }
    }

    /// Receives reports. Returns true if no program listens at the port and the attempt is to end
    /// for that.
    pub(crate) fn is_refused(&mut self, now: Instant) -> bool {
        if !self.detours {
            // The answers at these sockets are discarded.
            for report in self.knocks.iter().filter_map(|(_, knock)| knock.report()) {
                self.report = Some(report);
            }
        }
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        self.heeds
            && now.since(self.begun) >= CREDIBLE_AFTER
            && self.report.as_ref().is_some_and(refused)
    }

    /// The network's latest report, as text.
    pub(crate) fn report(&self) -> Option<String> {
        self.report.as_ref().map(ToString::to_string)
    }
}

/// Returns a socket whose packets are not fragmented.
fn long_knock(local: SocketAddr, server: SocketAddr) -> io::Result<Knock> {
    let knock = Knock::new(local, server)?;
    knock.probe_length()?;
    Ok(knock)
}

fn send_probe(knock: &Knock, message: &Padded) {
    let mut bytes = vec![0; message.length.max(SETUP_LEN)];
    encode_setup(&message.setup, &mut bytes);
    knock.send(&bytes);
}
