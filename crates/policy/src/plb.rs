//! PLB: all chunks use one path, until several congested rounds cause a change.
//!
//! **Rule:** a round is one round trip of the path in use. It is congested if at least half of the
//! packets it delivered were marked. After 3 congested rounds in a row the channel moves when it is
//! next idle (nothing in flight), and after 12 at any moment, to another usable path, drawn at
//! random.
//!
//! **Source:** Qureshi et al., *PLB: Congestion Signals are Simple and Effective for Network Load
//! Balancing*, SIGCOMM 2022, §3, with the parameters of its implementation in Linux
//! (`tcp_plb_*`).
//!
//! **Where this differs:**
//! * A lost packet counts as a marked one, to have a signal where no switch marks.
//! * A round in which nothing was delivered or lost is merged with the next.
//! * PLB pauses for a minute after a time-out, so that it does not return to a dead path. Here the
//!   engine detects dead paths, and never uses them.
//! * Acknowledgements report marks of the whole channel. They belong to the path in use, except for
//!   a round trip after a move; that round is not judged.

use fairway_wire::Instant;

use crate::{ChunkRequest, PathChoice, PathView};

/// Parameters of [`Plb`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlbParameters {
    /// Share of marked packets, in thousandths, from which on a round is congested.
    pub threshold_permille: u64,
    /// Congested rounds in a row after which an idle channel moves.
    pub idle_rounds: u64,
    /// Congested rounds in a row after which a busy channel moves.
    pub rounds: u64,
}

impl Default for PlbParameters {
    fn default() -> Self {
        PlbParameters { threshold_permille: 500, idle_rounds: 3, rounds: 12 }
    }
}

/// The counters of the path in use when a round began.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    delivered: u64,
    marked: u64,
    lost: u64,
    /// True for the first round on a path: its marks may belong to the path before.
    first: bool,
}

impl Round {
    fn begin(view: &PathView, now: Instant, first: bool) -> Self {
        let delivered = view.sent.saturating_sub(u64::from(view.in_flight) + view.lost);
        Round { began: now, delivered, marked: view.marked, lost: view.lost, first }
    }
}

/// The PLB path choice.
#[derive(Clone, Debug)]
pub struct Plb {
    parameters: PlbParameters,
    path: usize,
    round: Option<Round>,
    congested_rounds: u64,
}

impl Plb {
    /// Name of the policy in a specification.
    pub const NAME: &'static str = "plb";

    /// Creates the path choice with `parameters`; the first path is drawn at the first chunk.
    pub fn new(parameters: PlbParameters) -> Self {
        Plb { parameters, path: usize::MAX, round: None, congested_rounds: 0 }
    }

    /// Judges the round, if it is over, by the counters of the path since.
    fn judge(&mut self, view: &PathView, now: Instant) {
        let now_round = Round::begin(view, now, false);
        let Some(round) = self.round else { return };
        // Late acknowledgements of packets declared lost must not make the counters negative.
        let delivered = now_round.delivered.saturating_sub(round.delivered);
        let lost = now_round.lost.saturating_sub(round.lost);
        let marked = now_round.marked.saturating_sub(round.marked) + lost;
        let over =
            view.smoothed_rtt.as_ps() > 0 && now.elapsed_since(round.began) >= view.smoothed_rtt;
        if !over || delivered + lost == 0 {
            return;
        }
        self.round = Some(now_round);
        if round.first {
            return;
        }
        let sent = delivered + lost;
        let congested =
            marked.saturating_mul(1000) >= sent.saturating_mul(self.parameters.threshold_permille);
        self.congested_rounds = if congested { self.congested_rounds + 1 } else { 0 };
    }

    fn is_due(&self, view: &PathView) -> bool {
        let PlbParameters { idle_rounds, rounds, .. } = self.parameters;
        self.congested_rounds >= rounds
            || self.congested_rounds >= idle_rounds && view.in_flight == 0
    }

    /// Moves to a usable path, drawn at random, which differs from the old one if possible.
    fn repath(&mut self, paths: &[PathView], request: &ChunkRequest) {
        let old = self.path;
        let usable = || {
            let all = paths.iter().enumerate();
            all.filter(|(index, path)| path.usable && *index != old).map(|(index, _)| index)
        };
        let count = usable().count() as u64;
        let drawn = (u64::from(request.random) * count) >> 32;
        if let Some(path) = usable().nth(drawn as usize) {
            self.path = path;
        }
        self.round = paths.get(self.path).map(|view| Round::begin(view, request.now, true));
        self.congested_rounds = 0;
    }
}

impl PathChoice for Plb {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn choose(&mut self, paths: &[PathView], request: &ChunkRequest) -> usize {
        match paths.get(self.path).filter(|view| view.usable) {
            Some(view) => {
                self.judge(view, request.now);
                if self.is_due(view) {
                    self.repath(paths, request);
                }
            }
            None => self.repath(paths, request),
        }
        self.path.min(paths.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests;
