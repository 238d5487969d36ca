//! By which ways does an attempt ask, and does any program listen where it asks?
//!
//! Networks choose a packet's way by its addresses and ports, so that one dead switch among several
//! takes all packets of some pairs of ports. An attempt that gets no answer therefore asks from
//! other ports of its own: from all sockets of its address in turn, and from sockets that are
//! opened for this alone, whose ports no two attempts share. The answer comes back to the port that
//! asked, from the port that was asked, so both directions change with the port.

use std::io;
use std::net::SocketAddr;

use fairway_engine::wire::{Decoded, Duration, Instant, SETUP_LEN, Setup, decode, encode_setup};
use fairway_port::Knock;

use super::Padded;

/// A refusal counts once an attempt has gone on for so long. Until then the peer's program may be
/// starting, and a single forged or late report does no harm.
const CREDIBLE_AFTER: Duration = Duration::from_ms(250);
/// Sockets that each repeated question opens.
const DETOURS: usize = 4;
/// Sockets of an attempt that are kept at most, for answers that take their time.
const DETOURS_MAX: usize = 16;
/// Answers to them are looked for so often.
const CHECK_PERIOD: Duration = Duration::from_ms(2);
/// Answers and reports of a socket that are taken at once, at most.
const ANSWERS_MAX: usize = 4;

/// What an attempt to connect learns from the network about its peer's port, and by which ways.
#[derive(Debug)]
pub(crate) struct Listening {
    begun: Instant,
    /// An attempt ends when the port is reported to be closed. Otherwise it asks on until its time
    /// is up.
    heeds: bool,
    /// Answers to the sockets below are taken. Not so where an emulation decides what becomes of
    /// packets: it does not know of these sockets.
    detours: bool,
    asked: u32,
    /// Sockets that reports come to, the newest last, by number.
    knocks: Vec<(u32, Knock)>,
    opened: u32,
    look_at: Instant,
    /// The latest report.
    report: Option<io::Error>,
}

impl Listening {
    pub(crate) fn new(now: Instant, detours: bool) -> Self {
        let (knocks, report) = (Vec::new(), None);
        Listening {
            begun: now,
            heeds: false,
            detours,
            asked: 0,
            knocks,
            opened: 0,
            look_at: now,
            report,
        }
    }

    /// Has the attempt end when the port is reported to be closed.
    pub(crate) fn heed(&mut self) {
        self.heeds = true;
    }

    /// How many times the attempt has asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked as usize
    }

    /// The attempt asks `server`. What it asks for the second time, and later, goes from other
    /// sockets, too; the first question mostly has its answer before that.
    pub(crate) fn asks(
        &mut self,
        now: Instant,
        local: SocketAddr,
        server: SocketAddr,
        questions: &[Padded],
    ) {
        self.asked += 1;
        if self.asked < 2 {
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
            questions.iter().for_each(|question| send_probe(knock, question));
        }
    }

    /// Sends a message by a socket of number `detour`. What is lost is repeated.
    pub(crate) fn confirms(&mut self, now: Instant, detour: u32, message: &Padded) {
        self.look_at = now + CHECK_PERIOD;
        let knock = self.knocks.iter().find(|(number, _)| *number == detour);
        knock.into_iter().for_each(|(_, knock)| send_probe(knock, message));
    }

    /// When [`Listening::poll_answers`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.detours && !self.knocks.is_empty()).then_some(self.look_at)
    }

    /// Takes answers and reports; `take` gets each answer, and the number of its socket.
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

    /// Takes reports. True if no program listens there and the attempt is to end for that.
    pub(crate) fn is_refused(&mut self, now: Instant) -> bool {
        if !self.detours {
            // With answers that no program takes.
            for report in self.knocks.iter().filter_map(|(_, knock)| knock.report()) {
                self.report = Some(report);
            }
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

/// A socket whose packets leave whole.
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
