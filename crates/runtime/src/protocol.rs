//! The differences between the protocols that are driven live: how datagrams are decoded and
//! encoded, where they are sent, and which state exists beside the device.

use fairway_device::{Device, Placement};
use fairway_port::Arrival;
use fairway_wire::Instant;

use crate::delayed_ack::DelayedAck;
use crate::io::{Companion, Io};
use crate::memories::Memories;
use crate::payload::Payload;

/// A packet that was decoded from a datagram and authenticated.
pub struct Parsed<'a, P: Protocol> {
    /// Packet and address, in the device's type.
    pub received: <P::Device as Device>::Received,
    /// Its payload.
    pub payload: Payload<'a>,
    /// Further data of the datagram that the protocol needs.
    pub context: P::Context<'a>,
}

/// The decision about a payload whose place is known.
pub enum Placing {
    /// The payload is copied to its place now.
    Now,
    /// The payload will be copied, and reported, later.
    Later,
    /// Memory that belongs to the payload's place is missing.
    Gone,
}

/// The order in which a poll works on arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// What is probably a whole message is answered before the sockets are checked again, because
    /// its sender may be waiting.
    AnswerFirst,
    /// Each socket is received from once, and again in the next poll, which comes soon.
    OnceEach,
    /// Everything that has arrived is received, up to the budget.
    TakeAll,
}

/// The destination, payload and headers of a packet that a device sends.
pub type TransmitOf<P> = <<P as Protocol>::Device as Device>::Transmit;

/// A protocol that is driven live: a device, its memory, and the state around them. It is behind
/// one lock, and called with that lock held.
pub trait Protocol: Sized + Send {
    /// The state machine.
    type Device: Device;
    /// State that is kept beside the sockets.
    type Own: Companion + Send;
    /// Further data of a datagram that the protocol needs, besides packet and payload.
    type Context<'a>;
    /// Work to be done when the lock has been released.
    type After;
    /// State outside the lock, with which that work is done.
    type Outside: Send + Sync;

    /// Maximum number of packets received in one poll, so that sending is not delayed for long.
    const RECEIVED_MAX: usize;
    /// Maximum number of packets that are received before timers fire.
    const CAUGHT_UP_MAX: usize;
    /// Maximum number of packets sent in one poll, so that receiving is not delayed for long.
    const SENT_MAX: usize;
    /// Maximum number of runs sent in one poll, for the same reason.
    const RUNS_MAX: u32;
    /// The order of work on arrivals in polls of the background thread, and by default.
    const EAGERNESS: Eagerness;

    /// The device and the memory that it names.
    fn parts(&mut self) -> (&mut Self::Device, &mut Memories);
    /// The state that decides whether acknowledgements may be delayed.
    fn delayed_ack(&mut self) -> &mut DelayedAck;

    // ---- polls ----

    /// Called when a poll begins. Returns false if it is not to be run.
    fn poll_begins(&mut self) -> bool {
        true
    }
    /// Called when another watched descriptor than a socket is readable
    /// ([`OTHERS`](crate::OTHERS)).
    fn receive_others(&mut self, _io: &mut Io<Self::Own>) {}
    /// Returns true, once, if a message has arrived that the application may answer. A protocol
    /// that cannot tell returns false.
    fn take_delivered(&mut self) -> bool {
        false
    }
    /// Called when packets have arrived and were passed to the device.
    fn received(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// Called before timers are checked; those of the device come next.
    fn timers_begin(&mut self) {}
    /// Called before a timer of the device fires.
    fn timeout_due(&mut self) {}
    /// Called after the device's timers have fired, to fire others.
    fn fire_own_timers(&mut self, _now: Instant) {}
    /// Called at the end of a poll.
    fn poll_ends(&mut self) {}
    /// Called when the background thread has run a poll.
    fn background_polled(&mut self);
    /// True if the background thread is to continue to drive, even if the application has polled.
    fn wants_background(&self) -> bool {
        false
    }
    /// Time at which the next poll of an engine is due even if nothing arrives, apart from the
    /// needs of its sockets; `None`: never.
    fn deadline(&self, engine: u32) -> Option<Instant>;
    /// True if no poll is to be run any more, even if packets have arrived.
    fn is_over(&self) -> bool {
        false
    }
    /// True if an engine may have packets to send, although none arrived and no timer fired.
    fn has_output(&mut self, _engine: u32) -> bool {
        false
    }

    // ---- receiving ----
    //
    // Until the payload of an arrival has been placed, none of these functions calls the datapath:
    // packets may lie in memory that the next call gives back (`Arrival::outside`).

    /// Called when a receive call has returned a run of packets, which are passed to the device
    /// next.
    fn arrival_begins(&mut self, _arrival: &Arrival<'_>) {}
    /// Decodes packet `index` of an arrival. Returns `None` if it is not for the device.
    fn parse<'a>(
        &mut self,
        io: &mut Io<Self::Own>,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Self>>;
    /// Handles a packet of which only the beginning arrived, because a switch has cut off the end
    /// of its `cut_from` bytes. No checksum of it has been checked. A protocol that cannot use it
    /// ignores it.
    fn handle_cut(
        &mut self,
        _io: &mut Io<Self::Own>,
        _now: Instant,
        _socket: usize,
        _arrival: &Arrival<'_>,
        _cut_from: usize,
    ) {
    }
    /// Called before a packet is passed to the device. Returns false if it is to be dropped.
    fn admit(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        received: &<Self::Device as Device>::Received,
    ) -> bool;
    /// Called before a payload is copied to its place.
    fn placing(
        &mut self,
        io: &mut Io<Self::Own>,
        placement: &Placement<<Self::Device as Device>::Target, <Self::Device as Device>::Token>,
        parsed: &Parsed<'_, Self>,
    ) -> Placing;
    /// Executes a verdict that only this protocol returns.
    fn carry_out(
        &mut self,
        now: Instant,
        own: <Self::Device as Device>::OwnVerdict,
        parsed: &Parsed<'_, Self>,
    );
    /// Called after a packet was passed to the device, and its verdict executed. `acknowledged` is
    /// the earlier result of [`Protocol::acknowledged`].
    fn handled(
        &mut self,
        _io: &mut Io<Self::Own>,
        _now: Instant,
        _received: &<Self::Device as Device>::Received,
        _acknowledged: u64,
    ) {
    }
    /// Number of acknowledgements that were reported to congestion controls.
    fn acknowledged(&self) -> u64 {
        0
    }

    // ---- sending ----

    /// Called when a poll begins to send. Returns false if nothing is to be sent.
    fn sending_begins(&mut self, _io: &mut Io<Self::Own>) -> bool {
        true
    }
    /// Called before a run is built.
    fn run_begins(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// Adds a message that does not come from the device. Returns true if it completes the run.
    fn add_own(&mut self, _io: &mut Io<Self::Own>) -> bool {
        false
    }
    /// Returns the device's next packet for an engine.
    fn next(&mut self, now: Instant, _engine: u32) -> Option<TransmitOf<Self>> {
        self.parts().0.poll_transmit(now)
    }
    /// True if an acknowledgement of an engine is not to wait until more packets have been received
    /// ([`Protocol::next_urgent`]).
    fn has_full_ack(&self, _engine: u32) -> bool {
        false
    }
    /// Returns the device's next packet for an engine that goes before data.
    fn next_urgent(&mut self, _now: Instant, _engine: u32) -> Option<TransmitOf<Self>> {
        None
    }
    /// Adds a packet to the run, or delays it if it is an acknowledgement that may wait. Returns
    /// false if the run is complete: the packet is then pending.
    fn add(&mut self, io: &mut Io<Self::Own>, now: Instant, transmit: &TransmitOf<Self>) -> bool;
    /// Adds the packet that had to wait for a new run; returns false as [`Protocol::add`] does.
    fn add_pending(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        pending: <Self::Own as Companion>::Pending,
    ) -> bool;
    /// Adds a delayed acknowledgement; returns false as [`Protocol::add`] does.
    fn add_held(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        held: <Self::Own as Companion>::Held,
    ) -> bool;
    /// Called when the run is complete although there is more to send: a delayed acknowledgement
    /// that fits and has the same destination may leave with it.
    fn run_complete(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// Called when a poll has finished sending.
    fn note_sending_done(&mut self, _io: &mut Io<Self::Own>) {}

    // ---- the lock ----

    /// Called at the end of each use of the protocol, before the lock is released: processes
    /// completions and sends what was posted. Returns the notifications for [`Protocol::notify`].
    /// `io` is `None` if there are several engines, which own theirs.
    fn run_pending(&mut self, io: Option<&mut Io<Self::Own>>) -> Self::After;
    /// Called after each release of the lock, without it: wakes waiting threads and calls
    /// listeners. Returns true if pending work remains: the lock is then taken once more.
    fn notify(outside: &Self::Outside, after: Self::After) -> bool;
}
