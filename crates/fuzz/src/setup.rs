//! Connection set-up: a listener, a client's attempt, and between them a network that repeats,
//! swaps and changes messages.

use std::net::SocketAddr;

use fairway_ub::setup::{
    Attempt, Identity, Listener, OpenRequest, Opening, Outcome, Padded, Reaction,
};
use fairway_ub::wire::{
    Cna, Decoded, Duration, Hello, Instant, Joins, Parameters, Ports, Psn, RejectReason, SETUP_LEN,
    Setup, SetupMessage, Tpn, Welcome, decode, encode_setup, header_check,
};

const START: Instant = Instant::from_ns(1_000_000_000);
const TIMEOUT: Duration = Duration::from_secs(60);
const STEPS_MAX: u32 = 256;

/// A listener and an attempt at the two ends of a network that the input controls.
///
/// Checked: a channel is opened only for a client that returns the content of a WELCOME sent to its
/// address, and only once for each; the attempt ends once, and is granted no more than it
/// requested; every message survives encoding and decoding.
///
/// Input: a byte of settings, then a script.
pub fn setup(input: &[u8]) {
    if let Ok(Decoded::Setup(setup)) = decode(&input[..input.len().min(SETUP_LEN)], input.len()) {
        demand_sound(&setup);
    }
    let mut bytes = input.iter().copied();
    let mut stage = Stage::new(bytes.next().unwrap_or(0));
    for _ in 0..STEPS_MAX {
        let Some(code) = bytes.next() else { break };
        let mut next = || bytes.next().unwrap_or(0);
        match code % 12 {
            0 | 1 => stage.send(),
            2 | 3 => stage.deliver_to_server(next() % 4 == 3),
            4 | 5 => stage.deliver_to_client(),
            6 => stage.change(true, [next(), next(), next()]),
            7 => stage.change(false, [next(), next(), next()]),
            8 => stage.now = stage.now + Duration::from_ms(u64::from(next()) * u64::from(next())),
            9 => stage.swap(),
            10 => stage.from = (stage.from + 1) % 3,
            _ => stage.fill(code & 16 != 0, &mut next),
        }
        stage.check();
    }
}

struct Stage {
    now: Instant,
    listener: Listener,
    attempt: Attempt,
    requested: Parameters,
    /// Number of the address, of three, from which messages reach the listener.
    from: u8,
    /// Messages that the attempt sent at once and that have not been checked yet.
    leaving: Vec<Padded>,
    /// The last message from each side.
    request: Option<Setup>,
    response: Option<Setup>,
    welcomed: Vec<(SocketAddr, Cna, Hello, Welcome)>,
    opened: Vec<Opening>,
    ended: Option<Outcome>,
}

fn client_address(number: u8) -> SocketAddr {
    match number {
        0 => SocketAddr::from(([192, 0, 2, 1], 4000)),
        1 => SocketAddr::from(([192, 0, 2, 1], 4001)),
        _ => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 4000)),
    }
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 4810))
}

impl Stage {
    /// Makes the two ends. The bits of `settings`: with 1 the attempt joins a group, with 2 it
    /// requests long packets, with 4 short ones, and with 8 the listener does not support requests
    /// that prove a packet length.
    fn new(settings: u8) -> Stage {
        let limits = Parameters {
            mtu_bytes: 8192,
            paths: 16,
            window_packets: 4096,
            message_slots: 64,
            read_slots: 64,
            keep_alive_ms: 500,
            channels: 1,
            capabilities: 1,
        };
        let mtu_bytes = [1400, 8192, 256, 4096][usize::from(settings >> 1 & 3)];
        let identity = |cna: u32, limits| Identity {
            cna: Cna::new(cna),
            setup_cna: Cna::new(cna ^ 0xffff),
            ports: vec![Ports::new(&[4810, 4811]).unwrap_or_else(|| unreachable!())],
            limits,
        };
        let request = OpenRequest {
            server: server_address(),
            tpn: Tpn::new(5),
            first_psn: Psn::new(77),
            nonce: 0x1234_5678_9abc_def0,
            joins: (settings & 1 != 0).then_some(Joins { leader: Tpn::new(3), number: 1 }),
            mtu_bytes,
            deadline: START + TIMEOUT,
            key: [8; 32],
        };
        let capabilities = if settings & 8 != 0 { 0 } else { limits.capabilities };
        let offer =
            Parameters { mtu_bytes: 4096, paths: 8, window_packets: 1024, capabilities, ..limits };
        Stage {
            now: START,
            listener: Listener::new(identity(0x5e_12e1, offer), [7; 32]),
            attempt: Attempt::new(START, &identity(0xc1_1e17, limits), request),
            requested: Parameters { mtu_bytes, ..limits },
            from: 0,
            leaving: Vec::new(),
            request: None,
            response: None,
            welcomed: Vec::new(),
            opened: Vec::new(),
            ended: None,
        }
    }

    fn send(&mut self) {
        if self.leaving.is_empty() {
            self.leaving = self.attempt.poll_transmit(self.now);
            if self.leaving.is_empty()
                && let Some(due) = self.attempt.poll_timeout()
            {
                assert!(self.now.is_before(due), "it is due and does nothing");
            }
        }
        if let Some(Padded { setup, .. }) = self.leaving.pop() {
            demand_sound(&setup);
            self.request = Some(setup);
        }
    }

    fn deliver_to_server(&mut self, refuses: bool) {
        let Some(setup) = self.request else { return };
        let from = client_address(self.from);
        match self.listener.handle_message(self.now, from, 9000, &setup) {
            Reaction::Ignore => {}
            Reaction::Answer(answer) => {
                if let (SetupMessage::Hello(hello), SetupMessage::Welcome(welcome)) =
                    (&setup.message, &answer.message)
                {
                    self.welcomed.push((from, setup.source, *hello, *welcome));
                }
                self.answer(answer);
            }
            Reaction::Open(opening) => {
                self.demand_welcomed(&opening);
                let answer = if refuses {
                    self.listener.refuse(&opening, RejectReason::NoResources)
                } else {
                    let again = self.opened.iter().any(|earlier| same(earlier, &opening));
                    assert!(!again, "opened twice: {opening:?}");
                    self.opened.push(opening);
                    let end = (Tpn::new(9), Psn::new(1000));
                    self.listener.opened(self.now, &opening, end, [9; 32])
                };
                self.answer(answer);
            }
        }
    }

    fn answer(&mut self, answer: Setup) {
        demand_sound(&answer);
        self.response = Some(answer);
    }

    /// Panics if the channel's client has not received a matching WELCOME from the listener.
    fn demand_welcomed(&self, opening: &Opening) {
        let confirm = &opening.confirm;
        let is_known = self.welcomed.iter().any(|(from, client, hello, welcome)| {
            *from == opening.from
                && *client == opening.client
                && *hello == confirm.hello
                && welcome.cookie == confirm.cookie
                && welcome.offer == confirm.agreed
                && welcome.version == confirm.version
        });
        assert!(is_known, "a stranger gets a channel: {opening:?}");
    }

    fn deliver_to_client(&mut self) {
        if let Some(setup) = self.response {
            self.attempt.handle_message(self.now, server_address(), &setup);
        }
    }

    /// Changes a byte of a message in transit.
    fn change(&mut self, is_request: bool, [high, low, change]: [u8; 3]) {
        let message = if is_request { &mut self.request } else { &mut self.response };
        let Some(setup) = *message else { return };
        let mut bytes = [0; SETUP_LEN];
        encode_setup(&setup, &mut bytes);
        let at = 4 + (usize::from(high) << 8 | usize::from(low)) % (SETUP_LEN - 4);
        bytes[at] ^= change;
        if let Some(changed) = sealed(&mut bytes) {
            *message = Some(changed);
        }
    }

    /// Replaces some bytes of a message by bytes from the input.
    fn fill(&mut self, is_request: bool, next: &mut impl FnMut() -> u8) {
        let message = if is_request { &mut self.request } else { &mut self.response };
        let mut bytes = [0; SETUP_LEN];
        if let Some(setup) = *message {
            encode_setup(&setup, &mut bytes);
        }
        let begin = 4 + usize::from(next()) % (SETUP_LEN - 4);
        let end = SETUP_LEN.min(begin + usize::from(next() % 32));
        for byte in &mut bytes[begin..end] {
            *byte = next();
        }
        if let Some(changed) = sealed(&mut bytes) {
            *message = Some(changed);
        }
    }

    /// Swaps the messages of the two directions.
    fn swap(&mut self) {
        std::mem::swap(&mut self.request, &mut self.response);
    }

    fn check(&mut self) {
        let outcome = self.attempt.outcome();
        if self.ended.is_some() {
            assert_eq!(outcome, self.ended, "it ends once");
        }
        if let Some(Outcome::Open { accept, .. }) = &outcome {
            assert_eq!(
                accept.agreed.agree(&self.requested),
                accept.agreed,
                "more than it requested"
            );
        }
        assert_eq!(outcome.is_some(), self.attempt.poll_timeout().is_none());
        self.ended = outcome;
    }
}

fn same(one: &Opening, other: &Opening) -> bool {
    let (first, second) = (&one.confirm, &other.confirm);
    one.from == other.from
        && one.client == other.client
        && first.cookie == second.cookie
        && first.hello.nonce == second.hello.nonce
}

/// Decodes a message after correcting its check.
fn sealed(bytes: &mut [u8; SETUP_LEN]) -> Option<Setup> {
    let check = header_check(0, &bytes[4..], 0);
    bytes[..4].copy_from_slice(&check.to_be_bytes());
    match decode(bytes, SETUP_LEN) {
        Ok(Decoded::Setup(setup)) => Some(setup),
        _ => None,
    }
}

fn demand_sound(setup: &Setup) {
    let mut bytes = [0; SETUP_LEN];
    encode_setup(setup, &mut bytes);
    assert_eq!(decode(&bytes, SETUP_LEN), Ok(Decoded::Setup(*setup)));
}
