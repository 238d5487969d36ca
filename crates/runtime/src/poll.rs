//! One poll of a device: receives packets, fires timers, and sends packets.

use fairway_device::Device;
use fairway_wire::Instant;

use crate::clock;
use crate::io::Io;
use crate::protocol::{Eagerness, Protocol};
use crate::{receiving, sending};

/// Runs one poll. `may_wait`: an acknowledgement without other packets may wait for an application
/// that answers at once. Returns true if there is more to do at once.
pub fn poll<P: Protocol>(
    protocol: &mut P,
    io: &mut Io<P::Own>,
    eagerness: Eagerness,
    may_wait: bool,
) -> bool {
    if !protocol.poll_begins() {
        return false;
    }
    io.sockets.choose();
    io.received_bytes = 0;
    let is_idle = io.outbox.is_idle() && !io.outbox.unfinished && !io.burst.waits();
    // What an earlier poll has left to this one is done now.
    let is_complete = io.outbox.take_postponed();
    if io.sockets.may_skip() && is_idle && !is_complete {
        return false;
    }
    io.sockets.release_if_due();
    if io.sockets.take_others() {
        protocol.receive_others(io);
    }
    let received = receiving::receive(protocol, io, P::RECEIVED_MAX, eagerness);
    let mut now = clock::now();
    if received > 0 {
        protocol.delayed_ack().delivered(now);
        protocol.received(io, now);
    }
    // Once in a poll, because it counts acknowledgements that have waited in vain.
    let ack_deadline = io.outbox.ack_deadline();
    let may_hold_ack =
        may_wait && protocol.delayed_ack().may_delay_ack(now, received, ack_deadline);
    let is_late = is_due(protocol.parts().0.poll_timeout(), now);
    let has_delivered = received > 0 && protocol.take_delivered();
    let answers = has_delivered && may_hold_ack && !is_late;
    if answers && is_idle && !is_complete && io.outbox.postpone(now) {
        io.burst.polled(now);
        io.note_poll(now, received);
        return eagerness != Eagerness::OnceEach && io.sockets.any_waits();
    }
    if is_late {
        // Packets that arrived in time must not count as late because this thread was late.
        now = catch_up(protocol, io, now);
    }
    fire_timers(protocol, now);
    io.outbox.may_hold_ack = may_hold_ack;
    io.burst.polled(now);
    sending::transmit(protocol, io, now);
    io.outbox.may_hold_ack = false;
    protocol.poll_ends();
    io.note_poll(now, received + io.outbox.packets);
    let asks_again = eagerness != Eagerness::OnceEach && io.sockets.any_waits();
    io.outbox.unfinished || asks_again
}

/// Fires the timers that are due.
pub fn fire_timers<P: Protocol>(protocol: &mut P, now: Instant) {
    protocol.timers_begin();
    if is_due(protocol.parts().0.poll_timeout(), now) {
        protocol.timeout_due();
        protocol.parts().0.handle_timeout(now);
    }
    protocol.fire_own_timers(now);
}

/// Receives all packets that have arrived, up to a limit. Returns the time after that.
fn catch_up<P: Protocol>(protocol: &mut P, io: &mut Io<P::Own>, now: Instant) -> Instant {
    io.sockets.check_all();
    if !io.sockets.any_waits() {
        return now;
    }
    receiving::receive(protocol, io, P::CAUGHT_UP_MAX, Eagerness::TakeAll);
    // The device's time never runs backwards.
    let now = clock::now();
    protocol.received(io, now);
    now
}

/// True if there is a deadline, and it has passed.
pub fn is_due(deadline: Option<Instant>, now: Instant) -> bool {
    deadline.is_some_and(|deadline| now.is_at_or_after(deadline))
}
