//! Does any program listen where an attempt asks? The network may say that none does.

use std::io;
use std::net::SocketAddr;

use fairway_engine::wire::{Duration, Instant, MAX_HEADER, Setup, encode_setup};
use fairway_port::Knock;

/// A refusal counts once an attempt has gone on for so long. Until then the peer's program may be
/// starting, and a single forged or late report does no harm.
const CREDIBLE_AFTER: Duration = Duration::from_ms(250);

/// What an attempt to connect learns from the network about its peer's port.
#[derive(Debug)]
pub(crate) struct Listening {
    begun: Instant,
    /// An attempt ends when the port is reported to be closed. Otherwise it asks on until its time
    /// is up.
    heeds: bool,
    asked: u32,
    knock: Option<Knock>,
    /// The latest report.
    report: Option<io::Error>,
}

impl Listening {
    pub(crate) fn new(now: Instant) -> Self {
        Listening { begun: now, heeds: false, asked: 0, knock: None, report: None }
    }

    /// Has the attempt end when the port is reported to be closed.
    pub(crate) fn heed(&mut self) {
        self.heeds = true;
    }

    /// The attempt asks `server`. What it asks for the second time, and later, goes from a socket
    /// that reports come to, too; the first question mostly has its answer before that.
    pub(crate) fn asks(&mut self, local: SocketAddr, server: SocketAddr, setup: &Setup) {
        self.asked += 1;
        if self.asked < 2 {
            return;
        }
        if self.knock.is_none() {
            match Knock::new(local, server) {
                Ok(knock) => self.knock = Some(knock),
                Err(error) => self.report = Some(error),
            }
        }
        if let Some(knock) = &self.knock {
            let mut message = [0; MAX_HEADER];
            let length = encode_setup(setup, &mut message);
            knock.send(&message[..length]);
        }
    }

    /// Takes reports. True if no program listens there and the attempt is to end for that.
    pub(crate) fn is_refused(&mut self, now: Instant) -> bool {
        if let Some(report) = self.knock.as_ref().and_then(Knock::report) {
            self.report = Some(report);
        }
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        self.heeds
            && now.since(self.begun) >= CREDIBLE_AFTER
            && self.report.as_ref().is_some_and(refused)
    }

    /// What the network reported last, in words.
    pub(crate) fn report(&self) -> Option<String> {
        self.report.as_ref().map(ToString::to_string)
    }
}
