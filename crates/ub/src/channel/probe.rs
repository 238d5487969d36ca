//! Round trips measured out of band: separate small packets, on every path or where a round trip or
//! loss is unusual ([`ProbeSpec`]).
//!
//! The answer reports how long the probe was at the peer, so what is left is the fabric's part,
//! plus the delay of the local queue. It becomes the round trip of a path on which nothing is under
//! way, and its difference from the round trip of data is the hosts' part of the delay.

use super::{Channel, Timer};
use crate::api::Transmit;
use crate::counters::Counters;
use crate::placement::Verdict;
use crate::shared::{Schedule, Shared};
use alloc::boxed::Box;
use alloc::vec::Vec;
use fairway_policy::ProbeSpec;
use fairway_wire::{Duration, Instant, Packet, Probe};

/// Time for which an answer is used to compute the hosts' part of a path's delay.
const FRESH: Duration = Duration::from_ms(10);
/// The shortest time between two probes of one channel that a timer sends: with more paths than
/// fit, the interval of every path grows.
const STEP_MIN: Duration = Duration::from_us(10);
/// Most probes of a peer that may wait to be answered; further ones are dropped.
const ECHOES: usize = 8;

/// This side's probes to the peer, if it sends any, and those of the peer.
#[derive(Debug)]
pub(super) struct Probes {
    probing: Option<Box<Probing>>,
    echoes: Echoes,
}

impl Probes {
    pub(super) fn new(spec: ProbeSpec, paths: usize) -> Probes {
        Probes { probing: Probing::new(spec, paths), echoes: Echoes::default() }
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
}

#[derive(Clone, Copy, Debug, Default)]
struct PathProbe {
    is_due: bool,
    /// The number of the probe under way, if one is, and when it left.
    pending: Option<u32>,
    sent_at: Instant,
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
        Some(Box::new(Probing { spec, paths, due: 0, next: 0 }))
    }

    fn make_due(&mut self, path: u8) {
        let probe = &mut self.paths[usize::from(path)];
        self.due += u32::from(!probe.is_due);
        probe.is_due = true;
        probe.bytes = 0;
    }

    /// True if no probe of this path is due or under way. One that stays unanswered for long counts
    /// as lost. (If a second one were sent, the first one's answer would be ignored.)
    fn is_idle(&self, path: u8, now: Instant) -> bool {
        let probe = &self.paths[usize::from(path)];
        !probe.is_due && (probe.pending.is_none() || now.elapsed_since(probe.sent_at) >= FRESH)
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

/// Probes of the peer that have not been answered.
#[derive(Clone, Copy, Debug, Default)]
struct Echoes {
    waiting: [Echo; ECHOES],
    count: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Echo {
    number: u32,
    path: u8,
    at: Instant,
}

impl Echoes {
    /// Adds a probe to be answered. False if there is no room.
    fn push(&mut self, echo: Echo) -> bool {
        let Some(place) = self.waiting.get_mut(usize::from(self.count)) else { return false };
        *place = echo;
        self.count += 1;
        true
    }

    fn pop(&mut self) -> Option<Echo> {
        self.count = self.count.checked_sub(1)?;
        Some(self.waiting[usize::from(self.count)])
    }
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
            if probing.is_idle(path, now) {
                probing.make_due(path);
                self.mark_urgent(schedule);
            }
        }
        self.arm(schedule, Timer::Probe, now + step);
    }

    /// Counts bytes that leave on a path.
    #[inline]
    pub(crate) fn sample_path(
        &mut self,
        schedule: &mut Schedule,
        now: Instant,
        path: u8,
        bytes: u32,
    ) {
        let Some(probing) = &mut self.probes.probing else { return };
        let ProbeSpec::Sampled { bytes: enough } = probing.spec else { return };
        let probe = &mut probing.paths[usize::from(path)];
        probe.bytes += u64::from(bytes);
        if probe.bytes >= enough && probing.is_idle(path, now) {
            probing.make_due(path);
            self.mark_urgent(schedule);
        }
    }

    /// Makes a probe due if the round trip of data, or a loss (`None`), is unusual.
    pub(crate) fn suspect(
        &mut self,
        schedule: &mut Schedule,
        now: Instant,
        path: u8,
        sample: Option<Duration>,
    ) {
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
        if is_odd && probing.is_idle(path, now) {
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
        if let Some(Echo { number, path, at }) = self.probes.echoes.pop() {
            let turn = now.elapsed_since(at).as_ns();
            let turn_ns = Some(u32::try_from(turn).unwrap_or(u32::MAX));
            return Some(self.bare(&shared.config, path, Packet::Probe(Probe { number, turn_ns })));
        }
        let probing = self.probes.probing.as_mut()?;
        let path = probing.take_due()?;
        let number = shared.random.number() as u32 & Probe::NUMBER_MAX;
        let probe = &mut probing.paths[usize::from(path)];
        (probe.pending, probe.sent_at) = (Some(number), now);
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
                self.note_answer(
                    &mut shared.counters,
                    &mut shared.schedule,
                    now,
                    (probe.number, path),
                    turn,
                );
            }
            None => {
                if self.probes.echoes.push(Echo { number: probe.number, path, at: now }) {
                    self.mark_urgent(&mut shared.schedule);
                }
            }
        }
        Verdict::Done
    }

    fn note_answer(
        &mut self,
        counters: &mut Counters,
        schedule: &mut Schedule,
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
        let round_trip = now.elapsed_since(probe.sent_at).saturating_sub(turn);
        if round_trip == Duration::ZERO {
            // By the peer's clock it kept the probe for longer than the answer took to arrive.
            return;
        }
        probe.round_trip = Some(round_trip);
        probe.answered_at = now;
        counters.round_trip_probes_answered += 1;
        self.paths.note_probed(path, now, round_trip);
        self.mark_ready(schedule);
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
