//! The live driver of Unified Bus: the [`Protocol`] of [`Core`].

mod receive;
mod transmit;

use std::sync::atomic::Ordering;

use fairway_device::Placement;
use fairway_observe::Meter;
use fairway_port::{Address, Arrival, Datapath};
use fairway_runtime::{
    self as runtime, Companion, DelayedAck, Eagerness, Memories, Parsed, Placing, Protocol,
    Sockets, clock, is_due, report,
};
use fairway_ub::wire::{Duration, Instant, Operation, Packet};
use fairway_ub::{AtomicExecution, Event, PlacementToken, Received, Transmit, UbDevice};

use crate::core::{Core, Due, Notice, WaitCondition, WakeTarget};
use crate::outside::Outside;
use crate::setup::Padded;

pub(crate) use receive::DeferredCopy;
use transmit::{Held, Pending};

/// Number of polls after which all sockets are checked, even if none is known to have packets.
const POLLS_PER_CHECK: u32 = 4;

/// Longest time for which a packet is believed to have been in this host.
const WAIT_MAX: Duration = Duration::from_ms(1000);

/// Maximum number of set-up messages that one poll receives.
const SETUPS_MAX: usize = 64;

/// The sockets and outgoing packets of one engine.
pub type Io = runtime::Io<Extras>;

/// An engine's state beside its sockets.
pub struct Extras {
    /// Payloads of the current arrival that are to be copied without the lock. Has capacity only if
    /// there are several engines.
    pub(crate) deferred_copies: Vec<DeferredCopy>,
    /// Set-up messages received in this poll: the socket, the sender, the message.
    setups: Vec<(usize, Address, Padded)>,
    /// Copies of the payloads of unreliable packets, whose memory belongs to the application again
    /// as soon as the protocol has handed them out. `copied` bytes of this buffer belong to packets
    /// that have not been sent.
    copies: Box<[u8]>,
    copied: usize,
    /// The core's teardown epoch when the waiting packets were built.
    teardown_epoch: u32,
    /// Measures control latency, if the builder requested that.
    pub(crate) meter: Option<Box<Meter>>,
}

/// Returns the sockets and outgoing packets of engine number `engine`.
pub(crate) fn open_io(engine: u32, datapath: Box<dyn Datapath>) -> Io {
    let several = datapath.port().socket_count() > 1 || datapath.has_other_descriptors();
    let look = if several { datapath.waiter().ok() } else { None };
    let extras = Extras {
        deferred_copies: Vec::new(),
        setups: Vec::with_capacity(SETUPS_MAX),
        copies: Box::default(),
        copied: 0,
        teardown_epoch: 0,
        meter: None,
    };
    Io::new(engine, Sockets::new(datapath, look, POLLS_PER_CHECK), extras)
}

impl Extras {
    /// True if this poll has received set-up messages.
    pub(crate) fn has_setups(&self) -> bool {
        !self.setups.is_empty()
    }

    /// Prepares for the polls of one of several engines.
    pub(crate) fn share(&mut self) {
        self.deferred_copies.reserve_exact(fairway_port::SEGMENTS_MAX + 1);
    }

    /// Passes the meter to `note` if control latency is measured.
    fn measure(&mut self, note: impl FnOnce(&mut Meter)) {
        if let Some(meter) = &mut self.meter {
            note(meter);
        }
    }
}

impl Companion for Extras {
    type Pending = Pending;
    type Held = Held;

    fn arrived(&mut self, arrival: &Arrival<'_>) {
        self.measure(|meter| meter.arrived(arrival.stamped_ns()));
    }

    fn sending_begins(&mut self, waits: bool, pending: Option<&mut Pending>) {
        if !waits {
            self.reuse_copies(pending);
        }
    }

    fn run_begun(&mut self) {
        self.measure(Meter::began_run);
    }

    fn call_begins(&self) -> u64 {
        self.meter.as_ref().map_or(0, |_| clock::real_ns())
    }

    fn left(&mut self, begun: u64) {
        self.measure(|meter| meter.left(begun));
    }

    fn dropped(&mut self) {
        self.measure(Meter::dropped);
    }
}

/// Work to be done once the lock of a core has been released.
pub struct After {
    /// Sleepers to be woken; `None` if there are none.
    pub(crate) due: Option<Due>,
    pub(crate) calls: Option<Box<dyn FnOnce()>>,
}

impl Protocol for Core {
    type Device = UbDevice;
    type Own = Extras;
    type Context<'a> = Header;
    type After = After;
    type Outside = Outside;

    const RECEIVED_MAX: usize = 64;
    /// About as many packets as socket buffers hold.
    const CAUGHT_UP_MAX: usize = 64 * 64;
    const SENT_MAX: usize = 256;
    const RUNS_MAX: u32 = 4;
    const EAGERNESS: Eagerness = Eagerness::AnswerFirst;

    fn parts(&mut self) -> (&mut UbDevice, &mut Memories) {
        (&mut self.nic, &mut self.memories)
    }

    fn delayed_ack(&mut self) -> &mut DelayedAck {
        &mut self.delayed_ack
    }

    fn poll_begins(&mut self) -> bool {
        let runs = !self.has_crashed();
        self.counters.polls += u64::from(runs);
        if runs {
            self.begin_waiting();
        }
        runs
    }

    fn take_delivered(&mut self) -> bool {
        std::mem::take(&mut self.has_delivered)
    }

    fn received(&mut self, io: &mut Io, now: Instant) {
        self.changes += 1;
        self.handle_setups(io, now);
        // What the tenant begins because operations have ended leaves in this poll.
        self.call_tenant();
    }

    fn timers_begin(&mut self) {
        self.read_hints();
    }

    fn timeout_due(&mut self) {
        self.changes += 1;
        // Memory that a system call uses must not be returned to the application.
        self.teardown_pending = self.nic.suspend_teardown(self.io_in_flight != 0);
    }

    fn fire_own_timers(&mut self, now: Instant) {
        self.probe_stalled_channels(now);
        if is_due(self.connecting.poll_timeout(), now) {
            self.changes += 1;
            self.speak(now);
        }
    }

    fn poll_ends(&mut self) {
        self.end_poll();
    }

    fn background_polled(&mut self) {
        self.counters.background_polls += 1;
    }

    /// Only the first engine fires timers.
    fn deadline(&self, engine: u32) -> Option<Instant> {
        if self.has_crashed() || engine > 0 {
            return None;
        }
        let tenant = self.tenant.as_ref().and_then(|tenant| tenant.deadline());
        let timers = [self.nic.poll_timeout(), self.connecting.poll_timeout(), tenant];
        timers.into_iter().flatten().reduce(Instant::min)
    }

    fn is_over(&self) -> bool {
        self.has_crashed()
    }

    fn has_output(&mut self, engine: u32) -> bool {
        let said = !self.engines[engine as usize].outbox.is_empty();
        !self.has_crashed() && (said || self.nic.has_output(engine))
    }

    fn arrival_begins(&mut self, arrival: &Arrival<'_>) {
        self.changes += 1;
        self.nic.set_host_wait(wait_of(arrival));
    }

    fn parse<'a>(
        &mut self,
        io: &mut Io,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Self>> {
        self.read_datagram(io, socket, arrival, index)
    }

    fn handle_cut(
        &mut self,
        io: &mut Io,
        now: Instant,
        socket: usize,
        arrival: &Arrival<'_>,
        cut_from: usize,
    ) {
        self.handle_trimmed(io, now, socket, arrival, cut_from);
    }

    fn admit(&mut self, _io: &mut Io, now: Instant, received: &Received) -> bool {
        !self.closes(received) || self.can_close(now)
    }

    fn placing(
        &mut self,
        io: &mut Io,
        placement: &Placement<fairway_ub::LocalRange, PlacementToken>,
        parsed: &Parsed<'_, Self>,
    ) -> Placing {
        self.place_late(&mut io.own.deferred_copies, placement, &parsed.context)
    }

    fn carry_out(&mut self, now: Instant, atomic: AtomicExecution, _parsed: &Parsed<'_, Self>) {
        let old = self.memories.change(&atomic);
        report(&mut self.nic, &mut self.memories, now, atomic.token, old);
    }

    fn handled(&mut self, io: &mut Io, now: Instant, received: &Received, acknowledged: u64) {
        self.has_delivered |= ends_message(&received.packet);
        let refused = self.nic.counters().keys_refused;
        if refused != std::mem::replace(&mut self.keys_refused, refused) {
            self.note_guess(now, received);
        }
        if let Some(meter) = &mut io.own.meter {
            self.measure(meter, received, acknowledged);
        }
    }

    fn acknowledged(&self) -> u64 {
        self.nic.counters().acks_reported
    }

    fn sending_begins(&mut self, io: &mut Io) -> bool {
        (self.wants_send, self.small_posts) = (false, None);
        self.forget_ended(io);
        !self.has_crashed()
    }

    fn run_begins(&mut self, io: &mut Io, now: Instant) {
        self.forget_ended(io);
        self.take_care(io, now);
    }

    fn add_own(&mut self, io: &mut Io) -> bool {
        self.add_setup(io)
    }

    fn next(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        self.nic.poll_engine(now, engine)
    }

    fn has_full_ack(&self, engine: u32) -> bool {
        self.nic.has_full_ack(engine)
    }

    fn next_urgent(&mut self, now: Instant, engine: u32) -> Option<Transmit> {
        self.nic.poll_urgent(now, engine)
    }

    fn add(&mut self, io: &mut Io, now: Instant, transmit: &Transmit) -> bool {
        self.add_packet(io, now, transmit)
    }

    fn add_pending(&mut self, io: &mut Io, _now: Instant, pending: Pending) -> bool {
        self.append_pending(io, &pending)
    }

    fn add_held(&mut self, io: &mut Io, now: Instant, held: Held) -> bool {
        self.append_held(io, now, held)
    }

    /// The counters of the sockets are read when they are asked for.
    fn note_sending_done(&mut self, io: &mut Io) {
        self.note_unsent(io);
    }

    fn run_pending(&mut self, mut io: Option<&mut Io>) -> After {
        // A call that posts nothing may be the last one for some time.
        if self.small_posts.is_none() && io.as_ref().is_some_and(|io| io.burst.waits()) {
            self.wants_send = true;
        }
        self.process_completions(&mut io);
        self.send_posted(&mut io);
        self.collect_due_waiters();
        let due = self.interests.take_due();
        let calls = self.tenant.as_mut().and_then(|tenant| tenant.take_calls());
        After { due, calls }
    }

    fn notify(_outside: &Outside, after: After) -> bool {
        let mut more = false;
        if let Some(due) = after.due {
            more = due.last().is_some_and(Option::is_some);
            due.into_iter().flatten().for_each(WakeTarget::wake);
        }
        if let Some(calls) = after.calls {
            calls();
        }
        more
    }
}

/// True for the last packet of an operation that completes at the receiver's application, too, and
/// of a WRITE, whose memory the application may watch.
fn ends_message(packet: &Packet) -> bool {
    let Packet::Data(data) = packet else { return false };
    let is_message = matches!(
        data.operation,
        Operation::Send { .. }
            | Operation::SendImmediate { .. }
            | Operation::Write { .. }
            | Operation::WriteImmediate { .. }
            | Operation::Put(_)
    );
    data.last && is_message
}

/// The place in its datagram where a packet's payload begins.
pub struct Header {
    /// The datagram's index in its arrival.
    index: usize,
    length: usize,
}

/// Time for which an arrival has been in this host; `None` if the kernel has not stamped it. A
/// longer time than [`WAIT_MAX`] is a step of the real-time clock.
pub(crate) fn wait_of(arrival: &Arrival<'_>) -> Option<Duration> {
    let stamped = arrival.stamped_ns();
    let waited = (stamped > 0).then(|| clock::real_ns().saturating_sub(stamped))?;
    Some(Duration::from_ns(waited)).filter(|waited| *waited <= WAIT_MAX)
}

impl Core {
    /// True if a timer has been due for longer than `by`.
    pub(crate) fn is_overdue(&self, now: Instant, by: Duration) -> bool {
        self.nic.poll_timeout().is_some_and(|due| now.is_at_or_after(due + by))
    }

    /// Called after each poll: processes its events and frees what is no longer needed.
    pub(crate) fn end_poll(&mut self) {
        self.drain_events();
        if let Some(control) = &self.control {
            control.wake_if_asleep();
        }
        // The last operation of a dropped Jetty may have ended by a timer.
        if self.has_dying_jetties() {
            self.reap_jetties();
        }
        self.free_released_memory();
    }

    /// Collects the sleepers whose condition has become true.
    pub(crate) fn collect_due_waiters(&mut self) {
        if self.interests.is_empty() {
            return;
        }
        let mut interests = std::mem::take(&mut self.interests);
        interests.collect_due(|what| match what {
            WaitCondition::Completion(jetty) => self.has_completion(jetty) || self.has_ended(jetty),
            WaitCondition::Epoch(mailbox) => self.has_epoch(mailbox) || self.is_shut_down(),
            WaitCondition::Change(seen) => self.changes != seen,
        });
        self.interests = interests;
    }

    /// Calls the tenant to process completions, twice: sending may complete operations, and their
    /// completion may start others.
    fn process_completions(&mut self, io: &mut Option<&mut Io>) {
        for _ in 0..2 {
            if !self.call_tenant() {
                return;
            }
            self.send_posted(io);
        }
    }

    /// Calls the tenant to process completions. Returns false if there is no tenant.
    fn call_tenant(&mut self) -> bool {
        let Some(mut tenant) = self.tenant.take() else { return false };
        tenant.process_completions(self);
        self.tenant = Some(tenant);
        true
    }

    /// Sends the packets that calls of the application have posted. Does nothing if engines send on
    /// their own.
    fn send_posted(&mut self, io: &mut Option<&mut Io>) {
        let small = self.small_posts.take();
        let Some(io) = io else { return };
        if !self.wants_send && small.is_none() {
            return;
        }
        let small = small.filter(|_| !self.wants_send);
        if runtime::transmit_posted(self, io, small) {
            self.drain_events();
        }
    }

    /// Processes the protocol's events.
    pub fn drain_events(&mut self) {
        self.drain_epochs();
        while let Some(event) = self.nic.poll_event() {
            self.changes += 1;
            match event {
                Event::PeerDead { channel } => self.end_peer(channel, Notice::PeerDead),
                Event::PeerClosed { channel } => self.end_peer(channel, Notice::PeerClosed),
                Event::KeysRefused { channel } => self.guessers.push(channel),
                Event::ExecutionLost { channel } => self.silenced.push(channel),
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
                Event::ChannelRetired { channel, retired } => {
                    let place = self.nic.members(channel).position(|member| member == retired);
                    if let (Some(peer), Some(place)) = (self.peer_state(channel), place) {
                        self.notice(Notice::ChannelDead(peer, place as u32));
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
        self.end_guessers();
        self.end_silenced();
    }

    /// Closes the connections of peers that have used too many wrong keys.
    fn end_guessers(&mut self) {
        while let Some(channel) = self.guessers.pop() {
            // If the channel has ended already, another event reports that.
            if let Some(peer) = self.peer_state(channel)
                && self.close_channel(channel).is_ok()
            {
                self.notice(Notice::KeysRefused(peer));
            }
        }
    }

    /// Closes the connections over which the protocol sends nothing any more.
    fn end_silenced(&mut self) {
        while let Some(channel) = self.silenced.pop() {
            if let Some(peer) = self.peer_state(channel)
                && self.close_channel(channel).is_ok()
            {
                self.notice(Notice::ExecutionLost(peer));
            }
        }
    }

    fn end_peer(
        &mut self,
        channel: fairway_ub::ChannelId,
        notice: fn(std::sync::Arc<crate::peer_state::PeerState>) -> Notice,
    ) {
        let Some(channel) = self.channels.get_mut(channel) else { return };
        let was_alive = channel.peer.alive.load(Ordering::Acquire);
        channel.end();
        self.teardown_epoch = self.teardown_epoch.wrapping_add(1);
        let peer = channel.peer.clone();
        // A close by this side is not reported.
        if was_alive {
            self.notice(notice(peer));
        }
    }

    pub(crate) fn handle_setups(&mut self, io: &mut Io, now: Instant) {
        for (socket, from, setup) in io.own.setups.drain(..) {
            self.handle_setup(now, (io.engine, socket), &from, &setup);
        }
    }
}

#[cfg(test)]
mod tests;
