//! Round trips measured out of band: separate small packets, on every path or where a round trip or
//! loss is unusual ([`ProbeSpec`]).
//!
//! The answer reports how long the probe was at the peer, so what is left is the fabric's part,
//! plus the delay of the local queue. It becomes the round trip of a path on which nothing is under
//! way, and its difference from the round trip of data is the hosts' part of the delay.
//!
//! A path that leaves two probes in a row unanswered, while others deliver, is taken out of use; an
//! answer brings it back.

use super::{Channel, Timer};
use crate::api::Transmit;
use crate::placement::Verdict;
use crate::shared::{Config, Schedule, Shared};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fairway_policy::ProbeSpec;
use fairway_wire::{Duration, Instant, Packet, Probe};

/// Time for which an answer is used to compute the hosts' part of a path's delay.
const FRESH: Duration = Duration::from_ms(10);
/// The shortest time between two probes of one channel that a timer sends: with more paths than
/// fit, the interval of every path grows.
const STEP_MIN: Duration = Duration::from_us(10);
/// Number of probes in a row, without an answer, after which a path is taken out of use. One alone
/// may be lost like any other packet.
const UNANSWERED: u32 = 2;

/// This side's probes to the peer, if it sends any, and those of the peer.
#[derive(Debug)]
pub(super) struct Probes {
    probing: Option<Box<Probing>>,
    /// Probes of the peer that have not been answered.
    echoes: VecDeque<Echo>,
    /// Most of them, one for each path; further ones are dropped.
    most_echoes: usize,
}

impl Probes {
    /// True if this side sends no probes, and owes the peer no answer.
    pub(super) fn are_absent(&self) -> bool {
        self.probing.is_none() && self.echoes.is_empty()
    }

    pub(super) fn new(spec: ProbeSpec, paths: usize) -> Probes {
        Probes { probing: Probing::new(spec, paths), echoes: VecDeque::new(), most_echoes: paths }
    }
}

/// The state of a channel that sends probes.
#[derive(Debug)]
struct Probing {
    spec: ProbeSpec,
    paths: Vec<PathProbe>,
    /// Number of paths on which a probe is due now.
    due: u32,
    /// The next path that the timer probes.
    next: u8,
    /// Probes that may still be answered in time, by path and number, in the order of sending; and
    /// some that were answered.
    waiting: VecDeque<(u8, u32)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct PathProbe {
    is_due: bool,
    /// The number of the last probe, if it was not answered, and when it left.
    pending: Option<u32>,
    sent_at: Instant,
    /// True if its answer has taken too long. It counts even so, if it comes.
    is_late: bool,
    /// Number of probes in a row whose answers took too long, and when the first of them left.
    unanswered: u32,
    unanswered_since: Instant,
    /// Bytes sent since a probe was last due.
    bytes: u64,
    /// The shortest round trip of data.
    least: Duration,
    /// The round trip that the last answer gave, and when it arrived.
    round_trip: Option<Duration>,
    answered_at: Instant,
}

impl Probing {
    /// `None` if the channel does not probe.
    fn new(spec: ProbeSpec, paths: usize) -> Option<Box<Probing>> {
        if spec == ProbeSpec::Off {
            return None;
        }
        let paths = alloc::vec![PathProbe::default(); paths];
        Some(Box::new(Probing { spec, paths, due: 0, next: 0, waiting: VecDeque::new() }))
    }

    fn make_due(&mut self, path: u8) {
        let probe = &mut self.paths[usize::from(path)];
        self.due += u32::from(!probe.is_due);
        probe.is_due = true;
        probe.bytes = 0;
    }

    /// True if no probe of this path is due or under way. (If a second one were sent, the first
    /// one's answer would be ignored.)
    fn is_idle(&self, path: u8) -> bool {
        let probe = &self.paths[usize::from(path)];
        !probe.is_due && (probe.pending.is_none() || probe.is_late)
    }

    /// Notes that a probe leaves. True if it is the only one that waits for an answer.
    fn note_sent(&mut self, path: u8, number: u32, now: Instant) -> bool {
        let probe = &mut self.paths[usize::from(path)];
        (probe.pending, probe.sent_at, probe.is_late) = (Some(number), now, false);
        if self.waiting.len() >= 2 * self.paths.len() {
            // At most one probe of a path waits.
            let Probing { waiting, paths, .. } = self;
            waiting.retain(|(path, number)| paths[usize::from(*path)].pending == Some(*number));
        }
        self.waiting.push_back((path, number));
        self.waiting.len() == 1
    }

    /// The path of the probe that has waited for its answer for longest, and when it left.
    fn oldest_waiting(&mut self) -> Option<(u8, Instant)> {
        while let Some(&(path, number)) = self.waiting.front() {
            let probe = &self.paths[usize::from(path)];
            if probe.pending == Some(number) {
                return Some((path, probe.sent_at));
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Notes that the answer to the probe that has waited for longest takes too long. The probe is
    /// repeated; if it was, returns its path, and when the first one left.
    fn give_up_oldest(&mut self) -> Option<(u8, Instant)> {
        let (path, _) = self.waiting.pop_front()?;
        let probe = &mut self.paths[usize::from(path)];
        probe.is_late = true;
        if probe.unanswered == 0 {
            probe.unanswered_since = probe.sent_at;
        }
        probe.unanswered += 1;
        let since = probe.unanswered_since;
        if probe.unanswered < UNANSWERED {
            self.make_due(path);
            return None;
        }
        Some((path, since))
    }

    fn take_due(&mut self) -> Option<u8> {
        if self.due == 0 {
            return None;
        }
        let count = self.paths.len();
        let mut turns = (0..count).map(|step| (usize::from(self.next) + step) % count);
        let path = turns.find(|path| self.paths[*path].is_due)?;
        self.next = ((path + 1) % count) as u8;
        self.due -= 1;
        self.paths[path].is_due = false;
        Some(path as u8)
    }
}

/// A probe of the peer.
#[derive(Clone, Copy, Debug, Default)]
struct Echo {
    number: u32,
    path: u8,
    at: Instant,
}

impl Channel {
    /// Starts the probe timer of an open channel, if its paths are probed periodically.
    pub(crate) fn begin_probing(&mut self, schedule: &mut Schedule, now: Instant) {
        if let Some(step) = self.probe_step() {
            self.arm(schedule, Timer::Probe, now + step);
        }
    }

    fn probe_step(&self) -> Option<Duration> {
        let probing = self.probes.probing.as_ref()?;
        let ProbeSpec::Periodic { interval } = probing.spec else { return None };
        Some(interval.divided_by(probing.paths.len() as u64).max(STEP_MIN))
    }

    /// Makes a probe due on the path whose turn it is.
    pub(crate) fn probe_timer(&mut self, schedule: &mut Schedule, now: Instant) {
        let Some(step) = self.probe_step() else { return };
        if let Some(probing) = &mut self.probes.probing {
            let path = probing.next;
            probing.next = ((usize::from(path) + 1) % probing.paths.len()) as u8;
            if probing.is_idle(path) {
                probing.make_due(path);
                self.mark_urgent(schedule);
            }
        }
        self.arm(schedule, Timer::Probe, now + step);
    }

    /// Counts bytes that leave on a path.
    #[inline]
    pub(crate) fn sample_path(&mut self, schedule: &mut Schedule, path: u8, bytes: u32) {
        let Some(probing) = &mut self.probes.probing else { return };
        let ProbeSpec::Sampled { bytes: enough } = probing.spec else { return };
        let probe = &mut probing.paths[usize::from(path)];
        probe.bytes += u64::from(bytes);
        if probe.bytes >= enough && probing.is_idle(path) {
            probing.make_due(path);
            self.mark_urgent(schedule);
        }
    }

    /// Makes a probe due if the round trip of data, or a loss (`None`), is unusual.
    pub(crate) fn suspect(&mut self, schedule: &mut Schedule, path: u8, sample: Option<Duration>) {
        let Some(probing) = &mut self.probes.probing else { return };
        let ProbeSpec::Anomaly { times } = probing.spec else { return };
        let probe = &mut probing.paths[usize::from(path)];
        let is_odd = match sample {
            None => true,
            Some(sample) if probe.least == Duration::ZERO || sample < probe.least => {
                probe.least = sample;
                false
            }
            Some(sample) => sample > probe.least.times(u64::from(times)),
        };
        if is_odd && probing.is_idle(path) {
            probing.make_due(path);
            self.mark_urgent(schedule);
        }
    }

    /// The next answer or probe, if one is due.
    pub(crate) fn next_round_trip_probe(
        &mut self,
        shared: &mut Shared,
        now: Instant,
    ) -> Option<Transmit> {
        if let Some(Echo { number, path, at }) = self.probes.echoes.pop_front() {
            let turn = now.elapsed_since(at).as_ns();
            let turn_ns = Some(u32::try_from(turn).unwrap_or(u32::MAX));
            return Some(self.bare(&shared.config, path, Packet::Probe(Probe { number, turn_ns })));
        }
        let probing = self.probes.probing.as_mut()?;
        let path = probing.take_due()?;
        let number = shared.random.number() as u32 & Probe::NUMBER_MAX;
        let is_only_one = probing.note_sent(path, number, now);
        if is_only_one {
            self.await_probe_answer(shared);
        }
        shared.counters.round_trip_probes_sent += 1;
        Some(self.bare(&shared.config, path, Packet::Probe(Probe { number, turn_ns: None })))
    }

    pub(crate) fn handle_probe(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        probe: &Probe,
        path: u8,
    ) -> Verdict {
        match probe.turn_ns {
            Some(turn_ns) => {
                let turn = Duration::from_ns(u64::from(turn_ns));
                self.note_answer(shared, now, (probe.number, path), turn);
            }
            None => {
                if self.probes.echoes.len() < self.probes.most_echoes {
                    self.probes.echoes.push_back(Echo { number: probe.number, path, at: now });
                    self.mark_urgent(&mut shared.schedule);
                }
            }
        }
        Verdict::Done
    }

    fn note_answer(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        (number, path): (u32, u8),
        turn: Duration,
    ) {
        let Some(probing) = &mut self.probes.probing else { return };
        let probe = &mut probing.paths[usize::from(path)];
        // An answer to a probe that was not sent, or is no longer under way, proves nothing.
        if probe.pending != Some(number) {
            return;
        }
        probe.pending = None;
        probe.unanswered = 0;
        let round_trip = now.elapsed_since(probe.sent_at).saturating_sub(turn);
        if round_trip == Duration::ZERO {
            // By the peer's clock it kept the probe for longer than the answer took to arrive.
            return;
        }
        probe.round_trip = Some(round_trip);
        probe.answered_at = now;
        shared.counters.round_trip_probes_answered += 1;
        self.paths.note_probed(path, now, round_trip);
        self.path_measured(shared, path);
        self.mark_ready(&mut shared.schedule);
    }

    /// Sets the timer for the probe that has waited for its answer for longest.
    fn await_probe_answer(&mut self, shared: &mut Shared) {
        if let Some((_, deadline)) = self.oldest_probe(&shared.config) {
            self.arm(&mut shared.schedule, Timer::ProbeAnswer, deadline);
        }
    }

    /// The path of the probe that has waited for its answer for longest, and until when it waits.
    fn oldest_probe(&mut self, config: &Config) -> Option<(u8, Instant)> {
        let (path, sent_at) = self.probes.probing.as_mut()?.oldest_waiting()?;
        let round_trip = self.paths.round_trip(path).max(self.recovery.smoothed());
        Some((path, sent_at + config.profile().probe_timeout.max(round_trip.times(2))))
    }

    /// Gives up the probes whose answers have taken too long.
    pub(crate) fn probe_answer_timer(&mut self, shared: &mut Shared, now: Instant) {
        while let Some((_, deadline)) = self.oldest_probe(&shared.config) {
            if now.is_before(deadline) {
                break;
            }
            let Some(probing) = &mut self.probes.probing else { return };
            match probing.give_up_oldest() {
                Some((path, since)) => self.path_unanswered(shared, path, (since, now)),
                None => self.mark_urgent(&mut shared.schedule),
            }
        }
        self.await_probe_answer(shared);
    }

    /// The part of a round trip of data that is not the fabric's, if a probe of its path was
    /// answered within the last 10 ms.
    pub(crate) fn endpoint_delay(
        &self,
        now: Instant,
        path: u8,
        round_trip: Option<Duration>,
    ) -> Option<Duration> {
        let probe = &self.probes.probing.as_ref()?.paths[usize::from(path)];
        let fabric = probe.round_trip.filter(|_| now.elapsed_since(probe.answered_at) < FRESH)?;
        Some(round_trip?.saturating_sub(fabric))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_that_were_answered_do_not_pile_up_behind_one_that_was_not() {
        let mut probing = Probing::new(ProbeSpec::Sampled { bytes: 4096 }, 4).unwrap();
        assert!(probing.note_sent(0, 0, Instant::from_ps(1)));
        for round in 1..1000 {
            let (path, now) = ((round % 3 + 1) as u8, Instant::from_ps(u64::from(round)));
            assert!(!probing.note_sent(path, round, now));
            probing.paths[usize::from(path)].pending = None;
            assert_eq!(probing.oldest_waiting(), Some((0, Instant::from_ps(1))));
            assert!(probing.waiting.len() <= 8);
        }
        probing.note_sent(2, 1000, Instant::from_ps(1000));
        assert_eq!(probing.give_up_oldest(), None, "it is repeated");
        assert_eq!(probing.take_due(), Some(0));
        assert_eq!(probing.oldest_waiting(), Some((2, Instant::from_ps(1000))));
    }
}
