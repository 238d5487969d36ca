//! State of a thread that drives a device: its sockets, and the run of packets that is being built,
//! which leaves in one system call.

use fairway_port::{Address, Arrival, RawSlice, Sent, Train};
use fairway_wire::{Duration, Instant, Priority};

use crate::burst::Burst;
use crate::clock;
use crate::clock::ns;
use crate::delayed_ack::ANSWER_WITHIN;
use crate::dscp::Dscp;
use crate::fill;
use crate::sockets::Sockets;

/// Time without a poll that counts as a pause of the program. The background thread, which checks
/// in half a millisecond at the earliest, can do nothing about shorter ones; and on a slow machine
/// tens of microseconds pass until a message is checked and answered. (Polls that only look at
/// memory are not counted, but one in some microseconds is.)
const PAUSE: Duration = Duration::from_us(100);

/// Time after which a full socket is tried again.
const RETRY_AFTER: Duration = Duration::from_us(50);

/// The path, socket and address of a run of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Number of the path.
    pub path: usize,
    /// Index of the local socket.
    pub socket: usize,
    /// Address to which it is sent.
    pub to: Address,
    /// True if packets may be filled ([`Io::append`]): the peer expects it.
    pub fills: bool,
}

impl Destination {
    /// Returns a destination whose packets are not filled.
    pub fn unfilled(path: usize, socket: usize, to: Address) -> Self {
        Destination { path, socket, to, fills: false }
    }
}

/// A protocol's state beside the sockets: buffers for payloads, and measurements. Only the types
/// must be defined; all methods have defaults.
pub trait Companion {
    /// A packet that begins the next run.
    type Pending: Send;
    /// A delayed acknowledgement, which waits for the end of the run, or for the application's
    /// answer.
    type Held: Send;

    /// Called when a receive call has returned packets.
    fn arrived(&mut self, _arrival: &Arrival<'_>) {}
    /// Called when a poll begins to send. `waits`: packets of an earlier poll have not been sent.
    /// The companion may free its memory to which no packet refers any more.
    fn sending_begins(&mut self, _waits: bool, _pending: Option<&mut Self::Pending>) {}
    /// Called when a packet that had to wait begins a run.
    fn run_begun(&mut self) {}
    /// Returns the time at which a sending call begins, if the protocol measures that.
    fn call_begins(&self) -> u64 {
        0
    }
    /// Called when a run has been sent, by a call that began at `begun`.
    fn left(&mut self, _begun: u64) {}
    /// Called when the run refers to no memory any more: it has been sent or dropped.
    fn cleared(&mut self) {}
    /// Called when the packets that waited to be sent are dropped.
    fn dropped(&mut self) {}
}

/// The result of adding a packet to the run.
pub enum Appended {
    /// It is part of the run.
    Yes,
    /// The packet must begin the next run.
    Next,
    /// The packet is too long for any run.
    Never,
}

/// Sockets and outgoing packets of one engine.
pub struct Io<C: Companion> {
    /// Number of the engine.
    pub engine: u32,
    /// Sockets of the engine.
    pub sockets: Sockets,
    /// Packets that wait to be sent.
    pub outbox: Outbox<C>,
    /// The protocol's state beside the sockets.
    pub own: C,
    /// The burst of posts that is under way.
    pub burst: Burst,
    /// Time of the last poll that was not skipped.
    polled_at: Instant,
    /// True if packets were received or sent since [`Io::take_polled`].
    successful: bool,
    /// Bytes received by the last poll.
    pub(crate) received_bytes: usize,
    /// Duration of the pauses before polls since [`Io::take_paused`].
    paused: Duration,
}

/// The run of packets that is being built, and the packets that wait for the next one.
pub struct Outbox<C: Companion> {
    train: Train,
    bound_for: Option<Destination>,
    /// Class of the first packet of the run, with which all of them are sent.
    class: Priority,
    /// Code points of the classes.
    dscp: Dscp,
    /// The packet that begins the next run.
    pub pending: Option<C::Pending>,
    /// A delayed acknowledgement, which leaves together with the application's answer.
    pub held: Option<C::Held>,
    /// Latest time at which the delayed acknowledgement leaves.
    ack_deadline: Option<Instant>,
    /// True if an acknowledgement without other packets may wait.
    pub may_hold_ack: bool,
    /// Time at which a full socket, which accepted only part of the run or none of it, is tried
    /// again.
    retry_at: Option<Instant>,
    /// Runs sent in this poll.
    runs: u32,
    /// Packets taken from the device in this poll.
    pub packets: usize,
    /// True if there was more to do than one poll may do.
    pub unfinished: bool,
    /// True while the polling thread returns to an application that may answer at once
    /// ([`Outbox::postpone`]).
    pub(crate) may_postpone: bool,
    /// True if a poll has left timers and sending to the next one.
    postponed: bool,
    /// True if the device had no further packet when the last run was built.
    pub(crate) has_drained: bool,
}

impl<C: Companion> Outbox<C> {
    /// True if a run has been begun and has not left.
    pub fn has_run(&self) -> bool {
        self.bound_for.is_some()
    }

    /// Number of packets in the run so far.
    pub fn run_len(&self) -> usize {
        self.train.len()
    }

    /// True if a packet of `length` bytes to this destination may join the run.
    pub fn takes(&self, bound: &Destination, length: usize) -> bool {
        match &self.bound_for {
            None => true,
            Some(other) => other == bound && self.train.check(length).is_ok(),
        }
    }

    /// True if the run has this destination, and a packet of this class may leave with it.
    fn is_bound_for(&self, bound: &Destination, class: Priority) -> bool {
        let is_mixed =
            class != self.class && class != Priority::CONTROL && self.class != Priority::CONTROL;
        !is_mixed && self.bound_for.as_ref() == Some(bound)
    }

    /// Takes the delayed acknowledgement, unless it may continue to wait.
    pub(crate) fn release(&mut self, now: Instant) -> Option<C::Held> {
        let lone = self.bound_for.is_none() && self.runs == 0;
        if self.may_hold_ack && lone && self.held.is_some() {
            self.ack_deadline.get_or_insert(now + ANSWER_WITHIN);
            return None;
        }
        self.ack_deadline = None;
        self.held.take()
    }

    /// Leaves timers and sending to the next poll, or to the post of the application's answer, if
    /// the calling thread polls again and again. The background thread does it if neither comes
    /// soon. Returns false if that is not allowed.
    pub(crate) fn postpone(&mut self, now: Instant) -> bool {
        self.postponed = self.may_postpone;
        if self.postponed {
            self.ack_deadline.get_or_insert(now + ANSWER_WITHIN);
        }
        self.postponed
    }

    /// True if a poll has left timers and sending to the next one, since the last call.
    pub(crate) fn take_postponed(&mut self) -> bool {
        std::mem::take(&mut self.postponed)
    }

    /// Allows acknowledgements to wait for the end of the run that a post sends, because the last
    /// poll has left them to it.
    pub(crate) fn hold_postponed(&mut self) {
        self.may_hold_ack = self.postponed;
    }

    /// Latest time until which an acknowledgement waits, if one does.
    pub(crate) fn ack_deadline(&self) -> Option<Instant> {
        self.ack_deadline
    }

    /// True if a socket is full.
    pub fn is_blocked(&self) -> bool {
        self.retry_at.is_some()
    }

    /// True if no packet waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.bound_for.is_none() && self.pending.is_none()
    }

    /// True if nothing is left to be sent once the run that was built last has left.
    pub(crate) fn is_done(&self) -> bool {
        self.has_drained && self.pending.is_none() && self.held.is_none()
    }

    fn clear_run(&mut self) {
        self.train.clear();
        (self.bound_for, self.retry_at) = (None, None);
    }
}

impl<C: Companion> Io<C> {
    /// Adds a packet to the run. If the run's last packet is shorter than the others, it is filled
    /// before, where that is allowed and suffices. All packets of a run leave with the class of its
    /// first one: a control packet behind data would not pass that data anyway, and data behind a
    /// control packet is no longer than that. Data of different classes is not mixed.
    pub fn append(
        &mut self,
        bound: Destination,
        class: Priority,
        header: &[u8],
        payload: RawSlice,
    ) -> Appended {
        let Io { outbox, sockets, .. } = self;
        if outbox.has_run() && !outbox.is_bound_for(&bound, class) {
            return Appended::Next;
        }
        if bound.fills && outbox.train.is_closed() && sockets.datapath.may_fill(&bound.to) {
            fill::fill_last(&mut outbox.train, header.len() + payload.len());
        }
        match outbox.train.push(header, payload) {
            Ok(()) => {
                if outbox.bound_for.is_none() {
                    outbox.class = class;
                    outbox.train.set_dscp(outbox.dscp.of(class));
                }
                outbox.bound_for = Some(bound);
                Appended::Yes
            }
            Err(_) if outbox.train.is_empty() => Appended::Never,
            Err(_) => Appended::Next,
        }
    }

    /// Returns the sockets of an engine, without packets that wait to be sent.
    pub fn new(engine: u32, sockets: Sockets, own: C) -> Self {
        let outbox = Outbox {
            train: sockets.datapath.port().new_train(),
            bound_for: None,
            class: Priority::DATA,
            dscp: Dscp::OFF,
            pending: None,
            held: None,
            ack_deadline: None,
            may_hold_ack: false,
            retry_at: None,
            runs: 0,
            packets: 0,
            unfinished: false,
            may_postpone: false,
            postponed: false,
            has_drained: false,
        };
        Io {
            engine,
            sockets,
            outbox,
            own,
            burst: Burst::default(),
            polled_at: Instant::ZERO,
            successful: false,
            received_bytes: 0,
            paused: Duration::ZERO,
        }
    }

    /// Sends packets with these code points.
    #[must_use]
    pub fn with_dscp(mut self, dscp: Dscp) -> Self {
        self.outbox.dscp = dscp;
        self
    }

    /// Time at which the sockets require the next poll even if nothing arrives; `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        if self.outbox.unfinished {
            return Some(clock::now());
        }
        let Outbox { retry_at, ack_deadline, .. } = self.outbox;
        let all = [retry_at, self.sockets.next_release(), ack_deadline];
        all.into_iter().flatten().reduce(Instant::min)
    }

    /// Records a poll in which so many packets were received and sent.
    pub(crate) fn note_poll(&mut self, now: Instant, packets: usize) {
        let pause = now.since(self.polled_at);
        if pause >= PAUSE {
            self.paused = self.paused.saturating_add(pause);
        }
        self.polled_at = now;
        self.successful |= packets > 0;
    }

    /// Returns for how long no thread has polled, in all pauses since the last call.
    pub(crate) fn take_paused(&mut self) -> Duration {
        std::mem::take(&mut self.paused)
    }

    /// Returns the time of the last poll, and whether packets were received or sent since the last
    /// call.
    pub(crate) fn take_polled(&mut self) -> (Instant, bool) {
        (self.polled_at, std::mem::take(&mut self.successful))
    }

    /// Begins to send in a poll. Returns false if a socket is full.
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

    /// Sends the run. Returns false if the socket is full: the run then waits.
    pub fn send_run(&mut self, now: Instant) -> bool {
        if self.outbox.bound_for.is_none() {
            return true;
        }
        self.outbox.runs += 1;
        self.transmit_run(now)
    }

    fn transmit_run(&mut self, now: Instant) -> bool {
        let Outbox { train, bound_for, retry_at, .. } = &mut self.outbox;
        let Some(Destination { path, socket, to, .. }) = *bound_for else { return true };
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

    /// True if another run may be sent in this poll, within the limits on runs and packets.
    pub fn may_send_more(&mut self, runs_max: u32, packets_max: usize) -> bool {
        let outbox = &mut self.outbox;
        outbox.unfinished |= outbox.runs >= runs_max || outbox.packets >= packets_max;
        !outbox.unfinished
    }

    /// Drops the packets that wait to be sent.
    pub fn forget_waiting(&mut self) {
        self.own.dropped();
        self.outbox.pending = None;
        if self.outbox.bound_for.is_some() {
            self.outbox.clear_run();
            self.own.cleared();
        }
    }
}
