//! What a thread that drives a device uses: its sockets, and the run of packets that is being put
//! together, which leaves in one system call.

use fairway_port::{Address, Arrival, RawSlice, Sent, Train};
use fairway_wire::{Duration, Instant};

use crate::clock;
use crate::delayed_ack::ANSWER_WITHIN;
use crate::sockets::{Sockets, ns};

/// A full socket is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_us(50);

/// Where a run of packets goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Number of the path.
    pub path: usize,
    /// Index of the socket that it leaves from.
    pub socket: usize,
    /// Address that it is sent to.
    pub to: Address,
}

/// What a protocol keeps beside the sockets: room for what packets carry, and measurements. None of
/// the calls but the types has to be there.
pub trait Companion {
    /// A packet that begins the next run.
    type Pending: Send;
    /// An acknowledgement that waits for the end of the run, or for what the application answers.
    type Held: Send;

    /// A receive call has brought something.
    fn arrived(&mut self, _arrival: &Arrival<'_>) {}
    /// A poll's sending begins; `waits`: packets of an earlier poll have not left. Memory of the
    /// companion's that no packet names any more is free again.
    fn sending_begins(&mut self, _waits: bool, _pending: Option<&mut Self::Pending>) {}
    /// A packet that had to wait begins a run.
    fn run_begun(&mut self) {}
    /// When a call that sends begins, if that is of interest.
    fn call_begins(&self) -> u64 {
        0
    }
    /// A run has left by a call that began then.
    fn left(&mut self, _begun: u64) {}
    /// The run names nothing any more: it has left, or was dropped.
    fn cleared(&mut self) {}
    /// What waited to be sent is dropped.
    fn dropped(&mut self) {}
}

/// What became of a packet that was to be added to the run.
pub enum Appended {
    /// It is part of the run.
    Yes,
    /// It begins the next run.
    Next,
    /// It will never fit.
    Never,
}

/// Sockets and outgoing packets of one engine.
pub struct Io<C: Companion> {
    /// Whose they are.
    pub engine: u32,
    /// Sockets of the engine.
    pub sockets: Sockets,
    /// Packets that wait to be sent.
    pub outbox: Outbox<C>,
    /// What the protocol keeps beside the sockets.
    pub own: C,
}

/// The run of packets that is being put together, and what waits for the next one.
pub struct Outbox<C: Companion> {
    train: Train,
    bound_for: Option<Destination>,
    /// The packet that begins the next run.
    pub pending: Option<C::Pending>,
    /// An acknowledgement that waits: what the application may answer leaves with it.
    pub held: Option<C::Held>,
    /// Until when it does at the latest.
    ack_deadline: Option<Instant>,
    /// A lone acknowledgement may wait.
    pub may_hold_ack: bool,
    /// A full socket did not take the run, or not all of it: when it is tried again.
    retry_at: Option<Instant>,
    /// Runs sent in this poll.
    runs: u32,
    /// Packets taken from the device in this poll.
    pub packets: usize,
    /// There was more to do than a poll may.
    pub unfinished: bool,
}

impl<C: Companion> Outbox<C> {
    /// True if a run has been begun and has not left.
    pub fn has_run(&self) -> bool {
        self.bound_for.is_some()
    }

    /// Packets of the run so far.
    pub fn run_len(&self) -> usize {
        self.train.len()
    }

    /// True if a packet of `length` bytes to this place may join the run.
    pub fn takes(&self, bound: &Destination, length: usize) -> bool {
        match &self.bound_for {
            None => true,
            Some(other) => other == bound && self.train.check(length).is_ok(),
        }
    }

    /// Adds a packet to the run.
    pub fn append(&mut self, bound: Destination, header: &[u8], payload: RawSlice) -> Appended {
        if self.bound_for.is_some_and(|other| other != bound) {
            return Appended::Next;
        }
        match self.train.push(header, payload) {
            Ok(()) => {
                self.bound_for = Some(bound);
                Appended::Yes
            }
            Err(_) if self.train.is_empty() => Appended::Never,
            Err(_) => Appended::Next,
        }
    }

    /// The acknowledgement that was held, unless it may go on waiting.
    pub(crate) fn release(&mut self, now: Instant) -> Option<C::Held> {
        let lone = self.bound_for.is_none() && self.runs == 0;
        if self.may_hold_ack && lone && self.held.is_some() {
            self.ack_deadline.get_or_insert(now + ANSWER_WITHIN);
            return None;
        }
        self.ack_deadline = None;
        self.held.take()
    }

    /// Until when an acknowledgement waits, if one does.
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// Is a socket full?
    pub fn is_blocked(&self) -> bool {
        self.retry_at.is_some()
    }

    /// True if no packet waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.bound_for.is_none() && self.pending.is_none()
    }

    fn clear_run(&mut self) {
        self.train.clear();
        (self.bound_for, self.retry_at) = (None, None);
    }
}

impl<C: Companion> Io<C> {
    /// Sockets of an engine, with no packet that waits to be sent.
    pub fn new(engine: u32, sockets: Sockets, own: C) -> Self {
        let outbox = Outbox {
            train: sockets.datapath.port().new_train(),
            bound_for: None,
            pending: None,
            held: None,
            ack_deadline: None,
            may_hold_ack: false,
            retry_at: None,
            runs: 0,
            packets: 0,
            unfinished: false,
        };
        Io { engine, sockets, outbox, own }
    }

    /// When the next poll is due although nothing arrives, for the sake of the sockets; `None`:
    /// never.
    pub fn deadline(&self) -> Option<Instant> {
        if self.outbox.unfinished {
            return Some(clock::now());
        }
        let Outbox { retry_at, ack_deadline, .. } = self.outbox;
        let all = [retry_at, self.sockets.next_release(), ack_deadline];
        all.into_iter().flatten().reduce(Instant::min)
    }

    /// A poll's sending begins. False if a socket is full.
    pub fn begin_sending(&mut self, now: Instant) -> bool {
        let outbox = &mut self.outbox;
        outbox.unfinished = false;
        (outbox.runs, outbox.packets) = (0, 0);
        self.own.sending_begins(outbox.bound_for.is_some(), outbox.pending.as_mut());
        match outbox.retry_at {
            None => true,
            Some(at) => !now.is_before(at) && self.transmit_run(now),
        }
    }

    /// Sends the run. False if the socket is full: the run then waits.
    pub fn send_run(&mut self, now: Instant) -> bool {
        if self.outbox.bound_for.is_none() {
            return true;
        }
        self.outbox.runs += 1;
        self.transmit_run(now)
    }

    fn transmit_run(&mut self, now: Instant) -> bool {
        let Outbox { train, bound_for, retry_at, .. } = &mut self.outbox;
        let Some(Destination { path, socket, to }) = *bound_for else { return true };
        let begun = self.own.call_begins();
        match self.sockets.datapath.transmit(ns(now), path, socket, &to, train) {
            Ok(Sent::All) => self.own.left(begun),
            Ok(Sent::Blocked { sent }) => {
                train.skip(sent);
                *retry_at = Some(now + RETRY_AFTER);
                return false;
            }
            Err(error) => self.sockets.trouble(&error),
        }
        self.outbox.clear_run();
        self.own.cleared();
        true
    }

    /// May another run go in this poll? So many may, and so many packets.
    pub fn may_send_more(&mut self, runs_max: u32, packets_max: usize) -> bool {
        let outbox = &mut self.outbox;
        outbox.unfinished |= outbox.runs >= runs_max || outbox.packets >= packets_max;
        !outbox.unfinished
    }

    /// Drops what waits to be sent.
    pub fn forget_waiting(&mut self) {
        self.own.dropped();
        self.outbox.pending = None;
        if self.outbox.bound_for.is_some() {
            self.outbox.clear_run();
            self.own.cleared();
        }
    }
}
