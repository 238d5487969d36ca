//! Decides when a load or store is repeated because its answer has not arrived.
//!
//! 1. **Later ones were answered.** Answers arrive in nearly the order in which loads and stores
//!    were requested: one that enough later ones have passed is lost, and is repeated at once. How
//!    many are enough is learned, by the detector that the transport uses on a path.
//! 2. **A round trip has passed**, with four times its deviation: perhaps nothing later was sent,
//!    since at most 64 are under way and the oldest of them holds the others up.
//! 3. **The retransmission time-out has passed**, doubled each time.
//!
//! The first two are guesses that cost at most a packet, so they count towards [`SPURIOUS_MAX`] per
//! operation and not towards `Profile::bypass_retries`. A repeat keeps its number, so the target
//! executes a store once, however many copies of it arrive.

use super::{Channel, WINDOW};
use crate::api::{LocalRange, Status, Transmit};
use crate::channel::Timer;
use crate::channel::paths::PathTurn;
use crate::channel::round_trip::RoundTrip;
use crate::limits::Profile;
use crate::list::List;
use crate::message::{Body, Message, MessagePlace, access};
use crate::pool::Index;
use crate::shared::{Config, Shared};
use alloc::boxed::Box;
use fairway_policy::{Evidence, LateArrival, LossDetector, PathOrder};
use fairway_wire::{Bypass, BypassOperation, Duration, Instant, Packet, Priority};

/// Most repeats of one load or store that do not wait for the retransmission time-out.
const SPURIOUS_MAX: u8 = 3;

/// How often, and when, one load or store under way was sent.
#[derive(Clone, Copy, Debug)]
struct SendRecord {
    /// When it was sent first, and last.
    first_at: Instant,
    at: Instant,
    /// Its position in the order of everything that the channel sent, for its first and its last
    /// copy.
    first: u32,
    last: u32,
    /// Number of copies sent, counted up to 2.
    times: u8,
    /// The path of the last copy, and whether the first one took another.
    path: u8,
    has_moved: bool,
    /// Repeats that did not wait for the retransmission time-out.
    spurious: u8,
}

impl SendRecord {
    const NEVER: SendRecord = SendRecord {
        first_at: Instant::ZERO,
        at: Instant::ZERO,
        first: 0,
        last: 0,
        times: 0,
        path: 0,
        has_moved: false,
        spurious: 0,
    };

    fn is_repeated(&self) -> bool {
        self.times > 1
    }

    /// True if an answer by `path` belongs to an earlier copy than the last, which was therefore
    /// not lost. That is so if the answer arrives by another path, or sooner than any answer did.
    fn was_spurious(&self, now: Instant, path: u8, shortest: Duration) -> bool {
        let elsewhere = self.has_moved && path != self.path;
        self.is_repeated() && (elsewhere || now.elapsed_since(self.at) < shortest)
    }
}

/// Records of the loads and stores under way, used to decide on repetition.
#[derive(Debug)]
pub(super) struct Repeats {
    /// By number mod 64; empty unless loads and stores were agreed on.
    records: Box<[SendRecord]>,
    /// Loads and stores that await their answer, in the order in which they were sent last.
    pub(super) flying: List<Index<Message>>,
    /// Position in the order of the next one to be sent, wrapping.
    next: u32,
    /// Of those sent once and answered, the one sent last: its position, and when it was sent.
    newest: u32,
    newest_at: Instant,
    round_trip: RoundTrip,
    /// The shortest time from the last copy of any load or store to its answer.
    shortest: Duration,
    loss: PathOrder,
}

impl Repeats {
    /// Bytes of one record.
    pub(super) const RECORD_BYTES: usize = size_of::<SendRecord>();

    pub(super) fn new(is_agreed: bool) -> Self {
        let records = WINDOW as usize * usize::from(is_agreed);
        Repeats {
            records: alloc::vec![SendRecord::NEVER; records].into_boxed_slice(),
            flying: List::default(),
            next: 1,
            newest: 0,
            newest_at: Instant::ZERO,
            round_trip: RoundTrip::default(),
            shortest: Duration::from_secs(3600),
            loss: PathOrder::new(),
        }
    }

    /// Starts the record of a load or store that was given this number.
    pub(super) fn begin(&mut self, number: u32) {
        self.records[slot_of(number)] = SendRecord::NEVER;
    }

    /// True if the load or store was sent before.
    fn was_sent(&self, number: u32) -> bool {
        self.records[slot_of(number)].times > 0
    }

    /// Records that a copy of the load or store is sent.
    fn note(&mut self, number: u32, now: Instant, path: u8) {
        let place = self.next;
        self.next = place.wrapping_add(1);
        let record = &mut self.records[slot_of(number)];
        if record.times == 0 {
            (record.first, record.first_at) = (place, now);
        } else {
            record.has_moved |= path != record.path;
        }
        (record.last, record.at, record.path) = (place, now, path);
        record.times = (record.times + 1).min(2);
    }

    /// True if the load or store may be repeated before the retransmission time-out.
    fn may_hasten(&self, number: u32, retries: u16, profile: &Profile) -> bool {
        let is_known = self.round_trip.smoothed() > Duration::ZERO;
        let spurious = self.records[slot_of(number)].spurious;
        is_known && retries == 0 && spurious < SPURIOUS_MAX && profile.bypass_retries > 0
    }

    /// Updates the round trip and the order of answers from an answer that has arrived.
    fn learn(&mut self, number: u32, now: Instant, path: u8) {
        let record = self.records[slot_of(number)];
        let passed_by = (self.newest.wrapping_sub(record.first) as i32).max(0) as u32;
        let spurious = record.was_spurious(now, path, self.shortest);
        // If the answer was to an earlier copy, this is too short, and fewer repeats count as
        // spurious.
        self.shortest = self.shortest.min(now.elapsed_since(record.at));
        if record.is_repeated() && !spurious {
            return;
        }
        let sample = now.elapsed_since(record.first_at);
        self.round_trip.note(sample);
        if spurious || passed_by > 0 {
            let overtaken_by =
                if spurious { Duration::ZERO } else { self.newest_at.since(record.first_at) };
            self.loss.on_reordering(&LateArrival {
                path_distance: passed_by,
                psn_distance: 0,
                was_declared_lost: spurious,
                overtaken_by,
                smoothed_rtt: self.round_trip.smoothed(),
            });
        } else {
            (self.newest, self.newest_at) = (record.last, record.at);
        }
    }

    /// True if the load or store is lost, judging by the answers to later ones.
    fn is_lost(&mut self, number: u32, now: Instant) -> bool {
        let record = self.records[slot_of(number)];
        let passed_by = self.newest.wrapping_sub(record.last) as i32;
        if passed_by <= 0 {
            return false;
        }
        self.loss.is_lost(&Evidence {
            // A repeat takes another path, whose packets are not in that order.
            path_distance: if record.is_repeated() { 0 } else { passed_by as u32 },
            psn_distance: 0,
            beyond_tolerance: false,
            age: now.elapsed_since(record.at),
            overtaken_by: self.newest_at.since(record.at),
            smoothed_rtt: self.round_trip.smoothed(),
        })
    }
}

fn slot_of(number: u32) -> usize {
    (number % WINDOW) as usize
}

impl Channel {
    /// Builds the packet of a local load or store.
    pub(super) fn bypass_packet(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        index: Index<Message>,
    ) -> Transmit {
        let message = shared.messages[index];
        let number = message.unsequenced().number;
        let path = match self.bypass.repeats.was_sent(number) {
            false => self.path_for_small(&mut shared.flows, &mut shared.random, now),
            true => self.paths.take_turn(PathTurn::Bypass),
        };
        self.bypass.repeats.note(number, now, path);
        self.bypass.repeats.flying.push_back(&mut shared.messages, index);
        let due = now + self.wait(&shared.config, number, message.attempts.retries());
        let message = &mut shared.messages[index];
        message.place = MessagePlace::AwaitingAnswer;
        message.attempts.set_retry_at(due);
        let message = *message;
        if self.timers.deadline(Timer::Bypass).is_none_or(|at| due.is_before(at)) {
            self.arm(&mut shared.schedule, Timer::Bypass, due);
        }
        let access = access(&message.unsequenced().remote, message.local.length);
        let is_load = matches!(message.body, Body::Load(_));
        let operation = if is_load {
            BypassOperation::Load { access }
        } else {
            BypassOperation::Store { access }
        };
        let oldest = self.bypass.oldest;
        shared.counters.bypass_sent += 1;
        let gather = if is_load { LocalRange::default() } else { message.local };
        let packet = Packet::Bypass(Bypass { number, oldest, jetty: message.jetty, operation });
        let priority = Priority::of(&packet, gather.length);
        Transmit {
            channel: self.id,
            route: self.route(&shared.config, path, priority),
            packet,
            gather,
        }
    }

    /// How long to wait for the answer.
    fn wait(&self, config: &Config, number: u32, retries: u16) -> Duration {
        let profile = config.profile();
        let timeout = self.timeout(config);
        if !self.bypass.repeats.may_hasten(number, retries, profile) {
            return timeout.times(1 << retries.min(16)).min(profile.timeout_max);
        }
        let usual = self.bypass.repeats.round_trip.usual_most();
        usual.max(profile.timeout_min.divided_by(8)).min(timeout)
    }

    fn timeout(&self, config: &Config) -> Duration {
        let round_trip = self.recovery.round_trip();
        let measured = match round_trip.smoothed() {
            Duration::ZERO => config.profile().timeout_initial,
            _ => round_trip.usual_most(),
        };
        measured.max(config.profile().timeout_min)
    }

    /// Repeats the local loads and stores that an answer proves lost. Examines each one under way
    /// at most once, and in general only the oldest.
    pub(super) fn bypass_answered(
        &mut self,
        shared: &mut Shared,
        now: Instant,
        number: u32,
        path: u8,
    ) {
        self.bypass.repeats.learn(number, now, path);
        let mut flying = self.bypass.repeats.flying.head();
        while let Some(at) = flying {
            let message = &shared.messages[at];
            let (number, retries, next) =
                (message.unsequenced().number, message.attempts.retries(), message.links.next());
            if self.bypass.repeats.may_hasten(number, retries, shared.config.profile()) {
                if !self.bypass.repeats.is_lost(number, now) {
                    return;
                }
                self.hasten(shared, at);
            }
            flying = next;
        }
    }

    /// Repeats a load or store that is under way, before the retransmission time-out.
    fn hasten(&mut self, shared: &mut Shared, index: Index<Message>) {
        let number = shared.messages[index].unsequenced().number;
        self.bypass.repeats.records[slot_of(number)].spurious += 1;
        self.repeat(shared, index);
    }

    fn repeat(&mut self, shared: &mut Shared, index: Index<Message>) {
        shared.counters.bypass_repeated += 1;
        self.bypass.repeats.flying.unlink(&mut shared.messages, index);
        self.post_bypass(shared, index);
    }

    /// Repeats the loads and stores that were not answered in time.
    pub(crate) fn bypass_timer(&mut self, shared: &mut Shared, now: Instant) {
        let mut next: Option<Instant> = None;
        for slot in 0..WINDOW as usize {
            let Some(index) = self.bypass.pending[slot] else { continue };
            let message = &mut shared.messages[index];
            if message.place != MessagePlace::AwaitingAnswer {
                continue;
            }
            let (number, retries) = (message.unsequenced().number, message.attempts.retries());
            let due = message.attempts.retry_at();
            if now.is_before(due) {
                next = Some(next.map_or(due, |at| at.min(due)));
            } else if self.bypass.repeats.may_hasten(number, retries, shared.config.profile()) {
                self.hasten(shared, index);
            } else if retries >= shared.config.profile().bypass_retries.into() {
                self.expire_bypass(shared, index);
            } else {
                message.attempts.count_retry();
                self.repeat(shared, index);
            }
        }
        if let Some(at) = next {
            self.arm(&mut shared.schedule, Timer::Bypass, at);
        }
    }

    /// Gives up a local load or store that has been repeated often enough.
    fn expire_bypass(&mut self, shared: &mut Shared, index: Index<Message>) {
        let message = &mut shared.messages[index];
        let is_oldest = message.unsequenced().number == self.bypass.oldest;
        if matches!(message.body, Body::Store(_)) && !is_oldest {
            message.place = MessagePlace::Expired;
            self.bypass.repeats.flying.unlink(&mut shared.messages, index);
        } else {
            self.finish_bypass(shared, index, Status::TimedOut);
        }
    }
}
