//! Queue pairs, and the transitions between their states.

use std::collections::VecDeque;
use std::sync::Arc;

use fairway::embed::Core;
use fairway::embed::PeerState;
use fairway_roce::{
    Attributes, Change, ChangeError, Event, Peer, QueuePairConfig, QueuePairState, Reliability,
    SGE_MAX, Status, Transport,
};
use fairway_runtime::clock;
use fairway_ub::wire::roce::RnrTimer;
use fairway_ub::wire::{Duration, Instant, JettyId, Psn, Qpn};
use fairway_ub::{Grant, JettyState, Profile, Rights, SegmentId};

use super::link::CONNECT_TIMEOUT;
use super::question::Readiness;
use super::send::Send;
use super::tables::Verbs;
use crate::slot_of;

/// Time after which an unanswered operation fails, whatever retries the program configured.
const TIMEOUT_MAX: Duration = Duration::from_ms(4000);

/// Number of operations of the protocol from which on a queue pair begins no other send. A send is
/// at most one operation for each range of its list.
const WINDOW: u32 = 96;
/// Number of operations beyond the first missing one that a target tracks.
const TRACKED: u32 = 128;
const _: () = assert!(WINDOW + SGE_MAX as u32 <= TRACKED);
/// After the window was full, operations begin once there is room for so many: they leave together,
/// and are acknowledged together.
const TOGETHER: u32 = 16;

/// Least time between two tries of a SEND that finds no receive.
const NOT_READY_DELAY: Duration = Profile::new().not_ready_delay;

/// Returns how often a SEND that finds no receive is tried again; 7 means forever, so it is more if
/// it is limited at all. An adapter would try `retries` times, and wait each time for as long as
/// the peer's timer says. That timer is not known here, where tries are much closer together, so
/// the queue pair's own one counts: programs mostly give both ends the same.
fn not_ready_retries(retries: u8, timer: RnrTimer) -> u16 {
    if matches!(retries, 0 | 7) {
        return retries.into();
    }
    let tries = u64::from(retries) * timer.duration().as_us() / NOT_READY_DELAY.as_us();
    tries.clamp(8, u64::from(u16::MAX)) as u16
}

/// Returns the time for which an adapter would repeat an unanswered request.
fn timeout(reliability: &Reliability) -> Duration {
    match reliability.timeout {
        Duration::ZERO => TIMEOUT_MAX,
        timeout => timeout.times(u64::from(reliability.retries) + 1).min(TIMEOUT_MAX),
    }
}

pub(super) struct QueuePair {
    pub(super) number: Qpn,
    /// The lower bits of its number, which are also its Jetty's number.
    pub(super) local: u32,
    pub(super) config: QueuePairConfig,
    pub(super) state: QueuePairState,
    /// Changes with every error and reset, so that completions from before are recognised.
    pub(super) life: u32,
    /// Time for which it would try to reach a queue pair that does not answer.
    pub(super) timeout: Duration,
    /// Time that its peer is to wait when a SEND finds no receive.
    pub(super) rnr_timer: RnrTimer,
    pub(super) rights: Rights,
    /// True if its READs and atomics may be in flight.
    has_read_depth: bool,
    /// True if it answers READs and atomics of its peer.
    answers: bool,
    pub(super) q_key: u32,
    pub(super) peer: Peer,
    /// The secret of the peer's Jetty.
    pub(super) token: u32,
    /// The secret of its own Jetty, if it is connected.
    pub(super) secret: Option<u32>,
    pub(super) link: Option<u32>,
    /// The link that its next operation waits for, unless it is a datagram.
    pub(super) waits_for: Option<u32>,
    /// True if datagrams that were put aside may go on.
    pub(super) unparks: bool,
    /// The channel that carries its sends, from the first one on.
    pub(super) channel: Option<Arc<PeerState>>,
    /// When it became ready to receive, until the peer has been heard since then.
    pub(super) unheard_since: Option<Instant>,
    /// When it has asked the peer for a sign of life (`Verbs::hail`).
    pub(super) hailed_at: Option<Instant>,
    pub(super) established: bool,
    /// True while no new operation is begun, and `Drained` is to be reported once those begun have
    /// completed.
    pub(super) draining: bool,
    /// True if it is in `Verbs::waiting`.
    pub(super) is_waiting: bool,
    /// True if an operation has failed and earlier ones have not completed.
    pub(super) is_failing: bool,
    pub(super) readiness: Readiness,
    /// Posted operations, the oldest first; `first` is the number of the oldest.
    pub(super) sends: VecDeque<Send>,
    pub(super) first: u32,
    /// Number of the first operation that has not been begun.
    pub(super) next: u32,
    /// Number of operations of the protocol that were posted for those in `sends`.
    pub(super) posted: u32,
    /// True while operations wait until there is room for several.
    pub(super) is_full: bool,
    /// Receives posted to this queue pair's own queue, the oldest first.
    pub(super) receives: VecDeque<u32>,
}

impl QueuePair {
    pub(super) fn new(number: Qpn, local: u32, life: u32, config: QueuePairConfig) -> Self {
        QueuePair {
            number,
            local,
            config,
            state: QueuePairState::Reset,
            life,
            timeout: TIMEOUT_MAX,
            rnr_timer: RnrTimer::from_code(0),
            rights: Rights::NONE,
            has_read_depth: false,
            answers: false,
            q_key: 0,
            peer: Peer::default(),
            token: 0,
            secret: None,
            link: None,
            waits_for: None,
            unparks: false,
            channel: None,
            unheard_since: None,
            hailed_at: None,
            established: false,
            draining: false,
            is_waiting: false,
            is_failing: false,
            readiness: Readiness::default(),
            sends: VecDeque::new(),
            first: 0,
            next: 0,
            posted: 0,
            is_full: false,
            receives: VecDeque::new(),
        }
    }

    pub(super) fn jetty(&self) -> JettyId {
        Verbs::jetty_of(self.local)
    }

    /// Sets time-outs and retries.
    fn be_reliable(&mut self, core: &mut Core, reliability: &Reliability) {
        let retries = match self.config.transport {
            Transport::Rc => not_ready_retries(reliability.rnr_retries, self.rnr_timer),
            // A message that finds no receive is lost.
            Transport::Uc | Transport::Ud => 0,
        };
        let _ = core.nic.set_jetty_not_ready_retries(self.jetty(), Some(retries));
        self.timeout = timeout(reliability);
        self.has_read_depth = reliability.read_depth > 0;
    }

    /// True if READs and atomics may be in flight, or fail at once.
    pub(super) fn may_have_answers(&self) -> bool {
        let has_failed = matches!(self.state, QueuePairState::Error | QueuePairState::SendError);
        has_failed || self.has_read_depth
    }

    /// Grants its peer the accesses of its rights. A peer that is to have no READ or atomic in
    /// flight may make none.
    fn grant_accesses(&self, core: &mut Core) {
        let mut rights = self.rights;
        if !self.answers {
            rights = rights.without(Rights::READ.with(Rights::ATOMIC));
        }
        let grant = Grant::Access { rights, domain: self.config.domain };
        let _ = core.nic.set_jetty_grant(self.jetty(), grant);
    }

    /// Changes attributes of a queue pair that is ready to receive.
    fn adjust(&mut self, core: &mut Core, attributes: &Attributes) {
        let Attributes { rights, q_key, reliability, rnr_timer } = *attributes;
        (self.rights, self.q_key, self.rnr_timer) = (rights, q_key, rnr_timer);
        match self.config.transport {
            Transport::Ud => _ = core.nic.set_jetty_token(self.jetty(), q_key),
            Transport::Rc | Transport::Uc => self.grant_accesses(core),
        }
        self.be_reliable(core, &reliability);
    }

    /// Number of operations that were begun and have not completed.
    pub(super) fn begun(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// True if another operation may begin.
    pub(super) fn may_begin(&mut self) -> bool {
        // Datagrams that were put aside have not been posted.
        let under_way = self.posted.max(self.begun());
        if under_way >= WINDOW || under_way + TOGETHER <= WINDOW {
            self.is_full = under_way >= WINDOW;
        }
        self.state == QueuePairState::ReadyToSend
            && !self.is_failing
            && !self.is_full
            && (self.begun() as usize) < self.sends.len()
    }

    /// True if an operation that was begun uses the segment.
    pub(super) fn uses(&self, segment: SegmentId) -> bool {
        self.sends.iter().take(self.begun() as usize).any(|send| send.uses(segment))
    }
}

/// Returns the secret that `from`, whose first packet has the number `first`, must name to send to
/// `to`, so that messages of others are not mistaken for the peer's. Numbers of queue pairs are
/// easily guessed. The numbers of first packets, which both programs exchange, commonly have 24
/// random bits.
fn token(from: Qpn, to: Qpn, first: Psn) -> u32 {
    let mixed =
        u64::from(from.value()) << 40 ^ u64::from(to.value()) << 20 ^ u64::from(first.value());
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ mixed >> 32) as u32 | 1
}

/// Makes peers that send to the Jetty wait.
pub(super) fn suspend(core: &mut Core, jetty: JettyId) {
    ready(core, jetty);
    let _ = core.nic.set_jetty_state(jetty, JettyState::Suspended);
}

/// Makes peers that request access to memory through the Jetty wait; their accesses under way are
/// refused.
pub(super) fn close(core: &mut Core, jetty: JettyId) {
    let _ = core.nic.set_jetty_grant(jetty, Grant::Later);
}

/// Allows peers to send to the Jetty.
fn ready(core: &mut Core, jetty: JettyId) {
    if core.nic.jetty_state(jetty) != JettyState::Ready {
        // The transition is allowed from both other states, in which nothing is under way.
        let _ = core.nic.set_jetty_state(jetty, JettyState::Ready);
    }
}

impl Verbs {
    pub(super) fn modify(
        &mut self,
        core: &mut Core,
        number: Qpn,
        change: &Change,
    ) -> Result<(), ChangeError> {
        let pair = self.pair(number).ok_or(ChangeError::Missing)?;
        let transport = pair.config.transport;
        let state = pair.state.after(transport, change)?;
        check(pair, change)?;
        let (local, jetty) = (pair.local, pair.jetty());
        match *change {
            Change::Reset => {
                self.forget(core, local);
                suspend(core, jetty);
            }
            Change::Error => {
                self.enter_error(core, local);
            }
            Change::Init { rights, p_key: _, q_key } => {
                (pair.rights, pair.q_key) = (rights, q_key);
            }
            Change::ReadyToReceive { peer, expected, read_depth, rnr_timer, .. } => {
                let unconnected = transport == Transport::Ud;
                let ip = self.addresses.address(peer.address);
                let ip = ip.filter(|ip| self.reaches(*ip));
                if ip.is_none() && !unconnected {
                    return Err(ChangeError::Parameter("address"));
                }
                let pair = self.pair(number).ok_or(ChangeError::Missing)?;
                (pair.peer, pair.rnr_timer) = (peer, rnr_timer);
                pair.answers = read_depth > 0;
                let secret = match unconnected {
                    true => pair.q_key,
                    false => token(peer.queue_pair, number, expected),
                };
                let _ = core.nic.set_jetty_token(jetty, secret);
                pair.secret = (!unconnected).then_some(secret);
                if !unconnected {
                    pair.grant_accesses(core);
                    self.unaccessed.push(local);
                }
                ready(core, jetty);
                if let Some(ip) = ip.filter(|_| !unconnected) {
                    let link = self.link_to(ip, slot_of(peer.queue_pair));
                    self.connect(core, link, CONNECT_TIMEOUT);
                    let slot = slot_of(peer.queue_pair);
                    let is_own = self.is_own(ip) && slot == self.slot;
                    let since = (!is_own).then(clock::now);
                    self.set(local, |pair| {
                        (pair.link, pair.unheard_since, pair.hailed_at) = (Some(link), since, None);
                    });
                }
            }
            Change::ReadyToSend { first, reliability } => {
                pair.be_reliable(core, &reliability);
                pair.token = token(number, pair.peer.queue_pair, first);
                self.unaccessed.retain(|&other| other != local);
            }
            Change::Adjust(attributes) => pair.adjust(core, &attributes),
            Change::Drain => pair.draining = true,
            Change::Resume => pair.draining = false,
        }
        self.set(local, |pair| pair.state = state);
        self.advance(core, local);
        Ok(())
    }

    pub(super) fn set(&mut self, local: u32, change: impl FnOnce(&mut QueuePair)) {
        if let Some(pair) = self.pairs[local as usize].as_deref_mut() {
            change(pair);
        }
    }

    /// Moves a queue pair to the error state: everything is flushed, in order.
    pub(super) fn enter_error(&mut self, core: &mut Core, local: u32) {
        let _ = self.enter_error_by(core, local, Status::Flushed);
    }

    /// Moves a queue pair to the error state; its first receive completes with `first`. Unless that
    /// is `Flushed`, it takes the receive from a shared queue, too. Returns false if there is none.
    pub(super) fn enter_error_by(&mut self, core: &mut Core, local: u32, first: Status) -> bool {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return false };
        let jetty = pair.jetty();
        // A program may request this state again, but the last receive is reported only once.
        let entered = pair.state != QueuePairState::Error;
        pair.state = QueuePairState::Error;
        let (config, has_own) = (pair.config, !pair.receives.is_empty());
        // Accesses of peers that are under way are refused.
        let _ = core.nic.set_jetty_grant(jetty, Grant::Nothing);
        self.abort(core, local);
        if core.nic.jetty_state(jetty) != JettyState::Error {
            let _ = core.nic.set_jetty_state(jetty, JettyState::Error);
        }
        self.flush_sends(core, local);
        let is_shared = config.shared_receives.is_some();
        let has_receive = match is_shared {
            true => first != Status::Flushed && self.fail_next_receive(core, local, first),
            false => has_own,
        };
        self.flush_receives(core, local, first);
        if entered {
            self.note_last_receive(local);
        }
        has_receive
    }

    /// Moves a queue pair to the reset state: all posted work is dropped.
    pub(super) fn forget(&mut self, core: &mut Core, local: u32) {
        close(core, Verbs::jetty_of(local));
        self.abort(core, local);
        self.forget_sends(core, local);
        self.forget_receives(core, local);
        self.forget_completions(local);
        self.set(local, |pair| {
            pair.state = QueuePairState::Reset;
            (pair.link, pair.waits_for, pair.channel) = (None, None, None);
            pair.secret = None;
            pair.established = false;
        });
        self.unaccessed.retain(|&other| other != local);
    }

    /// Aborts all operations of a queue pair, none of which accesses memory afterwards.
    pub(super) fn abort(&mut self, core: &mut Core, local: u32) {
        self.lives = self.lives.wrapping_add(1);
        let life = self.lives;
        self.set(local, |pair| pair.life = life);
        let _ = core.nic.abort_jetty(Verbs::jetty_of(local));
        // Packets that wait to be sent refer to memory, too.
        core.note_end();
        core.note_abort();
    }

    /// Reports that a draining queue pair has drained, once it has.
    pub(super) fn note_drained(&mut self, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        if pair.draining && pair.state == QueuePairState::SendDrained && pair.begun() == 0 {
            pair.draining = false;
            let queue_pair = pair.number;
            self.event(Event::Drained { queue_pair });
        }
    }
}

/// Checks that the parameters of a transition are within their ranges.
fn check(pair: &QueuePair, change: &Change) -> Result<(), ChangeError> {
    match change {
        Change::ReadyToReceive { mtu, .. } if !matches!(mtu, 256 | 512 | 1024 | 2048 | 4096) => {
            Err(ChangeError::Parameter("mtu"))
        }
        Change::ReadyToSend { reliability, .. }
        | Change::Adjust(Attributes { reliability, .. })
            if reliability.retries > 7 || reliability.rnr_retries > 7 =>
        {
            Err(ChangeError::Parameter("retries"))
        }
        // A READ that is posted could not be sent any more.
        Change::Adjust(Attributes { reliability, .. })
            if reliability.read_depth == 0 && pair.has_read_depth =>
        {
            Err(ChangeError::Parameter("read_depth"))
        }
        _ => Ok(()),
    }
}
