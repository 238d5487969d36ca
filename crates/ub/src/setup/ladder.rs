//! Length of a connection's packets: a search that proves a length before it is used.
//!
//! A client pads its HELLO to the length of its longest packets, and the server its WELCOME, so a
//! WELCOME that arrives has shown that packets of the offered length get through, there and back.
//! The kernel's path MTU is not used, because any host can send ICMP (RFC 8899 searches likewise,
//! over an open connection).
//!
//! If the first HELLO stays unanswered, the next is sent together with a short one. The answer to
//! the short one shows that the server exists, and what the server supports. Then HELLOs of all
//! lengths of a ladder are sent at once, several times, and the longest that was answered is used.

use fairway_wire::{Cna, Duration, Instant, Welcome};

use super::lengths::payload_mtu;

/// MTUs of links, tunnels and jumbo frames that are common, longest first, headers of IP included.
const LINKS: [usize; 7] = [9000, 4236, 1500, 1450, 1400, 1280, 576];
/// The payload of packets as short as a set-up message, which every path carries.
const ALWAYS: u16 = 100;
/// Duration of the search: HELLOs are sent five times, 0, 20, 60, 140 and 300 ms after it began.
/// With a loss of 10 % in each direction a length is found missing by mistake once in 4,000 times.
const SEARCH_FOR: Duration = Duration::from_ms(300);
/// The least wait and, in round trips, the usual wait for answers to the last HELLOs.
const LAST_WAIT: Duration = Duration::from_ms(20);
const LAST_ROUND_TRIPS: u64 = 2;

/// An offer of the server, and the MTU that was requested.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub(super) length: HelloLength,
    /// The server's address for set-up.
    pub(super) server: Cna,
    pub(super) welcome: Welcome,
}

/// The kind of a HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HelloLength {
    /// A short one, which requests the longest MTU that the client supports.
    Short,
    /// A HELLO as long as packets of this MTU, in bytes of payload.
    Long(u16),
}

/// A search for the longest packets that get through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    begun: Instant,
    /// The longest payload that both ends support, in bytes.
    longest: u16,
    best: Option<Offer>,
    decide_at: Option<Instant>,
}

impl Search {
    /// Begins a search at `now`. `longest`: the longest payload in bytes that both ends support.
    pub(super) fn new(now: Instant, longest: u16) -> Search {
        Search { begun: now, longest, best: None, decide_at: None }
    }

    /// The MTUs that may still turn out to be the longest, longest first.
    pub(super) fn candidates(&self) -> impl Iterator<Item = u16> + use<> {
        let best = self.best.map_or(0, |best| best.welcome.offer.mtu_bytes);
        let longest = self.longest;
        let rungs = LINKS.into_iter().map(payload_mtu).chain([ALWAYS]);
        let shorter = rungs.filter(move |rung| *rung < longest);
        core::iter::once(longest).chain(shorter).take_while(move |rung| *rung > best)
    }

    /// Processes an offer. Offers received later than `deadline` are of no use.
    pub(super) fn take(&mut self, now: Instant, deadline: Instant, offer: Offer) {
        let proven = offer.welcome.offer.mtu_bytes;
        if self.best.is_some_and(|best| best.welcome.offer.mtu_bytes >= proven) {
            return;
        }
        self.best = Some(offer);
        let round_trip = now.since(self.begun).as_ps();
        let last_wait = (LAST_ROUND_TRIPS * round_trip).max(LAST_WAIT.as_ps());
        let patient = self.begun + SEARCH_FOR + Duration::from_ps(last_wait);
        // Half of the remaining time is reserved for the CONFIRM and what follows.
        let half = self.begun + Duration::from_ps(deadline.since(self.begun).as_ps() / 2);
        let latest = if half.is_before(patient) { half } else { patient };
        self.decide_at.get_or_insert(latest);
    }

    /// The offer to accept: one of the longest possible MTU at once, or the best when the wait is
    /// over.
    pub(super) fn decided(&self, now: Instant) -> Option<Offer> {
        let best = self.best?;
        let is_longest = best.welcome.offer.mtu_bytes >= self.longest;
        let is_time = self.decide_at.is_some_and(|at| now.is_at_or_after(at));
        (is_longest || is_time).then_some(best)
    }

    /// Time at which the best offer is accepted; `None` while there is none.
    pub(super) fn decide_at(&self) -> Option<Instant> {
        self.decide_at
    }
}
