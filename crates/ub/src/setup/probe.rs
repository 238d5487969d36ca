//! Test whether packets of full size get through to a peer.
//!
//! Set-up has proven this for the ports that it used. Networks choose a path by a packet's ports,
//! and some of their paths may have a smaller MTU than others, so that data of some ports never
//! arrives. Once a channel is open, a client therefore sends its peer HELLOs as long as its longest
//! packets, each from a port of its own. The answers are as long, and open nothing.

use fairway_wire::{
    Cna, Duration, Endpoint, Hello, Instant, PADDED_HELLOS, Parameters, Psn, Setup, SetupMessage,
    Tpn,
};

use super::identity::{Identity, versions};
use super::padded::Padded;

/// Payload that every network carries: 1,280 bytes with all headers (RFC 8200).
const PASSES_EVERYWHERE: u16 = 1024;
/// Delay of the first HELLO; most short connections are over before that.
const BEGIN_AFTER: Duration = Duration::from_ms(100);
/// Interval between HELLOs, multiplied by the number of those sent.
const INTERVAL: Duration = Duration::from_ms(100);
/// HELLOs after which, if none was answered, long packets count as lost.
const HELLOS: u64 = 6;

/// Sends HELLOs of full size to a peer.
#[derive(Debug)]
pub struct LengthProbe {
    hello: Padded,
    nonce: u64,
    sent: u64,
    send_at: Instant,
    outcome: Option<ProbeOutcome>,
}

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// A HELLO was answered: long packets arrive.
    Arrived,
    /// No HELLO was answered: long packets are lost.
    Lost,
}

impl LengthProbe {
    /// Begins to probe a peer with which a channel was opened, soon after `now`. `None` if that is
    /// of no use: the peer does not answer padded HELLOs, or packets are short.
    pub fn new(
        now: Instant,
        identity: &Identity,
        nonce: u64,
        agreed: &Parameters,
    ) -> Option<LengthProbe> {
        let answers = agreed.capabilities & PADDED_HELLOS != 0;
        if !answers || agreed.mtu_bytes <= PASSES_EVERYWHERE {
            return None;
        }
        // The HELLO opens nothing, so it names no channel.
        let client = Endpoint {
            tpn: Tpn::default(),
            initial_psn: Psn::default(),
            ports: identity.ports_for(None),
        };
        let message = SetupMessage::Hello(Hello {
            versions: versions(),
            nonce,
            client,
            requested: Parameters { mtu_bytes: agreed.mtu_bytes, ..identity.limits },
            joins: None,
        });
        let setup = Setup { source: identity.cna, destination: Cna::default(), message };
        let hello = Padded::to_mtu(setup, agreed.mtu_bytes);
        Some(LengthProbe { hello, nonce, sent: 0, send_at: now + BEGIN_AFTER, outcome: None })
    }

    /// Processes a received set-up message. False if it answers none of the probe's HELLOs.
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

    /// The HELLO to send, from a port that no HELLO used before, if one is due.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Padded> {
        if self.outcome.is_some() || now.is_before(self.send_at) {
            return None;
        }
        if self.sent == HELLOS {
            self.outcome = Some(ProbeOutcome::Lost);
            return None;
        }
        self.sent += 1;
        self.send_at = now + Duration::from_ps(INTERVAL.as_ps() * self.sent);
        Some(self.hello)
    }

    /// Time at which [`LengthProbe::poll_transmit`] must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.outcome.is_none().then_some(self.send_at)
    }

    /// How the probe ended, if it did.
    pub fn outcome(&self) -> Option<ProbeOutcome> {
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use fairway_wire::{Ports, RejectReason};

    use super::super::server::{Listener, Reaction};
    use super::*;

    const START: Instant = Instant::from_ns(1_000_000_000);

    fn identity(number: u32, mtu_bytes: u16, capabilities: u16) -> Identity {
        let limits = Parameters {
            mtu_bytes,
            paths: 1,
            window_packets: 1024,
            message_slots: 8,
            read_slots: 8,
            keep_alive_ms: 0,
            channels: 1,
            capabilities,
        };
        let ports = vec![Ports::new(&[4810]).unwrap()];
        Identity { cna: Cna::new(number), setup_cna: Cna::new(number + 100), ports, limits }
    }

    fn probe() -> LengthProbe {
        let identity = identity(1, 4096, PADDED_HELLOS);
        let agreed = Parameters { mtu_bytes: 2048, ..identity.limits };
        LengthProbe::new(START, &identity, 5 << 20, &agreed).expect("it is of use")
    }

    #[test]
    fn probe_sends_six_hellos_at_growing_intervals_and_then_reports_loss() {
        let mut probe = probe();
        let mut sent = Vec::new();
        while let Some(at) = probe.poll_timeout() {
            if let Some(hello) = probe.poll_transmit(at) {
                assert_eq!(hello.length, 2048 + 92, "as long as the longest packets");
                sent.push(at.since(START).as_us() / 1000);
            }
            assert_eq!(probe.poll_transmit(at), None, "one at a time");
        }
        assert_eq!(sent, [100, 200, 400, 700, 1100, 1600]);
        assert_eq!(probe.outcome(), Some(ProbeOutcome::Lost));
    }

    #[test]
    fn answer_of_a_listener_ends_the_probe() {
        let mut probe = probe();
        let at = probe.poll_timeout().unwrap();
        let hello = probe.poll_transmit(at).expect("a hello");
        let mut listener = Listener::new(identity(2, 4096, PADDED_HELLOS), [7; 32]);
        let from = "192.0.2.1:4000".parse().unwrap();
        let Reaction::Answer(answer) = listener.handle_message(at, from, u16::MAX, &hello.setup)
        else {
            panic!("no answer");
        };
        assert_eq!(hello.answered(answer).length, hello.length, "as long as the hello");
        let SetupMessage::Welcome(mut welcome) = answer.message else { panic!("{answer:?}") };
        welcome.nonce ^= 1;
        let other = Setup { message: SetupMessage::Welcome(welcome), ..answer };
        assert!(!probe.handle_message(&other), "an answer to another hello");
        assert_eq!(probe.outcome(), None);
        assert!(probe.handle_message(&answer));
        assert_eq!((probe.outcome(), probe.poll_timeout()), (Some(ProbeOutcome::Arrived), None));
    }

    #[test]
    fn reject_is_an_answer_too() {
        let mut probe = probe();
        let listener_versions = versions();
        let message = SetupMessage::Reject(fairway_wire::Reject {
            versions: listener_versions,
            nonce: 5 << 20,
            reason: RejectReason::NoResources,
        });
        let reject = Setup { source: Cna::new(9), destination: Cna::new(1), message };
        assert!(probe.handle_message(&reject));
        assert_eq!(probe.outcome(), Some(ProbeOutcome::Arrived));
    }

    #[test]
    fn peer_that_does_not_pad_or_has_short_packets_is_not_probed() {
        for (mtu_bytes, capabilities) in [(1024, PADDED_HELLOS), (4096, 0)] {
            let identity = identity(1, mtu_bytes, capabilities);
            assert!(LengthProbe::new(START, &identity, 7, &identity.limits).is_none());
        }
    }
}
