//! What differs between the protocols that are driven live: how datagrams are read and written,
//! where they go, and what lives beside the device.

use fairway_device::{Device, Placement};
use fairway_port::Arrival;
use fairway_wire::Instant;

use crate::delayed_ack::DelayedAck;
use crate::io::{Companion, Io};
use crate::memories::Memories;

/// A packet that was read from a datagram and proven genuine.
pub struct Parsed<'a, P: Protocol> {
    /// Packet and address, as the device takes them.
    pub received: <P::Device as Device>::Received,
    /// Payload, which lies in the receive buffer.
    pub payload: &'a [u8],
    /// What the protocol wants to know of the datagram besides.
    pub context: P::Context<'a>,
}

/// What becomes of a payload whose place is known.
pub enum Placing {
    /// It is copied there now.
    Now,
    /// It will be copied, and reported, later.
    Later,
    /// Memory that belongs to it is not there any more.
    Gone,
}

/// What of arrivals goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eagerness {
    /// A lone small packet is answered before anything else is looked for: its sender may wait.
    AnswerFirst,
    /// Each socket is asked once, and asked again in the next poll, which comes soon.
    OnceEach,
    /// Everything that has arrived is taken in, up to the budget.
    TakeAll,
}

/// The destination, the payload's name and the headers of a packet that a device sends.
pub type TransmitOf<P> = <<P as Protocol>::Device as Device>::Transmit;

/// A protocol as it is driven live: a device, its memory, and what is around them. It is behind one
/// lock, and called with that lock held.
pub trait Protocol: Sized + Send {
    /// The state machine.
    type Device: Device;
    /// What is kept beside the sockets.
    type Own: Companion + Send;
    /// What it wants to know of a datagram besides packet and payload.
    type Context<'a>;
    /// What is to be done when the lock has been released.
    type After;
    /// What that is done with. It is outside the lock.
    type Outside: Send + Sync;

    /// Most packets received in one poll, so that what is to be sent is not left lying.
    const RECEIVED_MAX: usize;
    /// Most packets that are taken in before timers fire.
    const CAUGHT_UP_MAX: usize;
    /// Most packets sent in one poll, so that what arrives is not left lying.
    const SENT_MAX: usize;
    /// Most runs sent in one poll, for the same reason.
    const RUNS_MAX: u32;
    /// What of arrivals goes first in polls of the background thread, and where nothing else is
    /// said.
    const EAGERNESS: Eagerness;

    /// The device and the memory that it names.
    fn parts(&mut self) -> (&mut Self::Device, &mut Memories);
    /// The application's habits.
    fn delayed_ack(&mut self) -> &mut DelayedAck;

    // ---- polls ----

    /// A poll begins. False if none is to be run.
    fn poll_begins(&mut self) -> bool {
        true
    }
    /// Something else than a socket has something ([`OTHERS`](crate::OTHERS)).
    fn receive_others(&mut self, _io: &mut Io<Self::Own>) {}
    /// Packets have arrived and were handed in.
    fn received(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// Timers are looked at; those of the device come next.
    fn timers_begin(&mut self) {}
    /// A timer of the device is about to fire.
    fn timeout_due(&mut self) {}
    /// Those of the device have fired; those of others come next.
    fn fire_own_timers(&mut self, _now: Instant) {}
    /// A poll is over.
    fn poll_ends(&mut self) {}
    /// The background thread has run a poll.
    fn background_polled(&mut self);
    /// True if the background thread is to go on driving, even if the application has polled.
    fn wants_background(&self) -> bool {
        false
    }
    /// When the next poll of an engine is due although nothing arrives, as far as that does not
    /// depend on its sockets; `None`: never.
    fn deadline(&self, engine: u32) -> Option<Instant>;
    /// True if no poll is to be run any more, whatever the sockets have.
    fn is_over(&self) -> bool {
        false
    }
    /// Has an engine perhaps something to send, although no packet arrived and no timer fired?
    fn has_output(&mut self, _engine: u32) -> bool {
        false
    }

    // ---- receiving ----

    /// A receive call has brought a run of packets, whose packets are handed in next.
    fn arrival_begins(&mut self) {}
    /// Reads packet `index` of an arrival. `None` if it is not for the device.
    fn parse<'a>(
        &mut self,
        io: &mut Io<Self::Own>,
        socket: usize,
        arrival: &'a Arrival<'_>,
        index: usize,
    ) -> Option<Parsed<'a, Self>>;
    /// Called before a packet is handed in. False if it is dropped.
    fn admit(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        received: &<Self::Device as Device>::Received,
    ) -> bool;
    /// A payload is about to be copied to its place.
    fn placing(
        &mut self,
        io: &mut Io<Self::Own>,
        placement: &Placement<<Self::Device as Device>::Target, <Self::Device as Device>::Token>,
        parsed: &Parsed<'_, Self>,
    ) -> Placing;
    /// Carries out a verdict that only this protocol gives.
    fn carry_out(
        &mut self,
        now: Instant,
        own: <Self::Device as Device>::OwnVerdict,
        parsed: &Parsed<'_, Self>,
    );
    /// A packet was handed in, and its verdict carried out. `acknowledged` is what
    /// [`Protocol::acknowledged`] was before.
    fn handled(
        &mut self,
        _io: &mut Io<Self::Own>,
        _now: Instant,
        _received: &<Self::Device as Device>::Received,
        _acknowledged: u64,
    ) {
    }
    /// Acknowledgements of which congestion controls were notified.
    fn acknowledged(&self) -> u64 {
        0
    }

    // ---- sending ----

    /// The sending of a poll begins. False if nothing is to be sent.
    fn sending_begins(&mut self, _io: &mut Io<Self::Own>) -> bool {
        true
    }
    /// A run is about to be put together.
    fn run_begins(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// Adds a message that is not the device's. True if the run is complete with it.
    fn add_own(&mut self, _io: &mut Io<Self::Own>) -> bool {
        false
    }
    /// The device's next packet for an engine.
    fn next(&mut self, now: Instant, _engine: u32) -> Option<TransmitOf<Self>> {
        self.parts().0.poll_transmit(now)
    }
    /// Adds a packet to the run, or holds it if it is an acknowledgement that may wait. False if
    /// the run is complete: the packet is pending then.
    fn add(&mut self, io: &mut Io<Self::Own>, now: Instant, transmit: &TransmitOf<Self>) -> bool;
    /// Adds the packet that had to wait for a new run; false as in [`Protocol::add`].
    fn add_pending(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        pending: <Self::Own as Companion>::Pending,
    ) -> bool;
    /// Adds an acknowledgement that was held; false as in [`Protocol::add`].
    fn add_held(
        &mut self,
        io: &mut Io<Self::Own>,
        now: Instant,
        held: <Self::Own as Companion>::Held,
    ) -> bool;
    /// The run is complete although there is more to send: an acknowledgement that was held, fits
    /// and goes to the same place may leave with it.
    fn run_complete(&mut self, _io: &mut Io<Self::Own>, _now: Instant) {}
    /// The sending of a poll is over.
    fn note_sending_done(&mut self, _io: &mut Io<Self::Own>) {}

    // ---- the lock ----

    /// Called before each release of the lock. Returns the work for [`Protocol::after_unlock`].
    /// `io` is `None` if there are several engines, which own theirs.
    fn before_unlock(&mut self, io: Option<&mut Io<Self::Own>>) -> Self::After;
    /// Called after each release of the lock, without it. Returns true if work remains: the lock is
    /// then taken and released once more.
    fn after_unlock(outside: &Self::Outside, after: Self::After) -> bool;
}
