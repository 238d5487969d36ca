//! What the lock of a carrier guards: the protocol, the memory, the sockets; and one turn of it
//! all.

use fairway_engine::wire::{Duration, Instant, Qpn};
use fairway_engine::{CompletionQueueId, SegmentId};
use fairway_port::{Address, Datapath, ReceiveBuffer, Waiter};
use fairway_roce::{Completion, Event, Host};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};

use super::kept::Kept;
use super::receive::BUDGET;
use super::routes::Routes;
use super::sockets::Sockets;
use super::transmit::Outbox;
use crate::clock;
use crate::promptness::Promptness;
use crate::runtime::{Memories, Unregistered};
use crate::verbs::NetworkCounters;
use crate::verbs::letter::{LETTER_BYTES_MAX, MANAGEMENT_BYTES};
use crate::verbs::slot::{Service, Slot};

/// While nothing is known to wait, the socket that had something last is tried, and only every so
/// many turns all are looked at, which costs a system call more.
const TURNS_PER_LOOK: u32 = 8;

/// Who polls again within this time is taken to go on doing so.
const SOON: Duration = Duration::from_us(20);

/// A waiter's index for what is handed over by other processes; sockets have smaller ones.
pub(super) const LETTERS: usize = 1 << 16;

/// Something for the listener, who is told when the lock is free.
#[derive(Debug)]
pub(super) enum Notice {
    Completion(CompletionQueueId),
    Event(Event),
    Management {
        source: u64,
        from: IpAddr,
        bytes: Box<[u8; MANAGEMENT_BYTES]>,
        /// Somebody else has handed it over: it is not handed on any further.
        handed: bool,
    },
}

pub(super) struct Device {
    pub(super) host: Host,
    pub(super) memories: Memories,
    pub(super) kept: Kept,
    /// Queue pairs of services that acknowledge nothing.
    pub(super) unacknowledged: HashSet<Qpn>,
    pub(super) routes: Routes,
    pub(super) slot: Arc<Slot>,
    pub(super) datapath: Box<dyn Datapath>,
    pub(super) outbox: Outbox,
    pub(super) counters: NetworkCounters,
    pub(super) notices: Vec<Notice>,
    pub(super) services: Vec<Weak<Service>>,
    /// Until when somebody sleeps on the sockets; the inner `None`: until he is woken.
    pub(super) asleep: Option<Option<Instant>>,
    /// By index of the socket: the address it is bound to.
    pub(super) ends: Vec<SocketAddr>,
    /// Lent to the arrival at hand; otherwise there.
    pub(super) buffer: Option<ReceiveBuffer>,
    pub(super) letter: Box<[u8; LETTER_BYTES_MAX]>,
    look: Waiter,
    ready: Vec<usize>,
    /// Sockets that have, or may have, something to receive: a bit each.
    pub(super) waiting: u64,
    /// Something was handed over.
    pub(super) letters_wait: bool,
    hot: usize,
    turns_until_look: u32,
    /// There was more to do than a turn may.
    pub(super) unfinished: bool,
    /// An acknowledgement waits until then: perhaps the application answers what has come.
    pub(super) owed_until: Option<Instant>,
    pub(super) promptness: Promptness,
    polled_at: Instant,
}

impl Device {
    pub(super) fn new(host: Host, sockets: Sockets, look: Waiter) -> Device {
        let Sockets { slot, datapath, locals, segmentation } = sockets;
        let ends = datapath.port().local_addrs().to_vec();
        let outbox = Outbox::new(datapath.port().new_train(), segmentation);
        Device {
            host,
            memories: Memories::new(Unregistered::LeftOut),
            kept: Kept::default(),
            unacknowledged: HashSet::new(),
            routes: Routes::new(locals),
            slot: Arc::new(slot),
            outbox,
            counters: NetworkCounters::default(),
            notices: Vec::with_capacity(64),
            services: Vec::new(),
            asleep: None,
            waiting: 0,
            letters_wait: false,
            ends,
            buffer: Some(ReceiveBuffer::new()),
            letter: Box::new([0; LETTER_BYTES_MAX]),
            look,
            ready: Vec::with_capacity(64),
            hot: 0,
            turns_until_look: 0,
            unfinished: false,
            owed_until: None,
            promptness: Promptness::default(),
            polled_at: Instant::ZERO,
            datapath,
        }
    }

    /// A turn on behalf of somebody who polls. If he answers at once, an acknowledgement waits for
    /// that.
    pub(super) fn polled_turn(&mut self) {
        let now = clock::now();
        let often = self.asleep.is_none() && now.since(self.polled_at) < SOON;
        self.polled_at = now;
        let received = self.take_turn(now, often);
        let waits = self.promptness.may_owe(now, received, self.owed_until);
        self.transmit_with(now, waits);
    }

    /// A turn of the background thread's. The application may be one that watches its memory, and
    /// answers what it sees there.
    pub(super) fn background_turn(&mut self) {
        let now = clock::now();
        let received = self.take_turn(now, false);
        let waits = self.promptness.may_owe(now, received, self.owed_until);
        self.transmit_with(now, waits);
    }

    /// What has arrived at any socket goes to the protocol, what that wants goes out.
    pub(super) fn turn(&mut self) {
        let now = clock::now();
        self.turns_until_look = 0;
        self.take_turn(now, false);
        self.transmit(now);
    }

    /// What has arrived goes to the protocol, and its timers fire. How many packets. If `few` are
    /// enough, no socket is asked whether it has more than it gave at first.
    fn take_turn(&mut self, now: Instant, few: bool) -> usize {
        let mut received = 0;
        self.unfinished = false;
        self.release_due(now);
        self.look();
        if self.letters_wait {
            self.letters_wait = false;
            self.read_letters();
        }
        let mut sockets = std::mem::take(&mut self.waiting);
        while sockets != 0 {
            let socket = sockets.trailing_zeros() as usize;
            sockets &= !(1 << socket);
            let packets = self.receive(now, socket, if few { 1 } else { BUDGET });
            received += packets;
            if packets > 0 {
                self.hot = socket;
            }
        }
        if received > 0 {
            self.promptness.delivered(now);
        }
        // Those that had more than they were asked for are marked.
        self.unfinished = !few && self.waiting != 0;
        if self.host.poll_timeout().is_some_and(|at| now.is_at_or_after(at)) {
            self.host.handle_timeout(now);
        }
        received
    }

    /// Finds out which sockets have something.
    fn look(&mut self) {
        if self.waiting == 0 {
            self.waiting = 1 << self.hot;
        }
        if self.turns_until_look > 0 {
            self.turns_until_look -= 1;
            return;
        }
        self.turns_until_look = TURNS_PER_LOOK;
        let mut ready = std::mem::take(&mut self.ready);
        if self.look.ready_now(&mut ready).is_ok() {
            self.mark_ready(&ready);
        }
        self.ready = ready;
    }

    /// These are known to have something.
    pub(super) fn mark_ready(&mut self, ready: &[usize]) {
        for index in ready {
            match *index {
                LETTERS => self.letters_wait = true,
                socket => self.waiting |= 1 << socket,
            }
        }
    }

    pub(super) fn watch_service(&mut self, service: &Arc<Service>) -> std::io::Result<()> {
        self.services.retain(|service| service.strong_count() > 0);
        self.look.watch(service.fd(), LETTERS)?;
        self.services.push(Arc::downgrade(service));
        Ok(())
    }

    /// When the next turn is due although nothing arrives.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.unfinished {
            return Some(clock::now());
        }
        let release = self.datapath.next_release_ns().map(Instant::from_ns);
        [self.host.poll_timeout(), self.outbox.retry_at(), self.owed_until, release]
            .into_iter()
            .flatten()
            .reduce(Instant::min)
    }

    /// Takes what the protocol has to say.
    pub(super) fn collect_notices(&mut self) {
        while let Some(queue) = self.host.poll_notification() {
            self.notices.push(Notice::Completion(queue));
        }
        while let Some(event) = self.host.poll_event() {
            // Memory is given back when it is deregistered.
            if !matches!(event, Event::SegmentReleased { .. }) {
                self.notices.push(Notice::Event(event));
            }
        }
    }

    /// Takes completions of a queue.
    pub(super) fn take(&mut self, queue: CompletionQueueId, out: &mut [Completion]) -> usize {
        let mut count = 0;
        for place in out {
            let Some(completion) = self.host.poll_completion(queue) else { break };
            *place = completion;
            count += 1;
        }
        count
    }

    /// Nothing of this segment is touched any more.
    pub(super) fn forget_segment(&mut self, segment: SegmentId) {
        self.memories.remove(segment);
    }

    /// Lets an emulated network let go of what it has held long enough.
    fn release_due(&mut self, now: Instant) {
        if let Err(error) = self.datapath.release_due(ns(now)) {
            self.note_error(&error);
        }
    }

    /// What the operating system refused is lost, like a packet on its way.
    pub(super) fn note_error(&mut self, _error: &std::io::Error) {
        self.counters.send_errors += 1;
    }

    /// The number of an address that something came from.
    pub(super) fn number_of(&mut self, ip: IpAddr) -> Option<u64> {
        self.routes.number_of_sender(ip)
    }
}

/// As the port counts time.
pub(super) fn ns(at: Instant) -> u64 {
    at.as_ps() / 1000
}

/// As the kernel wants it.
pub(super) fn address(of: SocketAddr, port: u16) -> Address {
    let mut of = of;
    of.set_port(port);
    of.into()
}
