//! One turn of the NIC: what has arrived goes to the engine, what the engine wants goes out, and
//! whoever sleeps for what came of it is woken.

mod receive;
mod transmit;

use std::sync::atomic::Ordering;

use fairway_engine::Event;
use fairway_engine::wire::{Duration, Instant};
use fairway_port::{Address, Arrival, Datapath, ReceiveBuffer, Train, Waiter};

use crate::clock;
use crate::core::{Core, Notice, What};
use crate::fidelity::Meter;
use crate::setup::Padded;

use receive::{BUDGET, Eagerness};

pub(crate) use receive::Late;

/// A full socket is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_us(50);

/// While nothing is known to wait, the socket that had something last is tried, and only every so
/// many turns all sockets are looked at, which costs a system call more.
const TURNS_PER_LOOK: u32 = 4;
/// That is for as long as it pays: what arrives at the same socket again counts this much, ...
const HOT_GAIN: u32 = 1;
/// ... up to this much, and what does not takes this much away.
const HOT_MAX: u32 = 16;
const HOT_LOSS: u32 = 4;

/// Most packets taken in before timers fire: about as many as socket buffers hold.
const CATCH_UP_BUDGET: usize = 64 * BUDGET;

/// The sockets, and what is needed to use them without allocating.
pub(crate) struct Io {
    /// Whose they are.
    pub(crate) engine: u32,
    pub(crate) datapath: Box<dyn Datapath>,
    /// Lent to the arrival at hand; otherwise there.
    buffer: Option<ReceiveBuffer>,
    /// How many there are.
    sockets: usize,
    /// Payloads of the arrival at hand that are to be copied without the lock. Has room for some if
    /// there are several engines.
    pub(crate) late: Vec<Late>,
    /// Set-up messages of this turn: the socket, the sender, the message.
    setups: Vec<(usize, Address, Padded)>,
    /// Watches all sockets, to ask which have something without waiting.
    look: Option<Waiter>,
    ready: Vec<usize>,
    /// Sockets that have, or may have, something to receive: a bit each.
    waiting: u32,
    /// The socket that had something last.
    hot: usize,
    /// How well it foretells the next one; zero: not at all.
    hot_worth: u32,
    turns_until_look: u32,
    /// The run of packets being put together, and where it goes.
    train: Train,
    bound_for: Option<Bound>,
    /// The packet that begins the next run.
    pending: Option<transmit::Pending>,
    /// An acknowledgement that waits, until then, for what the application may answer.
    held: Option<transmit::Held>,
    owed_until: Option<Instant>,
    /// A lone acknowledgement may wait.
    patient: bool,
    /// Payloads of unreliable packets, whose memory is the application's again as soon as the
    /// engine has handed them out: room, and how much of it is taken by packets that have not left.
    copies: Box<[u8]>,
    copied: usize,
    /// A run that a full socket did not take.
    blocked: Train,
    blocked_for: Option<Bound>,
    retry_at: Instant,
    /// Runs sent, and packets taken from the engine, in this turn.
    runs: u32,
    packets: usize,
    /// The core's count of ends when the packets that wait were put together.
    ends: u32,
    /// There was more to do than a turn may.
    unfinished: bool,
    /// The kernel could not read what was to be sent.
    unreadable: bool,
    /// Measures how late things are done, if that is asked for.
    pub(crate) meter: Option<Box<Meter>>,
    /// Errors that were no ordinary packet loss, and the latest.
    pub(crate) errors: u64,
    pub(crate) last_error: Option<String>,
}

/// Where a run of packets goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) path: usize,
    pub(crate) socket: usize,
    pub(crate) to: Address,
}

/// What a turn did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turned {
    /// There is more to do at once.
    pub(crate) unfinished: bool,
}

impl Io {
    pub(crate) fn new(engine: u32, datapath: Box<dyn Datapath>) -> Self {
        let port = datapath.port();
        let count = port.socket_count();
        let (train, blocked) = (port.new_train(), port.new_train());
        // Without a waiter every socket is tried: slower, and as good.
        let look = if count > 1 { port.waiter().ok() } else { None };
        Io {
            engine,
            buffer: Some(ReceiveBuffer::new()),
            sockets: count,
            late: Vec::new(),
            setups: Vec::with_capacity(64),
            look,
            ready: Vec::with_capacity(count),
            waiting: all(count),
            hot: 0,
            hot_worth: 0,
            turns_until_look: 0,
            train,
            bound_for: None,
            pending: None,
            held: None,
            owed_until: None,
            patient: false,
            copies: Box::default(),
            copied: 0,
            blocked,
            blocked_for: None,
            retry_at: Instant::ZERO,
            runs: 0,
            packets: 0,
            ends: 0,
            unfinished: false,
            unreadable: false,
            meter: None,
            errors: 0,
            last_error: None,
            datapath,
        }
    }

    /// True if no packet waits to be sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.bound_for.is_none() && self.pending.is_none() && self.blocked_for.is_none()
    }

    /// When the next turn is due although nothing arrives, for the sake of the sockets; `None`:
    /// never.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.unfinished {
            return Some(clock::now());
        }
        let retry = self.blocked_for.map(|_| self.retry_at);
        let release = self.datapath.next_release_ns().map(Instant::from_ns);
        let owed = self.owed_until;
        retry.into_iter().chain(release).chain(owed).reduce(Instant::min)
    }

    /// Lets an emulated network let go of what it has held long enough.
    pub(crate) fn release_due(&mut self, now: Instant) {
        if let Err(error) = self.datapath.release_due(ns(now)) {
            self.trouble(&error);
        }
    }

    /// Counts an error of the sockets: to the protocol it is a lost packet.
    pub(crate) fn trouble(&mut self, error: &std::io::Error) {
        self.unreadable |= error.raw_os_error() == Some(libc::EFAULT);
        self.errors += 1;
        self.last_error = Some(error.to_string());
    }

    /// Somebody who slept on the sockets saw that these have something.
    pub(crate) fn mark_ready(&mut self, sockets: &[usize]) {
        for socket in sockets {
            self.waiting |= 1 << socket;
        }
    }

    /// The socket to try next, of those that are marked: the hot one first, then by number.
    pub(crate) fn next_socket(&self) -> Option<usize> {
        match self.waiting {
            0 => None,
            waiting if waiting & 1 << self.hot != 0 => Some(self.hot),
            waiting => Some(waiting.trailing_zeros() as usize),
        }
    }

    /// So many packets came to a socket that was tried.
    pub(crate) fn took(&mut self, socket: usize, packets: usize) {
        if packets == 0 {
            self.waiting &= !(1 << socket);
        } else {
            self.note_hot(socket);
        }
    }

    /// Is a socket full?
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_for.is_some()
    }

    /// Were there set-up messages among what has arrived?
    pub(crate) fn has_setups(&self) -> bool {
        !self.setups.is_empty()
    }

    /// Most packets to receive in a turn.
    pub(crate) fn budget(&self) -> usize {
        BUDGET
    }

    /// From now on the turns are those of one of several engines.
    pub(crate) fn share(&mut self) {
        self.late.reserve_exact(fairway_port::SEGMENTS_MAX + 1);
    }

    /// One receive call on a socket.
    pub(crate) fn receive<'b>(
        &mut self,
        socket: usize,
        buffer: &'b mut ReceiveBuffer,
    ) -> Option<Arrival<'b>> {
        match self.datapath.receive(socket, buffer) {
            Ok(arrival) => {
                if let (Some(meter), Some(arrival)) = (&mut self.meter, &arrival) {
                    meter.arrived(arrival.stamped_ns());
                }
                arrival
            }
            Err(error) => {
                self.trouble(&error);
                None
            }
        }
    }

    pub(crate) fn take_buffer(&mut self) -> ReceiveBuffer {
        self.buffer.take().unwrap_or_default()
    }

    pub(crate) fn give_buffer(&mut self, buffer: ReceiveBuffer) {
        self.buffer = Some(buffer);
    }

    /// Something has come to `socket`.
    fn note_hot(&mut self, socket: usize) {
        self.hot_worth = if socket == self.hot {
            (self.hot_worth + HOT_GAIN).min(HOT_MAX)
        } else {
            self.hot_worth.saturating_sub(HOT_LOSS)
        };
        self.hot = socket;
    }

    /// Decides which sockets to try in this turn.
    pub(crate) fn choose_sockets(&mut self) {
        if self.waiting != 0 {
            return;
        }
        if self.turns_until_look > 0 && self.hot_worth > 0 {
            self.turns_until_look -= 1;
            self.waiting = 1 << self.hot;
            return;
        }
        self.turns_until_look = TURNS_PER_LOOK - 1;
        self.look_at_all();
    }

    /// Finds out which sockets have something to receive.
    fn look_at_all(&mut self) {
        match &self.look {
            None => self.waiting = all(self.sockets),
            Some(look) => match look.ready_now(&mut self.ready) {
                Ok(_) => {
                    for socket in &self.ready {
                        self.waiting |= 1 << socket;
                    }
                }
                Err(_) => self.waiting = all(self.sockets),
            },
        }
    }
}

fn all(sockets: usize) -> u32 {
    debug_assert!((1..32).contains(&sockets));
    (1 << sockets) - 1
}

impl Core {
    /// Runs one turn of the only engine.
    pub(crate) fn turn(&mut self, io: &mut Io) -> Turned {
        if self.has_vanished() {
            return Turned::default();
        }
        self.counters.turns += 1;
        let mut now = clock::now();
        io.release_due(now);
        io.choose_sockets();
        let received = self.receive(io, BUDGET, Eagerness::AnswerFirst);
        if received > 0 {
            self.changes += 1;
            now = clock::now();
            self.promptness.delivered(now);
            self.handle_setups(io, now);
        }
        if is_due(self.nic.poll_timeout(), now) {
            // What has come in time must not count as late because this thread was.
            now = self.catch_up(io, now);
        }
        self.fire_timers(now);
        io.patient = self.promptness.may_owe(now, received, io.owed_until);
        self.transmit(io, now);
        io.patient = false;
        self.end_turn();
        Turned { unfinished: io.unfinished || io.waiting != 0 }
    }

    /// Have timers been due for longer than this?
    pub(crate) fn is_overdue(&self, now: Instant, by: Duration) -> bool {
        self.nic.poll_timeout().is_some_and(|due| now.is_at_or_after(due + by))
    }

    /// Does what is due by the clock.
    pub(crate) fn fire_timers(&mut self, now: Instant) {
        self.read_hints();
        if is_due(self.nic.poll_timeout(), now) {
            self.changes += 1;
            // Memory that is lent must not become the application's again.
            self.end_waits = self.nic.hold_ends(self.lent != 0);
            self.nic.handle_timeout(now);
        }
        if is_due(self.connecting.poll_timeout(), now) {
            self.changes += 1;
            self.speak(now);
        }
    }

    /// After a turn: what it brought is heard, and what nobody needs any more goes.
    pub(crate) fn end_turn(&mut self) {
        self.hear_events();
        if let Some(control) = &self.control {
            control.nudge();
        }
        // Their last operation may have ended by a timer.
        if self.has_dying_jetties() {
            self.reap_jetties();
        }
        self.bury();
    }

    /// Finds out who is to be woken.
    pub(crate) fn settle_interests(&mut self) {
        if self.interests.is_empty() {
            return;
        }
        let mut interests = std::mem::take(&mut self.interests);
        interests.settle(|what| match what {
            What::Completion(jetty) => self.has_completion(jetty),
            What::Epoch(mailbox) => self.has_epoch(mailbox),
            What::Change(seen) => self.changes != seen,
        });
        self.interests = interests;
    }

    /// Takes the engine's events.
    pub(crate) fn hear_events(&mut self) {
        self.hear_epochs();
        while let Some(event) = self.nic.poll_event() {
            self.changes += 1;
            match event {
                Event::PeerDead { channel } => self.end_peer(channel, Notice::PeerDead),
                Event::PeerClosed { channel } => self.end_peer(channel, Notice::PeerClosed),
                Event::KeysRefused { channel } => {
                    if let Some(peer) = self.peer_state(channel) {
                        // It can only fail if the channel has ended already.
                        let _ = self.close_channel(channel);
                        self.notice(Notice::KeysRefused(peer));
                    }
                }
                Event::Closed { channel } => {
                    if let Some(channel) = self.channels.get_mut(channel) {
                        channel.end();
                    }
                }
                Event::SegmentReleased { segment } => self.memories.release(segment),
                Event::PathDown { channel, path } => {
                    if let Some(peer) = self.peer_state(channel) {
                        self.notice(Notice::PathDown(peer, path));
                    }
                }
                Event::PathUp { channel, path } => {
                    if let Some(peer) = self.peer_state(channel) {
                        self.notice(Notice::PathUp(peer, path));
                    }
                }
                Event::JettyFault { jetty, status, state } => {
                    self.notice_jetty(jetty, Notice::JettyFault { jetty, status, state });
                }
                Event::JettyDrained { jetty } => {
                    self.notice_jetty(jetty, Notice::JettyDrained { jetty });
                }
            }
        }
    }

    fn end_peer(
        &mut self,
        channel: fairway_engine::ChannelId,
        notice: fn(std::sync::Arc<crate::peer_state::PeerState>) -> Notice,
    ) {
        let Some(channel) = self.channels.get_mut(channel) else { return };
        let was_alive = channel.peer.alive.load(Ordering::Acquire);
        channel.end();
        self.ends = self.ends.wrapping_add(1);
        let peer = channel.peer.clone();
        // After a close of our own nobody wants to be told.
        if was_alive {
            self.notice(notice(peer));
        }
    }

    /// Takes in all that has arrived, within reason; the time after that.
    fn catch_up(&mut self, io: &mut Io, now: Instant) -> Instant {
        io.look_at_all();
        if io.waiting == 0 {
            return now;
        }
        self.receive(io, CATCH_UP_BUDGET, Eagerness::TakeAll);
        // The engine's time never runs backwards.
        let now = clock::now();
        self.handle_setups(io, now);
        now
    }

    pub(crate) fn handle_setups(&mut self, io: &mut Io, now: Instant) {
        for (socket, from, setup) in io.setups.drain(..) {
            self.handle_setup(now, (io.engine, socket), &from, &setup);
        }
    }
}

fn is_due(deadline: Option<Instant>, now: Instant) -> bool {
    deadline.is_some_and(|deadline| now.is_at_or_after(deadline))
}

/// The engine's time as the port counts it.
fn ns(now: Instant) -> u64 {
    now.as_ps() / 1000
}

#[cfg(test)]
mod tests;
