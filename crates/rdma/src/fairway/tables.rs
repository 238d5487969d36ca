//! The state of a provider that is behind the lock of its context.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use fairway::embed::Core;
use fairway_roce::{
    Completion, Event, QueuePairConfig, QueuePairState, ReceiveQueueId, Status, Transport, cm,
    shuffled,
};
use fairway_ub::wire::{Instant, JettyId, Qpn};
use fairway_ub::{CompletionQueueId, JettyConfig, LocalRange, SegmentId};

use super::link::{Links, Stuck};
use super::memory::Regions;
use super::notice::Notices;
use super::question::{Watched, create_questions};
use super::queue::{CompletionQueue, Pushed};
use super::queue_pair::QueuePair;
use super::receive::Receive;
use super::shared::{Shared, jetty_of};
use crate::addresses::Addresses;
use crate::{LOCAL_BITS, Listener, Management, ProviderError};

/// Maximum number of queue pairs of a provider: as many as their numbers distinguish.
pub(super) const PAIRS_MAX: u32 = 1 << LOCAL_BITS;
/// The first number that is assigned: 0 and 1 belong to management.
pub(super) const FIRST_LOCAL: u32 = 2;
/// Maximum number of completion queues of a provider.
pub(super) const QUEUES_MAX: u32 = 1 << 14;

/// A call of the listener that is due once the lock has been released.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Completion(CompletionQueueId),
    Event(Event),
}

pub(crate) struct Verbs {
    listener: Arc<dyn Listener>,
    calls: Vec<Call>,
    pub(super) slot: u8,
    pub(super) mtu: u32,
    /// The protocol's completion queue for all operations.
    pub(super) engine_queue: CompletionQueueId,
    /// A range without bytes.
    pub(super) nothing: LocalRange,
    /// Queue pairs, by the lower bits of their numbers.
    pub(super) pairs: Vec<Option<Box<QueuePair>>>,
    /// The lower bits that numbers of queue pairs may have, in the order in which they are used.
    locals: Vec<u32>,
    /// Index, in that list, of those to be tried next.
    next_local: usize,
    /// Counts the lives of queue pairs.
    pub(super) lives: u32,
    pub(super) queues: Vec<Option<CompletionQueue>>,
    pub(super) shared: Vec<Option<Shared>>,
    pub(super) receives: Vec<Receive>,
    pub(super) spare_receives: Vec<u32>,
    pub(super) regions: Regions,
    pub(super) links: Links,
    /// Links that are being made.
    pub(super) connecting: Vec<u32>,
    /// Links to which no request can be sent.
    pub(super) stuck: Vec<Stuck>,
    /// When what waits for a process is looked at again.
    pub(super) stir_at: Option<Instant>,
    pub(super) addresses: Addresses,
    /// Addresses of this provider.
    own: Vec<IpAddr>,
    /// Queue pairs that may be able to go on, in the order in which they are advanced.
    pub(super) waiting: VecDeque<u32>,
    /// Errors of sends to queue pairs that do not exist.
    pub(super) delayed_errors: Vec<DelayedError>,
    pub(super) notices: Notices,
    pub(super) watched: Watched,
    /// Connected queue pairs that are ready to receive, and may not have been accessed since.
    pub(super) unaccessed: Vec<u32>,
}

/// Calls of the listener that are due once the lock has been released.
pub(crate) struct Calls {
    listener: Arc<dyn Listener>,
    calls: Vec<Call>,
}

impl Calls {
    pub(crate) fn make(self) {
        for call in self.calls {
            match call {
                Call::Completion(queue) => self.listener.completion(queue),
                Call::Event(event) => self.listener.event(event),
            }
        }
    }
}

/// A completion that is reported later.
pub(super) struct DelayedError {
    pub(super) at: Instant,
    pub(super) jetty: JettyId,
    pub(super) ended: fairway_ub::Completion,
}

impl Verbs {
    pub(super) fn new(
        core: &mut Core,
        listener: Arc<dyn Listener>,
        slot: u8,
        mtu: u32,
        completions: u32,
    ) -> Result<Verbs, ProviderError> {
        let refused = |_| ProviderError::Limit("completions");
        let engine_queue = core.nic.create_completion_queue(completions).map_err(refused)?;
        core.nic.guard_segments(fairway_roce::KEY_TAG_BITS);
        core.nic.fail_short_receives();
        let mut own: Vec<IpAddr> = core.local_addrs().iter().map(SocketAddr::ip).collect();
        own.dedup();
        let mut regions = Regions::default();
        let nothing = LocalRange { length: 0, ..regions.lend(core, 1)? };
        let notices = Notices::new(core, engine_queue, nothing)?;
        create_questions(core, engine_queue)?;
        Ok(Verbs {
            listener,
            calls: Vec::new(),
            slot,
            mtu,
            engine_queue,
            nothing,
            pairs: Vec::new(),
            locals: shuffled(FIRST_LOCAL, PAIRS_MAX, crate::random()?),
            next_local: 0,
            lives: 0,
            queues: Vec::new(),
            shared: Vec::new(),
            receives: Vec::new(),
            spare_receives: Vec::new(),
            regions,
            links: Links::default(),
            connecting: Vec::new(),
            stuck: Vec::new(),
            stir_at: None,
            addresses: Addresses::default(),
            own,
            waiting: VecDeque::new(),
            delayed_errors: Vec::new(),
            notices,
            watched: Watched::default(),
            unaccessed: Vec::new(),
        })
    }

    // ---- addresses ----

    pub(super) fn is_own(&self, ip: IpAddr) -> bool {
        self.own.contains(&ip)
    }

    /// True if a local address has the family of this one.
    pub(super) fn reaches(&self, ip: IpAddr) -> bool {
        self.own.iter().any(|own| own.is_ipv4() == ip.is_ipv4())
    }

    /// Returns the number of an address that the program names; `None` if the table is full.
    pub(super) fn name(&mut self, ip: IpAddr) -> Option<u64> {
        let pairs = &self.pairs;
        let in_use = || pairs.iter().flatten().map(|pair| pair.peer.address).collect();
        self.addresses.name(ip, in_use)
    }

    /// Returns the number of the address that has sent a management datagram. The address of a
    /// sound message is kept, so that it can be answered.
    pub(super) fn number_of_sender(&mut self, datagram: &Management<'_>) -> u64 {
        if cm::claim(datagram.bytes).is_some() {
            self.addresses.keep_sender(datagram.from);
        }
        self.addresses.number_of(datagram.from)
    }

    /// Returns the local address under which this process is connected to a peer with this address.
    pub(super) fn own_for(&self, peer: IpAddr) -> IpAddr {
        let same_family = |own: &&IpAddr| own.is_ipv4() == peer.is_ipv4();
        *self.own.iter().find(same_family).unwrap_or(&self.own[0])
    }

    // ---- telling ----

    pub(super) fn event(&mut self, event: Event) {
        self.calls.push(Call::Event(event));
    }

    /// Requests a call of the listener for the next completion of a queue, or at once if one is
    /// waiting. Adapters do so, and UCX relies on it: it arms the queue after its last poll, and
    /// does not check again.
    pub(super) fn arm(
        &mut self,
        id: CompletionQueueId,
        solicited_only: bool,
    ) -> Result<(), ProviderError> {
        if self.queue(id)?.arm(solicited_only) {
            self.calls.push(Call::Completion(id));
        }
        Ok(())
    }

    /// True if callbacks of the program are due.
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(crate) fn take_calls(&mut self) -> Option<Calls> {
        if self.calls.is_empty() {
            return None;
        }
        Some(Calls { listener: self.listener.clone(), calls: std::mem::take(&mut self.calls) })
    }

    // ---- completion queues ----

    pub(super) fn create_queue(&mut self, depth: u32) -> Result<CompletionQueueId, ProviderError> {
        if depth == 0 {
            return Err(ProviderError::Parameter("depth"));
        }
        let index = free_place(&mut self.queues);
        if index as u32 >= QUEUES_MAX {
            self.queues.truncate(QUEUES_MAX as usize);
            return Err(ProviderError::Limit("completion queues"));
        }
        self.queues[index] = Some(CompletionQueue::new(depth));
        Ok(CompletionQueueId::new(index as u32))
    }

    pub(super) fn queue(
        &mut self,
        id: CompletionQueueId,
    ) -> Result<&mut CompletionQueue, ProviderError> {
        self.queues.get_mut(id.index()).and_then(Option::as_mut).ok_or(ProviderError::Missing)
    }

    pub(super) fn destroy_queue(&mut self, id: CompletionQueueId) -> Result<(), ProviderError> {
        if self.queue(id)?.users > 0 {
            return Err(ProviderError::Busy);
        }
        self.queues[id.index()] = None;
        Ok(())
    }

    /// Adds a completion to a queue of the program.
    pub(super) fn report(&mut self, core: &mut Core, id: CompletionQueueId, it: Completion) {
        let Ok(queue) = self.queue(id) else { return };
        match queue.push(it) {
            Pushed::Quietly => {}
            Pushed::Awaited => self.calls.push(Call::Completion(id)),
            Pushed::Overrun => {
                self.event(Event::Overrun { queue: id });
                let uses = |pair: &QueuePair| {
                    pair.config.send_queue == id || pair.config.receive_queue == id
                };
                let users = self.pairs.iter().flatten().filter(|pair| uses(pair));
                let users: Vec<u32> = users.map(|pair| pair.local).collect();
                for local in users {
                    self.fail(core, local, Status::LocalProtection);
                }
            }
        }
    }

    /// Number of posted unreliable sends that have not completed; an adapter would have completed
    /// them by now.
    pub(super) fn due_completions(&self, id: CompletionQueueId) -> usize {
        let pairs = self.pairs.iter().filter_map(Option::as_deref);
        let unreliable = |pair: &&QueuePair| {
            pair.config.send_queue == id && pair.config.transport != Transport::Rc
        };
        let sends = pairs.filter(unreliable).flat_map(|pair| &pair.sends);
        sends.filter(|send| send.is_signaled()).count()
    }

    /// Time at which a delayed error is to be reported, a process tried again, or operations are to
    /// be examined, although nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let errors = self.delayed_errors.iter().map(|one| one.at);
        errors.chain(self.stir_at).chain(self.watched.deadline()).reduce(Instant::min)
    }

    // ---- queue pairs ----

    pub(super) fn create_pair(
        &mut self,
        core: &mut Core,
        config: &QueuePairConfig,
    ) -> Result<Qpn, ProviderError> {
        self.queue(config.send_queue)?;
        self.queue(config.receive_queue)?;
        if let Some(shared) = config.shared_receives {
            let shared = self.shared_queue(shared)?;
            if shared.domain != config.domain {
                return Err(ProviderError::Parameter("domain"));
            }
        }
        let local = self.free_local().ok_or(ProviderError::Limit("queue pairs"))?;
        self.lives = self.lives.wrapping_add(1);
        let number = Some(local);
        let jetty = JettyConfig {
            number,
            in_sequence: config.transport == Transport::Rc,
            ..JettyConfig::new(self.engine_queue, self.engine_queue)
        };
        let refused = |_| ProviderError::Limit("queue pairs");
        core.nic.create_jetty(&jetty).map_err(refused)?;
        if let Some(shared) = config.shared_receives {
            // Both Jetties exist, and all use one completion queue.
            let source = jetty_of(shared.index() as u32);
            let _ = core.nic.share_receives(JettyId::new(local), source);
        }
        let number = Qpn::new(u32::from(self.slot) << LOCAL_BITS | local);
        let pair = QueuePair::new(number, local, self.lives, *config);
        super::queue_pair::suspend(core, pair.jetty());
        super::queue_pair::close(core, pair.jetty());
        self.queues[config.send_queue.index()].as_mut().ok_or(ProviderError::Missing)?.users += 1;
        self.queues[config.receive_queue.index()].as_mut().ok_or(ProviderError::Missing)?.users +=
            1;
        if let Some(shared) = config.shared_receives {
            self.shared_queue(shared)?.users += 1;
        }
        self.pairs[local as usize] = Some(Box::new(pair));
        Ok(number)
    }

    /// Returns a free number. Numbers stay unused as long as possible before they are reused.
    fn free_local(&mut self) -> Option<u32> {
        for step in 0..self.locals.len() {
            let at = (self.next_local + step) % self.locals.len();
            let local = self.locals[at];
            if self.pairs.len() <= local as usize {
                self.pairs.resize_with(local as usize + 1, || None);
            }
            if self.pairs[local as usize].is_none() {
                self.next_local = at + 1;
                return Some(local);
            }
        }
        None
    }

    /// Returns the queue pair with this number.
    pub(super) fn pair(&mut self, number: Qpn) -> Option<&mut QueuePair> {
        pair_of(&mut self.pairs, number)
    }

    pub(super) fn destroy_pair(
        &mut self,
        core: &mut Core,
        number: Qpn,
    ) -> Result<(), ProviderError> {
        let local = self.pair(number).ok_or(ProviderError::Missing)?.local;
        self.forget(core, local);
        let Some(pair) = self.pairs[local as usize].take() else { return Ok(()) };
        // Nothing of the queue pair is under way any more.
        let _ = core.nic.destroy_jetty(pair.jetty());
        for id in [pair.config.send_queue, pair.config.receive_queue] {
            if let Ok(queue) = self.queue(id) {
                queue.users -= 1;
            }
        }
        if let Some(shared) = pair.config.shared_receives
            && let Ok(shared) = self.shared_queue(shared)
        {
            shared.users -= 1;
        }
        Ok(())
    }

    /// True if completions of a queue pair wait to be polled.
    pub(super) fn has_completions(&mut self, number: Qpn) -> bool {
        let Some(config) = self.pair(number).map(|pair| pair.config) else { return false };
        let mut queues = [config.send_queue, config.receive_queue].into_iter();
        queues.any(|id| self.queue(id).is_ok_and(|queue| queue.holds(number)))
    }

    /// Drops the completions of a queue pair that have not been polled, as adapters do.
    pub(super) fn forget_completions(&mut self, local: u32) {
        let Some(pair) = self.pairs[local as usize].as_deref() else { return };
        let (number, config) = (pair.number, pair.config);
        for id in [config.send_queue, config.receive_queue] {
            if let Ok(queue) = self.queue(id) {
                queue.forget(number);
            }
        }
    }

    /// Moves a queue pair to the error state, because a receive, an operation of a reliable
    /// connection, or the queue pair itself has failed.
    pub(super) fn fail(&mut self, core: &mut Core, local: u32, status: Status) {
        let Some(pair) = self.pairs[local as usize].as_deref() else { return };
        if pair.state == QueuePairState::Error {
            return;
        }
        let number = pair.number;
        self.enter_error(core, local);
        self.event(Event::Fault { queue_pair: number, status });
    }

    /// Moves a queue pair to the state of failed sends, because an operation of it has failed; a
    /// reliable connection moves to the error state.
    pub(super) fn fail_sends(&mut self, core: &mut Core, local: u32, status: Status) {
        let Some(pair) = self.pairs[local as usize].as_deref_mut() else { return };
        if pair.config.transport == Transport::Rc {
            return self.fail(core, local, status);
        }
        pair.state = QueuePairState::SendError;
        pair.is_failing = false;
        let number = pair.number;
        self.event(Event::Fault { queue_pair: number, status });
    }

    /// Reports that a queue pair takes no more receives from its shared queue.
    pub(super) fn note_last_receive(&mut self, local: u32) {
        let pair = self.pairs[local as usize].as_deref();
        if let Some(pair) = pair.filter(|pair| pair.config.shared_receives.is_some()) {
            let queue_pair = pair.number;
            self.event(Event::LastReceive { queue_pair });
        }
    }

    pub(super) fn jetty_of(local: u32) -> JettyId {
        JettyId::new(local)
    }

    pub(super) fn shared_queue(
        &mut self,
        id: ReceiveQueueId,
    ) -> Result<&mut Shared, ProviderError> {
        self.shared.get_mut(id.index()).and_then(Option::as_mut).ok_or(ProviderError::Missing)
    }

    /// Returns the queue pairs with begun operations that use a segment of the application.
    pub(super) fn users_of(&self, segment: SegmentId) -> Vec<u32> {
        let users = self.pairs.iter().flatten().filter(|pair| pair.uses(segment));
        users.map(|pair| pair.local).collect()
    }
}

/// Returns the queue pair with this number.
pub(super) fn pair_of(pairs: &mut [Option<Box<QueuePair>>], number: Qpn) -> Option<&mut QueuePair> {
    let local = number.value() & (PAIRS_MAX - 1);
    let pair = pairs.get_mut(local as usize)?.as_deref_mut()?;
    (pair.number == number).then_some(pair)
}

/// Returns the index of a free place, which is added if there is none.
pub(super) fn free_place<T>(places: &mut Vec<Option<T>>) -> usize {
    places.iter().position(Option::is_none).unwrap_or_else(|| {
        places.push(None);
        places.len() - 1
    })
}
